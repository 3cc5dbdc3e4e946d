"""Outcome frames: how each key of a work ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.exec.boundary import Failure
from barca.schemas import (
    ATTEMPTS,
    ELAPSED_SECONDS,
    ERROR_MESSAGE,
    ERROR_TYPE,
    KEY,
    OUTCOMES,
    STATUS,
    TRACEBACK,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca.model import WorkerDied


def outcome_rows(
    keys: Sequence[str],
    failures: Mapping[str, Failure],
    elapsed_seconds: Sequence[float] | float,
    attempt: int,
) -> pl.DataFrame:
    """Rows of `schemas.OUTCOMES`.

    Args:
        keys: Keys that were begun.
        failures: The failures among them; the others succeeded.
        elapsed_seconds: Of each key's call, or of the one call.
        attempt: Which attempt it was.
    """
    frame = pl.DataFrame({KEY: keys}, schema={KEY: pl.String})
    elapsed = (
        elapsed_seconds
        if isinstance(elapsed_seconds, float)
        else pl.Series(elapsed_seconds, dtype=pl.Float64)
    )
    columns = {
        KEY: pl.col(KEY),
        STATUS: pl.lit("success"),
        **dict.fromkeys((ERROR_TYPE, ERROR_MESSAGE, TRACEBACK), pl.lit(None, pl.String)),
        ATTEMPTS: pl.lit(attempt, pl.Int64),
        ELAPSED_SECONDS: pl.lit(elapsed),
    }
    if not failures:
        return frame.select(columns[name].alias(name) for name in OUTCOMES)
    frame = frame.select(columns[name].alias(name) for name in (KEY, ATTEMPTS, ELAPSED_SECONDS))
    told = _failure_rows(failures)
    return frame.join(told, on=KEY, how="left", maintain_order="left").select(
        pl.col(name).fill_null("success") if name == STATUS else pl.col(name) for name in OUTCOMES
    )


def success_rows(keys: pl.Series, elapsed_seconds: float, attempt: int) -> pl.DataFrame:
    """Rows of `schemas.OUTCOMES` of keys that succeeded."""
    return outcome_rows(keys.to_list(), {}, elapsed_seconds, attempt)


def death_rows(keys: pl.DataFrame, death: WorkerDied, attempt: int) -> pl.DataFrame:
    """Rows of `schemas.OUTCOMES` for keys whose worker died on them.

    Args:
        keys: Frame with a `key` column.
        death: How it ended.
        attempt: Which attempt it was.
    """
    failure = (
        Failure("TimeoutError", death.reason)
        if death.timed_out
        else Failure("WorkerDied", f"the worker {death.reason}")
    )
    names = keys.get_column(KEY).to_list()
    return outcome_rows(names, dict.fromkeys(names, failure), death.elapsed_seconds, attempt)


def _failure_rows(failures: Mapping[str, Failure]) -> pl.DataFrame:
    """`key, status, error_type, error_message, traceback`; one text for keys that share one failure."""
    texts = dict.fromkeys((KEY, STATUS, ERROR_TYPE, ERROR_MESSAGE, TRACEBACK), pl.String)
    first = next(iter(failures.values()))
    if all(failure is first for failure in failures.values()):
        shared = {ERROR_TYPE: first.error_type, ERROR_MESSAGE: first.message, TRACEBACK: first.traceback}
        return pl.DataFrame({KEY: list(failures)}, schema={KEY: pl.String}).with_columns(
            pl.lit("failed").alias(STATUS),
            *(pl.lit(text, pl.String).alias(name) for name, text in shared.items()),
        )
    rows = [
        (key, "failed", failure.error_type, failure.message, failure.traceback)
        for key, failure in failures.items()
    ]
    return pl.DataFrame(rows, schema=texts, orient="row")

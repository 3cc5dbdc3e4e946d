"""Outcome frames: how each key of a work ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from barca.exec.boundary import Failure
from barca.frames import filled, same_value
from barca.lookup import lookup
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

_FAILURE: Final = (STATUS, ERROR_TYPE, ERROR_MESSAGE, TRACEBACK)


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
    same = {STATUS: "success", ATTEMPTS: attempt, **dict.fromkeys((ERROR_TYPE, ERROR_MESSAGE, TRACEBACK))}
    columns = {name: same_value(name, value, OUTCOMES[name], len(keys)) for name, value in same.items()}
    columns[KEY] = pl.Series(KEY, keys, pl.String)
    columns[ELAPSED_SECONDS] = (
        same_value(ELAPSED_SECONDS, elapsed_seconds, pl.Float64, len(keys))
        if isinstance(elapsed_seconds, float)
        else pl.Series(ELAPSED_SECONDS, elapsed_seconds, pl.Float64)
    )
    if failures:
        told = lookup(columns[KEY].to_frame(), _failure_rows(failures), _FAILURE)
        columns |= {name: told.get_column(name) for name in _FAILURE}
        columns[STATUS] = filled(columns[STATUS], "success")
    return pl.DataFrame([columns[name] for name in OUTCOMES])


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
    texts = dict.fromkeys((KEY, *_FAILURE), pl.String)
    first = next(iter(failures.values()))
    if all(failure is first for failure in failures.values()):
        told = ("failed", first.error_type, first.message, first.traceback)
        shared = [
            same_value(name, text, pl.String, len(failures))
            for name, text in zip(_FAILURE, told, strict=True)
        ]
        return pl.DataFrame([pl.Series(KEY, list(failures), pl.String), *shared])
    rows = [
        (key, "failed", failure.error_type, failure.message, failure.traceback)
        for key, failure in failures.items()
    ]
    return pl.DataFrame(rows, schema=texts, orient="row")

"""What earlier runs did, read from the ledger and run markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import SelectionError, did_you_mean, error_text, plural
from barca.partitions import display_text, step_text
from barca.schemas import (
    ATTEMPTS,
    CALL,
    DIGEST,
    ELAPSED_SECONDS,
    ERROR_MESSAGE,
    ERROR_TYPE,
    EXHAUSTED,
    KEY,
    MAX_RSS_BYTES,
    NODE,
    PARENT,
    RUN_HASH,
    RUN_ID,
    RUNS,
    STATUS,
    TRACEBACK,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from barca.ports import LedgerReader

SHOWN_STEPS = 1_000


def runs_table(reader: LedgerReader, markers: pl.DataFrame) -> pl.DataFrame:
    """Every run, newest first, in `schemas.RUNS`; a run with a marker is `running` or `interrupted`.

    Args:
        reader: The ledger.
        markers: `run_id, command, target, started_at, alive` of runs that have not ended.
    """
    ended = reader.scan("runs").collect(engine="in-memory")
    open_runs = markers.join(ended, on=RUN_ID, how="anti", maintain_order="left").select(
        RUN_ID,
        "command",
        "target",
        pl.when("alive").then(pl.lit("running")).otherwise(pl.lit("interrupted")).alias(STATUS),
        "started_at",
    )
    both = pl.concat([ended, open_runs], how="diagonal_relaxed").select(list(RUNS))
    return both.sort("started_at", descending=True)


def history(
    runs: pl.DataFrame,
    *,
    limit: int | None,
    status: str | None,
    target: str | None,
    until: datetime | None = None,
) -> dict[str, Any]:
    """Newest runs, as JSON-writable values.

    Args:
        runs: What `runs_table` gave.
        limit: At most so many; `None` is all.
        status: Only runs with this status.
        target: Only runs of this target.
        until: Only runs that had begun by then.
    """
    chosen = runs if until is None else runs.filter(pl.col("started_at") <= until)
    if status is not None:
        chosen = chosen.filter(pl.col(STATUS) == status)
    if target is not None:
        chosen = chosen.filter(pl.col("target").str.split(",").list.contains(target))
    shown = chosen if limit is None else chosen.head(limit)
    return {
        "runs": [_run(row) for row in shown.iter_rows(named=True)],
        "total": chosen.height,
        "truncated": shown.height < chosen.height,
    }


def _run(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}


def find_run(runs: pl.DataFrame, run_id: str | None) -> str:
    """The run that `run_id`, or the beginning of one, means; the first of `runs`, `schemas.RUNS`, without.

    Raises:
        SelectionError: No run, or several.
    """
    known = runs.get_column(RUN_ID).to_list()
    if run_id is None and known:
        return str(known[0])
    matches = [other for other in known if run_id is not None and other.startswith(run_id)]
    if len(matches) == 1 or (run_id in matches):
        return run_id if run_id in matches else matches[0]  # type: ignore[return-value]
    if matches:
        raise SelectionError(
            f"`{run_id}` is the beginning of {len(matches)} runs",
            code="unknown_run",
            remediation=f"write more of it: {did_you_mean('', matches, limit=5)}",
        )
    raise SelectionError(
        f"there is no run `{run_id}`" if run_id else "nothing has run yet",
        code="unknown_run",
        remediation=did_you_mean(run_id or "", known, limit=5) if known else "run `barca get` first",
    )


def run_details(reader: LedgerReader, runs: pl.DataFrame, run_id: str) -> dict[str, Any]:
    """One run with its steps and calls, as JSON-writable values; of very many, failed steps before others."""
    found = find_run(runs, run_id)
    steps = (
        reader.scan("materializations").filter(pl.col(RUN_ID) == found).collect(engine="in-memory")
    ).sort(NODE, KEY, maintain_order=True)
    calls = reader.scan("calls").filter(pl.col(RUN_ID) == found).collect(engine="in-memory")
    peaks = calls.select(CALL, MAX_RSS_BYTES).unique(CALL, keep="last", maintain_order=True)
    failed_first = steps.sort(pl.col(STATUS) == "success", maintain_order=True).head(SHOWN_STEPS)
    shown = failed_first.sort(NODE, KEY, maintain_order=True).join(
        peaks, on=CALL, how="left", maintain_order="left"
    )
    return {
        "run": _run(runs.filter(pl.col(RUN_ID) == found).row(0, named=True)),
        "steps": [_step(row) for row in shown.iter_rows(named=True)],
        "calls": [_call(row) for row in calls.iter_rows(named=True) if _batch(row) is not None],
        "steps_page": {"total": steps.height, "truncated": steps.height > shown.height},
    }


def _batch(row: Mapping[str, Any]) -> str | None:
    """The id of a batched call; one-key calls have none of their own."""
    call = row[CALL]
    return call if call is not None and call.startswith("b") else None


def _step(row: Mapping[str, Any]) -> dict[str, Any]:
    message = row[ERROR_MESSAGE]
    return {
        "node_id": step_text(row[NODE], row[KEY]),
        "partition_key": display_text(row[KEY]) or None,
        "batch": _batch(row),
        "status": row[STATUS],
        "attempts": row[ATTEMPTS],
        "elapsed_seconds": row[ELAPSED_SECONDS],
        "max_rss_bytes": row[MAX_RSS_BYTES],
        "run_hash": row[RUN_HASH],
        "content_hash": row[DIGEST],
        "error": None if message is None else error_text(row[ERROR_TYPE], message),
        "error_type": row[ERROR_TYPE],
        "error_message": message,
        "error_traceback": row[TRACEBACK],
    }


def _call(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "batch": row[CALL],
        "parent": row[PARENT],
        "node_id": row[NODE],
        "step": f"{row[NODE]}[{plural(row['keys'], 'key')}]",
        "keys": row["keys"],
        "status": "failed" if row[STATUS] == EXHAUSTED else row[STATUS],
        "attempts": row[ATTEMPTS],
        "elapsed_seconds": row[ELAPSED_SECONDS],
        "max_rss_bytes": row[MAX_RSS_BYTES],
    }

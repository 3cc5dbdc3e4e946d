"""What the calls of a node took in time and memory, read from the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.model import BatchesAuto
from barca.partitions import batches_auto
from barca.plan.batching import grouping_text
from barca.plan.sizing import Measured, Sizing, next_size
from barca.schemas import CALL, ELAPSED_SECONDS, EXHAUSTED, MAX_RSS_BYTES, NODE, PARENT, RUN_ID, STATUS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca._typing import NodeId
    from barca.graph import Node
    from barca.ports import LedgerReader

LAST_CALLS: Final = 100
"""So many of the newest calls that succeeded tell how large the next ones may be."""

LAST_ROWS: Final = 1_000
"""In so many of the newest calls, those that ran out of memory or time are looked for."""

_KEYS = "keys"


def measured_of(reader: LedgerReader, nodes: Sequence[NodeId]) -> dict[NodeId, Measured]:
    """The newest batched calls of nodes: those that succeeded, and what those that ran out allow."""
    if not nodes:
        return {}
    rows = (
        reader.scan("calls")
        .filter(pl.col(NODE).is_in(list(nodes)) & pl.col(CALL).str.starts_with("b"))
        .select(NODE, RUN_ID, CALL, PARENT, STATUS, _KEYS, ELAPSED_SECONDS, MAX_RSS_BYTES)
        .collect(engine="in-memory")
    )
    return {node: _measured(rows.filter(pl.col(NODE) == node)) for node in nodes}


def _measured(rows: pl.DataFrame) -> Measured:
    good = rows.filter(pl.col(STATUS) == "success").tail(LAST_CALLS)
    samples = good.select(_KEYS, ELAPSED_SECONDS, MAX_RSS_BYTES).iter_rows()
    return Measured(tuple(samples), _most(rows.tail(LAST_ROWS)))


def _most(rows: pl.DataFrame) -> int | None:
    """Half the smallest call that ran out for its size: whose halves succeeded, and none as large after it.

    A call whose halves did not all succeed ran out for one of its keys, or is followed by a smaller one that
    says more.
    """
    placed = rows.with_row_index("place")
    good = pl.col(STATUS) == "success"
    halves = placed.group_by(RUN_ID, pl.col(PARENT).alias(CALL)).agg(good.all().alias("halves"))
    out = placed.filter((pl.col(STATUS) == EXHAUSTED) & (pl.col(_KEYS) > 1))
    out = out.join(halves, on=[RUN_ID, CALL], how="left", maintain_order="left").filter(
        pl.col("halves").fill_null(value=True)
    )
    refuting = placed.filter(good).select(pl.col("place").alias("later"), pl.col(_KEYS).alias("as_many"))
    refuted = out.join_where(
        refuting, pl.col("later") > pl.col("place"), pl.col("as_many") >= pl.col(_KEYS)
    ).select("place")
    smallest = out.join(refuted, on="place", how="anti", maintain_order="left").get_column(_KEYS).min()
    return max(1, smallest // 2) if isinstance(smallest, int) else None


def node_stats(
    reader: LedgerReader, node: Node, limits: Mapping[str, Any], memory_limit: int | None
) -> dict[str, Any]:
    """The `stats` object of a node: its calls by size, and the `batch=` that they suggest.

    Args:
        reader: The ledger.
        node: The node.
        limits: `target_seconds` and `max_memory` that the suggestion keeps; one not named is as the
            node's own `batches_auto(...)` has it, else as `batches_auto()` has it.
        memory_limit: Bytes of a call where no `max_memory` is named.
    """
    spec = _limits(node, limits)
    calls = (
        reader.scan("calls")
        .filter((pl.col(NODE) == node.id) & (pl.col(_KEYS) > 0))
        .collect(engine="in-memory")
    )
    failed = int((calls.get_column(STATUS) != "success").sum())
    answer: dict[str, Any] = {
        "node_id": node.id,
        "batch": grouping_text(node.definition.batch),
        "calls": calls.height,
        "failed": failed,
        "exhausted": [_size(row) for row in _by_size(calls, EXHAUSTED).iter_rows(named=True)],
        "keys": int(calls.get_column(_KEYS).sum()),
        "sizes": [_size(row) for row in _by_size(calls, "success").iter_rows(named=True)],
        "suggested": None,
    }
    measured = measured_of(reader, [node.id])[node.id]
    if node.definition.batch is not None and measured != Measured():
        size = next_size(Sizing(spec=spec, measured=measured, memory_limit=memory_limit))
        answer["suggested"] = {"batch": size.keys, "why": size.why}
    return answer


def _limits(node: Node, limits: Mapping[str, Any]) -> BatchesAuto:
    """The limits that are named, and the node's own for the others."""
    own = node.definition.batch
    if not isinstance(own, BatchesAuto):
        return batches_auto(**limits)
    declared: dict[str, Any] = {"target_seconds": own.target_seconds, "max_memory": own.max_memory}
    return batches_auto(**{**declared, **limits})


def _by_size(calls: pl.DataFrame, status: str) -> pl.DataFrame:
    """Calls that ended so, grouped by size up to the next power of two, smallest first."""
    good = calls.filter(pl.col(STATUS) == status)
    seconds, memory = pl.col(ELAPSED_SECONDS), pl.col(MAX_RSS_BYTES)
    return (
        good.group_by(pl.col(_KEYS).log(2).floor().alias("power"))
        .agg(
            pl.len().alias("calls"),
            pl.col(_KEYS).min().alias("from"),
            pl.col(_KEYS).max().alias("to"),
            pl.col(_KEYS).sum().alias("all"),
            seconds.sum().alias("seconds"),
            seconds.median().alias("seconds_median"),
            seconds.max().alias("seconds_max"),
            memory.median().alias("memory_median"),
            memory.max().alias("memory_max"),
        )
        .sort("power")
    )


def _size(row: dict[str, Any]) -> dict[str, Any]:
    median = row["memory_median"]
    return {
        "keys": {"from": row["from"], "to": row["to"]},
        "calls": row["calls"],
        "seconds": {"median": row["seconds_median"], "max": row["seconds_max"]},
        "seconds_per_key": row["seconds"] / row["all"],
        "memory_bytes": {"median": None if median is None else int(median), "max": row["memory_max"]},
    }

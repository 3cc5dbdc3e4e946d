"""Joining wanted keys with the ledger: what is stored, what must run, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from barca.frames import same_value
from barca.lookup import lookup
from barca.model import Always, Manual
from barca.schemas import (
    DIGEST,
    FORMAT,
    KEY,
    PATH,
    REASON,
    REASON_DTYPE,
    ROW_OFFSET,
    ROWS,
    RUN_HASH,
    SIZE_BYTES,
    STATE,
    STATE_DTYPE,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from barca.graph import Node
    from barca.plan.inputs import PlanInputs

FRAGMENT: Final = (FORMAT, PATH, ROW_OFFSET, ROWS, SIZE_BYTES, DIGEST)
"""Columns of a stored result that a decision carries for cached keys."""


def newest(rows: pl.DataFrame) -> pl.DataFrame:
    """The newest row of each `key`; `rows`, of `schemas.MATERIALIZATIONS`, is sorted by age."""
    return rows.unique(KEY, keep="last", maintain_order=True)


def with_stored(wanted: pl.DataFrame, rows: pl.DataFrame, node: Node) -> pl.DataFrame:
    """Wanted keys with the stored fragment that has their run hash, nulls where there is none.

    A `Manual` node's newest result stands whatever its run hash, which it then keeps.

    Args:
        wanted: `schemas.WANTED`.
        rows: Rows of `schemas.MATERIALIZATIONS`, the last per (key, run_hash).
        node: The node.
    """
    if isinstance(node.definition.freshness, Manual):
        last = newest(rows)
        found = lookup(wanted.rename({RUN_HASH: "planned"}), last, [RUN_HASH, *FRAGMENT])
        return found.with_columns(pl.coalesce(RUN_HASH, "planned").alias(RUN_HASH)).select(
            *wanted.columns, *FRAGMENT
        )
    # a run hash is made of its key, among others, so that it is enough to look for
    return lookup(wanted, rows, FRAGMENT, on=RUN_HASH)


def decide(
    stored: pl.DataFrame, node: Node, inputs: PlanInputs, cascading: Collection[pl.DataFrame]
) -> pl.DataFrame:
    """State and reason of each key.

    Args:
        stored: `schemas.WANTED` with the fragment columns, as `with_stored` gives them.
        node: The node.
        inputs: The frozen world.
        cascading: Per input that a refresh reaches this node through, `key: String` that it reaches; the
            empty key stands for every key.

    Returns:
        `stored` with `state: Enum(STATES)` and `reason: Enum(REASONS)`, as in `schemas.DECISION`.
    """
    gone = pl.col(PATH).is_in(list(inputs.missing)) if inputs.missing else pl.lit(value=False)
    reason = (
        # an input's key failed in this run: its digest, and so this key's run hash, is null
        pl.when(pl.col(RUN_HASH).is_null())
        .then(pl.lit("upstream_key_failed"))
        .when(pl.col(PATH).is_null())
        .then(pl.lit("not_materialized"))
    )
    forced = _forced(node, inputs)
    frame = stored
    if forced is not None:
        chosen: pl.Expr = pl.lit(forced)
    elif node.id in inputs.settled:
        chosen = reason.when(gone).then(pl.lit("artifact_missing")).otherwise(None)
    else:
        reached = pl.lit(value=False)
        for index, keys in enumerate(cascading):
            if "" in keys.get_column(KEY):
                reached = pl.lit(value=True)
                break
            column = f"cascade:{index}"
            marked = keys[[KEY]].hstack(
                [same_value(column, value=True, dtype=pl.Boolean, height=keys.height)]
            )
            frame = lookup(frame, marked, [column])
            reached = reached | pl.col(column).fill_null(value=False)
        # before a missing pack, whose key would not hand the refresh on to what reads it
        chosen = reason.when(reached).then(pl.lit("refresh_cascade"))
        chosen = chosen.when(gone).then(pl.lit("artifact_missing")).otherwise(None)
    state = (
        pl.when(pl.col(RUN_HASH).is_null())
        .then(pl.lit("blocked"))
        .when(pl.col(REASON).is_null())
        .then(pl.lit("cached"))
        .otherwise(pl.lit("stale"))
    )
    reasoned = frame.lazy().with_columns(chosen.cast(REASON_DTYPE).alias(REASON))
    columns = [*stored.columns, state.cast(STATE_DTYPE).alias(STATE), REASON]
    return reasoned.select(columns).collect(engine="in-memory")


def _forced(node: Node, inputs: PlanInputs) -> str | None:
    """The reason for which every key of the node runs, if there is one."""
    if node.id in inputs.settled:
        return None
    if node.id in inputs.refresh:
        return "refresh"  # before the others, since it is what cascades
    if node.kind == "sensor":
        return "sensor"
    if node.kind == "task":
        return "task"
    if inputs.refresh_all:
        return "refresh_all"
    return "always" if isinstance(node.definition.freshness, Always) else None


def with_rows(wanted: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Wanted keys that have a stored row.

    Args:
        wanted: Frame with `key, run_hash: String`.
        rows: Rows of `schemas.MATERIALIZATIONS`.

    Returns:
        `key, run_hash` in the order of `wanted`, with the fragment columns of `schemas.FRAGMENTS`.
    """
    return wanted[[KEY, RUN_HASH]].join(
        rows[[KEY, RUN_HASH, *FRAGMENT]], on=[KEY, RUN_HASH], how="inner", maintain_order="left"
    )

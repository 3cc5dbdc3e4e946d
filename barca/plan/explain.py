"""Summaries of a plan, for every face that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from barca.frames import where
from barca.lookup import lookup
from barca.plan.changed import with_changed
from barca.plan.parts import rows_of
from barca.records import Record
from barca.schemas import (
    CALL,
    CHANGED,
    CHANGES,
    FIRST_KEYS,
    KEY,
    KEYS_COUNT,
    NODE,
    REASON,
    STATE,
    WHYS,
    empty,
)

if TYPE_CHECKING:
    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan, Plan

Action: TypeAlias = Literal["cached", "run", "partial", "unknown", "skipped"]

PREVIEW = 20
"""At most so many keys are previewed, in lexical order."""

LISTED_KEYS = 1_000
"""Past so many keys, and without a selection, results list only the keys the run computed; the steps of a
plan are then counted instead of listed."""

_EXAMPLES = 5
_NAMES = "names"


class Summary(Record):
    """Counts of one node in a plan.

    Attributes:
        action: `cached`, `run` (every key), `partial`, `unknown` or `skipped`.
        reason: Most frequent reason of the keys that run, or why the node is unknown or skipped.
        total: Keys of the node.
        cached: Keys that need not run.
        will_run: Keys that run.
        preview: The first keys that run, lexical order, Hive form.
        calls: Calls they run in.
    """

    action: Action
    reason: str | None
    total: int
    cached: int
    will_run: int
    preview: tuple[str, ...]
    calls: int


def summarise(plan: NodePlan) -> Summary:
    """Counts, reason and key preview of a node."""
    if plan.state != "decided":
        action: Action = "unknown" if plan.state == "unknown" else "skipped"
        return Summary(action, plan.reason, 0, 0, 0, (), 0)
    running = plan.running
    total, will_run = plan.decision.height + plan.unchanged, running.height
    action = "run" if will_run == total and total else "partial" if will_run else "cached"
    reasons = running.get_column(REASON).value_counts(sort=True)
    reason = reasons.item(0, REASON) if reasons.height else None
    preview = tuple(running.get_column(KEY).bottom_k(PREVIEW).sort())
    cached = total - will_run - int((plan.decision.get_column(STATE) == "blocked").sum())
    return Summary(action, reason, total, cached, will_run, preview, call_count(plan.calls))


def call_count(calls: pl.DataFrame) -> int:
    """Number of calls in a frame of `schemas.CALLS`: named ones, and one per unnamed row."""
    named = calls.get_column(CALL)
    unnamed = named.null_count()
    return named.n_unique() - bool(unnamed) + unnamed


def changes(
    plan: Plan, node_id: NodeId, keys: pl.Series | None = None, *, rows: pl.DataFrame | None = None
) -> pl.DataFrame:
    """What changed for the keys that run and ran before.

    Args:
        plan: The plan.
        node_id: Node of the plan.
        keys: Only these keys.
        rows: Results to compare with, `schemas.MATERIALIZATIONS`; else those of the plan.

    Returns:
        Frame of `schemas.CHANGES`.
    """
    node_plan = plan.nodes[node_id]
    if node_plan.state != "decided":
        return empty(CHANGES)
    inputs = plan.inputs
    results = rows_of(node_id, inputs) if rows is None else rows
    stale = node_plan.running
    if keys is not None:
        stale = stale.filter(pl.col(KEY).is_in(keys.implode()))
    if stale.is_empty() or results.is_empty():
        return empty(CHANGES)
    return with_changed(
        stale,
        results,
        inputs.fingerprints[node_id],
        inputs.env.get(node_id, {}),
        node_plan.input_labels,
        where(inputs.definitions, inputs.definitions.get_column(NODE) == node_id),
    )


def whys(node_plan: NodePlan, changed: pl.DataFrame) -> pl.DataFrame:
    """The keys that run grouped by why: by reason, and by what changed where they ran before.

    Args:
        node_plan: A node of a plan.
        changed: Frame of `schemas.CHANGES` of its keys that run.

    Returns:
        Frame of `schemas.WHYS`, the largest group first.
    """
    if node_plan.state != "decided":
        return empty(WHYS)
    named = lookup(node_plan.running[[KEY, REASON]], changed, [CHANGED])
    return (
        named.group_by(REASON, pl.col(CHANGED).list.join("\0").alias(_NAMES))
        .agg(
            pl.col(CHANGED).first(),
            pl.len().cast(pl.Int64).alias(KEYS_COUNT),
            pl.col(KEY).bottom_k(_EXAMPLES).sort().alias(FIRST_KEYS),
        )
        .sort(KEYS_COUNT, REASON, _NAMES, descending=[True, False, False])[list(WHYS)]
    )

"""One plan from one frozen world: keys, run hashes, decisions, what is needed, calls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from barca.graph import short_name
from barca.model import Batches, BatchesAuto, BatchesBy, Manual
from barca.plan.batching import calls, effective_batch, grouping_text
from barca.plan.decide import FRAGMENT, decide, newest, with_rows, with_stored
from barca.plan.hashes import run_hashes
from barca.plan.inputs import NodePlan, Plan
from barca.plan.keys import empty_key, explicit_keys, keyed_keys
from barca.plan.needs import with_needed
from barca.plan.parts import Unknown, part, require_decided, require_known, rows_of
from barca.plan.select import skipped_nodes
from barca.plan.sizing import Measured, Sizing, next_size
from barca.records import replace
from barca.schemas import (
    CALLS,
    DECISION,
    FRAGMENTS,
    KEY,
    ORDINAL,
    REASON,
    RUN_HASH,
    dimensions,
    empty,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca._typing import NodeId
    from barca.graph import Node
    from barca.model import BatchSpec
    from barca.plan.inputs import PlanInputs


_UNDECIDED = pl.Schema([*DECISION.items(), *((name, FRAGMENTS[name]) for name in FRAGMENT)])


def build_plan(inputs: PlanInputs, previous: Plan | None = None) -> Plan:
    """The plan of the targets' cone.

    Args:
        inputs: The frozen world.
        previous: An earlier plan of the same run. What it decided stands; only the nodes it could not
            decide are decided from what is known now.

    Returns:
        Every node of the cone with its decision, or with what it awaits.
    """
    graph = inputs.graph
    cone = graph.upstream(inputs.targets)
    skipped = skipped_nodes(graph, cone, inputs.selection)
    decided: dict[NodeId, NodePlan] = {}
    for node_id in cone:
        earlier = previous.nodes.get(node_id) if previous else None
        if earlier is not None and earlier.state != "unknown":
            decided[node_id] = earlier
        elif node_id in skipped:
            decided[node_id] = _skipped(graph.nodes[node_id], skipped[node_id])
        else:
            decided[node_id] = _plan_node(graph.nodes[node_id], inputs, decided)
    settled = with_needed(decided, inputs)
    nodes = {node_id: _with_calls(plan, inputs, previous) for node_id, plan in settled.items()}
    return Plan(nodes=nodes, targets=inputs.targets, inputs=inputs)


def undecided(node: Node, reason: str, detail: str, awaits: frozenset[NodeId]) -> NodePlan:
    """A node that awaits others."""
    return NodePlan(
        node=node,
        state="unknown",
        reason=reason,
        detail=detail,
        awaits=awaits,
        decision=_nothing_decided(node),
        calls=empty(CALLS),
    )


def _skipped(node: Node, why: str) -> NodePlan:
    return NodePlan(
        node=node,
        state="skipped",
        reason="partition_selection",
        detail=f"{why}; run without --partition to update it",
        decision=_nothing_decided(node),
        calls=empty(CALLS),
    )


def _nothing_decided(node: Node) -> pl.DataFrame:
    """A decision without rows, with the node's dimensions, as what reads a decision expects them."""
    own = [pl.Series(name, [], pl.String) for name in dimensions(node.dimensions)]
    return empty(_UNDECIDED).hstack(own)


def _plan_node(node: Node, inputs: PlanInputs, decided: Mapping[NodeId, NodePlan]) -> NodePlan:
    keys, narrowed = None, None
    try:
        keys, total = _keys(node, inputs, decided)
        narrowed = total - keys.height if any(name in inputs.selection for name in node.dimensions) else None
        parts = [partial(part, edge, node, inputs, decided) for edge in node.edges]
        for edge in node.edges:
            require_known(edge, inputs, decided)
    except Unknown as unknown:
        waiting = undecided(node, unknown.reason, unknown.detail, unknown.awaits)
        return replace(waiting, known_keys=keys, narrowed=narrowed)
    fingerprint = inputs.fingerprints[node.id]
    wanted, labels = run_hashes(keys, fingerprint.hash, inputs.env.get(node.id, {}), parts)
    rows = rows_of(node.id, inputs)
    stored = with_stored(wanted, rows, node)
    decision = decide(stored, node, inputs, _cascading(node, inputs, decided))
    return NodePlan(
        node=node,
        state="decided",
        decision=decision,
        calls=empty(CALLS),
        input_labels=labels,
        narrowed=narrowed,
        unchanged=inputs.unchanged[node.id].keys if node.id in inputs.unchanged else 0,
    )


# --- keys -------------------------------------------------------------------------------------------


def _keys(node: Node, inputs: PlanInputs, decided: Mapping[NodeId, NodePlan]) -> tuple[pl.DataFrame, int]:
    """The node's keys after the selection, and their number without it."""
    if not node.partitioned:
        return empty_key(), 1
    if node.keys_from is None:
        declared = inputs.explicit[node.id]
        return explicit_keys({name: declared[name] for name in node.dimensions}, inputs.selection)
    source = decided[node.keys_from]
    if source.node.partitioned:
        if source.keys is None:
            require_decided(source)
        known = source.decision if source.keys is None else source.keys
        keys = known[[KEY, *dimensions(node.dimensions), ORDINAL]]
        return keys, keys.height + (source.narrowed or 0)
    returned = inputs.keyed.get(node.keys_from)
    if returned is None:
        require_decided(source)
        never = source.node.kind == "sensor" and rows_of(node.keys_from, inputs).is_empty()
        raise Unknown(
            "sensor_output_unknown" if never else "partitions_unknown",
            f"its keys are known once `{short_name(node.keys_from)}` has run",
            frozenset({node.keys_from}),
        )
    return keyed_keys(node.dimensions[0], returned, inputs.selection)


# --- refreshes ----------------------------------------------------------------------------------------


def _cascading(node: Node, inputs: PlanInputs, decided: Mapping[NodeId, NodePlan]) -> list[pl.DataFrame]:
    """Per input that a refresh reaches the node through: the keys it reaches, or the empty key for all."""
    if not inputs.refresh or not inputs.cascade or isinstance(node.definition.freshness, Manual):
        return []  # a manual node runs again when it is named, never for what it reads
    reached = []
    for edge in node.edges:
        source = decided[edge.source]
        if source.node.definition.cutoff or source.state != "decided":
            continue
        refreshed = source.decision.filter(pl.col(REASON).is_in(["refresh", "refresh_cascade"]))
        if refreshed.height:
            reached.append(refreshed.select(KEY) if edge.mode == "same_key" else empty_key().select(KEY))
    return reached


# --- calls ------------------------------------------------------------------------------------------


def _with_calls(plan: NodePlan, inputs: PlanInputs, previous: Plan | None) -> NodePlan:
    earlier = previous.nodes.get(plan.node.id) if previous else None
    if earlier is not None and earlier.state == "decided" and not earlier.needs_labels:
        return earlier
    if plan.state != "decided":
        return plan
    batch = effective_batch(plan.node, inputs.batch)
    if isinstance(batch, Batches) and plan.node.id in inputs.groups:
        batch = Batches(inputs.groups[plan.node.id], batch.strict)
    labels = inputs.labels.get(plan.node.id)
    running = plan.running
    waits = isinstance(batch, BatchesBy) and labels is None and running.height > 0
    sizing = _sizing(plan.node, batch, inputs)
    size = None if sizing is None else next_size(sizing)
    return replace(
        plan,
        calls=empty(CALLS) if waits else calls(running, plan.node, batch, labels, size),
        grouping=grouping_text(batch),
        sizing=sizing,
        needs_labels=waits,
    )


def _sizing(node: Node, batch: BatchSpec | None, inputs: PlanInputs) -> Sizing | None:
    if not isinstance(batch, BatchesAuto):
        return None
    measured = inputs.measured.get(node.id, Measured())
    return Sizing(spec=batch, measured=measured, memory_limit=inputs.memory_limit)


def sources_to_load(plan: Plan) -> dict[NodeId, pl.DataFrame]:
    """Keyed sources whose result is stored and awaited, each with its row of `schemas.FRAGMENTS`.

    In a forecast a sensor's newest result counts; in a run, only one that settled.
    """
    inputs = plan.inputs
    found: dict[NodeId, pl.DataFrame] = {}
    for node_id, node_plan in plan.nodes.items():
        if not node_plan.node.keyed or node_id in inputs.keyed or node_plan.state != "decided":
            continue
        rows = rows_of(node_id, inputs)
        if node_plan.node.kind == "sensor" and inputs.predict:
            row = newest(rows)
        elif node_id in inputs.settled:
            row = with_rows(node_plan.decision, rows)
        else:
            row = node_plan.cached
        if row.height:
            found[node_id] = row[[KEY, RUN_HASH, *FRAGMENT]]
    return found

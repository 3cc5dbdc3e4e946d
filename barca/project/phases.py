"""The order in which a plan's nodes can run, and what a selection narrowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.plan.edges import folds_digest
from barca.plan.explain import LISTED_KEYS

if TYPE_CHECKING:
    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan, Plan


def phases_of(plan: Plan) -> dict[NodeId, int]:
    """Each node's phase, from 0: one more than that of what it must wait for as a whole.

    A node read key for key is in the phase of what it reads: its keys start as theirs are ready.
    """
    found: dict[NodeId, int] = {}
    for node_id, node_plan in plan.nodes.items():
        found[node_id] = max(
            (
                found[edge.source]
                + (edge.mode != "same_key" or folds_digest(plan.nodes[edge.source].node.definition))
                for edge in node_plan.node.edges
            ),
            default=0,
        )
    return found


def phase_count(plan: Plan) -> int:
    """Number of phases."""
    return max(phases_of(plan).values(), default=-1) + 1


def phase_list(plan: Plan) -> list[dict[str, Any]]:
    """Phases with their streams: chains of nodes that run key for key beside each other.

    A node is a step for each of its keys, all under its id; one step while its keys are not known, and none
    when the selection skips it. A node of more than `LISTED_KEYS` keys is listed once: `nodes` says how many
    steps each node of a stream is, and `truncated` whether some are not listed.
    """
    phase = phases_of(plan)
    result: list[dict[str, Any]] = []
    for number in range(phase_count(plan)):
        members = [
            node_id
            for node_id, node_plan in plan.nodes.items()
            if phase[node_id] == number and node_plan.state != "skipped"
        ]
        streams = [
            {"stream_id": f"p{number}s{index}", **_steps([plan.nodes[node_id] for node_id in nodes])}
            for index, nodes in enumerate(_streams(plan, members))
        ]
        if streams:
            reason = "inputs of an earlier phase must be whole" if result else "start"
            result.append({"reason": reason, "streams": streams})
    return result


def _steps(nodes: list[NodePlan]) -> dict[str, Any]:
    """The steps of a stream: listed by id, and counted for each node."""
    counts = [1 if one.keys is None else one.keys.height + one.unchanged for one in nodes]
    steps: list[NodeId] = []
    for one, count in zip(nodes, counts, strict=True):
        steps += [one.node.id] * (count if count <= LISTED_KEYS else 1)
    return {
        "steps": steps,
        "nodes": [{"id": one.node.id, "steps": count} for one, count in zip(nodes, counts, strict=True)],
        "truncated": len(steps) < sum(counts),
    }


def _streams(plan: Plan, members: list[NodeId]) -> list[list[NodeId]]:
    streams: list[list[NodeId]] = []
    place: dict[NodeId, list[NodeId]] = {}
    for node_id in members:
        sources = [edge.source for edge in plan.nodes[node_id].node.edges]
        joined = next((place[source] for source in sources if source in place), None)
        if joined is None:
            joined = []
            streams.append(joined)
        joined.append(node_id)
        place[node_id] = joined
    return streams


def selection_report(plan: Plan) -> dict[str, Any] | None:
    """The `partition_selection` object, or `None` without a selection."""
    selection = plan.inputs.selection
    if not selection:
        return None
    narrowed = [
        node_plan
        for node_plan in plan.nodes.values()
        if node_plan.state != "skipped" and any(name in selection for name in node_plan.node.dimensions)
    ]
    return {
        "selection": {name: list(values) for name, values in selection.items()},
        "nodes": [
            {
                "id": node_plan.node.id,
                "selected": None if node_plan.keys is None else node_plan.keys.height,
                "skipped": None if node_plan.keys is None else node_plan.narrowed,
            }
            for node_plan in narrowed
        ],
        "skipped_nodes": [
            {"id": node_plan.node.id, "detail": node_plan.detail}
            for node_plan in plan.nodes.values()
            if node_plan.state == "skipped"
        ],
    }

"""What people should know before a plan is obeyed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barca.graph import short_name
from barca.plan.edges import folds_digest

if TYPE_CHECKING:
    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan, Plan, PlanInputs


def plan_warnings(plan: Plan, *, whole: bool) -> list[str]:
    """Warnings about a plan, sorted: by node first, as each begins with what it is about.

    Args:
        plan: The plan.
        whole: Whether everything that loads was asked for, so that what does not is missed.
    """
    found = {warning for one in plan.inputs.fingerprints.values() for warning in one.warnings}
    if whole:
        found |= {
            f"cannot load {error.file}: {error.error}; left out: {', '.join(error.nodes) or 'nothing'}"
            for error in plan.inputs.graph.load_errors
        }
    return sorted(found | set(_left_behind(plan)))


def _left_behind(plan: Plan) -> list[str]:
    """Nodes that keep results of what `--no-cascade` refreshes above them."""
    inputs = plan.inputs
    if inputs.cascade:
        return []
    behind: dict[NodeId, NodeId] = {}
    for node_id, node_plan in plan.nodes.items():
        if node_id in inputs.refresh or node_plan.node.kind != "asset":
            continue
        for edge in node_plan.node.edges:
            # where content counts, the refreshed result itself says whether its readers run
            if folds_digest(plan.nodes[edge.source].node.definition) and edge.mode != "keyed":
                continue
            if (edge.source in inputs.refresh or edge.source in behind) and _keeps(node_plan, inputs):
                behind.setdefault(node_id, behind.get(edge.source, edge.source))
    return [
        f"`{short_name(node_id)}` keeps what it computed from earlier results of `{short_name(source)}`, "
        "which is refreshed alone; leave out --no-cascade (cascade=False) to run it too"
        for node_id, source in behind.items()
    ]


def _keeps(node_plan: NodePlan, inputs: PlanInputs) -> bool:
    """Whether keys of a node do not run; as far as is known, those of one that awaits something do not.

    Where that one has no result, none is kept; its rows are not looked at before a source tells its keys.
    """
    if node_plan.state != "decided":
        rows = inputs.materialized.get(node_plan.node.id)
        return rows is None or rows.height > 0
    return node_plan.unchanged > 0 or node_plan.running.height < node_plan.decision.height

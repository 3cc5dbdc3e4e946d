"""Which keys anybody needs: the targets, and what a key that runs reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.frames import filled, same_value, without
from barca.lookup import lookup
from barca.records import replace
from barca.schemas import KEY, NEEDED, PATH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan, Plan, PlanInputs


class _Needs:
    """Needed keys per node, gathered from readers to sources."""

    def __init__(self) -> None:
        self.all: set[NodeId] = set()
        self.some: dict[NodeId, list[pl.DataFrame]] = {}

    def mark(self, plan: NodePlan) -> NodePlan:
        """The plan with `needed`."""
        whole = plan.node.id in self.all
        needed = same_value(NEEDED, whole, pl.Boolean, plan.decision.height)
        read = self.some.get(plan.node.id)
        if read and not whole:
            keys = read[0] if len(read) == 1 else pl.concat(read).unique()
            marked = keys.hstack([same_value(NEEDED, value=True, dtype=pl.Boolean, height=keys.height)])
            found = lookup(plan.decision[[KEY]], marked, [NEEDED])
            needed = filled(found.get_column(NEEDED), value=False)
        return replace(plan, decision=without(plan.decision, NEEDED).hstack([needed]))

    def read_by(self, plan: NodePlan) -> None:
        """Note what the keys that run read; of an undecided node, whatever it may read."""
        if plan.state == "skipped":
            return
        running = plan.running[[KEY]] if plan.state == "decided" else None
        if running is not None and running.is_empty():
            return
        for edge in plan.node.edges:
            if running is None or edge.mode != "same_key":
                self.all.add(edge.source)
            else:
                self.some.setdefault(edge.source, []).append(running)


def with_needed(plans: Mapping[NodeId, NodePlan], inputs: PlanInputs) -> dict[NodeId, NodePlan]:
    """Every decided node with `needed: Boolean` beside its keys.

    A sensor, and a node that a refresh names, is needed whole.
    """
    needs = _Needs()
    needs.all.update(inputs.targets)
    result: dict[NodeId, NodePlan] = {}
    for node_id in reversed(list(plans)):
        plan = plans[node_id]
        if plan.state == "decided" and NEEDED not in plan.decision.columns:
            if plan.node.kind == "sensor" or node_id in inputs.refresh or inputs.refresh_all:
                needs.all.add(node_id)
            plan = needs.mark(plan)
        needs.read_by(plan)
        result[node_id] = plan
    return {node_id: result[node_id] for node_id in plans}


def packs_read(plan: Plan) -> list[str]:
    """Distinct packs that hold what the targets return and what running keys read, sorted."""
    needs = _Needs()
    needs.all.update(plan.targets)
    paths: list[pl.Series] = []
    for node_id in reversed(list(plan.nodes)):
        node_plan = plan.nodes[node_id]
        if node_plan.state == "decided":
            cached = needs.mark(node_plan).cached
            paths.append(cached.get_column(PATH).filter(cached.get_column(NEEDED)))
        needs.read_by(node_plan)
    return pl.concat(paths).unique().sort().to_list() if paths else []

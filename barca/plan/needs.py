"""Which keys anybody needs: the targets, and what a key that runs reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.lookup import lookup
from barca.records import replace
from barca.schemas import KEY, NEEDED, PATH, STATE

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
        node_id = plan.node.id
        if node_id in self.all:
            return replace(plan, decision=plan.decision.with_columns(pl.lit(value=True).alias(NEEDED)))
        read = self.some.get(node_id) or [pl.DataFrame(schema={KEY: pl.String})]
        keys = read[0] if len(read) == 1 else pl.concat(read).unique()
        needed = keys.with_columns(pl.lit(value=True).alias(NEEDED))
        frame = lookup(plan.decision.drop(NEEDED, strict=False), needed, [NEEDED])
        return replace(plan, decision=frame.with_columns(pl.col(NEEDED).fill_null(value=False)))

    def read_by(self, plan: NodePlan) -> None:
        """Note what the keys that run read; of an undecided node, whatever it may read."""
        if plan.state == "skipped":
            return
        running = runs(plan) if plan.state == "decided" else None
        if running is not None and running.is_empty():
            return
        for edge in plan.node.edges:
            if running is None or edge.mode != "same_key":
                self.all.add(edge.source)
            else:
                self.some.setdefault(edge.source, []).append(running)


def runs(plan: NodePlan) -> pl.DataFrame:
    """`key: String` of the keys that run."""
    return plan.decision.filter((pl.col(STATE) == "stale") & pl.col(NEEDED)).select(KEY)


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
            marked = needs.mark(node_plan).decision
            read = marked.filter(pl.col(NEEDED) & (pl.col(STATE) == "cached"))
            paths.append(read.get_column(PATH).unique())
        needs.read_by(node_plan)
    return pl.concat(paths).unique().sort().to_list() if paths else []

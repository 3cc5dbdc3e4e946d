"""A plan as people and scripts see it: dry run and phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.plan.explain import changes, summarise
from barca.project.listing import outline
from barca.project.phases import phase_list, selection_report
from barca.project.results import add_why, batch_counts, partition_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from barca.plan.inputs import NodePlan, Plan

PLAN_VERSION = 1


class Forecast:
    """What a run would do; nothing was executed and nothing written.

    Attributes:
        plan: The plan, with a frame of decisions per node; of large nodes only what may have changed.
        warnings: What planning could not follow, sorted.
    """

    def __init__(
        self,
        plan: Plan,
        warnings: Sequence[str],
        pool_size: int,
        capacity: int,
        whole: Callable[[Plan], Plan],
    ) -> None:
        self.plan = plan
        self._whole = whole
        self.warnings = sorted(warnings)
        self._pool_size = pool_size
        self._capacity = capacity

    def __repr__(self) -> str:
        summary = self.to_dict()["summary"]
        told = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary.items())
        return f"<Plan: {told}>"

    def _repr_html_(self) -> str:
        from barca.render.html import plan_html

        return plan_html(self.to_dict(), outline(self.plan.inputs.graph, self.plan.nodes))

    def keys(self, node_id: str) -> pl.DataFrame:
        """A node's keys and decisions: frame of `schemas.DECISION` plus `dim:` columns."""
        return self.whole().plan.nodes[node_id].decision

    def whole(self) -> Forecast:
        """The same forecast with every key of every node in its plan."""
        plan = self._whole(self.plan)
        return Forecast(plan, self.warnings, self._pool_size, self._capacity, self._whole)

    def to_dict(self) -> dict[str, Any]:
        """The dry run as JSON-writable values."""
        steps = [self.step(node_plan) for node_plan in self.plan.nodes.values()]
        summaries = [summarise(node_plan) for node_plan in self.plan.nodes.values()]
        result: dict[str, Any] = {
            "dry_run": True,
            "steps": steps,
            "summary": {
                "will_run": sum(summary.will_run for summary in summaries),
                "cached": sum(summary.cached for summary in summaries),
                "unknown": sum(1 for summary in summaries if summary.action == "unknown"),
            },
            "warnings": self.warnings,
        }
        if (selection := selection_report(self.plan)) is not None:
            result["partition_selection"] = selection
        return result

    def phases(self) -> dict[str, Any]:
        """The order of the nodes as JSON-writable values."""
        phases = phase_list(self.plan)
        streams = [stream for phase in phases for stream in phase["streams"]]
        result: dict[str, Any] = {
            "plan_version": PLAN_VERSION,
            "total_steps": sum(node["steps"] for stream in streams for node in stream["nodes"]),
            "pool_size": self._pool_size,
            "capacity": self._capacity,
            "phases": phases,
            "warnings": self.warnings,
        }
        if (selection := selection_report(self.plan)) is not None:
            result["partition_selection"] = selection
        return result

    def step(self, node_plan: NodePlan) -> dict[str, Any]:
        """What one node would do, as JSON-writable values."""
        node = node_plan.node
        summary = summarise(node_plan)
        step: dict[str, Any] = {
            "id": node.id,
            "kind": node.kind,
            "action": summary.action,
            "reason": summary.reason,
            "detail": node_plan.detail,
        }
        if node_plan.state != "decided":
            return step
        if node.partitioned:
            step["partitions"] = partition_counts(summary)
        add_why(step, node_plan, summary, changes(self.plan, node.id))
        if node_plan.grouping is not None:
            step["batch"] = batch_counts(node_plan)
        return step

"""A plan as people and scripts see it: dry run and phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.partitions import display_text
from barca.plan.explain import changes, summarise
from barca.project.phases import phase_list, selection_report
from barca.project.results import batch_counts, partition_counts
from barca.schemas import CHANGED, KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from barca.plan.inputs import NodePlan, Plan

PLAN_VERSION = 1
MANY = 20


class Forecast:
    """What a run would do; nothing was executed and nothing written.

    Attributes:
        plan: The plan, with a frame of decisions per node.
        warnings: What planning could not follow, sorted.
    """

    def __init__(self, plan: Plan, warnings: Sequence[str], pool_size: int, capacity: int) -> None:
        self.plan = plan
        self.warnings = sorted(warnings)
        self._pool_size = pool_size
        self._capacity = capacity

    def __repr__(self) -> str:
        summary = self.to_dict()["summary"]
        told = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary.items())
        return f"<Plan: {told}>"

    def _repr_html_(self) -> str:
        from barca.render.html import plan_html

        return plan_html(self.to_dict())

    def keys(self, node_id: str) -> pl.DataFrame:
        """A node's keys and decisions: frame of `schemas.DECISION` plus `dim:` columns."""
        return self.plan.nodes[node_id].decision

    def to_dict(self) -> dict[str, Any]:
        """The dry run as JSON-writable values."""
        steps = [self._step(node_plan) for node_plan in self.plan.nodes.values()]
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
        result: dict[str, Any] = {
            "plan_version": PLAN_VERSION,
            "total_steps": sum(node_plan.decision.height for node_plan in self.plan.nodes.values()),
            "pool_size": self._pool_size,
            "capacity": self._capacity,
            "phases": phase_list(self.plan),
            "warnings": self.warnings,
        }
        if (selection := selection_report(self.plan)) is not None:
            result["partition_selection"] = selection
        return result

    def _step(self, node_plan: NodePlan) -> dict[str, Any]:
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
        changed = changes(self.plan, node.id)
        if not node.partitioned:
            if changed.height:
                step["changed"] = changed.item(0, CHANGED).to_list()
            return step
        shown = changed.filter(changed.get_column(KEY).is_in(list(summary.preview))).sort(KEY)
        step["partitions"] = {
            **partition_counts(node_plan),
            "changed": {
                display_text(key): names.to_list() if hasattr(names, "to_list") else names
                for key, names in shown.iter_rows()
            },
        }
        if summary.will_run > MANY:
            step["partitions"]["changed_counts"] = _change_counts(changed)
        if node_plan.grouping is not None:
            step["batch"] = batch_counts(node_plan)
        return step


def _change_counts(changed: pl.DataFrame) -> dict[str, int]:
    """Number of keys per thing that changed, most first."""
    counts = changed.get_column(CHANGED).explode(empty_as_null=False).drop_nulls().value_counts(sort=True)
    return dict(counts.iter_rows())

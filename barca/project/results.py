"""What a run came to, as JSON and as values."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl

from barca.errors import BarcaError, StepFailed, error_text
from barca.frames import sorted_by
from barca.graph import short_name
from barca.lookup import absent, among, lookup
from barca.partitions import display_keys, display_text, step_text
from barca.plan.explain import LISTED_KEYS, call_count, changes, summarise, whys
from barca.plan.sizing import next_size
from barca.project.listing import outline
from barca.project.narrowing import require_results
from barca.project.outputs import displayed, plain, pointers
from barca.project.phases import phase_count, selection_report
from barca.schemas import (
    CHANGED,
    FIRST_KEYS,
    FORMAT,
    FRAGMENTS,
    KEY,
    PATH,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barca._typing import NodeId
    from barca.exec.report import NodeReport, RunReport
    from barca.plan.explain import Summary
    from barca.plan.inputs import NodePlan, Plan

SHOWN_WHYS: Final = 20
"""At most so many groups of keys are listed, the largest ones."""


class Result:
    """How a run ended, and what its targets hold.

    Attributes:
        status: `success` or `failed`.
        run_id: The run.
        error: Why it failed, or `None`.
    """

    def __init__(
        self,
        report: RunReport,
        names: Mapping[NodeId, str],
        read: Callable[[NodeId, pl.DataFrame], dict[str, Any]],
        root: str,
        whole: Callable[[Plan], Plan],
    ) -> None:
        self._report = report
        self._names = names
        self._read = read
        self._root = root
        self._whole = whole
        self.status = report.status
        self.run_id = report.run_id
        self.error = _error(report)

    def __repr__(self) -> str:
        counts = self._counts()
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"<Result {self.status}: {told or 'nothing to do'} in {self._report.elapsed_seconds:.2f} s>"

    def _repr_html_(self) -> str:
        from barca.render.html import result_html

        plan = self._report.plan
        return result_html(self.to_dict(), outline(plan.inputs.graph, plan.nodes))

    @property
    def targets(self) -> tuple[NodeId, ...]:
        """Node ids of the targets."""
        return self._report.plan.targets

    @property
    def value(self) -> Any:
        """The target's value, or a dict of target to value when there are several.

        Raises:
            BarcaError: A partitioned target holds more than 1,000 keys and none were selected.
        """
        if len(self.targets) == 1:
            return self.value_of(self.targets[0])
        return {self._names[node_id]: self.value_of(node_id) for node_id in self.targets}

    def value_of(self, node_id: NodeId) -> Any:
        """One target's value: as annotated, or a dict of display key to value in key order."""
        plan = self._report.plan.nodes[node_id]
        count = self._count(node_id)
        done = plan.node.kind == "task"  # an error would have its side effects made again
        if plan.node.partitioned and count > LISTED_KEYS and not (done or self._is_selected(node_id)):
            raise BarcaError(
                f"`{short_name(node_id)}` has {count} keys, more than the {LISTED_KEYS} of a dict",
                code="too_many_keys",
                node=node_id,
                remediation=f"select keys with partition={{...}}, or {self._every_key(node_id)}",
            )
        values = self._read(node_id, self.held(node_id))
        if not plan.node.partitioned:
            return values.get("")
        return displayed(values)

    def _every_key(self, node_id: NodeId) -> str:
        """How to have the values of every key of a target, whatever their number."""
        formats = set(self.held(node_id).get_column(FORMAT).unique())
        table = "use barca.scan(...) for one lazy table over every key"
        if formats == {"table"}:
            return table
        list_ = "read a list of them by collect(...) in an asset"
        return f"{list_}; if all are records, {table}" if "pickle" not in formats else list_

    def held(self, node_id: NodeId) -> pl.DataFrame:
        """`schemas.FRAGMENTS` and `dim:` columns of a target's keys that have a result, sorted by key."""
        report = self._report.nodes[node_id]
        if report.skipped:  # what an earlier run stored is not this run's result
            return _held(report.plan.decision.clear(), report.fragments)
        if not report.plan.unchanged:
            return _held(report.plan.decision, report.fragments)
        decision = self._whole(self._report.plan).nodes[node_id].decision
        stored = decision[list(FRAGMENTS)].drop_nulls(PATH)
        others = absent(stored, report.plan.decision)
        require_results(node_id, report.plan.unchanged, others.height)
        return _held(decision, pl.concat([others, report.fragments]))

    def _count(self, node_id: NodeId) -> int:
        """Keys of a node that have a result."""
        report = self._report.nodes[node_id]
        return report.ran + report.cached

    def _is_selected(self, node_id: NodeId) -> bool:
        """Whether the run was asked for some of the node's keys by name."""
        plan = self._report.plan
        return any(name in plan.inputs.selection for name in plan.nodes[node_id].node.dimensions)

    def _counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for report in self._report.nodes.values():
            counts["ran"] += report.ran
            counts["cached"] += report.cached
            counts["failed"] += report.failed.height
            counts["skipped"] += report.blocked.height
        return counts

    @property
    def steps_executed(self) -> int:
        """Keys that ran, failed ones included."""
        counts = self._counts()
        return counts["ran"] + counts["failed"]

    @property
    def steps_cached(self) -> int:
        """Keys that were served from what is stored."""
        return self._counts()["cached"]

    @property
    def steps_skipped(self) -> int:
        """Keys and whole nodes that did not run because an input has no result."""
        reports = self._report.nodes.values()
        whole = sum(1 for report in reports if report.skipped and report.skipped[0] == "upstream_failed")
        return self._counts()["skipped"] + whole

    def to_dict(self, output: Literal["pointer", "value"] = "pointer") -> dict[str, Any]:
        """The run as JSON-writable values.

        Args:
            output: `pointer` puts where each artifact lies in `final_output`, `value` the values themselves
                (tables as lists of row objects).
        """
        report = self._report
        result: dict[str, Any] = {
            "status": report.status,
            "run_id": report.run_id,
            "elapsed_seconds": round(report.elapsed_seconds, 3),
            "phases": phase_count(report.plan),
            "steps_executed": self.steps_executed,
            "steps_cached": self.steps_cached,
            "steps_skipped": self.steps_skipped,
            "steps": [step for node in report.nodes.values() for step in _steps(node, report)],
        }
        if self.error is not None and report.failure is not None:
            result["failed_node"] = step_text(report.failure.node, report.failure.key)
            result["error"] = self.error.message
        if len(self.targets) == 1:
            result["final_output"] = self._output(self.targets[0], output)
        else:
            result["targets"] = {
                self._names[node_id]: self._output(node_id, output) for node_id in self.targets
            }
        result["warnings"] = list(report.warnings)
        if (selection := selection_report(report.plan)) is not None:
            result["partition_selection"] = selection
        return result

    def _output(self, node_id: NodeId, output: Literal["pointer", "value"]) -> Any:
        node_report = self._report.nodes[node_id]
        total = self._count(node_id)
        if not node_report.plan.node.partitioned:
            return self._shown(node_id, self.held(node_id), output).get("")
        if total <= LISTED_KEYS or self._is_selected(node_id):
            return displayed(self._shown(node_id, self.held(node_id), output))
        fresh = among(node_report.fragments, node_report.plan.running)
        shown = _held(node_report.plan.decision, fresh.bottom_k(LISTED_KEYS, by=KEY))
        return {
            "_barca_partitions": {
                "keys": total,
                "computed": fresh.height,
                "cached": total - fresh.height,
                "outputs": displayed(self._shown(node_id, shown, output)),
                "truncated": fresh.height > LISTED_KEYS,
                "hint": f"{total} keys, more than {LISTED_KEYS}: outputs lists only keys this run "
                "computed; select others with --partition, or read all of them with barca.scan",
            }
        }

    def _shown(self, node_id: NodeId, held: pl.DataFrame, output: str) -> dict[str, Any]:
        if output == "value":
            return plain(self._read(node_id, held))
        return pointers(held, self._root)


def _held(decision: pl.DataFrame, fragments: pl.DataFrame) -> pl.DataFrame:
    keys = decision[[KEY, *(name for name in decision.columns if name.startswith("dim:"))]]
    held = lookup(keys, fragments, [name for name in FRAGMENTS if name != KEY])
    return sorted_by(held.drop_nulls(PATH) if held.get_column(PATH).null_count() else held, KEY)


def _error(report: RunReport) -> BarcaError | None:
    failure = report.failure
    if failure is None:
        return None
    return StepFailed(
        error_text(failure.error_type, failure.message),
        node=failure.node,
        key=display_text(failure.key) or None,
        traceback=failure.traceback,
        remediation=f"`barca logs {report.run_id}` shows what it printed; "
        "the next run computes only what is missing",
    )


def _steps(report: NodeReport, run: RunReport) -> list[dict[str, Any]]:
    """The node's step, and one for each key that an input's failure blocked."""
    plan = report.plan
    node = plan.node
    step: dict[str, Any] = {"id": node.id, "kind": node.kind}
    if report.skipped is not None:
        reason, detail = report.skipped
        return [{**step, "status": "skipped", "reason": reason, "detail": detail}]
    if plan.state != "decided":
        return [{**step, "status": "skipped", "reason": plan.reason, "detail": plan.detail}]
    summary = summarise(plan)
    step |= {"status": _status(report), "reason": summary.reason}
    if report.elapsed_seconds:
        step["elapsed_seconds"] = round(report.elapsed_seconds, 3)
    if node.partitioned:
        step["partitions"] = partition_counts(summary)
        if report.failed.height:
            step["partitions"]["failed"] = report.failed.height
            step["partitions"]["failed_keys"] = display_keys(report.failed.get_column(KEY).sort()[:20])
        if plan.grouping is not None:
            step["batch"] = {**batch_counts(plan), "calls": report.calls}
    if report.ran or report.failed.height:
        add_why(step, plan, summary, changes(run.plan, node.id, rows=run.stored.get(node.id)))
    return [step, *_blocked(report, run.nodes)]


def _status(report: NodeReport) -> str:
    if report.failed.height:
        return "failed"
    if report.ran == 0:
        return "skipped" if report.blocked.height and not report.cached else "cached"
    return "partial" if report.cached or report.blocked.height else "ran"


def _blocked(report: NodeReport, others: Mapping[NodeId, NodeReport]) -> list[dict[str, Any]]:
    """A step for each of the first keys that an input's failure blocked, naming what it reads."""
    if report.blocked.is_empty():
        return []
    node = report.plan.node
    keys = report.blocked.get_column(KEY).sort()[:LISTED_KEYS]
    causes: dict[str, str] = {}
    read = [edge.source for edge in node.edges if edge.mode == "same_key"]
    lost = [(source, others[source].failed, "failed") for source in read]
    lost += [(source, others[source].blocked, "was skipped") for source in read]
    for source, without, how in lost:
        for key in keys.filter(keys.is_in(without.get_column(KEY).implode())):
            causes.setdefault(key, f"depends on '{step_text(short_name(source), key)}', which {how}")
    return [
        {
            "id": step_text(node.id, key),
            "kind": node.kind,
            "status": "skipped",
            "reason": "upstream_key_failed",
            "detail": causes.get(key),
        }
        for key in keys
    ]


def partition_counts(summary: Summary) -> dict[str, Any]:
    """The `partitions` object of a step: counts and a preview of the keys that run."""
    return {
        "total": summary.total,
        "cached": summary.cached,
        "will_run": summary.will_run,
        "will_run_keys": display_keys(summary.preview),
    }


def batch_counts(plan: NodePlan) -> dict[str, Any]:
    """The `batch` object of a step: how the keys that run are grouped."""
    counts: dict[str, Any] = {
        "grouping": plan.grouping,
        "keys": plan.calls.height,
        "calls": call_count(plan.calls),
    }
    if plan.sizing is not None:
        size = next_size(plan.sizing)
        counts |= {"size": size.keys, "why": size.why}
    return counts


def add_why(step: dict[str, Any], plan: NodePlan, summary: Summary, changed: pl.DataFrame) -> None:
    """Put into a step why its keys run: what changed, and for a partitioned node every key by reason.

    Args:
        step: Receives `changed`; of a partitioned node, its `partitions` does.
        plan: The node's plan.
        summary: Of that plan.
        changed: Frame of `schemas.CHANGES` of its keys that run.
    """
    if plan.node.partitioned:
        step["partitions"] |= why_counts(plan, summary, changed)
    elif changed.height:
        step["changed"] = changed.item(0, CHANGED).to_list()


def why_counts(node_plan: NodePlan, summary: Summary, changed: pl.DataFrame) -> dict[str, Any]:
    """What of a `partitions` object says why: what changed for previewed keys, and every key by reason.

    Args:
        node_plan: A node of a plan.
        summary: Of that plan.
        changed: Frame of `schemas.CHANGES` of its keys that run.
    """
    preview = pl.Series(KEY, summary.preview, dtype=pl.String)
    shown = sorted_by(among(changed, preview.to_frame()), KEY)
    return {
        "changed": {display_text(key): list(names) for key, names in shown.iter_rows()},
        "reasons": [
            {**row, FIRST_KEYS: display_keys(row[FIRST_KEYS])}
            for row in whys(node_plan, changed).head(SHOWN_WHYS).iter_rows(named=True)
        ],
    }

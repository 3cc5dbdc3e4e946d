"""What a run came to, per node and in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barca.records import EMPTY, Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from barca._typing import NodeId
    from barca.exec.queues import NodeQueue
    from barca.plan.inputs import NodePlan, Plan


class NodeReport(Record, kw_only=True):
    """How one node ended.

    Attributes:
        plan: Its plan.
        calls: Works that ended, those that failed among them.
        ran: Keys that ran and have a result.
        elapsed_seconds: Time its calls took, summed.
        failed: `key` of the keys that ran and failed.
        blocked: `key` of the keys that did not run because the same key of an input has no result.
        skipped: Why the node did not run as a whole: an entry of `schemas.REASONS` and a detail.
        fragments: `schemas.FRAGMENTS` of every key with a result, stored before or now, but for the keys
            that the plan leaves out as unchanged.
    """

    plan: NodePlan
    calls: int
    ran: int
    elapsed_seconds: float
    failed: pl.DataFrame
    blocked: pl.DataFrame
    skipped: tuple[str, str] | None
    fragments: pl.DataFrame

    @property
    def cached(self) -> int:
        """Keys that were served from what was stored before: none of a node that was skipped as a whole."""
        return 0 if self.skipped else self.fragments.height - self.ran + self.plan.unchanged


def node_report(queue: NodeQueue, skipped: tuple[str, str] | None) -> NodeReport:
    """How the node of a queue ended."""
    return NodeReport(
        plan=queue.plan,
        calls=queue.calls,
        ran=queue.succeeded,
        elapsed_seconds=queue.elapsed_seconds,
        failed=queue.failed,
        blocked=queue.blocked,
        skipped=skipped,
        fragments=queue.fragments(),
    )


class Failure(Record, kw_only=True):
    """The first key that failed."""

    node: NodeId
    key: str
    error_type: str
    message: str
    traceback: str | None


class RunReport(Record, kw_only=True):
    """How a run ended.

    Attributes:
        run_id: The run.
        status: `success` or `failed`.
        plan: The last plan.
        nodes: Per node of the cone.
        failure: The first failure, if any.
        elapsed_seconds: Wall time, planning included; 0 before the run is recorded.
        warnings: For people.
        stored: Per node, what was stored before the run, `schemas.MATERIALIZATIONS`.
    """

    run_id: str
    status: str
    plan: Plan
    nodes: Mapping[NodeId, NodeReport]
    failure: Failure | None
    elapsed_seconds: float = 0.0
    warnings: Sequence[str] = ()
    stored: Mapping[NodeId, pl.DataFrame] = EMPTY

"""What a run needs from outside, in one value."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import polars as pl

    from barca._typing import NodeId
    from barca.model import Work, WorkerDied, WorkResult
    from barca.plan.inputs import NodePlan, Plan
    from barca.ports import Clock, Executor, LedgerWriter, Listener, Pending


class Publishing(Protocol):
    """Keeps sinks in step with a run; see `publications.Publications`."""

    warnings: list[str]

    def admit(self, plan: NodePlan, cached: pl.DataFrame, *, every_key: bool) -> Mapping[str, Sequence[str]]:
        """A node was decided: `schemas.FRAGMENTS` of its cached keys.

        Returns:
            By key, which sinks did not take it.
        """
        ...

    def record(self, node: NodeId, published: pl.DataFrame | None) -> None:
        """Note what was written, `schemas.PUBLISHED`."""
        ...

    def finish(
        self, plan: NodePlan, fragments: pl.DataFrame, *, every_key: bool
    ) -> Mapping[str, Sequence[str]]:
        """The steps have ended: `schemas.FRAGMENTS` of every key with a result.

        Returns:
            By key, which sinks did not take it.
        """
        ...


class NoSinks:
    """A `Publishing` of nodes without sinks, which imports nothing that writes."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def admit(
        self,
        plan: NodePlan,  # noqa: ARG002
        cached: pl.DataFrame,  # noqa: ARG002
        *,
        every_key: bool,  # noqa: ARG002
    ) -> Mapping[str, Sequence[str]]:
        """Nothing to write; see `Publishing`."""
        return {}

    def record(self, node: NodeId, published: pl.DataFrame | None) -> None:
        """Nothing was written; see `Publishing`."""

    def finish(
        self,
        plan: NodePlan,  # noqa: ARG002
        fragments: pl.DataFrame,  # noqa: ARG002
        *,
        every_key: bool,  # noqa: ARG002
    ) -> Mapping[str, Sequence[str]]:
        """Nothing to write; see `Publishing`."""
        return {}


class RunPorts(Record, kw_only=True):
    """What a run needs from outside.

    Attributes:
        executor: Runs works.
        writer: The ledger's writing side.
        clock: The time.
        listener: Receives events.
        replan: Decides again, given the nodes that settled and the ledger rows they got in this run.
        make_work: Describes a work: node, keys, attempt, and what gives the fragments a source holds.
        capacity: Sum of weights that may run at once.
        publications: What sinks hold.
        meanwhile: Called whenever all that may start has, to begin what is to be done beside it.
    """

    executor: Executor
    writer: LedgerWriter
    clock: Clock
    listener: Listener
    replan: Callable[[frozenset[NodeId], dict[NodeId, pl.DataFrame]], Plan]
    make_work: Callable[..., Work]
    capacity: int
    publications: Publishing
    meanwhile: Callable[[], None]

    def last_endings(self, seconds: float) -> Iterator[tuple[Pending, WorkResult | WorkerDied]]:
        """The works that end within some seconds, no other begun; another Ctrl-C cuts that short."""
        self.executor.withdraw()
        deadline = self.clock.monotonic() + seconds
        with suppress(KeyboardInterrupt):
            while ended := self.executor.wait(max(0.0, deadline - self.clock.monotonic())):
                yield from ended

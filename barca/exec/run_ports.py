"""What a run needs from outside, in one value."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import polars as pl

    from barca._typing import NodeId
    from barca.exec.publications import Publications
    from barca.model import Work, WorkerDied, WorkResult
    from barca.plan.inputs import Plan
    from barca.ports import Clock, Executor, LedgerWriter, Listener, Pending


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPorts:
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
    """

    executor: Executor
    writer: LedgerWriter
    clock: Clock
    listener: Listener
    replan: Callable[[frozenset[NodeId], dict[NodeId, pl.DataFrame]], Plan]
    make_work: Callable[..., Work]
    capacity: int
    publications: Publications

    def last_endings(self, seconds: float) -> Iterator[tuple[Pending, WorkResult | WorkerDied]]:
        """The works that end within some seconds; another Ctrl-C cuts that short."""
        deadline = self.clock.monotonic() + seconds
        with suppress(KeyboardInterrupt):
            while ended := self.executor.wait(max(0.0, deadline - self.clock.monotonic())):
                yield from ended

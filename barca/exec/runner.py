"""Obeying a plan: start what may start, keep what succeeded, try again what failed, commit as it goes."""

from __future__ import annotations

import heapq
import itertools
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from barca import events
from barca.errors import Cancelled, StoreError
from barca.exec.attempts import died_on, handed_back, next_attempt, not_ended
from barca.exec.division import own_death, part_of, parts_of
from barca.exec.interrupts import put_off
from barca.exec.journal import Journal
from barca.exec.outcomes import death_rows, success_rows
from barca.exec.queues import NodeQueue, Ready
from barca.exec.report import RunReport, node_report
from barca.exec.sizes import BUDGET_SECONDS, learn, patience, remembered, take_next
from barca.graph import short_name
from barca.model import WorkerDied
from barca.plan.parts import rows_of
from barca.schemas import ELAPSED_SECONDS, KEY, STATUS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca._typing import NodeId
    from barca.exec.run_ports import RunPorts
    from barca.model import Work, WorkResult
    from barca.plan.inputs import NodePlan, Plan

POLL_SECONDS: Final = 0.2


class Runner:
    """One run of one plan. Use once: `Runner(run_id, plan, ports).run()`."""

    def __init__(self, run_id: str, plan: Plan, ports: RunPorts) -> None:
        self._run_id = run_id
        self._plan = plan
        self._ports = ports
        self._journal = Journal(ports.writer, ports.clock, ports.listener)
        self._queues: dict[NodeId, NodeQueue] = {}
        self._skipped: dict[NodeId, tuple[str, str]] = {}
        self._settled: set[NodeId] = set()
        self._delayed: list[tuple[float, int, NodeId, tuple[Ready, ...]]] = []
        self._early: dict[str, list[pl.DataFrame]] = {}
        self._numbers = itertools.count(1)
        self._ticket = itertools.count()
        self._weight = 0

    def run(self) -> RunReport:
        """Run until nothing can start any more.

        Raises:
            Cancelled: Interrupted from the keyboard; what had ended is committed.
        """
        try:
            self._admit(self._plan)
            self._settle_finished()
            while self._start_or_wait():
                pass
            self._publish()
        except KeyboardInterrupt:
            for pending, result in self._ports.last_endings(patience(self._queues.values())):
                self._ended(pending.work, result)
            self._ports.executor.shutdown(cancel=True)
            self._journal.flush()
            raise Cancelled(
                "the run was interrupted; every key that had finished is kept",
                remediation="run the same command again to compute the rest",
            ) from None
        self._journal.flush()
        self._require_ended()
        return self.report()

    def _publish(self) -> None:
        """The steps have ended: have sinks that mirror a whole asset do so."""
        whole = not self._plan.inputs.selection
        for queue in self._queues.values():
            refused = self._ports.publications.finish(queue.plan, queue.fragments(), every_key=whole)
            self._refuse(queue, refused)
        self._journal.warnings += self._ports.publications.warnings

    def _require_ended(self) -> None:
        """Refuse to call a run ended while keys wait for something that will not come."""
        stuck = [node_id for node_id, queue in self._queues.items() if not queue.finished]
        if stuck:
            raise StoreError(
                f"the run ended with keys of `{stuck[0]}` neither computed nor failed",
                code="unfinished",
                node=stuck[0],
                remediation="this is a defect of barca; what was computed is kept",
            )

    # --- admitting nodes ----------------------------------------------------------------------------

    def _admit(self, plan: Plan) -> None:
        """Queue the nodes that this plan decided and earlier ones had not."""
        self._plan, whole = plan, not plan.inputs.selection
        for node_id, node_plan in plan.nodes.items():
            if node_id in self._queues or node_plan.state != "decided":
                if node_plan.state == "skipped":
                    self._skipped.setdefault(node_id, (node_plan.reason or "", node_plan.detail or ""))
                continue
            if node_id in self._skipped:
                continue
            queue = self._queues[node_id] = NodeQueue(node_plan)
            queue.seconds_per_key = remembered(rows_of(node_id, plan.inputs))
            self._refuse(queue, self._ports.publications.admit(node_plan, queue.fragments(), every_key=whole))
            self._connect(queue)
            keys, calls = node_plan.decision.height, node_plan.calls.height
            self._journal.tell(events.NodePlanned(node_id, keys, queue.total, calls))

    def _refuse(self, queue: NodeQueue, refused: Mapping[str, Sequence[str]]) -> None:
        """Keys with a result that sinks did not take have failed."""
        if refused:
            queue.lose(list(refused))
            self._journal.refused(queue.plan.node.id, refused)

    def _connect(self, queue: NodeQueue) -> None:
        """Make the queue wait for what its inputs still compute."""
        if queue.finished:
            return
        # two parameters of one source are one reason to wait: it releases a key once
        for source_id, by_key in dict.fromkeys(
            (edge.source, edge.mode == "same_key") for edge in queue.plan.node.edges
        ):
            source = self._queues.get(source_id)
            if source_id in self._skipped or (source is not None and not by_key and source.lost):
                self._skip(queue, source_id)
                return
            if source is not None and by_key:
                queue.follow(source)
            elif source is not None and not source.finished:
                queue.gates.add(source_id)
        queue.promote()

    def _skip(self, queue: NodeQueue, source: NodeId) -> None:
        """Leave a node out as a whole, because an input that it reads whole lacks results."""
        node_id = queue.plan.node.id
        self._skipped[node_id] = self._because(source)
        queue.waiting = queue.waiting.clear()
        queue.ready.clear()
        queue.gates.clear()
        queue.remaining = 0
        self._finish(queue)

    # --- the loop -----------------------------------------------------------------------------------

    def _start_or_wait(self) -> bool:
        """One round; whether there is another."""
        self._wake_delayed()
        self._start()
        self._ports.meanwhile()  # while the workers are busy
        self._journal.tick()
        in_flight = any(queue.in_flight for queue in self._queues.values())
        if not in_flight and not self._delayed:
            return self._settle_finished()
        pause = POLL_SECONDS
        if self._delayed:
            pause = max(0.0, min(pause, self._delayed[0][0] - self._ports.clock.monotonic()))
        endings = self._ports.executor.wait(pause)
        with put_off():
            for pending, result in endings:
                self._ended(pending.work, result)
        self._settle_finished()
        return True

    def _wake_delayed(self) -> None:
        now = self._ports.clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            _, _, node_id, entries = heapq.heappop(self._delayed)
            self._queues[node_id].add(entries)

    def _start(self) -> None:
        """Hand works to free workers, later nodes first, so that chains finish early."""
        self._fill()
        if self._running() < self._ports.executor.workers:
            # a worker is idle: look for keys that were released but not yet noticed
            for queue in self._queues.values():
                queue.promote()
            self._fill()

    def _fill(self) -> None:
        for queue in reversed(list(self._queues.values())):
            weight = queue.plan.node.definition.weight
            while queue.ready and self._free(weight):
                self._submit(queue, take_next(queue, self._ports.executor.workers - self._running()), weight)

    def _running(self) -> int:
        return sum(queue.in_flight for queue in self._queues.values())

    def _free(self, weight: int) -> bool:
        light = self._weight == 0 or self._weight + weight <= self._ports.capacity
        return light and self._running() < self._ports.executor.workers

    def _held(self, node_id: NodeId) -> pl.DataFrame:
        return self._queues[node_id].fragments()

    def _submit(self, queue: NodeQueue, ready: Ready, weight: int) -> None:
        kind = "b" if queue.batched else "w"
        names = [f"{kind}{next(self._numbers)}" for _ in ready.sizes or (0,)]
        work = self._ports.make_work(
            id=names[0],
            plan=queue.plan,
            ready=ready,
            calls=tuple(zip(names, ready.sizes, strict=True)) if len(names) > 1 else (),
            budget_seconds=BUDGET_SECONDS,
            held=self._held,
        )
        queue.in_flight += 1
        self._weight += weight
        self._ports.executor.submit(work, partial(self._kept, queue, work))
        self._journal.tell(events.WorkStarted(work.node, work.id, work.keys.height))

    # --- what ended ---------------------------------------------------------------------------------

    def _kept(
        self,
        queue: NodeQueue,
        work: Work,
        fragments: pl.DataFrame,
        elapsed_seconds: float,
        *,
        commit: bool = False,
    ) -> None:
        """A call that goes on has stored results of some of its keys; see `ports.Keep`."""
        self._early.setdefault(work.id, []).append(fragments.select(KEY))
        outcomes = success_rows(fragments.get_column(KEY), elapsed_seconds, work.attempt)
        self._store(queue, work, outcomes, fragments)
        if commit:
            self._journal.flush()

    def _ended(self, work: Work, result: WorkResult | WorkerDied) -> None:
        queue = self._queues[work.node]
        queue.in_flight -= 1
        self._weight -= queue.plan.node.definition.weight
        queue.elapsed_seconds += result.elapsed_seconds
        if isinstance(result, WorkerDied):
            self._died(queue, work, result)
        else:
            self._answered(queue, work, result)
        self._early.pop(work.id, None)
        if queue.finished:
            self._finish(queue)

    def _answered(self, queue: NodeQueue, work: Work, result: WorkResult) -> None:
        queue.add(handed_back(work, self._take_calls(queue, work, result)), first=True)

    def _take_calls(self, queue: NodeQueue, work: Work, result: WorkResult) -> int:
        """Take what came of each call; gives how many had been begun, of batched ones."""
        ended = 0
        for part, came in parts_of(work, result):
            self._called(queue, part, came)
            if not queue.batched:
                queue.add(not_ended(part, came.outcomes), first=True)
            self._take(queue, part, came)
            ended += len(part.calls) or 1
        return ended

    def _died(self, queue: NodeQueue, work: Work, death: WorkerDied) -> None:
        if work.calls:  # on one of them; of those before it, what was kept is not made again
            last = max(death.begun or 0, 1) - 1
            ended = self._take_calls(queue, work, death.finished) if death.finished is not None else 0
            queue.add([*handed_back(work, ended, last), *handed_back(work, last + 1)], first=True)
            work, death = part_of(work, last), own_death(death)
        self._called(queue, work, death)
        keys = self._not_kept(work, work.keys if death.begun is None else died_on(work.keys, death.begun))
        failed = death_rows(keys, death, work.attempt)
        if death.begun is not None:
            finished = [death.finished.outcomes] if death.finished is not None else []
            queue.add(not_ended(work, pl.concat([*finished, failed])), first=True)
        if death.finished is not None:
            self._take(queue, work, death.finished)
        if failed.height:
            self._failed(queue, work, failed, death)

    def _called(self, queue: NodeQueue, work: Work, result: WorkResult | WorkerDied) -> None:
        queue.calls += len(work.calls) or 1
        self._journal.called(work, result)
        learn(queue, work, result)

    def _take(self, queue: NodeQueue, work: Work, result: WorkResult) -> None:
        """Keep what succeeded and see to what failed; learn how long the function takes for a key."""
        outcomes = self._not_kept(work, result.outcomes)
        if outcomes.height and not queue.batched:
            # reading and packing are done once for the chunk, so they don't count
            queue.seconds_per_key = float(outcomes.get_column(ELAPSED_SECONDS).sum()) / outcomes.height
        self._ports.publications.record(work.node, result.published)
        good = outcomes.get_column(STATUS) == "success"
        whole = good.all()
        self._store(queue, work, outcomes if whole else outcomes.filter(good), result.fragments)
        if not whole:
            self._failed(queue, work, outcomes.filter(~good), result)

    def _not_kept(self, work: Work, keys: pl.DataFrame) -> pl.DataFrame:
        """The keys without those that ended well before the call did, whatever became of it."""
        for kept in self._early.get(work.id, ()):
            keys = keys.join(kept, on=KEY, how="anti", maintain_order="left")
        return keys

    def _store(self, queue: NodeQueue, work: Work, outcomes: pl.DataFrame, fragments: pl.DataFrame) -> None:
        if outcomes.is_empty():
            return
        self._journal.succeeded(queue.plan, self._plan.inputs, work, outcomes, fragments)
        queue.succeed(fragments)
        for reader in self._readers(queue.plan.node.id):
            reader.release(fragments)
            reader.promote(at_once=False)

    def _failed(self, queue: NodeQueue, work: Work, lost: pl.DataFrame, end: WorkResult | WorkerDied) -> None:
        keys = work.keys.join(lost.select(KEY), on=KEY, how="semi", maintain_order="left")
        following = next_attempt(queue.plan.node.definition, work, keys, end)
        if not following.given_up:
            due = self._ports.clock.monotonic() + following.delay
            self._journal.retried(work, lost, following.delay)
            heapq.heappush(self._delayed, (due, next(self._ticket), queue.plan.node.id, following.again))
            return
        self._journal.failed(queue.plan, self._plan.inputs, work, lost)
        queue.fail(keys)
        self._block_readers(queue.plan.node.id, keys.select(KEY))

    def _block_readers(self, node_id: NodeId, keys: pl.DataFrame) -> None:
        """Keys without a result block the same keys of what reads them, down the chain."""
        for reader in self._readers(node_id):
            if (hit := reader.block(keys)).height:
                self._block_readers(reader.plan.node.id, hit)
                reader.promote()
                if reader.finished:
                    self._finish(reader)

    def _readers(self, node_id: NodeId) -> list[NodeQueue]:
        """What reads a node key for key."""
        return [queue for queue in self._queues.values() if node_id in queue.reads_by_key]

    def _finish(self, queue: NodeQueue) -> None:
        """A node has ended: open the gates behind it, or skip what reads it whole."""
        node_id = queue.plan.node.id
        for reader in list(self._queues.values()):
            if node_id in reader.gates:
                if queue.incomplete or node_id in self._skipped:
                    self._skip(reader, node_id)
                else:
                    reader.gates.discard(node_id)
                    reader.promote()
            elif node_id in self._skipped and not reader.finished and reader.reads(node_id):
                self._skip(reader, node_id)

    # --- deciding what could not be decided ---------------------------------------------------------

    def _settle_finished(self) -> bool:
        """Decide nodes whose awaited results are now known; whether any new work came of it."""
        unknown = [plan for plan in self._plan.nodes.values() if plan.state == "unknown"]
        unknown = [plan for plan in unknown if plan.node.id not in self._skipped]
        if not unknown:
            return False
        awaited = {source for plan in unknown for source in plan.awaits}
        news = {
            source
            for source in awaited - self._settled
            if source in self._queues and self._queues[source].finished
        }
        if not news:
            return False
        self._settled |= news
        lost = {source for source in news if self._lost(source)}
        self._skip_unknown(unknown, lost)
        self._admit(self._ports.replan(frozenset(self._settled), self._journal.rows(self._settled)))
        self._settle_finished()
        return True

    def _lost(self, source: NodeId) -> bool:
        """Whether a settled node has nothing that could decide its readers."""
        queue = self._queues[source]
        return source in self._skipped or (not queue.plan.node.partitioned and queue.incomplete)

    def _skip_unknown(self, unknown: Sequence[NodePlan], lost: set[NodeId]) -> None:
        for plan in unknown:
            # in topological order, so that a chain names its nearest link
            sources = (edge.source for edge in plan.node.edges)
            cause = next((name for name in sources if name in lost or name in self._skipped), None)
            if cause is not None:
                self._skipped[plan.node.id] = self._because(cause)

    def _because(self, source: NodeId) -> tuple[str, str]:
        """Why what reads a node is left out."""
        failed = source not in self._skipped and self._queues[source].failed.height
        how = "failed" if failed else "was skipped"
        return "upstream_failed", f"depends on '{short_name(source)}', which {how}"

    def report(self) -> RunReport:
        """How things stand, which is how they ended once `run` has returned or raised."""
        queues = {name: self._queues.get(name) or NodeQueue(plan) for name, plan in self._plan.nodes.items()}
        nodes = {name: node_report(queue, self._skipped.get(name)) for name, queue in queues.items()}
        return self._journal.report(self._run_id, self._plan, nodes)

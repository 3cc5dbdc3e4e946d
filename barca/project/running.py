"""One run, from frozen world to committed record."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from barca import events
from barca.discovery import load_function
from barca.errors import (
    BarcaError,
    Cancelled,
    LedgerError,
    StoreError,
    UsageError,
    did_you_mean,
    error_text,
)
from barca.exec.run_ports import NoSinks, RunPorts
from barca.exec.runner import Runner
from barca.partitions import step_text
from barca.project.holdings import holdings
from barca.project.selection import check_selection, selected_nothing
from barca.project.tidying import tidy
from barca.project.works import WorkMaker
from barca.records import Record, replace
from barca.schemas import ELAPSED_SECONDS, RUN_ID, RUNS, STATUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from barca._typing import NodeId
    from barca.config import Config
    from barca.exec.pool import Workers
    from barca.exec.processes import ProcessExecutor
    from barca.exec.report import RunReport
    from barca.exec.run_ports import Publishing
    from barca.graph import Node
    from barca.model import FunctionRef
    from barca.plan.inputs import Plan
    from barca.ports import Clock, Executor, Ledger, LedgerWriter, Listener, PackStore
    from barca.project.announcing import Announced
    from barca.project.world import Request, World

MAINTENANCE_SECONDS = 2.0
"""Time a run's end may spend on keeping the ledger small."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> dt.datetime:
        """The current time, UTC."""
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return time.monotonic()


class Running(Record, kw_only=True):
    """What a run is made with.

    Attributes:
        run: The run, announced.
        root: Project root.
        store_root: The `.barca` directory.
        config: Settings.
        executor: A name, workers that are starting, or an executor.
        listeners: Receive events.
        variables: Environment variables set around calls.
        ledger: The ledger.
        store: The packs.
        function: Where a worker finds a node's function.
        warnings: What planning could not follow.
    """

    run: Announced
    root: Path
    store_root: Path
    config: Config
    executor: str | Workers | Executor
    listeners: Sequence[Listener]
    variables: Mapping[str, str]
    ledger: Ledger
    store: PackStore
    function: Callable[[NodeId], FunctionRef]
    warnings: Callable[[Plan], list[str]]

    def tell(self, event: events.Event) -> None:
        """Send an event to every listener."""
        for listener in self.listeners:
            listener(event)

    def make_executor(self) -> tuple[Executor, ProcessExecutor | None]:
        """The executor, and again where this run must shut it down."""
        from barca.exec.pool import Workers

        logs = self.store_root / "logs"
        if self.executor == "inline":
            from barca.exec.inline import InlineExecutor

            return InlineExecutor(self.store, load_function, logs), None
        if self.executor == "processes" or isinstance(self.executor, Workers):
            from barca.exec.processes import ProcessExecutor

            workers = self.config.pool_size if isinstance(self.executor, str) else self.executor
            processes = ProcessExecutor(workers, self.store, load_function, logs)
            processes.start()  # a worker gets ready while the plan is made
            return processes, processes
        if not isinstance(self.executor, str):
            return self.executor, None
        raise UsageError(
            f"there is no executor `{self.executor}`",
            code="executor",
            remediation=did_you_mean(self.executor, ["inline", "processes"]),
        )


def execute(running: Running, world: World, request: Request) -> RunReport:
    """Plan, run, commit.

    Raises:
        BarcaError: Before anything ran: the request is wrong. Later: the store failed, or `Cancelled`.
    """
    clock = SystemClock()
    executor, own = running.make_executor()
    try:
        plan = world.plan(world.freeze(request, predict=False))
        check_selection(plan, request.named)
        warnings = running.warnings(plan)
        for warning in warnings:
            running.tell(events.Warned(warning))
        report = _record(running, world, plan, executor, own, clock)
        return replace(report, warnings=[*warnings, *report.warnings])
    finally:
        if own is not None:
            own.shutdown(cancel=True)


def _record(
    running: Running,
    world: World,
    plan: Plan,
    executor: Executor,
    own: ProcessExecutor | None,
    clock: SystemClock,
) -> RunReport:
    """Run the plan between a marker, which a killed run leaves behind, and the row of the run."""
    run = running.run
    run_id = run.id
    run.begun = True
    running.tell(events.RunStarted(run_id, run.target))
    writer = running.ledger.writer(run_id)
    ended = _Ended(run_id=run_id, command=run.command, target=run.target, started_at=run.started_at)
    stored = dict(plan.inputs.materialized)
    runner = Runner(run_id, plan, _ports(running, world, plan, stored, run_id, executor, writer, clock))
    report = None
    try:
        report = runner.run()
        if own is not None:
            own.release()
    except Cancelled:
        ended.status, ended.counts = "cancelled", counts_of(runner.report())
        raise
    except BarcaError as error:
        ended.error = f"{type(error).__name__}: {error.message}"
        raise
    finally:
        elapsed, now = run.elapsed_seconds, clock.now()
        row = ended.row(report, elapsed, now)
        if report is not None and (moves := holdings(report.plan, world.reader, run_id, now)).height:
            writer.append("holdings", moves)
        writer.append("runs", row)
        writer.flush()
        if report is not None and world.narrowing is not None:
            world.narrowing.note(report)
        run.withdraw()
        running.tell(events.RunFinished(run_id, row.item(0, STATUS), elapsed, ended.counts_of(report)))
        _maintain(running, [node_plan.node for node_plan in plan.nodes.values()])
    unselected = selected_nothing(report.plan)
    for warning in unselected:
        running.tell(events.Warned(warning))
    warnings = [*report.warnings, *unselected]
    return replace(report, elapsed_seconds=elapsed, warnings=warnings, stored=stored)


def _ports(
    running: Running,
    world: World,
    plan: Plan,
    stored: dict[NodeId, pl.DataFrame],
    run_id: str,
    executor: Executor,
    writer: LedgerWriter,
    clock: Clock,
) -> RunPorts:
    """What a run works with; `stored` gets the rows that nodes had whose keys a source has yet to tell."""
    current = [plan]

    def replan(settled: frozenset[NodeId], rows: dict[NodeId, pl.DataFrame]) -> Plan:
        current[0] = world.replan(current[0], settled, rows)
        for node_id, before in current[0].inputs.materialized.items():
            stored.setdefault(node_id, before)
        return current[0]

    engine = running.config.engine or "in-memory"
    return RunPorts(
        executor=executor,
        writer=writer,
        clock=clock,
        listener=running.tell,
        replan=replan,
        make_work=WorkMaker(
            run_id,
            running.function,
            running.variables,
            engine,
            lambda: current[0],
            lambda: world.whole(current[0]),
        ),
        capacity=running.config.capacity,
        publications=_publications(running, world, plan, run_id, writer, clock),
        meanwhile=world.read_ahead,
    )


def _publications(
    running: Running, world: World, plan: Plan, run_id: str, writer: LedgerWriter, clock: Clock
) -> Publishing:
    """What sinks hold; what writes them is imported only where there are some."""
    if not any(world.graph.nodes[node_id].definition.sinks for node_id in plan.nodes):
        return NoSinks()
    from barca.exec.publications import Publications, SinkPorts

    return Publications(
        SinkPorts(
            run_id=run_id,
            root=running.root,
            store=running.store,
            reader=world.reader,
            writer=writer,
            clock=clock,
            listener=running.tell,
        )
    )


@dataclass(slots=True, kw_only=True)
class _Ended:
    """What the ledger keeps of a run; `status`, `counts` and `error` stand unless the run has a report."""

    run_id: str
    command: str
    target: str
    started_at: dt.datetime
    status: str = "failed"
    counts: dict[str, int] | None = None
    error: str | None = None

    def counts_of(self, report: RunReport | None) -> dict[str, int]:
        """Keys by outcome, of the report or of what had ended when there came to be none."""
        return self.counts or counts_of(report)

    def row(self, report: RunReport | None, elapsed_seconds: float, now: dt.datetime) -> pl.DataFrame:
        """The row of `schemas.RUNS`."""
        counts = self.counts_of(report)
        failure = report.failure if report else None
        values: dict[str, Any] = {
            RUN_ID: self.run_id,
            "command": self.command,
            "target": self.target,
            STATUS: report.status if report else self.status,
            "steps_executed": counts["ran"] + counts["failed"],
            "steps_cached": counts["cached"],
            ELAPSED_SECONDS: elapsed_seconds,
            "started_at": self.started_at,
            "finished_at": now,
            "triggered_by": "manual",
            "error": error_text(failure.error_type, failure.message) if failure else self.error,
            "failed_node": step_text(failure.node, failure.key) if failure else None,
        }
        return pl.DataFrame([values], schema=RUNS)


def _maintain(running: Running, nodes: Iterable[Node]) -> None:
    """Keep ledger and store small and free of leftovers; a run that has ended does not fail for it."""
    deadline = time.monotonic() + MAINTENANCE_SECONDS
    try:
        running.store.sweep()
        running.ledger.maintain(MAINTENANCE_SECONDS)
        tidy(
            running.ledger,
            running.store,
            running.store_root / "runs",
            running.run.id,
            nodes,
            budget_seconds=deadline - time.monotonic(),
        )
    except (LedgerError, StoreError, OSError) as error:
        running.tell(events.Warned(f"the store could not be tidied: {error}"))


def counts_of(report: RunReport | None) -> dict[str, int]:
    """Keys by outcome: `ran`, `cached`, `failed`, `skipped`."""
    nodes = report.nodes.values() if report else ()
    return {
        "ran": sum(node.ran for node in nodes),
        "cached": sum(node.cached for node in nodes),
        "failed": sum(node.failed.height for node in nodes),
        "skipped": sum(node.blocked.height for node in nodes),
    }

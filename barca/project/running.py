"""One run, from frozen world to committed record."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from barca import events
from barca.discovery import load_function
from barca.errors import BarcaError, LedgerError, UsageError, did_you_mean
from barca.exec.run_ports import RunPorts
from barca.exec.runner import Runner
from barca.graph import short_name
from barca.io.runs import remove_marker, write_marker
from barca.partitions import step_text
from barca.project.works import WorkMaker
from barca.project.world import check_selection, selected_nothing
from barca.schemas import RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from barca._typing import NodeId
    from barca.config import Config
    from barca.exec.report import RunReport
    from barca.model import FunctionRef
    from barca.plan.inputs import Plan
    from barca.ports import Executor, Ledger, Listener, PackStore
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What a run is made with.

    Attributes:
        command: `get` or `run`.
        root: Project root.
        store_root: The `.barca` directory.
        config: Settings.
        executor: A name, or an executor.
        listeners: Receive events.
        variables: Environment variables set around calls.
        ledger: The ledger.
        store: The packs.
        function: Where a worker finds a node's function.
        warnings: What planning could not follow.
    """

    command: str
    root: Path
    store_root: Path
    config: Config
    executor: str | Executor
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

    def make_executor(self) -> tuple[Executor, bool]:
        """The executor, and whether this run must shut it down."""
        from barca.exec.executors import InlineExecutor, ProcessExecutor

        if not isinstance(self.executor, str):
            return self.executor, False
        logs = self.store_root / "logs"
        if self.executor == "inline":
            return InlineExecutor(self.store, load_function, logs), True
        if self.executor == "processes":
            return ProcessExecutor(self.config.pool_size, self.store, load_function, logs), True
        raise UsageError(
            f"there is no executor `{self.executor}`",
            code="executor",
            remediation=did_you_mean(self.executor, ["inline", "processes"]),
        )


def new_run_id(now: dt.datetime) -> str:
    """15 hexadecimal digits that sort by time: milliseconds, then chance."""
    return f"{int(now.timestamp() * 1000):011x}{secrets.token_hex(2)}"


def execute(running: Running, world: World, request: Request) -> RunReport:
    """Plan, run, commit.

    Raises:
        BarcaError: Before anything ran: the request is wrong. Later: the store failed, or `Cancelled`.
    """
    clock = SystemClock()
    executor, owned = running.make_executor()
    try:
        plan = world.plan(world.freeze(request, predict=False))
        check_selection(plan)
        for warning in running.warnings(plan):
            running.tell(events.Warned(warning))
        return _record(running, world, plan, executor, clock)
    finally:
        if owned:
            executor.shutdown(cancel=True)


def _record(running: Running, world: World, plan: Plan, executor: Executor, clock: SystemClock) -> RunReport:
    run_id = new_run_id(clock.now())
    target = ",".join(short_name(node_id) for node_id in plan.targets)
    markers = running.store_root / "runs"
    started_at, started = clock.now(), clock.monotonic()
    write_marker(markers, run_id=run_id, command=running.command, target=target, started_at=started_at)
    running.tell(events.RunStarted(run_id, target))
    current = [plan]

    def replan(settled: frozenset[NodeId], rows: dict[NodeId, pl.DataFrame]) -> Plan:
        current[0] = world.replan(current[0], settled, rows)
        return current[0]

    writer = running.ledger.writer(run_id)
    ports = RunPorts(
        executor=executor,
        writer=writer,
        clock=clock,
        listener=running.tell,
        replan=replan,
        make_work=WorkMaker(
            run_id,
            running.function,
            running.variables,
            running.config.engine or "in-memory",
            lambda: current[0],
        ),
        capacity=running.config.capacity,
    )
    status, failed, report = "failed", None, None
    try:
        report = Runner(run_id, plan, ports).run()
        status, failed = report.status, report.failure
    except BarcaError as error:
        status = "cancelled" if error.kind == "cancelled" else "failed"
        raise
    finally:
        elapsed = clock.monotonic() - started
        counts = _counts(report)
        row: dict[str, Any] = {
            "run_id": run_id,
            "command": running.command,
            "target": target,
            "status": status,
            "steps_executed": counts["ran"] + counts["failed"],
            "steps_cached": counts["cached"],
            "elapsed_seconds": elapsed,
            "started_at": started_at,
            "finished_at": clock.now(),
            "triggered_by": "manual",
            "error": f"{failed.error_type}: {failed.message}" if failed else None,
            "failed_node": step_text(failed.node, failed.key) if failed else None,
        }
        writer.append("runs", pl.DataFrame([row], schema=RUNS))
        writer.flush()
        remove_marker(markers, run_id)
        running.tell(events.RunFinished(run_id, status, elapsed, counts))
        _maintain(running)
    for warning in selected_nothing(report.plan):
        running.tell(events.Warned(warning))
    return report


def _maintain(running: Running) -> None:
    """Keep the ledger small; a run that has ended does not fail for it."""
    try:
        running.ledger.maintain(MAINTENANCE_SECONDS)
    except LedgerError as error:
        running.tell(events.Warned(f"the ledger could not be tidied: {error.message}"))


def _counts(report: RunReport | None) -> dict[str, int]:
    """Keys by outcome: `ran`, `cached`, `failed`, `skipped`."""
    nodes = report.nodes.values() if report else ()
    return {
        "ran": sum(node.ran for node in nodes),
        "cached": sum(node.fragments.height - node.ran for node in nodes),
        "failed": sum(node.failed.height for node in nodes),
        "skipped": sum(node.blocked.height for node in nodes),
    }

"""Launching runs: from what was asked for to a run with everything it is made with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barca.discovery import function_ref
from barca.errors import DefinitionError
from barca.project.announcing import Announced
from barca.project.log import LogListener
from barca.project.request import require_tasks
from barca.project.running import Running, execute
from barca.project.warnings import plan_warnings
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from barca.config import Config
    from barca.exec.pool import Workers
    from barca.exec.report import RunReport
    from barca.graph import Graph
    from barca.ports import Executor, Ledger, LedgerReader, Listener
    from barca.project.opening import Opening
    from barca.project.request import Options, Targets
    from barca.project.world import Request, World


class Launcher(Record, kw_only=True):
    """Launches runs of a project.

    Attributes:
        opening: Makes worlds out of what is declared.
        graph: What is declared.
        config: Settings.
        store_root: The `.barca` directory.
        ledger: The ledger.
        executor: A name, workers that are starting, or an executor.
        listeners: Receive events.
    """

    opening: Opening
    graph: Graph
    config: Config
    store_root: Path
    ledger: Ledger
    executor: str | Workers | Executor
    listeners: Sequence[Listener]

    def launch(self, command: str, targets: Targets, options: Options) -> tuple[RunReport, World, Request]:
        """Run; a node whose keys cannot be grouped is left out, unless it is asked for.

        Args:
            command: `get` or `run`.
            targets: What was asked for.
            options: What else.

        Raises:
            BarcaError: Something asked for does not exist or does not load, or the store failed.
        """
        while True:
            try:
                return self._launch(command, targets, options)
            except DefinitionError as error:
                self.opening.lose(self.graph, error)

    def _launch(self, command: str, targets: Targets, options: Options) -> tuple[RunReport, World, Request]:
        run = Announced(self.store_root / "runs", command)

        def pin(request: Request) -> LedgerReader:
            if command == "run":
                require_tasks(self.graph, request.targets)
            run.announce(request.targets)
            return self.ledger.reader()

        with run:
            world, request = self.opening.world(self.graph, pin, targets, options)
            if targets is None:
                self.opening.require_loaded(world.graph)
            running = self._running(run, world, everything=targets is None)
            return execute(running, world, request), world, request

    def _running(self, run: Announced, world: World, *, everything: bool) -> Running:
        root = self.opening.root
        return Running(
            run=run,
            root=root,
            store_root=self.store_root,
            config=self.config,
            executor=self.executor,
            listeners=[LogListener(run.id), *self.listeners],
            variables=self.opening.variables,
            ledger=self.ledger,
            store=self.opening.store,
            function=lambda node_id: function_ref(world.graph.nodes[node_id].definition, node_id, root),
            warnings=lambda plan: plan_warnings(plan, whole=everything),
        )

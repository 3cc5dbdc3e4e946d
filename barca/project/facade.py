"""The one facade: a project directory, what it declares, what it has computed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from barca.config import find_root, read_config
from barca.discovery import discover, graph_of
from barca.errors import DefinitionError, InputError, LoadError, plural
from barca.exec.memory import total_memory
from barca.graph import names_of
from barca.io.ledger import DeltaLedger
from barca.io.notes import Notes
from barca.io.storage import FilePackStore
from barca.project.launching import Launcher
from barca.project.listing import listing, outline
from barca.project.opening import Opening, ids_of
from barca.project.reading import STORE, Reading
from barca.project.request import (
    as_list,
    find_targets,
    only_one,
    only_target,
    require_known,
    require_only_partition,
)
from barca.project.results import Result
from barca.project.selection import check_selection, selected_nothing
from barca.project.warnings import plan_warnings
from barca.tracebacks import notebook

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from barca._typing import NodeId
    from barca.exec.pool import Workers
    from barca.graph import Graph
    from barca.model import Definition
    from barca.plan.inputs import NodePlan, Plan
    from barca.ports import Executor, Ledger, Listener
    from barca.project.current import Current
    from barca.project.diagnosis import Doctor
    from barca.project.explanation import Explanation
    from barca.project.forecast import Forecast
    from barca.project.lookback import Lookback
    from barca.project.moments import When
    from barca.project.request import Options, Selection, Target, Targets
    from barca.project.state import Status
    from barca.project.world import Request, World


class Project(Reading):
    """A project: a directory of Python files with decorated functions, and its store.

    Args:
        path: The directory, or one inside; the root is the nearest directory upward that holds
            `barca.toml`, else the directory itself. The current one by default.
        files: Only these files or directories; none is every file that imports barca.
        executor: `inline`, `processes`, worker processes that are starting already, or an executor of your
            own.
        listener: Receives the events of runs.
        env: Name of an `[env.NAME]` table of `barca.toml`, or variables to set around calls.

    Raises:
        UsageError: A setting, file or environment is wrong.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        files: Sequence[str | Path] = (),
        *,
        executor: str | Workers | Executor | None = None,
        listener: Listener | None = None,
        env: str | Mapping[str, str] | None = None,
    ) -> None:
        self.root = find_root(Path(path) if path is not None else Path.cwd()).resolve()
        self.config = read_config(self.root)
        self._files = [Path(file) for file in files]
        self._executor = executor
        self._listener = listener
        self._variables = self.config.environment(env) if isinstance(env, str) else dict(env or {})
        self._store_root = self.root / STORE
        self._definitions: Sequence[Definition[..., Any]] | None = None

    @classmethod
    def of(cls, definitions: Sequence[Definition[..., Any]], **options: Any) -> Project:
        """A project of function objects: what they read is found by walking their inputs."""
        project = cls(**options)
        project._definitions = definitions
        return project

    @cached_property
    def graph(self) -> Graph:
        """The nodes, and what could not be loaded."""
        if self._definitions is not None:
            return graph_of(self._definitions, self.root)
        return discover(self.root, self._files)

    # --- computing ----------------------------------------------------------------------------------

    @overload
    def get(
        self,
        targets: Targets = None,
        *,
        as_of: None = None,
        executor: str | Workers | Executor | None = None,
        progress: Listener | None = None,
        **options: Unpack[Options],
    ) -> Result: ...

    @overload
    def get(self, targets: Targets = None, *, as_of: When, partition: Selection = None) -> Lookback: ...

    def get(
        self,
        targets: Targets = None,
        *,
        as_of: When | None = None,
        executor: str | Workers | Executor | None = None,
        progress: Listener | None = None,
        **options: Unpack[Options],
    ) -> Result | Lookback:
        """Compute what is stale of the targets and what they read, or look back at what they held.

        Args:
            targets: Names, ids or decorated functions; `None` is every asset and sensor.
            as_of: Read what targets held at this moment, see `look_back`, and run nothing; of the options it
                goes with `partition` only.
            executor: Overrides the project's.
            progress: Receives events, beside the project's listener. By default notebooks show how far it is.
            **options: `partition`, a dict of dimension to a value or values: only these keys. `batch`: `all`,
                `none`, `auto`, a number of keys, or a dict of node to one of these, in which `None` is every
                other node. `refresh`: targets to run again, with what reads them unless `cascade` is false.
                `refresh_all`: everything again.

        Raises:
            UsageError: Something asked for does not exist; nothing was run.
            Cancelled: Interrupted; what had finished is kept.
        """
        if as_of is not None:
            require_only_partition({**options, "executor": executor, "progress": progress})
            return self.look_back(targets, as_of, partition=options.get("partition"))
        return self._run("get", targets, executor, progress, options)

    def run(
        self,
        task: Target,
        *,
        executor: str | Workers | Executor | None = None,
        progress: Listener | None = None,
        **options: Unpack[Options],
    ) -> Result:
        """Run a task, after computing what is stale of what it reads. Arguments as for `get`.

        Raises:
            UsageError: The target is no task; or as for `get`.
            Cancelled: Interrupted; what had finished is kept.
        """
        return self._run("run", task, executor, progress, options)

    def plan(self, targets: Targets = None, **options: Unpack[Options]) -> Forecast:
        """What `get` with the same arguments would do; nothing is executed or written."""
        from barca.project.forecast import Forecast

        world, plan, request = self._forecast(targets, options)
        check_selection(plan, request.named)
        warnings = [*plan_warnings(plan, whole=targets is None), *selected_nothing(plan)]
        return Forecast(plan, warnings, self.config.pool_size, self.config.capacity, world.whole)

    def scan(self, target: Target, **options: Any) -> pl.LazyFrame:
        """Compute what is stale of a target and return one lazy table over its selected keys.

        Args:
            target: A name, id or decorated function of a node that returns tables.
            **options: As for `get`; with `as_of`, what it held then is read, and nothing run.

        Returns:
            The dimensions as String columns first, then the columns of the results.

        Raises:
            BarcaError: A step failed, or the results are not tables.
        """
        from barca.io.fragments import scan_fragments

        if (as_of := options.pop("as_of", None)) is not None:
            require_only_partition(options)
            (only,) = only_one(as_list(target), "scan")
            return self.look_back(only, as_of, partition=options.get("partition")).scan()
        result = self.get(target, **options)
        if result.error is not None:
            result.error.show_step()
            raise result.error
        node_id = result.targets[0]
        dimensions = self.graph.nodes[node_id].dimensions
        try:
            return scan_fragments(self._store, result.held(node_id), dimensions)
        except InputError as error:
            error.remediation = f"{error.remediation}; `get` gives values of keys"
            raise

    # --- looking ------------------------------------------------------------------------------------

    def status(self, targets: Targets = None) -> Status:
        """The state of the targets and what they read; of every node without targets."""
        from barca.project.state import Status, unresolved

        world, plan, _ = self._forecast(targets, {}, tasks=True)
        return Status(plan, unresolved(world.reader), world.reader.latest(plan.nodes))

    def explain(self, target: Target, *, partition: Selection = None) -> Explanation:
        """Why the keys of a target run, or don't, and how its code differs from that of the last success."""
        from barca.project.blockage import Blockage
        from barca.project.explanation import Explanation
        from barca.project.state import unresolved

        forecast = self.plan(target, partition=partition).whole()
        (node_id,) = only_one(forecast.plan.targets, "explain")
        return Explanation(node_id, forecast, Blockage(forecast.plan, unresolved(self._reader())))

    def diagnose(self) -> dict[str, Any]:
        """Whether all that runs need is there and whole, as plain values; see `diagnosis.Doctor`."""
        return self._doctor().diagnosis()

    def repair(self) -> list[str]:
        """Mend the ledger, and remove what killed writers left unfinished; a line for each file.

        Raises:
            UsageError: A run is going on.
            LedgerError: Something cannot be mended.
        """
        return self._doctor().repair()

    def _doctor(self) -> Doctor:
        from barca.project.diagnosis import Doctor

        return Doctor(
            store_root=self._store_root,
            listed=lambda: self.list_nodes()["load_errors"],
            planned=lambda: self.status().to_dict()["load_errors"],
            graph=self._graph,
            ledger=self._ledger,
            store=self._store,
        )

    def gc(self, max_size: int | str | None = None, *, dry_run: bool = False) -> dict[str, Any]:
        """Delete what nothing asks for, and make results fit into a size; see `tidying.collect_garbage`.

        Raises:
            DefinitionError: The size is none.
        """
        from barca.project.tidying import collect_garbage

        return collect_garbage(self._ledger, self._store, self._markers(), max_size, dry_run=dry_run)

    def list_nodes(self) -> dict[str, Any]:
        """Every node and every load error, as JSON-writable values."""
        return listing(self.graph)

    def outline(self, targets: Targets = None) -> dict[str, Any]:
        """The targets and what they read, every node without targets, as plain `nodes` and `edges`."""
        named = find_targets(self.graph, ids_of(self.graph), as_list(targets))
        return outline(self.graph, named if targets else self.graph.nodes)

    def __repr__(self) -> str:
        return f"<Project {self.root.name}: {plural(len(self.graph.nodes), 'node')}>"

    def _repr_html_(self) -> str:
        from barca.render.html import project_html

        return project_html(self.list_nodes(), self.outline())

    def stats(self, target: Target, **limits: Any) -> dict[str, Any]:
        """What the calls of a node took, by size, and the `batch=` that this suggests, as plain values.

        Args:
            target: The node.
            **limits: `target_seconds` and `max_memory`, instead of the node's own or those of `batches_auto`.

        Raises:
            UsageError: The node does not exist, or a limit is none.
        """
        from barca.project.statistics import node_stats

        require_known(limits, ("target_seconds", "max_memory"))
        node = self.graph.nodes[only_target(self.graph, target, "stats")]
        return node_stats(self._reader(), node, limits, self._opening.memory_limit)

    # --- inside -------------------------------------------------------------------------------------

    @cached_property
    def _store(self) -> FilePackStore:
        return FilePackStore(self._store_root / "artifacts")

    @cached_property
    def _ledger(self) -> DeltaLedger:
        return DeltaLedger(self._store_root / "ledger")

    def _graph(self) -> Graph:
        return self.graph

    def _markers(self) -> Path:
        return self._store_root / "runs"

    def _open_ledger(self) -> Ledger:
        return self._ledger

    def _current(self) -> Current:
        from barca.project.current import Current

        return Current(self.graph, self._reader(), self._store, self._planned)

    def _planned(self, node_id: NodeId) -> NodePlan | None:
        try:
            world, plan, _ = self._forecast(node_id, {})
        except (DefinitionError, LoadError):
            return None
        return world.whole(plan).nodes[node_id]

    @cached_property
    def _opening(self) -> Opening:
        total = total_memory()
        return Opening(
            root=self.root,
            files=self._files,
            store=self._store,
            variables=self._variables,
            memory_limit=None if total is None else total // 2 // self.config.pool_size,
            notes=Notes(self._store_root / "ledger"),
        )

    def _world(self, targets: Targets, options: Options, *, tasks: bool = False) -> tuple[World, Request]:
        return self._opening.world(self.graph, lambda _: self._reader(), targets, options, tasks=tasks)

    def _forecast(
        self, targets: Targets, options: Options, *, tasks: bool = False
    ) -> tuple[World, Plan, Request]:
        """What a run would do; a node whose keys cannot be grouped is left out, unless it is asked for."""
        while True:
            world, request = self._world(targets, options, tasks=tasks)
            if targets is None and not tasks:
                self._opening.require_loaded(world.graph)
            try:
                return world, world.plan(world.freeze(request, predict=True)), request
            except DefinitionError as error:
                self._opening.lose(self.graph, error)

    def _run(
        self,
        command: str,
        targets: Targets,
        executor: str | Workers | Executor | None,
        progress: Listener | None,
        options: Options,
    ) -> Result:
        if progress is None and notebook() is not None:
            from barca.render.notebook import notebook_progress

            progress = notebook_progress()
        launcher = Launcher(
            opening=self._opening,
            graph=self.graph,
            config=self.config,
            store_root=self._store_root,
            ledger=self._ledger,
            executor=executor or self._executor or self._default_executor,
            listeners=[listener for listener in (self._listener, progress) if listener is not None],
        )
        report, world, request = launcher.launch(command, targets, options)
        return Result(report, names_of(request.targets), self._read_values, f"{STORE}/artifacts", world.whole)

    @property
    def _default_executor(self) -> str:
        if self.config.executor is not None:
            return self.config.executor
        return "processes" if self._definitions is None else "inline"

    def _read_values(self, node_id: NodeId, held: pl.DataFrame) -> dict[str, Any]:
        from barca.io.annotations import return_annotation
        from barca.io.values import read_values

        node = self.graph.nodes[node_id]
        # what a batch function returns says nothing of one key's value
        batched = node.definition.batch is not None
        annotation = None if batched else return_annotation(node.definition.function)
        return read_values(self._store, held, annotation, node.dimensions)

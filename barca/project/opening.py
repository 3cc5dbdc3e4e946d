"""From what a project's files declare to a world that can be planned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barca.discovery import evaluate_groups, evaluate_partitions
from barca.discovery.broken import broken_node
from barca.errors import LoadError
from barca.fingerprint import Fingerprinter
from barca.io.keyed import read_keyed
from barca.project.ahead import Ahead
from barca.project.narrowing import Narrowing
from barca.project.request import make_request
from barca.project.world import UNGROUPED, World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from barca._typing import NodeId
    from barca.errors import DefinitionError
    from barca.graph import BrokenFile, Graph
    from barca.ports import LedgerReader, PackStore
    from barca.project.narrowing import NodeNotes
    from barca.project.request import Options, Targets
    from barca.project.world import Request


@dataclass(slots=True, kw_only=True)
class Opening:
    """Makes worlds, without the nodes that turned out to be broken.

    Attributes:
        root: Project root.
        files: Files that were named.
        store: The packs.
        variables: Environment variables set for runs.
        memory_limit: Bytes that a call may take where nobody says otherwise.
        notes: What earlier plans noted.
        lost: Nodes whose keys could not be grouped.
    """

    root: Path
    files: Sequence[Path]
    store: PackStore
    variables: Mapping[str, str]
    memory_limit: int | None
    notes: NodeNotes
    lost: list[BrokenFile] = field(default_factory=list)

    def world(
        self,
        graph: Graph,
        pin: Callable[[Request], LedgerReader],
        targets: Targets,
        options: Options,
        *,
        tasks: bool = False,
    ) -> tuple[World, Request]:
        """The world and the request; raises for what does not exist or does not load.

        Args:
            graph: What the files declare.
            pin: Gives the ledger at its newest version, once it is known what is asked for.
            targets: Without any, every node.
            options: What else is asked for.
            tasks: Whether tasks are among every node.
        """
        graph = graph.without(self.lost)
        request = make_request(graph, ids_of(graph), targets, options, tasks=tasks)
        cone = graph.upstream(request.targets)
        explicit, without_keys = evaluate_partitions(graph, cone)
        groups, without_groups = evaluate_groups(graph, cone)
        if broken := [*without_keys, *without_groups]:
            graph = graph.without(broken)
            request = make_request(graph, ids_of(graph), targets, options, tasks=tasks)
        notes = self.notes.pinned()
        reader = pin(request)
        world = World(
            graph=graph,
            reader=reader,
            store=self.store,
            fingerprint=Fingerprinter(self.root).fingerprint,
            explicit=explicit,
            groups=groups,
            variables=self.variables,
            memory_limit=self.memory_limit,
            read_keyed=read_keyed,
            coming=Ahead(),
            narrowing=Narrowing(notes, self.store, reader, read_keyed),
        )
        return world, request

    def lose(self, graph: Graph, error: DefinitionError) -> None:
        """Go on without the node that an error is about, where that is its grouping; else raise it."""
        if error.code not in UNGROUPED or error.node in {node for one in self.lost for node in one.nodes}:
            raise error
        self.lost.append(broken_node(graph.nodes[str(error.node)], error))

    def require_loaded(self, graph: Graph) -> None:
        """Where everything is wanted, not all of it may be lost, nor all of a file that was named.

        Raises:
            LoadError: It is.
        """
        named = {path.resolve() for file in self.files for path in (file, self.root / file)}
        loaded = {node_id.rpartition(":")[0] for node_id in graph.nodes}
        lost = [
            error
            for error in graph.load_errors
            if not graph.nodes or (error.file not in loaded and (self.root / error.file).resolve() in named)
        ]
        if lost:
            culprit = lost[0].culprit or lost[0].file
            raise LoadError(
                "\n".join(f"cannot load {error.file}: {error.error}" for error in lost),
                file=lost[0].file if len(lost) == 1 else None,
                traceback=lost[0].traceback or None,
                remediation=f"fix {culprit}, or leave it out; `barca list` shows every such file",
            )


def ids_of(graph: Graph) -> dict[int, NodeId]:
    """Node ids by the identity of their definitions."""
    return {id(node.definition): node_id for node_id, node in graph.nodes.items()}

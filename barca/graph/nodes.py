"""Nodes, the edges between them, and finding nodes by what people write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from barca.errors import DefinitionError, LoadError, SelectionError, did_you_mean
from barca.records import EMPTY, Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from barca._typing import Kind, NodeId
    from barca.model import Definition, Partitions

_NOT_LOADED = ", which could not be loaded: "

EdgeMode: TypeAlias = Literal["whole", "same_key", "collect", "keyed"]


class Edge(Record):
    """One input of a node.

    Attributes:
        parameter: Parameter it fills; for an input the function does not take, the name it would have.
        source: Node it comes from.
        mode: `whole` (an unpartitioned node's value), `same_key` (the same key of a partitioned node),
            `collect` (every key), `keyed` (an unpartitioned source of keys: each key gets its value, if
            the source returns values).
        passed: Whether the function has the parameter.
    """

    parameter: str
    source: NodeId
    mode: EdgeMode
    passed: bool = True


class Node(Record):
    """A definition with its place in the graph.

    Attributes:
        id: Node id.
        definition: What was decorated.
        dimensions: Names of its dimensions, declared order; empty when unpartitioned.
        edges: Inputs, sorted by parameter.
        keys_from: Node its keys come from, for `partitions_from`.
        explicit: Dimension to declared keys, for `partitions`.
        gives: Dimensions of other nodes that take their keys from this unpartitioned node's result.
    """

    id: NodeId
    definition: Definition[..., Any]
    dimensions: tuple[str, ...]
    edges: tuple[Edge, ...]
    keys_from: NodeId | None = None
    explicit: Mapping[str, Partitions] = EMPTY
    gives: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """`asset`, `task` or `sensor`."""
        return self.definition.kind

    @property
    def keyed(self) -> bool:
        """Whether some node takes its keys from this unpartitioned node's result."""
        return bool(self.gives)

    @property
    def partitioned(self) -> bool:
        """Whether it has dimensions."""
        return bool(self.dimensions)


class BrokenFile(Record):
    """A file, or an expression in one, that could not be loaded.

    Attributes:
        file: Path relative to the project root.
        nodes: Ids of the nodes that are lost with it.
        error: `ExceptionType: message`.
        traceback: The full text; empty where no code of the project was on the way.
        culprit: The file to fix, where another one is at fault.
        cause: What is wrong with the node, where its file was read.
    """

    file: str
    nodes: tuple[NodeId, ...]
    error: str
    traceback: str
    culprit: str | None = None
    cause: DefinitionError | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-writable values."""
        return {
            "file": self.file,
            "nodes": list(self.nodes),
            "error": self.error,
            "traceback": self.traceback,
            "culprit": self.culprit or self.file,
        }

    def raised(self, name: str) -> DefinitionError | LoadError:
        """The error for somebody who asks for a node of these by name."""
        if self.cause is not None:
            return DefinitionError(self.cause.message, **self.cause.fields())
        return LoadError(
            f"`{name}` could not be loaded: {self.error}",
            node=name,
            file=self.file,
            traceback=self.traceback or None,
            remediation=f"fix {self.culprit or self.file}; `barca list` shows every file that fails to load",
        )


class Graph(Record):
    """Nodes in topological order, inputs before their readers, and what could not be loaded."""

    nodes: Mapping[NodeId, Node]
    load_errors: tuple[BrokenFile, ...] = ()

    def giving(self, dimensions: Mapping[NodeId, Sequence[str]]) -> Graph:
        """The graph, its unpartitioned nodes also giving keys to dimensions of nodes outside of it."""
        nodes = {
            node_id: replace(node, gives=tuple(dict.fromkeys([*node.gives, *dimensions.get(node_id, ())])))
            if not node.partitioned
            else node
            for node_id, node in self.nodes.items()
        }
        return replace(self, nodes=nodes)

    def upstream(self, targets: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """The targets and everything they read, in topological order."""
        wanted = set(targets)
        for node_id in reversed(list(self.nodes)):
            if node_id in wanted:
                wanted.update(edge.source for edge in self.nodes[node_id].edges)
        return tuple(node_id for node_id in self.nodes if node_id in wanted)

    def downstream(self, sources: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """The sources and everything that reads them, in topological order."""
        reached = set(sources)
        for node_id, node in self.nodes.items():
            if any(edge.source in reached for edge in node.edges):
                reached.add(node_id)
        return tuple(node_id for node_id in self.nodes if node_id in reached)

    def without(self, broken: Sequence[BrokenFile]) -> Graph:
        """The graph without the nodes of load errors and what reads them, which become load errors too."""
        causes = {node_id: error for error in broken for node_id in error.nodes if node_id in self.nodes}
        errors = [*self.load_errors, *broken]
        for node_id in self.downstream(causes):
            source = next((edge.source for edge in self.nodes[node_id].edges if edge.source in causes), None)
            if node_id not in causes and source is not None:
                causes[node_id] = lost_with(
                    node_id, self.nodes[node_id].definition.file, source, causes[source]
                )
                errors.append(causes[node_id])
        kept = {node_id: node for node_id, node in self.nodes.items() if node_id not in causes}
        return Graph(kept, tuple(errors))

    def find(self, name: str) -> NodeId:
        """The node that `name` means: an id, or a function's name when only one node has it.

        Raises:
            LoadError: The node is in a file that could not be loaded, or reads one that is.
            DefinitionError: The node does not fit into the graph.
            SelectionError: No node, or several nodes, have the name.
        """
        if name in self.nodes:
            return name
        matches = [node_id for node_id in self.nodes if short_name(node_id) == name]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise SelectionError(
                f"`{name}` is the name of {len(matches)} nodes",
                code="ambiguous_target",
                remediation="name one of " + ", ".join(f"`{match}`" for match in matches),
            )
        for broken in self.load_errors:
            if any(name in (node_id, short_name(node_id)) for node_id in broken.nodes):
                raise broken.raised(name)
        hint = closest(name, self.nodes)
        if self.load_errors:
            files = ", ".join(sorted({broken.file for broken in self.load_errors})[:4])
            hint = f"{hint}; what could not be loaded ({files}) is not among them: `barca list` says why"
        raise SelectionError(f"there is no node `{name}`", code="unknown_target", remediation=hint)


def short_name(node_id: NodeId) -> str:
    """The function's name in a node id; of a function inside another, without the outer one."""
    return node_id.rpartition(":")[2].rpartition("<locals>.")[2]


def names_of(ids: Sequence[NodeId]) -> dict[NodeId, str]:
    """What each node is called beside the others: the function's name, or the id where two share it."""
    short = [short_name(node_id) for node_id in ids]
    return {
        node_id: name if short.count(name) == 1 else node_id for node_id, name in zip(ids, short, strict=True)
    }


def closest(name: str, nodes: Iterable[NodeId]) -> str:
    """A hint that names the node somebody may have meant by an id or a name that no node has.

    An id whose function stands in another file now means that one.
    """
    ids = list(nodes)
    short = short_name(name)
    moved = [node_id for node_id in ids if short_name(node_id) == short and short != name]
    if moved:
        return f"did you mean {' or '.join(f'`{node_id}`' for node_id in moved)}? the file may have moved"
    return did_you_mean(name, dict.fromkeys(short_name(node_id) for node_id in ids))


def misfit(nodes: Sequence[NodeId], error: DefinitionError, root: str) -> BrokenFile:
    """The load error of nodes that do not fit to others, which names files relative to the root."""
    file = shown_file(error.file or "", root)
    fields: dict[str, Any] = {**error.fields(), "file": file}
    cause = DefinitionError(error.message, **fields)
    return BrokenFile(file, tuple(nodes), f"DefinitionError: {cause}", "", cause=cause)


def shown_file(file: str, root: str) -> str:
    """A file relative to the root, where it is below it."""
    return file.removeprefix(f"{root}/") if root else file


def lost_with(node_id: NodeId, file: str, source: NodeId, cause: BrokenFile) -> BrokenFile:
    """The load error of a node, of a file, that reads a node which could not be loaded."""
    own = node_id.rpartition(":")[0]
    reason = cause.error.rpartition(_NOT_LOADED)[2]
    return BrokenFile(
        file=own if own.endswith(".py") else file,
        nodes=(node_id,),
        error=f"LoadError: it reads `{source}`{_NOT_LOADED}{reason}",
        traceback=cause.traceback,
        culprit=cause.culprit or cause.file,
    )

"""Building the graph: resolving inputs and checking that the pieces fit."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from barca.errors import DefinitionError, UsageError
from barca.graph.nodes import (
    BrokenFile,
    Edge,
    EdgeMode,
    Graph,
    Node,
    closest,
    lost_with,
    misfit,
    short_name,
    shown_file,
)
from barca.model import Collect, Definition, Partitions, PartitionsFrom
from barca.records import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca._typing import NodeId


def build_graph(
    definitions: Sequence[tuple[NodeId, Definition[..., Any]]],
    load_errors: Sequence[BrokenFile] = (),
    root: str = "",
) -> Graph:
    """The graph of the definitions.

    A node that does not fit is lost: two nodes have its id, an input of it does not exist or does not fit, a
    parameter is filled by nothing, or it reads itself in a circle. So is one that reads a lost node, or a
    node of a file that failed to load. Each becomes a load error, and the rest is the graph.

    Args:
        definitions: Every node with its id.
        load_errors: Files that failed to load.
        root: Project root, which errors name files relative to.
    """
    draft = _Draft(definitions, load_errors, root)
    draft.settle()
    gives: dict[NodeId, dict[str, None]] = {}
    for node in draft.nodes.values():
        if node.keys_from is not None and not draft.nodes[node.keys_from].partitioned:
            gives.setdefault(node.keys_from, {}).update(dict.fromkeys(node.dimensions))
    nodes = {
        node_id: replace(node, gives=tuple(gives.get(node_id, ()))) for node_id, node in draft.nodes.items()
    }
    return Graph(nodes, tuple(draft.errors))


class _Draft:
    """A graph in the making: nodes that fit, in topological order, and what is lost.

    Attributes:
        nodes: Nodes that fit, inputs before their readers.
        errors: What is lost, and why.
    """

    def __init__(
        self,
        definitions: Sequence[tuple[NodeId, Definition[..., Any]]],
        load_errors: Sequence[BrokenFile],
        root: str,
    ) -> None:
        self.nodes: dict[NodeId, Node] = {}
        self.errors = list(load_errors)
        self._root = root
        self._lost = {node_id: broken for broken in load_errors for node_id in broken.nodes}
        self._by_id: dict[NodeId, Definition[..., Any]] = {}
        self._add(definitions)
        names = {id(definition): node_id for node_id, definition in definitions}
        self._resolver = _Resolver(self._by_id, names, self._lost)
        self._sources: dict[NodeId, list[NodeId]] = {}
        for node_id in self._by_id:
            try:
                self._sources[node_id] = self._resolver.sources(node_id)
            except DefinitionError as error:
                self._lose([node_id], error)

    def _add(self, definitions: Sequence[tuple[NodeId, Definition[..., Any]]]) -> None:
        """Take the definitions, but for those that share an id."""
        sharing: dict[NodeId, dict[int, Definition[..., Any]]] = {}
        for node_id, definition in definitions:
            sharing.setdefault(node_id, {})[id(definition)] = definition
        self._by_id.update((node_id, next(iter(same.values()))) for node_id, same in sharing.items())
        for node_id, same in sharing.items():
            if len(same) == 1:
                continue
            places = [f"{self._shown(each.file)}:{each.line}" for each in same.values()]
            error = DefinitionError(
                f"{'two' if len(places) == 2 else len(places)} nodes are called `{node_id}`: "
                f"{', '.join(places[:-1])} and {places[-1]}",
                code="duplicate_node",
                node=node_id,
                file=list(same.values())[-1].file,
                line=list(same.values())[-1].line,
                remediation="give one of them another function name, or a name=",
            )
            self._lose([node_id], error)

    def settle(self) -> None:
        """Make every node that fits, in topological order, stable in the order declared."""
        done: set[NodeId] = set()
        for start in self._by_id:
            stack: list[tuple[NodeId, bool]] = [(start, False)]
            path: list[NodeId] = []
            while stack:
                node_id, finished = stack.pop()
                if finished:
                    path.pop()
                    done.add(node_id)
                    self._make(node_id)
                elif node_id in path:
                    self._lose_circle([*path[path.index(node_id) :], node_id])
                elif node_id not in done:
                    path.append(node_id)
                    stack.append((node_id, True))
                    sources = self._sources.get(node_id, ())
                    stack += [(source, False) for source in reversed(sources) if source in self._by_id]

    def _make(self, node_id: NodeId) -> None:
        """A node whose sources are settled, unless it, or one of them, is lost."""
        if node_id in self._lost:
            return
        definition = self._by_id[node_id]
        cause = next((source for source in self._sources[node_id] if source in self._lost), None)
        if cause is not None:
            file = self._shown(definition.file)
            self._lost[node_id] = broken = lost_with(node_id, file, cause, self._lost[cause])
            self.errors.append(broken)
            return
        try:
            node = self._resolver.node(node_id)
            _check_shape(node, self.nodes)
        except DefinitionError as error:
            self._lose([node_id], error)
        else:
            self.nodes[node_id] = node

    def _lose_circle(self, circle: Sequence[NodeId]) -> None:
        definition = self._by_id[circle[0]]
        error = DefinitionError(
            "nodes read each other in a circle: " + " <- ".join(f"`{step}`" for step in circle),
            code="cycle",
            node=circle[0],
            file=definition.file,
            line=definition.line,
            remediation="remove one of these inputs",
        )
        self._lose(list(dict.fromkeys(circle)), error)

    def _lose(self, node_ids: Sequence[NodeId], error: DefinitionError) -> None:
        """Record a mistake that costs the nodes."""
        lost = [node_id for node_id in node_ids if node_id not in self._lost]
        if lost:
            broken = misfit(lost, error, self._root)
            self._lost.update(dict.fromkeys(lost, broken))
            self.errors.append(broken)

    def _shown(self, file: str) -> str:
        return shown_file(file, self._root)


class _Resolver:
    """Resolves what decorators recorded into node ids and edges."""

    def __init__(
        self,
        by_id: Mapping[NodeId, Definition[..., Any]],
        names: Mapping[int, NodeId],
        lost: Mapping[NodeId, BrokenFile],
    ) -> None:
        self._by_id = by_id
        self._names = names
        places: dict[tuple[str, str], list[NodeId]] = {}
        for node_id, definition in by_id.items():
            places.setdefault(_place(definition), []).append(node_id)
        # functions that one factory made share a place, which then says nothing
        self._by_place = {place: found[0] for place, found in places.items() if len(found) == 1}
        self._lost = lost

    def resolve(self, node_id: NodeId, ref: Definition[..., Any] | NodeId) -> NodeId:
        """The id of an input of `node_id`: by object, by place in a file (a module imported twice), by id."""
        definition = self._by_id[node_id]
        if isinstance(ref, Definition):
            found = self._names.get(id(ref)) or self._by_place.get(_place(ref))
            name = ref.name or ref.function.__qualname__
        else:
            known = [*self._by_id, *self._lost]
            same_file = f"{node_id.rpartition(':')[0]}:{ref}"
            by_name = [other for other in known if short_name(other) == ref]
            found = next((choice for choice in (ref, same_file) if choice in known), None)
            found = found or (by_name[0] if len(by_name) == 1 else None)
            name = ref
        if found is not None:
            return found
        raise DefinitionError(
            f"`{short_name(node_id)}` reads `{name}`, which is not a node of this project",
            code="unknown_input",
            node=node_id,
            file=definition.file,
            line=definition.line,
            remediation=closest(name, self._by_id),
        )

    def sources(self, node_id: NodeId) -> list[NodeId]:
        """Every node that `node_id` reads, in the order declared."""
        definition = self._by_id[node_id]
        refs = [ref.source if isinstance(ref, Collect) else ref for ref in definition.inputs.values()]
        refs += [
            declared.source
            for declared in definition.partitions.values()
            if isinstance(declared, PartitionsFrom)
        ]
        return list(dict.fromkeys(self.resolve(node_id, ref) for ref in refs))

    def node(self, node_id: NodeId) -> Node:
        """The node with its edges; what its decorator alone can tell has been checked there."""
        definition = self._by_id[node_id]
        dimensions = tuple(definition.partitions)
        derived = {
            name: self.resolve(node_id, declared.source)
            for name, declared in definition.partitions.items()
            if isinstance(declared, PartitionsFrom)
        }
        explicit = {
            name: declared
            for name, declared in definition.partitions.items()
            if isinstance(declared, Partitions)
        }
        keys_from = next(iter(derived.values()), None)
        edges = self._edges(node_id, definition, dimensions, keys_from)
        return Node(node_id, definition, dimensions, edges, keys_from, explicit)

    def _edges(
        self,
        node_id: NodeId,
        definition: Definition[..., Any],
        dimensions: tuple[str, ...],
        keys_from: NodeId | None,
    ) -> tuple[Edge, ...]:
        parameters = _parameters(definition)
        edges: dict[str, Edge] = {}
        for parameter, ref in definition.inputs.items():
            source = self.resolve(node_id, ref.source if isinstance(ref, Collect) else ref)
            mode = self._mode(node_id, dimensions, parameter, source, ref, keys_from)
            edges[parameter] = Edge(parameter, source, mode)
        if keys_from is not None and all(
            edge.source != keys_from or edge.mode == "collect" for edge in edges.values()
        ):
            name = short_name(keys_from)
            partitioned = bool(self._by_id[keys_from].partitions)
            passed = name in parameters and name not in edges and name not in dimensions
            # an input the function does not take still decides what its keys are computed from
            label = name if passed else f"({name})"
            edges[label] = Edge(label, keys_from, "same_key" if partitioned else "keyed", passed)
        self._check_parameters(node_id, parameters, dimensions, edges)
        return tuple(edges[name] for name in sorted(edges))

    def _mode(
        self,
        node_id: NodeId,
        dimensions: tuple[str, ...],
        parameter: str,
        source: NodeId,
        ref: object,
        keys_from: NodeId | None,
    ) -> EdgeMode:
        upstream = self._by_id[source]
        name = short_name(source)
        if isinstance(ref, Collect):
            if not upstream.partitions:
                raise self._error(
                    node_id,
                    f"collect({name}): `{name}` is not partitioned, it has one result",
                    f'write inputs={{"{parameter}": {name}}}',
                )
            return "collect"
        if source == keys_from and not upstream.partitions:
            return "keyed"
        if not upstream.partitions:
            return "whole"
        if set(upstream.partitions) == set(dimensions):
            return "same_key"
        raise self._error(
            node_id,
            f"`{short_name(node_id)}` reads `{name}` as `{parameter}`, but `{name}` has a result for each "
            f"{', '.join(upstream.partitions)}",
            f'read every key as one input with inputs={{"{parameter}": collect({name})}}, or run once per '
            f'key with partitions={{"{next(iter(upstream.partitions))}": partitions_from({name})}}',
        )

    def _check_parameters(
        self,
        node_id: NodeId,
        parameters: Mapping[str, inspect.Parameter],
        dimensions: tuple[str, ...],
        edges: Mapping[str, Edge],
    ) -> None:
        filled = {*dimensions, *(name for name, edge in edges.items() if edge.passed)}
        for name, parameter in parameters.items():
            variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            if name not in filled and not variadic and parameter.default is parameter.empty:
                raise self._error(
                    node_id,
                    f"nothing fills the parameter `{name}` of `{short_name(node_id)}`",
                    f'name its input: inputs={{"{name}": ...}}, make it a dimension in partitions=, or give '
                    "it a default",
                )

    def _error(self, node_id: NodeId, message: str, remediation: str) -> UsageError:
        definition = self._by_id[node_id]
        return DefinitionError(
            message, node=node_id, file=definition.file, line=definition.line, remediation=remediation
        )


def _place(definition: Definition[..., Any]) -> tuple[str, str]:
    return definition.file, definition.function.__qualname__


def _parameters(definition: Definition[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(definition.function).parameters


def _check_shape(node: Node, nodes: Mapping[NodeId, Node]) -> None:
    """Rules that need the source's dimensions."""
    if node.keys_from is None or not nodes[node.keys_from].partitioned:
        return
    source = nodes[node.keys_from]
    if source.dimensions == node.dimensions:
        return
    message = f"`{source.id}` has {len(source.dimensions)} dimensions; partitions_from(...) takes one"
    remediation = "declare the dimensions with partitions([...]) on both nodes"
    if len(source.dimensions) == 1:
        mine, theirs = node.dimensions[0], source.dimensions[0]
        message = f"`{mine}` takes its keys from `{source.id}`, whose dimension is `{theirs}`"
        remediation = f"call the dimension (and the parameter) `{theirs}`"
    definition = node.definition
    raise DefinitionError(
        message, node=node.id, file=definition.file, line=definition.line, remediation=remediation
    )

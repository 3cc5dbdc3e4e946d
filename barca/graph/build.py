"""Building the graph: resolving inputs and checking that the pieces fit."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from barca.errors import DefinitionError, UsageError, did_you_mean
from barca.graph.nodes import BrokenFile, Edge, EdgeMode, Graph, Node, lost_with, short_name
from barca.model import Collect, Definition, Partitions, PartitionsFrom

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca._typing import NodeId


def build_graph(
    definitions: Sequence[tuple[NodeId, Definition[..., Any]]],
    load_errors: Sequence[BrokenFile] = (),
) -> Graph:
    """The graph of the definitions.

    A node that reads a node of a file that failed to load is lost with that file: it becomes a load error
    of its own, and so does what reads it.

    Raises:
        DefinitionError: Two nodes have one id, an input does not exist or does not fit, a parameter is
            filled by nothing, or nodes read each other in a circle.
    """
    by_id = _by_id(definitions)
    names = {id(definition): node_id for node_id, definition in definitions}
    lost = {node_id: broken for broken in load_errors for node_id in broken.nodes}
    errors = list(load_errors)
    resolver = _Resolver(by_id, names, lost)
    nodes: dict[NodeId, Node] = {}
    for node_id in _ordered(by_id, resolver, lost, errors):
        nodes[node_id] = resolver.node(node_id)
    gives: dict[NodeId, dict[str, None]] = {}
    for node in nodes.values():
        if node.keys_from is not None and not nodes[node.keys_from].partitioned:
            gives.setdefault(node.keys_from, {}).update(dict.fromkeys(node.dimensions))
    nodes = {node_id: replace(node, gives=tuple(gives.get(node_id, ()))) for node_id, node in nodes.items()}
    _check_shapes(nodes)
    return Graph(nodes, tuple(errors))


def _by_id(definitions: Sequence[tuple[NodeId, Definition[..., Any]]]) -> dict[NodeId, Definition[..., Any]]:
    by_id: dict[NodeId, Definition[..., Any]] = {}
    for node_id, definition in definitions:
        other = by_id.get(node_id)
        if other is not None and other is not definition:
            raise DefinitionError(
                f"two nodes are called `{node_id}`: {other.file}:{other.line} and "
                f"{definition.file}:{definition.line}",
                code="duplicate_node",
                node=node_id,
                file=definition.file,
                line=definition.line,
                remediation="give one of them another function name, or a name=",
            )
        by_id[node_id] = definition
    return by_id


def _ordered(
    by_id: Mapping[NodeId, Definition[..., Any]],
    resolver: _Resolver,
    lost: dict[NodeId, BrokenFile],
    errors: list[BrokenFile],
) -> list[NodeId]:
    """Node ids in topological order, without those that read a lost node; stable in declared order."""
    order: list[NodeId] = []
    done: set[NodeId] = set()
    for start in by_id:
        stack: list[tuple[NodeId, bool]] = [(start, False)]
        path: list[NodeId] = []
        while stack:
            node_id, finished = stack.pop()
            if finished:
                path.pop()
                done.add(node_id)
                _settle(node_id, by_id, resolver, lost, errors, order)
                continue
            if node_id in done:
                continue
            if node_id in path:
                circle = [*path[path.index(node_id) :], node_id]
                raise DefinitionError(
                    "nodes read each other in a circle: " + " <- ".join(f"`{step}`" for step in circle),
                    code="cycle",
                    node=node_id,
                    file=by_id[node_id].file,
                    line=by_id[node_id].line,
                    remediation="remove one of these inputs",
                )
            path.append(node_id)
            stack.append((node_id, True))
            stack += [(source, False) for source in reversed(resolver.sources(node_id)) if source in by_id]
    return order


def _settle(
    node_id: NodeId,
    by_id: Mapping[NodeId, Definition[..., Any]],
    resolver: _Resolver,
    lost: dict[NodeId, BrokenFile],
    errors: list[BrokenFile],
    order: list[NodeId],
) -> None:
    cause = next((source for source in resolver.sources(node_id) if source in lost), None)
    if cause is None:
        order.append(node_id)
        return
    broken = lost_with(node_id, by_id[node_id].file, cause, lost[cause])
    lost[node_id] = broken
    errors.append(broken)


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
            remediation=did_you_mean(name, (short_name(other) for other in self._by_id)),
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
        """The node with its edges, parameters checked."""
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
        if derived and len(dimensions) > 1:
            raise self._error(
                node_id,
                "partitions_from(...) must be the only dimension of a node; "
                f"`{short_name(node_id)}` has {', '.join(f'`{name}`' for name in dimensions)}",
                "use one partitions_from(...), or declare every dimension with partitions([...])",
            )
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
        catches_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        filled = {*dimensions, *(name for name, edge in edges.items() if edge.passed)}
        for name in filled:
            if name not in parameters and not catches_all:
                what = "dimension" if name in dimensions else "input"
                raise self._error(
                    node_id,
                    f"the {what} `{name}` is not a parameter of `{short_name(node_id)}`",
                    f"add the parameter `{name}`, or rename the {what}: {did_you_mean(name, parameters)}",
                )
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


def _check_shapes(nodes: Mapping[NodeId, Node]) -> None:
    """Rules that need the sources' dimensions."""
    for node in nodes.values():
        if node.keys_from is None or not nodes[node.keys_from].partitioned:
            continue
        source = nodes[node.keys_from]
        if source.dimensions == node.dimensions:
            continue
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

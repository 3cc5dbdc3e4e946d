"""Evaluating the expressions in `partitions(...)` and `batches(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from barca.discovery.broken import broken_expression, broken_node
from barca.errors import DefinitionError
from barca.model import Batches, Deferred
from barca.partitions import normalise_groups, normalise_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barca._typing import NodeId
    from barca.graph import BrokenFile, Graph, Node

Groups: TypeAlias = "tuple[tuple[Any, ...], ...]"


def evaluate_partitions(
    graph: Graph, nodes: Iterable[NodeId] | None = None
) -> tuple[dict[tuple[NodeId, str], tuple[str, ...]], list[BrokenFile]]:
    """The declared keys of every node with explicit dimensions; each expression is evaluated once.

    Args:
        graph: The project.
        nodes: Only these; `None` is every node.

    Returns:
        Node and dimension to its keys, and a load error for each node with an expression that raised or
        gave something else than keys. `graph.without(errors)` leaves out those nodes and their readers.
    """
    wanted = graph.nodes if nodes is None else nodes
    keys: dict[tuple[NodeId, str], tuple[str, ...]] = {}
    errors: list[BrokenFile] = []
    evaluated: dict[int, tuple[str, ...] | BaseException] = {}
    for node_id in wanted:
        for dimension, declared in graph.nodes[node_id].explicit.items():
            values = declared.values
            if not isinstance(values, Deferred):
                keys[node_id, dimension] = values
                continue
            outcome = evaluated.get(id(values))
            if outcome is None:
                outcome = evaluated[id(values)] = _evaluate(values)
            if isinstance(outcome, tuple):
                keys[node_id, dimension] = outcome
            else:
                errors.append(broken_expression(node_id, values, outcome))
    return keys, errors


def _evaluate(deferred: Deferred) -> tuple[str, ...] | BaseException:
    try:
        return normalise_keys(deferred.evaluate())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code: also SystemExit, and panics of native extensions
        return error


def evaluate_groups(
    graph: Graph, nodes: Iterable[NodeId] | None = None
) -> tuple[dict[NodeId, Groups], list[BrokenFile]]:
    """The groups of every node with `batches(...)`, in the form of `partitions.normalise_groups`.

    Args:
        graph: The project.
        nodes: Only these; `None` is every node.

    Returns:
        Node to its groups, and a load error for each node whose expression raised, or gave something else
        than groups of keys that the node can have.
    """
    groups: dict[NodeId, Groups] = {}
    errors: list[BrokenFile] = []
    for node_id in graph.nodes if nodes is None else nodes:
        node = graph.nodes[node_id]
        batch = node.definition.batch
        if not isinstance(batch, Batches):
            continue
        try:
            declared = batch.groups
            evaluated = normalise_groups(declared.evaluate()) if isinstance(declared, Deferred) else declared
            _check_dimensions(node, evaluated)
            groups[node_id] = evaluated
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # user code, as above
            declared = batch.groups
            errors.append(
                broken_expression(node_id, declared, error, "batches")
                if isinstance(declared, Deferred)
                else broken_node(node, error)
            )
    return groups, errors


def _check_dimensions(node: Node, groups: Groups) -> None:
    """Make sure that the keys of groups have the node's dimensions.

    Raises:
        DefinitionError: One has not.
    """
    names = sorted(node.dimensions)
    for group in groups:
        for key in group:
            if [name for name, _ in key] == names if isinstance(key, tuple) else len(names) == 1:
                continue
            shape = ", ".join(f'"{name}": ...' for name in node.dimensions)
            raise DefinitionError(
                f"the key `{key}` in batches(...) is no key of `{node.id}`, whose dimensions are "
                f"{', '.join(f'`{name}`' for name in node.dimensions)}",
                code="batch",
                node=node.id,
                file=node.definition.file,
                line=node.definition.line,
                remediation=f"write each key as {{{shape}}}"
                if len(names) > 1
                else "write each key as a string",
            )

"""Evaluating the expressions in `partitions(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barca.discovery.broken import broken_expression
from barca.model import Deferred
from barca.partitions import normalise_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barca._typing import NodeId
    from barca.graph import BrokenFile, Graph


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

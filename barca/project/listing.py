"""The nodes of a project, and what of it does not load, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.discovery import evaluate_groups, evaluate_partitions
from barca.graph import names_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barca._typing import NodeId
    from barca.graph import Graph


def listing(graph: Graph) -> dict[str, Any]:
    """Every node and every load error, as JSON-writable values."""
    _, without_keys = evaluate_partitions(graph)
    _, without_groups = evaluate_groups(graph)
    graph = graph.without([*without_keys, *without_groups])
    nodes = [
        {
            "id": node.id,
            "kind": node.kind,
            "freshness": repr(node.definition.freshness) if node.definition.freshness else None,
            "partitions": list(node.dimensions),
            "inputs": [edge.source for edge in node.edges],
            "env": list(node.definition.env),
            "description": node.definition.description,
        }
        for node in graph.nodes.values()
    ]
    errors = [error.to_dict() for error in graph.load_errors]
    return {"nodes": nodes, "load_errors": errors, "total": len(nodes)}


def outline(graph: Graph, targets: Iterable[NodeId]) -> dict[str, Any]:
    """The targets and what they read, as JSON-writable values: `nodes`, inputs first, and `edges`."""
    cone = graph.upstream(targets)
    names = names_of(cone)
    nodes = [
        {
            "id": node_id,
            "name": names[node_id],
            "kind": graph.nodes[node_id].kind,
            "partitions": list(graph.nodes[node_id].dimensions),
        }
        for node_id in cone
    ]
    edges = [
        {"source": edge.source, "target": node_id, "mode": edge.mode}
        for node_id in cone
        for edge in graph.nodes[node_id].edges
    ]
    return {"nodes": nodes, "edges": edges}

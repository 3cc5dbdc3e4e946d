"""What a selection does to nodes: narrow their keys, or leave them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca._typing import NodeId
    from barca.graph import Graph


def skipped_nodes(
    graph: Graph, cone: tuple[NodeId, ...], selection: Mapping[str, object]
) -> dict[NodeId, str]:
    """Nodes of the cone that a selection leaves out, each with what it reads that is narrowed.

    A node that reads every key of a narrowed node would compute something else from the selected keys
    alone; it is skipped, and so is everything below it.
    """
    narrowed: set[NodeId] = set()
    skipped: dict[NodeId, str] = {}
    for node_id in cone:
        node = graph.nodes[node_id]
        for edge in node.edges:
            if edge.source in skipped:
                skipped[node_id] = f"reads `{edge.source}`, which the selection skips"
            elif edge.mode == "collect" and edge.source in narrowed:
                skipped[node_id] = f"reads every key of `{edge.source}`"
        if node_id not in skipped and any(name in selection for name in node.dimensions):
            narrowed.add(node_id)
    return skipped

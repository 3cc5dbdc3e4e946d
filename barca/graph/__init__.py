"""The frozen graph: nodes, the edges between them, and finding nodes by what people write.

`build_graph` resolves every input to a node and checks that the pieces fit: each parameter is filled, each
partitioned input is read key for key or through `collect`, nothing runs in a circle.
"""

from __future__ import annotations

from barca.graph.build import build_graph
from barca.graph.nodes import (
    BrokenFile,
    Edge,
    EdgeMode,
    Graph,
    Node,
    misfit,
    names_of,
    short_name,
    shown_file,
)

__all__ = [
    "BrokenFile",
    "Edge",
    "EdgeMode",
    "Graph",
    "Node",
    "build_graph",
    "misfit",
    "names_of",
    "short_name",
    "shown_file",
]

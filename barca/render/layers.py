"""Placing the nodes of a graph in layers, from left to right, with few crossings."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SWEEPS: Final = 4


class Layers(Record):
    """Nodes and bends of edges by layer.

    Attributes:
        layers: Per layer the nodes in it, from top to bottom; a bend is an `(edge, layer)`.
        routes: Per edge what it goes through, from its source to its target.
    """

    layers: Sequence[Sequence[object]]
    routes: Sequence[Sequence[object]]


def place(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Layers:
    """Layers of a graph without cycles: each node right of all that it reads, edges bent in layers between.

    Args:
        nodes: Names, what is read before its readers.
        edges: Source and target, both among the nodes.
    """
    ranks = _ranks(nodes, edges)
    routes: list[list[object]] = []
    layers: list[list[object]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for node in nodes:
        layers[ranks[node]].append(node)
    for number, (source, target) in enumerate(edges):
        bends = [(number, layer) for layer in range(ranks[source] + 1, ranks[target])]
        for bend in bends:
            layers[bend[1]].append(bend)
        routes.append([source, *bends, target])
    before: dict[object, list[object]] = {}
    after: dict[object, list[object]] = {}
    for route in routes:
        for one, other in pairwise(route):
            before.setdefault(other, []).append(one)
            after.setdefault(one, []).append(other)
    for _ in range(_SWEEPS):
        for layer, above in zip(layers[1:], layers, strict=False):
            _order(layer, above, before)
        for layer, below in zip(layers[-2::-1], layers[:0:-1], strict=True):
            _order(layer, below, after)
    return Layers(layers, routes)


def _ranks(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The length of the longest path that ends in each node."""
    sources: dict[str, list[str]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
    ranks: dict[str, int] = {}
    for node in nodes:
        ranks[node] = max((ranks[source] + 1 for source in sources.get(node, ())), default=0)
    return ranks


def _order(layer: list[object], beside: Sequence[object], linked: Mapping[object, Sequence[object]]) -> None:
    """Sort a layer by where the neighbours of each entry stand on average in the layer beside it."""
    places = {entry: number for number, entry in enumerate(beside)}
    wanted: dict[object, float] = {}
    for number, entry in enumerate(layer):
        found = [places[other] for other in linked.get(entry, ()) if other in places]
        wanted[entry] = sum(found) / len(found) if found else number
    layer.sort(key=wanted.__getitem__)

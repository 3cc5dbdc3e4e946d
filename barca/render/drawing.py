"""The graph of a project as SVG, as Mermaid, and as a tree of lines."""

from __future__ import annotations

import html
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from barca.render.layers import place
from barca.render.text import safe, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FILLS: Final = {"sensor": "#ddf4ff", "asset": "#f6f8fa", "task": "#fff8c5"}
_INK: Final = "#24292f"
_QUIET: Final = "#6e7781"

_CHARACTER: Final = 7.3
_HEIGHT: Final = 40.0
_ROW: Final = 58.0
_GAP: Final = 56.0
_MARGIN: Final = 8.0

_MERMAID: Final = {"sensor": ("([", "])"), "asset": ("[", "]"), "task": ("[[", "]]")}
_EDGES: Final = {"collect": "every key", "keyed": "keys"}


def details(node: Mapping[str, Any]) -> str:
    """What a node is, in few words: `asset, by shop`."""
    by = f", by {', '.join(node['partitions'])}" if node["partitions"] else ""
    return f"{node['kind']}{by}"


# --- SVG --------------------------------------------------------------------------------------------


def svg(outline: Mapping[str, Any], colours: Mapping[str, str] | None = None) -> str:
    """The graph as an SVG element, complete in itself.

    Args:
        outline: `nodes` and `edges`, as `barca graph --json` gives them.
        colours: By node id, the colour of its border.
    """
    nodes = {node["id"]: node for node in outline["nodes"]}
    edges = [(edge["source"], edge["target"]) for edge in outline["edges"]]
    found = place(list(nodes), edges)
    widths = {node_id: _width(node) for node_id, node in nodes.items()}
    spots, size = _spots(found.layers, widths)
    parts = [_line([spots[stop] for stop in route]) for route in found.routes]
    parts += [
        _box(node, spots[node_id], (colours or {}).get(node_id, _QUIET)) for node_id, node in nodes.items()
    ]
    width, height = (f"{number:.0f}" for number in size)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" font-family="ui-monospace, monospace" font-size="12" '
        f'style="max-width:100%;height:auto"><title>{len(nodes)} nodes</title>{"".join(parts)}</svg>'
    )


def _width(node: Mapping[str, Any]) -> float:
    return max(_cells(safe(node["name"])), 0.85 * _cells(safe(details(node)))) * _CHARACTER + 20


def _cells(text: str) -> int:
    """Columns that a text takes in a font of one width."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _spots(
    layers: Sequence[Sequence[object]], widths: Mapping[str, float]
) -> tuple[dict[object, tuple[float, float, float]], tuple[float, float]]:
    """The left edge, the middle and the width of each entry of the layers, and the size of all."""
    tallest = max(map(len, layers), default=0)
    spots: dict[object, tuple[float, float, float]] = {}
    left = _MARGIN
    for layer in layers:
        wide = max(widths.get(str(entry), 0.0) for entry in layer)
        top = _MARGIN + (tallest - len(layer)) * _ROW / 2
        for row, entry in enumerate(layer):
            spots[entry] = (left, top + row * _ROW + _ROW / 2, widths.get(str(entry), wide))
        left += wide + _GAP
    return spots, (max(left - _GAP, 0.0) + _MARGIN, tallest * _ROW + 2 * _MARGIN)


def _line(stops: Sequence[tuple[float, float, float]]) -> str:
    """A curve from the right of its first stop to an arrow at the left of its last."""
    left, middle, width = stops[0]
    x, y = left + width, middle
    path = [f"M{x:.1f} {y:.1f}"]
    for number, (left, middle, width) in enumerate(stops[1:], 1):
        last = number == len(stops) - 1
        end = left - (7 if last else 0)
        bend = (x + end) / 2
        path.append(f"C{bend:.1f} {y:.1f} {bend:.1f} {middle:.1f} {end:.1f} {middle:.1f}")
        x, y = end, middle
        if not last:
            x += width
            path.append(f"H{x:.1f}")
    arrow = f"{x + 7:.1f},{y:.1f} {x:.1f},{y - 4:.1f} {x:.1f},{y + 4:.1f}"
    return (
        f'<path d="{" ".join(path)}" fill="none" stroke="{_QUIET}"/>'
        f'<polygon points="{arrow}" fill="{_QUIET}"/>'
    )


def _box(node: Mapping[str, Any], spot: tuple[float, float, float], colour: str) -> str:
    left, middle, width = spot
    fill = _FILLS.get(node["kind"], _FILLS["asset"])
    return (
        f"<g><title>{_escaped(node['id'])}</title>"
        f'<rect x="{left:.1f}" y="{middle - _HEIGHT / 2:.1f}" width="{width:.1f}" height="{_HEIGHT:.1f}" '
        f'rx="6" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'
        f'<text x="{left + 10:.1f}" y="{middle - 3:.1f}" fill="{_INK}">{_escaped(node["name"])}</text>'
        f'<text x="{left + 10:.1f}" y="{middle + 12:.1f}" fill="{_QUIET}" font-size="10">'
        f"{_escaped(details(node))}</text></g>"
    )


def _escaped(text: object) -> str:
    return html.escape(safe(text))


# --- Mermaid ----------------------------------------------------------------------------------------


def mermaid(outline: Mapping[str, Any]) -> str:
    """The graph as a Mermaid flowchart."""
    names = {node["id"]: f"n{number}" for number, node in enumerate(outline["nodes"])}
    lines = ["flowchart LR"]
    for node in outline["nodes"]:
        begin, end = _MERMAID.get(node["kind"], _MERMAID["asset"])
        label = f"{_entities(node['name'])}<br/>{_entities(details(node))}"
        lines.append(f'    {names[node["id"]]}{begin}"{label}"{end}')
    for edge in outline["edges"]:
        label = f"|{_EDGES[edge['mode']]}|" if edge["mode"] in _EDGES else ""
        lines.append(f"    {names[edge['source']]} -->{label} {names[edge['target']]}")
    return "\n".join(lines) + "\n"


def _entities(text: object) -> str:
    """Text that means nothing to Mermaid: everything but letters, digits and a few marks by its number."""
    return "".join(
        character if character.isalnum() or character in " _.,:/-" else f"#{ord(character)};"
        for character in safe(text)
    )


# --- text -------------------------------------------------------------------------------------------


def tree(outline: Mapping[str, Any], width: int) -> list[str]:
    """The graph as lines: what nobody reads at the left, below each node what it reads.

    Args:
        outline: `nodes` and `edges`.
        width: Characters of a line at most.
    """
    nodes = {node["id"]: node for node in outline["nodes"]}
    reads: dict[str, list[str]] = {node_id: [] for node_id in nodes}
    for edge in outline["edges"]:
        if edge["source"] not in reads[edge["target"]]:
            reads[edge["target"]].append(edge["source"])
    read = {source for sources in reads.values() for source in sources}
    told: set[str] = set()
    lines: list[str] = []
    for root in nodes:
        if root not in read:
            lines += _branch(root, nodes, reads, told)
    return [shorten(line, width) for line in lines]


def _branch(
    root: str, nodes: Mapping[str, Mapping[str, Any]], reads: Mapping[str, Sequence[str]], told: set[str]
) -> Iterator[str]:
    """A node and what it reads; what stands further up already is named only. Depth knows no limit."""
    waiting: list[tuple[str, str, str]] = [(root, "", "")]
    while waiting:
        node_id, head, indent = waiting.pop()
        node = nodes[node_id]
        known = node_id in told and bool(reads[node_id])
        yield f"{head}{safe(node['name'])} ({safe(details(node))}{', see above' if known else ''})"
        if known:
            continue
        told.add(node_id)
        sources = reads[node_id]
        for number, source in reversed(list(enumerate(sources))):
            last = number == len(sources) - 1
            branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
            waiting.append((source, indent + branch, indent + below))

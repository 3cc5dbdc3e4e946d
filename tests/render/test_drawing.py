"""The graph as SVG, Mermaid and a tree: placed without overlaps, escaped, within its frame."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barca.render.drawing import mermaid, svg, tree
from barca.render.layers import place

NASTY = 'a"<b>&\x1b[31m`#;]|'


def outline(edges, *more):
    names = sorted({name for edge in edges for name in edge} | set(more))
    return {
        "nodes": [
            {
                "id": f"p.py:{name}",
                "name": name,
                "kind": "asset",
                "partitions": ["shop"] if name > "m" else [],
            }
            for name in names
        ],
        "edges": [{"source": f"p.py:{a}", "target": f"p.py:{b}", "mode": "whole"} for a, b in edges],
    }


SHOP = {
    "nodes": [
        {"id": "p.py:versions", "name": "versions", "kind": "sensor", "partitions": []},
        {"id": "p.py:cleaned", "name": "cleaned", "kind": "asset", "partitions": ["shop", "week"]},
        {"id": f"p.py:{NASTY}", "name": NASTY, "kind": "asset", "partitions": []},
        {"id": "p.py:report", "name": "report", "kind": "task", "partitions": []},
    ],
    "edges": [
        {"source": "p.py:versions", "target": "p.py:cleaned", "mode": "keyed"},
        {"source": "p.py:cleaned", "target": f"p.py:{NASTY}", "mode": "collect"},
        {"source": f"p.py:{NASTY}", "target": "p.py:report", "mode": "whole"},
        {"source": "p.py:versions", "target": "p.py:report", "mode": "whole"},
    ],
}

edges = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25).map(
    lambda pairs: [(f"n{min(pair)}", f"n{max(pair)}") for pair in pairs if pair[0] != pair[1]]
)


def parsed(text):
    return ET.fromstring(text)


def tag(element, name):
    return element.iter(f"{{http://www.w3.org/2000/svg}}{name}")


@given(edges)
def test_readers_stand_right_of_what_they_read_and_nothing_twice(pairs):
    names = [node["id"] for node in outline(pairs)["nodes"]]
    links = [(f"p.py:{a}", f"p.py:{b}") for a, b in pairs]
    found = place(names, links)
    layer_of = {entry: number for number, layer in enumerate(found.layers) for entry in layer}
    assert sorted(entry for entry in layer_of if isinstance(entry, str)) == names
    assert sum(map(len, found.layers)) == len(layer_of)
    for (source, target), route in zip(links, found.routes, strict=True):
        assert (route[0], route[-1]) == (source, target)
        assert [layer_of[stop] for stop in route] == list(range(layer_of[source], layer_of[target] + 1))


@given(edges)
def test_boxes_lie_in_the_frame_and_never_on_each_other(pairs):
    drawn = parsed(svg(outline(pairs, "alone")))
    _, _, width, height = map(float, drawn.get("viewBox").split())
    boxes = [
        tuple(float(box.get(name)) for name in ("x", "y", "width", "height")) for box in tag(drawn, "rect")
    ]
    for x, y, wide, high in boxes:
        assert x >= 0 and y >= 0 and x + wide <= width + 1 and y + high <= height
    for number, (x, y, wide, high) in enumerate(boxes):
        for x2, y2, wide2, high2 in boxes[number + 1 :]:
            assert x + wide <= x2 or x2 + wide2 <= x or y + high <= y2 or y2 + high2 <= y


def test_crossings_are_undone():
    crossed = [("a", "y"), ("b", "x"), ("a", "y2"), ("b", "x2")]
    layers = place(["a", "b", "x", "x2", "y", "y2"], crossed).layers
    assert list(layers[1]) == ["y", "y2", "x", "x2"]


def test_svg(snapshot):
    assert svg(SHOP, {"p.py:cleaned": "#cf222e"}).replace("><", ">\n<") == snapshot


def test_text_from_outside_is_escaped_everywhere():
    drawn = svg(SHOP)
    assert "<b>" not in drawn and "\x1b" not in drawn
    assert NASTY.replace("\x1b", "\\x1b") in [element.text for element in tag(parsed(drawn), "text")]
    written = mermaid(SHOP)
    assert "\x1b" not in written and "<b>" not in written and '""' not in written
    for line in written.splitlines():
        assert line.count('"') in (0, 2)
    assert "\x1b" not in "".join(tree(SHOP, 100))


def test_mermaid(snapshot):
    assert mermaid(SHOP) == snapshot


@pytest.mark.parametrize("width", [30, 60, 100, 200])
def test_tree(snapshot, width):
    lines = tree(SHOP, width)
    assert max(map(len, lines)) <= width
    assert "\n".join(lines) == snapshot


def test_what_was_told_above_is_named_only():
    lines = tree(outline([("a", "b"), ("b", "c"), ("b", "d"), ("c", "e"), ("d", "e")]), 100)
    assert sum("see above" in line for line in lines) == 1
    assert sum(re.search(r"\ba \(", line) is not None for line in lines) == 1


def test_a_long_chain_and_an_empty_graph():
    chain = [(f"n{number:04}", f"n{number + 1:04}") for number in range(3000)]
    assert len(tree(outline(chain), 100)) == 3001
    empty = {"nodes": [], "edges": []}
    assert tree(empty, 80) == [] and mermaid(empty) == "flowchart LR\n" and parsed(svg(empty)) is not None

"""What Polars leaves open is said wherever frames are used: the engine of a query, the order after a join."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "barca"
COLLECTS = {"collect", "collect_all", "sink_batches", "sink_csv", "sink_ipc", "sink_ndjson", "sink_parquet"}
JOINED_BY = {"on", "how", "left_on"}


def unsaid(source: str) -> Iterator[str]:
    """Calls by line whose engine or order is left to Polars."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        given = {keyword.arg for keyword in node.keywords}
        if node.func.attr in COLLECTS and "engine" not in given:
            yield f"{node.lineno}: {node.func.attr} without engine="
        if node.func.attr == "join" and given & JOINED_BY and "maintain_order" not in given:
            yield f"{node.lineno}: join without maintain_order="


def test_engines_and_orders_are_named():
    """Streaming sums floats otherwise each time, and a join gives rows in any order."""
    found = {str(path): list(unsaid(path.read_text())) for path in PACKAGE.rglob("*.py")}
    assert {path: calls for path, calls in found.items() if calls} == {}


def test_what_would_be_found():
    assert list(
        unsaid(
            "a.join(b, on='k')\nquery.collect()\n','.join(names)\nc.join(d, on='k', maintain_order='left')"
        )
    ) == [
        "1: join without maintain_order=",
        "2: collect without engine=",
    ]

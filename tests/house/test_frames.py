"""What Polars leaves open is said wherever frames are used: the engine of a query, the order after a join."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("module", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_engines_and_orders_are_named(module: Path):
    """Streaming sums floats otherwise each time, and a join gives rows in any order."""
    assert list(unsaid(module.read_text())) == []


def test_what_would_be_found():
    assert list(
        unsaid(
            "a.join(b, on='k')\nquery.collect()\n','.join(names)\nc.join(d, on='k', maintain_order='left')"
        )
    ) == [
        "1: join without maintain_order=",
        "2: collect without engine=",
    ]

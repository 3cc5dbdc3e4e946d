"""A graph: cones, names, and leaving out what could not be loaded."""

from __future__ import annotations

from typing import Any

import pytest

from barca import asset
from barca.errors import LoadError, SelectionError
from barca.graph import BrokenFile, Graph, build_graph, short_name
from barca.model import Definition


def node(**inputs: str) -> Definition[..., Any]:
    return asset(inputs=inputs)(lambda **inputs: inputs)


@pytest.fixture
def graph() -> Graph:
    """a -> b -> c, and d alone; `name` stands in two files."""
    return build_graph(
        [
            ("p.py:c", node(b="p.py:b")),
            ("p.py:b", node(a="p.py:a")),
            ("p.py:a", node()),
            ("p.py:d", node()),
            ("p.py:name", node()),
            ("q.py:name", node()),
        ],
        [BrokenFile("r.py", ("r.py:lost",), "ValueError: boom", "trace")],
    )


def test_cones(graph: Graph):
    assert graph.upstream(["p.py:b"]) == ("p.py:a", "p.py:b")
    assert graph.downstream(["p.py:b"]) == ("p.py:b", "p.py:c")
    assert graph.upstream([]) == graph.downstream([]) == ()


def test_find(graph: Graph):
    assert graph.find("p.py:a") == graph.find("a") == "p.py:a"
    with pytest.raises(SelectionError) as caught:
        graph.find("name")
    assert "`p.py:name`, `q.py:name`" in caught.value.remediation
    with pytest.raises(SelectionError) as caught:
        graph.find("nome")
    assert "did you mean `name`?" in caught.value.remediation


@pytest.mark.parametrize("name", ["lost", "r.py:lost"])
def test_finding_what_could_not_be_loaded_says_why(graph: Graph, name: str):
    with pytest.raises(LoadError, match="ValueError: boom") as caught:
        graph.find(name)
    assert (caught.value.file, caught.value.traceback) == ("r.py", "trace")


def test_without(graph: Graph):
    left = graph.without([BrokenFile("p.py", ("p.py:b",), "ValueError: late", "trace")])
    assert list(left.nodes) == ["p.py:a", "p.py:d", "p.py:name", "q.py:name"]
    assert [error.nodes for error in left.load_errors] == [("r.py:lost",), ("p.py:b",), ("p.py:c",)]
    assert (
        left.load_errors[2].error
        == "LoadError: it reads `p.py:b`, which could not be loaded: ValueError: late"
    )
    with pytest.raises(LoadError):
        left.find("c")
    assert graph.without([]) == graph


def test_short_names():
    assert short_name("pkg/p.py:scored") == "scored"
    assert short_name("p.py:make.<locals>.scored") == "scored"
    assert short_name("my.dataset") == "my.dataset"

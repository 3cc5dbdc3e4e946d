"""Expressions in `partitions(...)` and `batches(...)`: put off, evaluated once, and only when needed."""

from __future__ import annotations

import pytest

from barca.discovery import discover, evaluate_partitions
from barca.model import Batches, Deferred

COUNTED = """
calls = []
def keys(name="keys"):
    calls.append(name)
    return ["a", "b"]
"""


def keys_of(project) -> dict[str, tuple[str, ...]]:
    graph = discover(project.root)
    assert not graph.load_errors, graph.load_errors
    keys, errors = evaluate_partitions(graph)
    assert not errors, errors
    return {node.rpartition(":")[2]: found for (node, _), found in keys.items()}


def calls(project) -> list[str]:
    """What the project's `counted` module noted."""
    return discover(project.root).nodes["p.py:calls"].definition()


@pytest.fixture
def counted(project):
    project.write("counted.py", COUNTED)
    return project


def write(project, text: str) -> None:
    head = "from counted import keys\nimport counted\nfrom barca import asset as calls_asset\n"
    tail = "\n@calls_asset\ndef calls():\n    return counted.calls\n"
    path = project.write("p.py", text)
    path.write_text(head + path.read_text() + tail)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("from barca import partitions", "partitions"),
        ("from barca import partitions as p", "p"),
        ("import barca", "barca.partitions"),
        ("import barca as b", "b.partitions"),
        ("from barca.partitions import partitions as made", "made"),
        ("import barca.model", "barca.partitions"),
        ("try:\n            import barca as b\n        finally: pass", "b.partitions"),
        ("from barca import *", "partitions"),
    ],
)
def test_every_import_style_puts_the_expression_off(counted, header: str, name: str):
    write(
        counted,
        f"""
        {header}
        from barca import asset
        @asset(partitions={{"k": {name}(keys())}})
        def one(k): ...
        """,
    )
    definition = discover(counted.root).nodes["p.py:one"].definition
    assert isinstance(definition.partitions["k"].values, Deferred)
    assert calls(counted) == []
    assert keys_of(counted) == {"one": ("a", "b")}
    assert calls(counted) == ["keys"]


def test_one_expression_is_evaluated_once_a_module(counted):
    write(
        counted,
        """
        from barca import asset, partitions, partitions_from
        @asset(partitions={"k": partitions(keys())})
        def one(k): ...
        @asset(partitions={"k": partitions(keys()), "m": partitions(keys("m"))})
        def two(k, m): ...
        @asset(partitions={"k": partitions_from(one)})
        def three(k): ...
        """,
    )
    graph = discover(counted.root)
    assert [len(evaluate_partitions(graph)[0]) for _ in range(3)] == [3, 3, 3]
    assert calls(counted) == ["keys", "m"]


def test_only_what_is_asked_for_is_evaluated(counted):
    write(
        counted,
        """
        from barca import asset, partitions
        @asset(partitions={"k": partitions(keys("one"))})
        def one(k): ...
        @asset(partitions={"k": partitions(keys("two"))})
        def two(k): ...
        """,
    )
    graph = discover(counted.root)
    assert evaluate_partitions(graph, ["p.py:two"])[0] == {("p.py:two", "k"): ("a", "b")}
    assert calls(counted) == ["two"]


def test_factories_keep_their_own_values(project):
    project.write(
        "p.py",
        """
        from barca import asset, partitions
        def make(names):
            suffix = "!"
            @asset(partitions={"k": partitions([name + suffix for name in names])})
            def inner(k): ...
            return inner
        a = make(["x"])
        b = make(["y", "z"])
        """,
    )
    assert keys_of(project) == {"a": ("x!",), "b": ("y!", "z!")}


def test_loops_keep_each_rounds_values(project):
    project.write(
        "p.py",
        """
        from barca import asset, partitions
        made = []
        for n in (1, 2):
            @asset(name=f"loop{n}", partitions={"k": partitions(range(n))})
            def inner(k): ...
            made.append(inner)
        more = [
            asset(name=f"list{n}", partitions={"k": partitions(range(n))})(lambda k: k) for n in (1, 2)
        ]
        def factory():
            for n in (1, 2):
                yield asset(name=f"gen{n}", partitions={"k": partitions(range(n))})(lambda k: k)
        rest = list(factory())
        """,
    )
    expected = {f"{kind}{n}": tuple(map(str, range(n))) for kind in ("loop", "list", "gen") for n in (1, 2)}
    assert keys_of(project) == expected


def test_class_bodies_see_their_own_names(project):
    project.write(
        "p.py",
        """
        from barca import asset, partitions
        class Space:
            NAMES = ["a"]
            @staticmethod
            def make(extra):
                @asset(partitions={"k": partitions(Space.NAMES + extra)})
                def inner(k): ...
                return inner
            held = asset(partitions={"k": partitions(NAMES + ["b"])})(lambda k: k)
        one = Space.held
        two = Space.make(["c"])
        """,
    )
    assert keys_of(project) == {"one": ("a", "b"), "two": ("a", "c")}


def test_what_is_literal_stays_literal(project):
    project.write(
        "p.py",
        """
        from barca import asset, partitions
        @asset(partitions={"k": partitions(["a", 2, "c"])})
        def listed(k): ...
        @asset(partitions={"k": partitions(("a", "b"))})
        def paired(k): ...
        """,
    )
    nodes = discover(project.root).nodes
    assert nodes["p.py:listed"].explicit["k"].values == ("a", "2", "c")
    assert nodes["p.py:paired"].explicit["k"].values == ("a", "b")


def test_names_of_others_are_left_alone(project):
    project.write(
        "p.py",
        """
        from barca import asset, batches
        def partitions(values):
            return list(values)
        made = partitions(str(n) for n in range(2))
        @asset
        def reader():
            return made
        """,
    )
    assert discover(project.root).nodes["p.py:reader"].definition() == ["0", "1"]


def test_expressions_that_bind_are_evaluated_at_once(project):
    project.write(
        "p.py",
        """
        from barca import asset, partitions
        @asset(partitions={"k": partitions(bound := ["a"] + ["b"])})
        def one(k): ...
        @asset(partitions={"k": partitions(bound)})
        def two(k): ...
        """,
    )
    assert keys_of(project) == {"one": ("a", "b"), "two": ("a", "b")}


def test_groups_are_put_off_too(counted):
    write(
        counted,
        """
        from barca import asset, batches, partitions
        @asset(partitions={"k": partitions(["a", "b"])}, batch=batches([keys()], strict=True))
        def one(k: list[str]): ...
        @asset(partitions={"k": partitions(["a", "b"])}, batch=batches([["a"], ["b"]]))
        def two(k: list[str]): ...
        """,
    )
    nodes = discover(counted.root).nodes
    batch = nodes["p.py:one"].definition.batch
    assert isinstance(batch.groups, Deferred)
    assert batch.strict is True
    assert nodes["p.py:two"].definition.batch == Batches((("a",), ("b",)))
    assert calls(counted) == []
    assert batch.groups.evaluate() == [["a", "b"]]


def test_edits_of_what_an_expression_reads_are_seen(counted):
    write(
        counted,
        """
        from barca import asset, partitions
        @asset(partitions={"k": partitions(keys())})
        def one(k): ...
        """,
    )
    assert keys_of(counted) == {"one": ("a", "b")}
    counted.edit("counted.py", '["a", "b"]', '["a", "c"]')
    assert keys_of(counted) == {"one": ("a", "c")}


def test_source_and_line_of_an_expression(project):
    project.write(
        "p.py",
        """
        from barca import asset, partitions
        NAMES = ["a"]
        @asset(
            partitions={
                "k": partitions(
                    NAMES
                    + ["b"]
                )
            }
        )
        def one(k): ...
        """,
    )
    deferred = discover(project.root).nodes["p.py:one"].explicit["k"].values
    assert deferred.line == 6
    assert deferred.source == "NAMES + ['b']"
    assert deferred.file == str(project.root / "p.py")

"""Sources of keys that were computed by themselves first: what reads them works all the same."""

from __future__ import annotations

import pytest

from barca import Project, asset, partitions_from, sensor


@pytest.fixture
def calls():
    return []


def declared(calls, decorator, returned):
    @decorator
    def listed():
        calls.append("listed")
        return returned

    @asset(partitions={"k": partitions_from(listed)})
    def each(k: str) -> str:
        calls.append(k)
        return k.upper()

    return listed, each


@pytest.mark.parametrize("decorator", [asset, sensor])
@pytest.mark.parametrize("returned", [{"a": 1, "b": 2}, ["a", "b"]], ids=["dict", "list"])
def test_function_objects_of_a_source_and_then_of_its_reader(project, calls, decorator, returned):
    listed, each = declared(calls, decorator, returned)
    alone = Project.of([listed], path=project.root)
    assert alone.get(listed).value == returned
    assert Project.of([each], path=project.root).plan(each).to_dict()["steps"]
    assert Project.of([each], path=project.root).get(each).value == {"k=a": "A", "k=b": "B"}
    assert calls == ["listed", "listed", "a", "b"], "once before it gave keys to others, and once after"
    assert Project.of([listed], path=project.root).get(listed).value == returned


def test_a_file_whose_reader_is_in_another_one(project):
    project.write(
        "source.py", "from barca import asset\n@asset\ndef listed() -> list:\n    return ['a', 'b']\n"
    )
    assert project.open("source.py").get("listed").value == ["a", "b"]
    project.write(
        "reader.py",
        """
        from barca import asset, partitions_from
        from source import listed

        @asset(partitions={"k": partitions_from(listed)})
        def each(k: str) -> str:
            return k.upper()
        """,
    )
    assert project.ran("each") == {"listed": 1, "each": 2}
    assert project.ran("each") == {}


def test_a_reader_that_is_there_already_is_known_to_a_source_that_runs_alone(project):
    from barca.discovery import graph_of
    from tests.project import sources

    graph = graph_of([sources.listed], sources.ROOT)
    assert list(graph.nodes) == ["tests/project/sources.py:listed"]
    assert graph.nodes["tests/project/sources.py:listed"].gives == ("k",)

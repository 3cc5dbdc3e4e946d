"""Which node reads which, as data and as the notebook shows it."""

from __future__ import annotations

import pytest

from barca.errors import SelectionError

PIPELINE = """
    from barca import asset, collect, partitions_from, sensor, task

    @sensor()
    def versions() -> dict:
        return {"r1": 1}

    @asset(partitions={"shop": partitions_from(versions)})
    def rows(shop: str, versions: int) -> int:
        return versions

    @asset(inputs={"every": collect(rows)})
    def total(every: dict) -> int:
        return sum(every.values())

    @task(inputs={"total": total})
    def report(total: int) -> None: ...
"""


def test_a_target_and_what_it_reads(project):
    project.write("pipeline.py", PIPELINE)
    found = project.open().outline("rows")
    assert found == {
        "nodes": [
            {"id": "pipeline.py:versions", "name": "versions", "kind": "sensor", "partitions": []},
            {"id": "pipeline.py:rows", "name": "rows", "kind": "asset", "partitions": ["shop"]},
        ],
        "edges": [{"source": "pipeline.py:versions", "target": "pipeline.py:rows", "mode": "keyed"}],
    }
    whole = project.open().outline()
    assert [node["name"] for node in whole["nodes"]] == ["versions", "rows", "total", "report"]
    assert [edge["mode"] for edge in whole["edges"]] == ["keyed", "collect", "whole"]
    with pytest.raises(SelectionError, match="did you mean `total`"):
        project.open().outline("totl")


def test_names_that_two_files_share_are_ids(project):
    project.write("a.py", "from barca import asset\n\n@asset\ndef x() -> int: ...\n")
    project.write("b.py", "from barca import asset\n\n@asset\ndef x() -> int: ...\n")
    assert {node["name"] for node in project.open().outline()["nodes"]} == {"a.py:x", "b.py:x"}


def test_notebooks_show_the_graph(project):
    project.write("pipeline.py", PIPELINE)
    opened = project.open()
    for shown in (opened, opened.plan("total"), opened.status(), opened.get("total")):
        assert "<svg" in shown._repr_html_() and "versions" in shown._repr_html_()
    assert "report" in opened._repr_html_() and "report" not in opened.plan("total")._repr_html_()

"""Any text is a key: declared, returned, computed, selected, read back, listed, logged, and nothing else touched."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import TemporaryProject

PIPELINE = """
    import json, pathlib
    import polars as pl
    from barca import asset, collect, partitions, partitions_from, sensor

    def keys():
        return json.loads((pathlib.Path(__file__).parent / "keys.json").read_text())

    @asset(partitions={"k": partitions(keys())})
    def declared(k: str) -> dict:
        print(f"line of {k!r}")
        return {"k": k}

    @sensor
    def source() -> dict:
        return {key: key[::-1] for key in keys()}

    @asset(partitions={"k": partitions_from(source)})
    def own(k: str, source: str) -> str:
        return source

    @asset(partitions={"k": partitions_from(own)}, batch="all")
    def table(k: list[str], own: dict) -> pl.DataFrame:
        return pl.DataFrame({"k": k, "back": [own[key] for key in k]})

    @asset(inputs={"every": collect(table)})
    def collected(every: pl.DataFrame) -> list:
        return [list(row) for row in every.sort("k").rows()]
"""

ODD = [
    "a/b", "..", ".", "/abs", "../../up", "C:\\up", 'quo"te', "'", "*", "?", "[1]", "%2F", "%", "a%25b",
    "new\nline", "\t", "\x00", "\x01", "\x7f", "é", "e\u0301", "😀", "\u202e", "ABC", "abc", "", " ", " a ",
    "a,b=c", "{", "-x", "--all", "k=a", "null", "NaN", "1", "01", "x" * 300, "é" * 130,
]  # fmt: skip


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if ".barca" not in path.parts}


def check(project: TemporaryProject, keys: list[str]) -> None:
    project.write("pipeline.py", PIPELINE)
    (project.root / "keys.json").write_text(json.dumps(keys))
    (project.root.parent / "beside").touch()
    before = tree(project.root.parent)
    result = project.get(["declared", "own", "table", "collected"])
    assert result.status == "success"
    values = result.value
    assert values["declared"] == {f"k={key}": {"k": key} for key in keys}
    assert values["own"] == {f"k={key}": key[::-1] for key in keys}
    assert {name: frame.rows() for name, frame in values["table"].items()} == {
        f"k={key}": [(key, key[::-1])] for key in keys
    }
    assert values["collected"] == sorted([key, key[::-1]] for key in keys)
    assert tree(project.root.parent) == {path for path in before if "__pycache__" not in path}
    opened = project.open()
    for key in keys[:6]:
        chosen = opened.get("table", partition={"k": key})
        assert (list(chosen.value), chosen.steps_executed) == ([f"k={key}"], 1)
    assert opened.status().to_dict()["summary"]["cached"] == 4
    steps = opened.history(result.run_id)["steps"]
    assert {step["partition_key"] for step in steps if step["node_id"].startswith("pipeline.py:own[")} == {
        f"k={key}" for key in keys
    }


def test_odd_keys(project):
    check(project, ODD)
    again = project.open()
    for key in ODD:
        assert again.get("declared", partition={"k": [key]}).value == {f"k={key}": {"k": key}}
    assert again.get("declared").steps_executed == 0


def test_odd_keys_that_fail_are_told_on_one_line(project):
    project.write(
        "pipeline.py",
        r"""
        from barca import asset, partitions
        @asset(partitions={"k": partitions(["new\nline", "\x1b[31mred"])})
        def own(k: str) -> str: raise ValueError("no")
        """,
    )
    done = project.cli("get", "own", "--partition", '{"k": "new\\nline"}', "--pretty")
    assert r"error: pipeline.py:own[k=new\nline]: ValueError: no" in done.stderr
    done = project.cli("get", "own", "--partition", "k=red", "--pretty")
    assert r"valid: `new\nline`, `\x1b[31mred`" in done.stderr
    assert (
        r"k=\x1b[31mred, k=new\nline (no result yet)"
        in project.cli("get", "--dry-run", "--pretty", env={"COLUMNS": "200"}).stdout
    )


def test_p3_names_that_collide_are_kept_apart(project):
    composed = unicodedata.normalize("NFC", "é")
    names = ["abc", "ABC", "Abc", composed, unicodedata.normalize("NFD", composed)]
    check(project, names)
    (project.root / "keys.json").write_text(json.dumps([*names, "aBC"]))
    assert project.ran("table") == {"source": 1, "own": 1, "table": 1}, "one is new, whatever it looks like"


@pytest.mark.parametrize("key", ["a" * 300, "ü" * 130])
def test_p4_long_keys(project, key):
    check(project, [key, key[:-1]])
    done = project.cli(
        "get", "own", "--partition", f"k={key}", "-o", "value", "--json", "--executor", "inline"
    )
    assert json.loads(done.stdout)["final_output"] == {f"k={key}": key}
    first = project.open().history()["runs"][-1]["run_id"]
    lines = [line["line"] for line in project.open().logs(first, step=f"declared[k={key}]")]
    assert lines == [f"line of {key!r}"]


@pytest.mark.slow
@settings(max_examples=8)
@given(
    keys=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=12, unique=True
    )
)
def test_any_texts_are_keys(keys, tmp_path_factory):
    check(TemporaryProject(tmp_path_factory.mktemp("keys") / "project"), keys)

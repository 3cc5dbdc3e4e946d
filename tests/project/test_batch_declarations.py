"""What `batch=` may be, checked when the file is read or the keys are known: always a load error of the node."""

from __future__ import annotations

import json

import pytest

from barca.errors import BarcaError

HEAD = """from collections.abc import Sequence
from barca import asset, sensor, task, partitions, partitions_from, batches, batches_by, batches_auto

KEYS = partitions(["a", "b"])

"""
OTHER = """
@asset
def other() -> int:
    return 1
"""


def declared(batch, function="def node(k: list[str]) -> dict:\n    return dict.fromkeys(k, 1)"):
    return f'@asset(partitions={{"k": KEYS}}, batch={batch})\n{function}\n'


WHEN_READ = {
    "zero": (declared("0"), ["batch=", "not the int `0`"]),
    "negative": (declared("-3"), ["batch=", "not the int `-3`"]),
    "true": (declared("True"), ["batch=", "not the bool `True`"]),
    "another word": (declared('"some"'), ["batch=", "'some'", '"all"', "batches_by"]),
    "none as a word": (declared('"none"'), ["leave batch= out"]),
    "a list": (declared('[["a"]]'), ["batches([[...], [...]])"]),
    "a function": (declared("len"), ["batches_by(function)"]),
    "an empty group": (declared('batches([["a"], []])'), ["at least one key"]),
    "a key in two groups": (declared('batches([["a"], ["a", "b"]])'), ["the key `a`", "twice"]),
    "no groups": (declared("batches(3)"), ["list of lists"]),
    "no function": (declared("batches_by(3)"), ["function of a key"]),
    "no size": (declared("batches_by(len, max_size=0)"), ["max_size", "positive"]),
    "no time": (declared("batches_auto(target_seconds=0)"), ["target_seconds"]),
    "one key": (declared('"all"', "def node(k: str) -> dict: ..."), ["`k: list[str]`", "annotated `str`"]),
    "one key as text": (declared('"all"', 'def node(k: "str") -> dict: ...'), ["`k: list[str]`"]),
    "one number": (declared("2", "def node(k: int) -> dict: ..."), ["`k: list[str]`", "`int`"]),
    "a set": (declared("2", "def node(k: set[str]) -> dict: ..."), ["`k: list[str]`", "`set[str]`"]),
    "no keys": ("@asset(batch=2)\ndef node() -> dict: ...\n", ["no partitions="]),
    "a sensor": (
        '@sensor(partitions={"k": KEYS}, batch=2)\ndef node(k: list[str]) -> dict: ...\n',
        ["no argument `batch`"],
    ),
}


@pytest.mark.parametrize("case", WHEN_READ)
def test_wrong_declarations_are_load_errors_with_node_line_and_fix(project, case):
    text, named = WHEN_READ[case]
    project.write("pipeline.py", HEAD + text + OTHER)
    with pytest.raises(BarcaError) as raised:
        project.open().get("node")
    assert (raised.value.kind, raised.value.code) == ("usage", "load_error")
    told = str(raised.value)
    assert "`node`" in told and "pipeline.py:6" in told
    for word in named:
        assert word in told
    [error] = project.open().list_nodes()["load_errors"]
    assert set(error["nodes"]) == {"pipeline.py:node", "pipeline.py:other"}, "the file does not load"
    assert "Traceback" in error["traceback"]


FIT = {
    "a list": "def node(k: list[str]) -> dict:",
    "a sequence": "def node(k: Sequence[str]) -> dict:",
    "as text": 'def node(k: "list[str]") -> dict:',
    "not annotated": "def node(k):",
}


@pytest.mark.parametrize("case", FIT)
def test_lists_of_keys_may_be_annotated_or_not(project, case):
    body = "\n    assert type(k) is list\n    return dict.fromkeys(k, 1)"
    project.write("pipeline.py", HEAD + declared('"all"', FIT[case] + body))
    assert project.get("node").value == {"k=a": 1, "k=b": 1}


LATER = {
    "groups that raise": (
        "def groups():\n    raise ValueError('no groups today')\n\n" + declared("batches(groups())"),
        ["ValueError: no groups today", "batches(groups()) at pipeline.py:9"],
    ),
    "groups that are none": (
        "GROUPS = [['a'], ['a']]\n" + declared("batches(GROUPS)"),
        ["the key `a`", "twice", "batches(GROUPS) at pipeline.py:7"],
    ),
    "groups of other keys": (
        declared('batches([[{"other": "a"}]])'),
        ["is no key of `pipeline.py:node`", "`k`", "pipeline.py:6"],
    ),
    "strict groups": (
        declared('batches([["a"]], strict=True)'),
        ["the key `k=b` of `pipeline.py:node` is in no group", "pipeline.py:6"],
    ),
    "labels that raise": (
        "def label(k):\n    return {}[k]\n\n" + declared("batches_by(label)"),
        ["raised KeyError for the key `a`", "pipeline.py:9", "return a string or an integer"],
    ),
    "labels that exit": (
        "def label(k):\n    raise SystemExit(3)\n\n" + declared("batches_by(label)"),
        ["raised SystemExit for the key `a`"],
    ),
    "labels of another type": (
        declared("batches_by(lambda k: 1.5)"),
        ["returned the float `1.5` for the key `a`", "pipeline.py:6"],
    ),
    "true as a label": (declared("batches_by(lambda k: True)"), ["returned the bool `True`"]),
}


@pytest.mark.parametrize("case", LATER)
def test_what_shows_when_keys_are_grouped_costs_its_node_only(project, case):
    text, named = LATER[case]
    project.write("pipeline.py", HEAD + text + OTHER)
    with pytest.raises(BarcaError) as raised:
        project.open().get("node")
    assert (raised.value.kind, raised.value.code) == ("usage", "load_error")
    for word in named:
        assert word in str(raised.value)
    status = project.open().status().to_dict()
    assert [node["id"] for node in status["nodes"]] == ["pipeline.py:other"]
    assert status["load_errors"][0]["nodes"] == ["pipeline.py:node"]
    found = project.open().diagnose()
    assert [error["nodes"] for error in found["load_errors"]] == [["pipeline.py:node"]]
    assert found["checks"][0] == {
        "check": "files",
        "ok": False,
        "detail": "nodes: 1 load, 1 do not",
        "kind": "usage",
    }
    assert project.get("other").value == 1
    assert project.ran() == {}, "everything that loads"


def test_a_doctor_finds_groups_that_cannot_be_made_where_nothing_else_is(project):
    project.write("pipeline.py", HEAD + LATER["strict groups"][0])
    done = project.cli("doctor", "--json")
    assert done.returncode == 2
    (error,) = json.loads(done.stdout)["load_errors"]
    assert error["nodes"] == ["pipeline.py:node"] and "`k=b`" in error["error"]
    told = project.cli("get", "node", "--pretty", env={"COLUMNS": "400"}).stderr
    assert told.count("is in no group") == told.count("drop strict=True") == 1, (
        "no code of the user was on the way"
    )


def test_strict_groups_are_about_the_keys_that_run(project):
    text, _ = LATER["strict groups"]
    project.write("pipeline.py", HEAD + text)
    assert project.get("node", partition={"k": "a"}).value == {"k=a": 1}


def test_the_traceback_of_a_label_is_the_users(project):
    text, _ = LATER["labels that raise"]
    project.write("pipeline.py", HEAD + text)
    done = project.cli("get", "node", "--json")
    assert done.returncode == 2
    error = json.loads(done.stderr.splitlines()[-1])
    assert error["node"] == "node"
    assert "return {}[k]" in error["traceback"] and "barca/" not in error["traceback"]


def test_labels_are_asked_of_keys_that_run_only(project):
    project.write(
        "pipeline.py",
        """
        import pathlib
        from barca import asset, batches_by, partitions

        def label(k):
            with open(pathlib.Path(__file__).with_name("asked.txt"), "a") as file:
                file.write(k)
            return "all"

        @asset(partitions={"k": partitions(["a", "b", "c"])}, batch=batches_by(label))
        def node(k: list[str]) -> dict:
            return dict.fromkeys(k, 1)
        """,
    )
    for selected, asked in (({"k": ["a", "c"]}, "ac"), (None, "acb"), (None, "acb")):
        project.get("node", partition=selected)
        assert (project.root / "asked.txt").read_text() == asked


def test_a_label_that_raises_once_keys_are_known_ends_the_run_after_keeping_what_ran(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, batches_by, partitions_from

        @asset
        def source() -> list:
            return ["a", "b"]

        def label(k):
            return {}[k]

        @asset(partitions={"k": partitions_from(source)}, batch=batches_by(label))
        def node(k: list[str]) -> dict: ...
        """,
    )
    with pytest.raises(BarcaError) as raised:
        project.open().get("node")
    assert raised.value.kind == "usage" and "raised KeyError" in str(raised.value)
    assert project.ran("source") == {}, "what had ended is kept"


def test_groups_are_evaluated_once_and_by_the_coordinator_only(project):
    project.write(
        "pipeline.py",
        """
        import pathlib
        from barca import asset, batches, partitions

        def groups():
            with open(pathlib.Path(__file__).with_name("asked.txt"), "a") as file:
                file.write("x")
            return [["a", "b"]]

        @asset(partitions={"k": partitions(["a", "b"])}, batch=batches(groups()))
        def node(k: list[str]) -> dict:
            return dict.fromkeys(k, len(k))
        """,
    )
    assert project.open(executor="processes").get("node").value == {"k=a": 2, "k=b": 2}
    assert (project.root / "asked.txt").read_text() == "x"

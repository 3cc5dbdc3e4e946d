"""Programs that keep a `Project` while its files are edited: what is kept under a code is of that code."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from barca import Project
from barca.discovery import function_ref, load_function, refs
from barca.errors import LoadError
from barca.fingerprint import fingerprint
from barca.records import replace

PIPELINE = """
from pathlib import Path
from barca import asset, partitions_from, sensor
from helper import raised

FACTOR = 1

@sensor
def counts() -> dict:
    return {line[0]: int(line[1:]) for line in (Path(__file__).parent / "counts.txt").read_text().split()}

@asset(partitions={"shop": partitions_from(counts)})
def scored(shop: str, counts: int) -> int:
    return raised(counts * FACTOR)
"""

HELPER = """
def raised(value):
    return value + 0
"""

EDITS = {
    "constant": ("p.py", "FACTOR = 1", "FACTOR = 100"),
    "body": ("p.py", "counts * FACTOR", "counts * FACTOR * 100"),
    "helper": ("helper.py", "value + 0", "value * 100"),
}


def write(project):
    project.write("p.py", PIPELINE)
    project.write("helper.py", HELPER)
    project.write("counts.txt", "a1 b2")


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_project_goes_on_with_the_code_that_it_imported(project, edit):
    write(project)
    before = Project(project.root, executor="inline")
    assert before.get("scored").value == {"shop=a": 1, "shop=b": 2}
    file, old, new = edit
    project.edit(file, old, new)
    project.write("counts.txt", "a1 b3")
    assert before.get("scored").value == {"shop=a": 1, "shop=b": 3}
    assert Project(project.root, executor="inline").get("scored").value == {"shop=a": 100, "shop=b": 300}
    project.edit(file, new, old)
    project.write("counts.txt", "a1 b3")
    assert Project(project.root, executor="inline").get("scored").value == {"shop=a": 1, "shop=b": 3}


@pytest.fixture
def elsewhere(monkeypatch):
    """Functions are found as a worker finds them, in files, not as the process that planned them."""
    monkeypatch.setattr(refs, "_here", {})


def planned(project):
    node = Project(project.root).graph.nodes["p.py:scored"]
    ref = function_ref(node.definition, node.id, project.root)
    return replace(ref, definition_hash=fingerprint(node.definition, root=project.root).hash)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_worker_refuses_code_that_was_not_planned(project, elsewhere, edit):
    write(project)
    ref = planned(project)
    refs._here.clear()
    assert load_function(ref)("a", 5) == 5
    project.edit(*edit)
    for _ in range(2):
        with pytest.raises(LoadError, match="is another than when the run began"):
            load_function(ref)
    project.edit(edit[0], edit[2], edit[1])
    assert load_function(ref)("a", 5) == 5


def test_an_edit_of_what_does_not_count_stops_no_run(project, elsewhere):
    write(project)
    ref = planned(project)
    refs._here.clear()
    project.edit("p.py", "counts * FACTOR)", "counts * FACTOR)  # points\n\ndef other():\n    return 1")
    project.edit("helper.py", "value + 0", "value + 0  # as it is")
    assert load_function(ref)("a", 5) == 5


def test_a_run_in_worker_processes_fails_when_a_file_was_edited(project):
    write(project)
    before = Project(project.root, executor="processes")
    assert before.get("scored").status == "success"
    project.edit(*EDITS["body"])
    project.write("counts.txt", "a1 b3")
    failed = before.get("scored")
    assert failed.status == "failed" and "is another than when the run began" in failed.error.message
    assert Project(project.root, executor="inline").get("scored").value == {"shop=a": 100, "shop=b": 300}


SCRIPT = """
import importlib
import json
import sys
from pathlib import Path

import barca
import helper
from barca import asset

FACTOR = 1

@asset
def scored() -> int:
    return helper.raised(3 * FACTOR)

def get(refresh=None) -> list:
    opened = barca.Project.of([scored], executor=sys.argv[1])
    result = opened.get("scored", refresh=refresh).to_dict("value")
    return [result["status"], result["final_output"] or result["error"], result["steps_executed"]]

if __name__ == "__main__":
    told = [get()]
    for name, old, new in json.loads(sys.argv[2]):
        path = Path(__file__).parent / name
        path.write_text(path.read_text().replace(old, new))
    told += [get(), get(refresh="scored")]
    importlib.reload(helper)
    print(json.dumps([*told, get()]))
"""


def ran(project, executor, *edits, pickled=False):
    project.write("etl.py", SCRIPT)
    project.write("helper.py", HELPER)
    program = ["-c", SCRIPT.replace("Path(__file__).parent", "Path()")] if pickled else ["etl.py"]
    done = subprocess.run(
        [sys.executable, *program, executor, json.dumps(edits)],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_script_goes_on_with_what_it_imported_until_it_imports_it_anew(project):
    edits = [("helper.py", "value + 0", "value * 100"), ("etl.py", "\nFACTOR = 1", "\nFACTOR = 7")]
    told = ran(project, "inline", *edits)
    assert told == [["success", 3, 1], ["success", 3, 0], ["success", 3, 1], ["success", 300, 1]]
    assert project.open("etl.py").get("scored").value == 2100


def test_workers_of_a_script_refuse_what_it_did_not_import(project):
    told = ran(project, "processes", ("helper.py", "value + 0", "value * 100"))
    status, error, _ = told.pop(2)
    assert status == "failed" and "is another than when the run began" in error
    assert told == [["success", 3, 1], ["success", 3, 0], ["success", 300, 1]]
    assert project.open("etl.py").get("scored").value == 300


def test_functions_that_travel_are_refused_where_what_they_use_was_edited(project):
    told = ran(project, "processes", ("helper.py", "value + 0", "value * 100"), pickled=True)
    status, error, _ = told.pop(2)
    assert status == "failed" and "a file that this program imported was edited since" in error
    assert told == [["success", 3, 1], ["success", 3, 0], ["success", 300, 1]]


def test_an_edit_of_a_comment_stops_no_worker_of_a_script(project):
    told = ran(project, "processes", ("helper.py", "value + 0", "value + 0  # as it is"))
    assert told == [["success", 3, 1], ["success", 3, 0], ["success", 3, 1], ["success", 3, 0]]

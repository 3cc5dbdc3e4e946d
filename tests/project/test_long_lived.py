"""Programs that keep a `Project` while its files are edited: what is kept under a code is of that code."""

from __future__ import annotations

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

"""The logger `barca`: what runs, garbage collection and tags tell it, and that it is silent otherwise."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from barca import events
from barca.project.log import LogListener

PIPELINE = """
    from barca import asset, partitions, Failed

    @asset(partitions={"k": partitions(["a", "b", "c"])}, batch="all", retries=2)
    def rows(k: list[str]) -> dict:
        return {key: Failed("odd") if key == "c" else 1 for key in k}

    @asset()
    def fine() -> int:
        return 1
"""


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.DEBUG, logger="barca")
    return lambda: [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "barca"]


def test_a_run_that_fails(project, records, caplog: pytest.LogCaptureFixture):
    project.write("pipeline.py", PIPELINE)
    result = project.get("rows")
    run = result.run_id
    assert [(level, text.split(" in ")[0]) for level, text in records()] == [
        ("INFO", f"run {run} of rows started"),
        ("INFO", "pipeline.py:rows: 3 keys of 3 to run"),
        ("DEBUG", "pipeline.py:rows: call b1 of 3 keys started"),
        ("DEBUG", "pipeline.py:rows: 2 keys succeeded, 0 failed"),
        ("WARNING", "pipeline.py:rows: attempt 2 of 1 key"),
        ("DEBUG", "pipeline.py:rows: call b2 of 1 key started"),
        ("DEBUG", "pipeline.py:rows: 0 keys succeeded, 1 failed"),
        ("ERROR", "pipeline.py:rows[k=c] failed: Failed: odd"),
        ("ERROR", f"run {run} ended: failed"),
    ]
    retried, failed = (r for r in caplog.records if "odd" in r.getMessage())
    assert (retried.run_id, retried.node, retried.key) == (run, "pipeline.py:rows", None)
    assert (failed.run_id, failed.node, failed.key) == (run, "pipeline.py:rows", "k=c")
    assert records()[-1][1].endswith("keys: 2 ran, 1 failed")


def test_levels_leave_out_what_is_routine(project, caplog: pytest.LogCaptureFixture):
    project.write("pipeline.py", PIPELINE)
    caplog.set_level(logging.WARNING, logger="barca")
    project.get("fine")
    assert caplog.records == []


def test_garbage_and_tags(project, records):
    project.write("pipeline.py", PIPELINE)
    project.get("fine")
    project.open().tag("x")
    project.open().untag("x")
    project.open().gc(1)
    told = [text for level, text in records() if level == "INFO"]
    assert told[3].startswith("tag x made as of 20") and told[4] == "tag x deleted"
    assert told[5] == "garbage collected: 1 result given up, 1 pack deleted, 0 packs merged"


@pytest.mark.parametrize(
    ("event", "level", "said"),
    [
        (events.Warned("100% odd"), "WARNING", "100% odd"),
        (events.Noted("%s"), "INFO", "%s"),
        (
            events.RunFinished("r", "cancelled", 1.0, {}),
            "WARNING",
            "run r ended: cancelled in 1.00 s; keys: none",
        ),
        (events.KeyFailed("n", "", "", "%d"), "ERROR", "n failed: %d"),
        (events.KeyFailed("n", "k=a\nb", "E", "1\x1b[2m"), "ERROR", r"n[k=a\nb] failed: E: 1\x1b[2m"),
    ],
)
def test_texts_are_taken_literally(records, event: Any, level: str, said: str):
    LogListener("r")(event)
    assert records() == [(level, said)]


def test_every_event_has_a_level_and_a_text(records):
    for kind in events.Event.__args__:
        fields = kind.__match_args__
        given = {"counts": {"ran": 1}, "status": "success"}
        LogListener("r")(kind(**{name: given.get(name, 1) for name in fields}))
    assert len(records()) == len(events.Event.__args__)


def test_it_is_silent_and_not_there_before_it_is_needed(project):
    project.write("pipeline.py", PIPELINE)
    script = """
import sys
import barca
assert "logging" not in sys.modules
try:
    barca.get(["rows", "fine"], executor="inline")
except barca.BarcaError:
    pass
import logging
assert [type(handler).__name__ for handler in logging.getLogger("barca").handlers] == ["NullHandler"]
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project.root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

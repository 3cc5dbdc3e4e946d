"""Reads that begin while sources run."""

import threading
from types import SimpleNamespace

import pytest

from barca.project import running
from barca.project.ahead import Ahead
from barca.project.running import Running


def test_what_was_noted_is_read_once_whether_begun_or_not():
    made = []
    ahead = Ahead[str]()
    ahead.add({"a": lambda: made.append("a") or "rows of a"})
    assert made == []
    assert (ahead.take("a"), ahead.take("a"), ahead.take("b")) == ("rows of a", None, None)
    ahead.add({"b": lambda: made.append("b") or "rows of b"})
    ahead.begin()
    ahead.begin()
    assert (ahead.take("b"), ahead.take("b")) == ("rows of b", None)
    assert made == ["a", "b"]


def test_begun_reads_go_on_beside_others():
    at_it, may_end = threading.Event(), threading.Event()

    def read():
        at_it.set()
        may_end.wait(60)
        return threading.current_thread().name

    ahead = Ahead[str]()
    ahead.add({"a": read})
    ahead.begin()
    assert at_it.wait(60)
    ahead.add({"b": lambda: "later"})
    assert ahead.take("b") == "later"
    may_end.set()
    assert ahead.take("a") != threading.current_thread().name


def test_what_reading_raises_is_told_to_who_takes_it():
    ahead = Ahead[str]()
    ahead.add({"a": lambda: 1 / 0})
    ahead.begin()
    with pytest.raises(ZeroDivisionError):
        ahead.take("a")


FLOW = """
    import pathlib
    from barca import asset, collect, partitions, partitions_from, sensor

    HERE = pathlib.Path(__file__).parent

    @sensor
    def versions() -> dict:
        (HERE / "began").touch()
        return {"a": 1, "b": 2}

    @asset(partitions={"k": partitions_from(versions)})
    def cleaned(k: str, versions: int) -> int:
        return versions

    @asset(partitions={"k": partitions_from(cleaned)})
    def scored(k: str, cleaned: int) -> int:
        return cleaned

    @sensor
    def others() -> list:
        return ["c"]

    @asset(partitions={"k": partitions_from(others)})
    def listed(k: str) -> str:
        return k

    @asset(partitions={"day": partitions(["mon"])}, inputs={"scored": collect(scored)})
    def total(day: str, scored: list) -> int:
        return sum(scored)
"""


def test_results_of_nodes_are_read_before_the_source_of_their_keys_has_run(project, monkeypatch):
    project.write("pipeline.py", FLOW)
    assert project.ran(["total", "listed"]).keys() == {
        "versions",
        "cleaned",
        "scored",
        "total",
        "others",
        "listed",
    }
    (project.root / "began").unlink()
    begun = []
    begin = Ahead.begin

    def noting(ahead):
        begun.extend((source, (project.root / "began").exists()) for source in ahead._noted)
        begin(ahead)

    monkeypatch.setattr(Ahead, "begin", noting)
    assert project.ran(["total", "listed"]) == {"versions": 1, "others": 1}
    assert sorted(begun) == [("pipeline.py:others", False), ("pipeline.py:versions", False)]


def test_a_recorded_run_has_no_idle_workers(project, monkeypatch):
    done = []
    project.write("pipeline.py", FLOW)
    make, hold = Running.make_executor, running.holdings
    own = SimpleNamespace(
        release=lambda: done.append("released"), shutdown=lambda cancel: done.append("ended")
    )
    monkeypatch.setattr(Running, "make_executor", lambda self: (make(self)[0], own))
    monkeypatch.setattr(running, "holdings", lambda *told: (done.append("recorded"), hold(*told))[1])
    assert project.get("total").status == "success"
    assert done == ["released", "recorded", "ended"]

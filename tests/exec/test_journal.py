"""When what ended is committed. The clock and the ledger are fakes."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from barca.exec.journal import Journal
from barca.model import FunctionRef, Work, WorkerDied

DIED = WorkerDied(reason="exit code 1", timed_out=False, begun=None, elapsed_seconds=0.1)


class Clock:
    time = 0.0

    def now(self):
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def monotonic(self):
        return self.time


class Writer:
    """A ledger whose commits take `seconds`."""

    def __init__(self, clock):
        self.clock, self.seconds, self.commits = clock, 0.0, 0

    def append(self, table, rows):
        pass

    def flush(self):
        self.commits += 1
        self.clock.time += self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def writer(clock):
    return Writer(clock)


@pytest.fixture
def journal(writer, clock):
    return Journal(writer, clock, lambda event: None)


def a_call(keys=1):
    return Work(
        id="w1",
        run_id="run",
        node="p.py:node",
        function=FunctionRef("p.py:node", "/"),
        batched=True,
        keys=pl.DataFrame({"key": [f"k={n}" for n in range(keys)]}),
        dimensions=("k",),
    )


def waited(journal, writer, clock, begun):
    """How long a call that ended at `begun` seconds waits for its commit, in tenths of seconds."""
    clock.time = begun
    journal.called(a_call(), DIED)
    before = writer.commits
    for tenths in range(1000):
        clock.time = begun + tenths / 10
        journal.tick()
        if writer.commits > before:
            return tenths
    raise AssertionError("it was never committed")


def test_the_longer_a_run_the_longer_what_ended_waits_up_to_five_seconds(journal, writer, clock):
    assert waited(journal, writer, clock, 0.0) == 5
    assert waited(journal, writer, clock, 0.6) == 5, "of one second a third is less"
    assert waited(journal, writer, clock, 5.9) == 5, "as long as the last commit found right"
    assert waited(journal, writer, clock, 8.0) in (21, 22), "a third of 6.4 s, when the last commit was"
    assert waited(journal, writer, clock, 1000.0) in (34, 35), "of 10.2 s"
    assert waited(journal, writer, clock, 2000.0) == 50


def test_where_commits_are_slow_there_are_few(journal, writer, clock):
    writer.seconds = 2.0
    waited(journal, writer, clock, 0.0)
    assert waited(journal, writer, clock, 3.0) == 160


def test_with_nothing_to_commit_nothing_is(journal, writer, clock):
    clock.time = 100.0
    journal.tick()
    assert writer.commits == 0


def test_much_is_committed_at_once(journal, writer, monkeypatch):
    work = a_call()
    monkeypatch.setattr("barca.exec.journal.GROUP_ROWS", 3)
    for _ in range(2):
        journal.called(work, DIED)
    journal.tick()
    assert writer.commits == 0
    journal.called(work, DIED)
    journal.tick()
    assert writer.commits == 1

"""Progress from events: bars in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from barca.events import (
    KeyFailed,
    KeysDone,
    NodePlanned,
    RunFinished,
    RunStarted,
    Warned,
    WorkStarted,
)
from barca.render.progress import ProgressListener, pace

NODE = "pipeline.py:scored"


class Clock:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def listener(clock: Clock, *, terminal: bool) -> tuple[ProgressListener, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, color_system=None)
    return ProgressListener(lambda: console, live=terminal, clock=clock), out


def events(total: int, *, step: int, each: float, clock: Clock):
    yield RunStarted("r", "scored")
    yield NodePlanned(NODE, total, total, 1)
    yield WorkStarted(NODE, "w1", total)
    for _ in range(0, total, step):
        clock.now += each
        yield KeysDone(NODE, step, 0)
    yield RunFinished("r", "success", clock.now, {"ran": total})


def test_a_short_run_is_quiet_without_a_terminal(clock):
    listening, out = listener(clock, terminal=False)
    for event in events(1000, step=100, each=0.5, clock=clock):
        listening(event)
    assert out.getvalue() == ""


def test_a_long_run_writes_a_line_now_and_then(clock):
    listening, out = listener(clock, terminal=False)
    for event in events(1000, step=10, each=1.0, clock=clock):
        listening(event)
    lines = out.getvalue().splitlines()
    assert lines == [
        "100 of 1,000 keys, 10 keys/s, about 1 m 30 s left",
        "400 of 1,000 keys, 10 keys/s, about 1 m 00 s left",
        "700 of 1,000 keys, 10 keys/s, about 30.0 s left",
        "1,000 of 1,000 keys, 10 keys/s",
    ]


def test_bars_show_pace_and_vanish(clock):
    listening, out = listener(clock, terminal=True)
    with listening:
        listening(RunStarted("r", "scored"))
        listening(NodePlanned(NODE, 200, 100, 1))
        clock.now = 2.0
        listening(KeysDone(NODE, 39, 1))
        listening._progress.refresh()
        shown = out.getvalue()
        assert "pipeline.py:scored" in shown and "40/100" in shown
        assert "20 keys/s, about 3.0 s left, 1 failed" in shown
    assert listening._progress is None


def test_cached_nodes_have_no_bar(clock):
    listening, out = listener(clock, terminal=True)
    with listening:
        listening(NodePlanned(NODE, 200, 0, 0))
    assert out.getvalue() == ""


def test_a_node_decided_again_has_one_bar_with_the_new_total(clock):
    listening, _ = listener(clock, terminal=True)
    with listening:
        listening(NodePlanned(NODE, 200, 100, 1))
        listening(NodePlanned(NODE, 200, 50, 1))
        [task] = listening._progress.tasks
        assert task.total == 50


@pytest.mark.parametrize("terminal", [True, False])
def test_failures_warnings_and_prints_are_literal_lines(clock, terminal):
    listening, out = listener(clock, terminal=terminal)
    with listening:
        listening(NodePlanned(NODE, 3, 3, 1))
        listening(KeyFailed(NODE, "retailer=r[7", "ValueError", "[red]no\x1b[2J"))
        listening(Warned("look [b]here"))
        listening(Warned("look [b]here"))
        listening.line("[bold]line\x1b[31m")
    shown = out.getvalue()
    assert "failed pipeline.py:scored[retailer=r[7]: ValueError: [red]no\\x1b[2J" in shown
    assert shown.count("warning: look [b]here") == 1
    assert "[bold]line\\x1b[31m" in shown


def test_a_long_line_is_not_broken(clock):
    listening, out = listener(clock, terminal=False)
    listening.line("x" * 500)
    assert out.getvalue() == "x" * 500 + "\n"


def test_a_closed_stream_does_not_end_the_run(clock):
    listening, out = listener(clock, terminal=False)
    out.close()
    listening.line("line")
    listening.close()


def test_pace():
    assert pace(0, 10, 1.0) == ""
    assert pace(5, 10, 0.0) == ""
    assert pace(5, 10, 2.0) == "2.5 keys/s, about 2.0 s left"
    assert pace(20_000, 20_000, 2.0) == "10,000 keys/s"
    assert pace(19_999, 20_000, 2.0) == "10,000 keys/s", "nothing to wait for"


def test_the_pace_of_a_node_is_that_since_it_began_itself(clock):
    listening, out = listener(clock, terminal=True)
    with listening:
        listening(RunStarted("r", "scored"))
        for node in ("a.py:first", NODE):
            listening(NodePlanned(node, 1000, 1000, 1))
        clock.now = 100.0  # the first node was at work so long
        listening(WorkStarted(NODE, "w1", 100))
        clock.now = 101.0
        listening(KeysDone(NODE, 100, 0))
        listening(WorkStarted(NODE, "w2", 900))
        clock.now = 102.0
        listening(KeysDone(NODE, 100, 0))
    shown = " ".join(out.getvalue().split())
    assert "100 keys/s, about 8.0 s left" in shown

"""Progress in a notebook: drawn when it is time, as HTML and as text."""

from __future__ import annotations

import pytest

from barca.events import KeysDone, NodePlanned, RunFinished, RunStarted, WorkStarted
from barca.render.notebook import NotebookProgress, notebook_progress


class Cell:
    """What is shown below a cell, and a clock that the test sets."""

    def __init__(self):
        self.now = 0.0
        self.shown = []
        self.listener = NotebookProgress(self.show, clock=lambda: self.now)

    def show(self, drawn):
        self.update(drawn)
        return self

    def update(self, drawn):
        self.shown.append((repr(drawn), drawn._repr_html_()))

    def __call__(self, now, *events):
        self.now = now
        for event in events:
            self.listener(event)


@pytest.fixture
def cell():
    made = Cell()
    made(0.0, RunStarted("r", "t"), NodePlanned("p.py:<a>", 9000, 4000, 4), NodePlanned("p.py:b", 1, 0, 0))
    made(0.0, WorkStarted("p.py:<a>", "w", 4000))
    return made


def test_nothing_is_shown_of_a_short_run(cell):
    cell(0.9, KeysDone("p.py:<a>", 4000, 0), RunFinished("r", "success", 0.9, {"ran": 4000}))
    assert cell.shown == []


def test_a_long_one_is_drawn_some_times_a_second_with_pace_and_failures(cell):
    cell(2.0, KeysDone("p.py:<a>", 1000, 0))
    cell(2.1, KeysDone("p.py:<a>", 500, 0))
    cell(4.0, KeysDone("p.py:<a>", 498, 2))
    assert [text for text, _ in cell.shown] == [
        "p.py:<a>: 1,000 of 4,000 keys 500 keys/s, about 6.0 s left",
        "p.py:<a>: 2,000 of 4,000 keys 500 keys/s, about 4.0 s left, 2 failed",
    ]
    html = cell.shown[-1][1]
    assert '<progress value="2000" max="4000">' in html and "p.py:&lt;a&gt;" in html
    assert "p.py:b" not in html, "nothing of it runs"


def test_one_line_is_left_at_its_end(cell):
    cell(2.0, KeysDone("p.py:<a>", 1000, 0))
    cell(3.0, RunFinished("r", "failed", 3.0, {"ran": 1000, "failed": 1, "cached": 0}))
    assert cell.shown[-1] == (
        "failed in 3.0 s: 1,000 ran, 1 failed",
        '<div class="barca">failed in 3.0 s: 1,000 ran, 1 failed</div>',
    )


def test_there_is_none_where_no_notebook_is():
    assert notebook_progress() is None

"""Tables of what was: runs, one run, log lines."""

from __future__ import annotations

import pytest

from barca.render.records import history_view, log_lines, run_view

WIDTHS = [60, 100, 200]


@pytest.mark.parametrize("width", WIDTHS)
def test_history(sample, draw, snapshot, width):
    assert draw(history_view(sample("history"), width), width) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
def test_one_run(sample, draw, snapshot, width):
    assert draw(run_view(sample("run"), width), width) == snapshot


def test_no_runs(draw):
    assert draw(history_view({"runs": [], "total": 0, "truncated": False}, 80), 80) == "no runs"


def test_equal_errors_are_shown_once(sample, draw):
    drawn = draw(run_view(sample("run"), 100), 100)
    assert drawn.count("Traceback") == 1
    assert "pipeline.py:scored[retailer=r2] and 1 other step:" in drawn


def test_log_lines_are_literal(sample):
    assert list(log_lines(sample("logs"))) == [
        "2026-10-23 01:50:01 pipeline.py:scored[retailer=r1] | reading [bold]r1[/bold]",
        "2026-10-23 01:50:02 pipeline.py:scored stderr | careful \\x1b[31mred",
    ]

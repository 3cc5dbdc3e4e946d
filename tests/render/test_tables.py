"""Tables of plans, results, states and nodes at narrow, usual and wide terminals."""

from __future__ import annotations

import pytest

from barca.render.explain import keys_text, merge_blocked, step_why
from barca.render.tables import (
    errors_view,
    list_view,
    outputs_view,
    phases_view,
    plan_view,
    result_view,
    status_view,
)

WIDTHS = [60, 100, 200]


@pytest.mark.parametrize("width", WIDTHS)
def test_dry_run(sample, draw, snapshot, width):
    assert draw(plan_view(sample("dry_run"), "ranked", width), width) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["result", "keys", "failed", "several"])
def test_result(sample, draw, snapshot, width, name):
    assert draw(result_view(sample(name), "scored", width), width) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["result", "keys"])
def test_outputs(sample, draw, snapshot, width, name):
    assert draw(outputs_view(sample(name)["final_output"], width), width) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
def test_status(sample, draw, snapshot, width):
    assert draw(status_view(sample("status"), width), width) == snapshot


def test_status_of_chosen_fields(sample, draw, snapshot):
    assert draw(status_view(sample("status"), 100, ["id", "cache"]), 100) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
def test_list(sample, draw, snapshot, width):
    assert draw(list_view(sample("list"), width), width) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
def test_phases(sample, draw, snapshot, width):
    assert draw(phases_view(sample("plan"), width), width) == snapshot


@pytest.mark.parametrize("width", [20, *WIDTHS])
def test_no_line_is_longer_than_the_terminal(sample, draw, width):
    drawn = draw(status_view(sample("status"), width), width)
    assert max(map(len, drawn.splitlines())) <= width


def test_a_capped_listing_says_how_many_there_are(sample, draw):
    pointer = {"_barca_artifact": {"path": "p.parquet", "format": "table", "row_offset": 0, "rows": 1}}
    drawn = draw(outputs_view({f"k={number}": pointer for number in range(1000)}, 100), 100)
    assert len(drawn.splitlines()) == 22
    assert "1,000 keys in all, 20 shown" in drawn


def test_one_key_names_the_key_and_what_changed(sample):
    step = sample("dry_run")["steps"][1]
    assert step_why(step) == (
        "9,999 of 10,000 keys cached; will run: retailer=r000010 (value pipeline.py:versions changed), "
        "1 key in 1 call (batch=all)"
    )


def test_keys_are_grouped_by_reason():
    partitions = {
        "will_run": 4,
        "will_run_keys": ["k=1", "k=2", "k=3", "k=4"],
        "changed": {"k=1": ["function"], "k=3": ["function"], "k=2": ["value a.py:v"]},
    }
    assert keys_text(partitions, "not_materialized") == (
        "k=1, k=3 (function changed); k=2 (value a.py:v changed); k=4 (no result yet)"
    )


def test_many_keys_are_counted_by_why():
    groups = [
        {
            "reason": "not_materialized",
            "changed": ["helper util.py:clean"],
            "keys": 15_702,
            "first": ["k=1", "k=2"],
        },
        {"reason": "artifact_missing", "changed": None, "keys": 2, "first": ["k=3", "k=4"]},
    ]
    assert keys_text({"will_run": 15_704, "reasons": groups}, "not_materialized") == (
        "15,702 keys: helper util.py:clean changed (k=1, k=2 and 15,700 more); "
        "2 keys: its stored result is gone (k=3, k=4)"
    )
    assert keys_text({"will_run": 2, "reasons": groups[1:]}, None) == "k=3, k=4 (its stored result is gone)"


def test_blocked_keys_of_a_node_are_one_row(sample):
    merged = merge_blocked(sample("failed")["steps"])
    assert [step["id"] for step in merged] == [
        "pipeline.py:scored", "pipeline.py:ranked", "pipeline.py:ranked", "pipeline.py:summary",
    ]  # fmt: skip
    assert merged[2]["detail"].startswith("2 keys, the first depends on")


def test_what_comes_from_outside_is_taken_literally(sample, draw):
    plain = draw(plan_view(sample("dry_run"), "[b]t\x1b[2J", 200), 200)
    assert "[red]r\\x1b[31m<b>7</b>\\u202e" in plain and "[b]t\\x1b[2J" in plain
    coloured = draw(plan_view(sample("dry_run"), "t", 200), 200, colour=True)
    assert "\x1b[31m<b>" not in coloured and "\u202e" not in coloured


def test_a_sentence_wraps_and_loses_nothing(draw):
    why = "10,330: value sold changed; 555: no result yet"
    partitions = {"will_run": 10_885, "cached": 57_624, "reasons": [], "total": 68_509}
    steps = [
        {
            "id": f"examples/grocery/pipeline.py:{name}",
            "status": "partial",
            "detail": why,
            "partitions": partitions,
        }
        for name in ("weekly", "departments")
    ]
    result = {"steps": steps, "status": "success", "run_id": "r", "phases": 1}
    for width in (80, 90, 100, 120):
        shown = draw(result_view(result, "weekly", width), width)
        words = " ".join(shown.split())
        assert all(word in words for word in why.split()), shown


def test_a_load_error_keeps_its_lines(draw):
    told = draw(
        errors_view([{"file": "a.py", "error": "UsageError: wrong\nhint: do it\x1b[2J otherwise"}]), 100
    )
    assert [line.rstrip() for line in told.splitlines()] == [
        "cannot load a.py: UsageError: wrong",
        "hint: do it\\x1b[2J otherwise",
    ]

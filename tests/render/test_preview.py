"""A look at values."""

from __future__ import annotations

import pytest

from barca.render.preview import table_preview, value_preview


@pytest.mark.parametrize("width", [60, 100, 200])
def test_table(draw, snapshot, width):
    columns = [("a", "i64"), ("long name", "str"), ("x\x1b[1m", "list(i64)")]
    rows = [(number, "v" * number * 9, [number, None]) for number in range(12)]
    assert draw(table_preview(columns, rows, 12_000, width), width) == snapshot


def test_empty_and_wide_tables(draw):
    assert "0 rows, 1 column" in draw(table_preview([("a", "i64")], [], 0, 80), 80)
    many = [(f"column_{number}", "i64") for number in range(10_000)]
    drawn = draw(table_preview(many, [tuple(range(10_000))], 1, 80), 80)
    assert "1 row, 10,000 columns" in drawn and "of them not shown" in drawn
    assert "no columns" not in drawn
    assert draw(table_preview([], [], 0, 80), 80).strip().endswith("0 rows, 0 columns")


def test_null_and_markup_are_literal(draw):
    drawn = draw(table_preview([("a", "str")], [(None,), ("[red]x[/red]",), ("null",)], None, 80), 80)
    assert "[red]x[/red]" in drawn and drawn.count("null") == 2
    assert "the first 3 rows, 1 column" in drawn


def test_values(draw):
    assert (
        draw(value_preview({"total": 3, "by": ["a"]}), 80) == '{\n  "total": 3,\n  "by": [\n    "a"\n  ]\n}'
    )
    assert draw(value_preview({1, 1}), 80) == "{1}"
    assert draw(value_preview(list(range(100))), 80).endswith("72 lines more")
    assert "\x1b" not in draw(value_preview("\x1b[2J"), 80)

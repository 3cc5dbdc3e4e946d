"""Steps that need no query: the same rows and columns as the queries give that they stand for."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest
from polars.testing import assert_frame_equal, assert_series_equal

from barca.frames import filled, same_value, sorted_by, where, without
from barca.schemas import STATE_DTYPE, TIMESTAMP

FRAME = pl.DataFrame({"key": ["a", "b", "c"], "n": [3, 1, None]})


@pytest.mark.parametrize("holds", [[True] * 3, [False] * 3, [True, None, True], [None, True, False]])
def test_rows_that_hold_are_those_of_a_filter(holds):
    mask = pl.Series(holds, dtype=pl.Boolean)
    assert_frame_equal(where(FRAME, mask), FRAME.filter(mask))
    assert where(FRAME.clear(), mask.clear()).schema == FRAME.schema


@pytest.mark.parametrize("height", [0, 1, 3])
@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("x", pl.String),
        (None, pl.String),
        (True, pl.Boolean),
        (7, pl.Int64),
        ("stale", STATE_DTYPE),
        (datetime(2024, 3, 1, 12, 30, 15, 123456, tzinfo=UTC), TIMESTAMP),
    ],
)
def test_a_column_of_one_value(value, dtype, height):
    assert_series_equal(same_value("of", value, dtype, height), pl.Series("of", [value] * height, dtype))


def test_nulls_are_filled_and_columns_left_out():
    assert filled(FRAME.get_column("n"), 0).to_list() == [3, 1, 0]
    assert filled(FRAME.get_column("key"), "z").to_list() == ["a", "b", "c"]
    assert without(FRAME, "n", "other").columns == ["key"]
    assert without(FRAME, "other").columns == ["key", "n"]


def test_sorting_what_is_sorted_changes_nothing():
    assert sorted_by(FRAME, "key") is FRAME
    assert sorted_by(FRAME.head(2), "n").get_column("key").to_list() == ["b", "a"]

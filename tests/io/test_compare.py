"""Rows added, removed and changed between two tables."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from barca.errors import UsageError
from barca.io.compare import as_rows, compare


def frame(**columns):
    return pl.DataFrame(columns)


def test_rows_are_matched_by_the_first_column_that_tells_them_apart():
    older = frame(kind=["a", "a", "b"], id=[1, 2, 3], x=[1.0, None, 3.0], tags=[["u"], [], None])
    newer = frame(id=[3, 4, 2], kind=["b", "b", "a"], x=[3.0, 4.0, None], tags=[None, ["n"], ["v"]])
    found = compare(older, newer)
    assert found.on == ("id",)
    assert found.added["id"].to_list() == [4]
    assert found.removed["id"].to_list() == [1]
    assert found.changed.to_dicts() == [{"id": 2, "tags": {"before": [], "after": ["v"]}}]
    assert found.unchanged == 1


def test_a_pair_of_columns_may_tell_rows_apart():
    older = frame(day=["mo", "mo", "tu"], shop=["x", "y", "x"], sold=[1, 1, 1])
    newer = older.with_columns(sold=pl.Series([1, 2, 1]))
    found = compare(older, newer)
    assert (found.on, found.changed.height, found.unchanged) == (("day", "shop"), 1, 2)


def test_rows_that_nothing_tells_apart_are_compared_whole_and_counted():
    older, newer = frame(x=[1.5, 1.5, 2.5, None]), frame(x=[None, 1.5, 3.5, 3.5])
    found = compare(older, newer)
    assert found.on == ()
    assert found.added["x"].to_list() == [3.5, 3.5]
    assert found.removed["x"].sort().to_list() == [1.5, 2.5]
    assert (found.changed.height, found.unchanged) == (0, 2)


def test_columns_of_one_side_and_of_other_types():
    older = frame(id=[1, 2], x=[1, 2], gone=["a", "b"])
    newer = frame(id=[1, 2], x=[1.0, 2.5], new=[dt.date(2026, 1, 1)] * 2)
    found = compare(older, newer)
    assert found.columns == {"new": "added", "gone": "removed"}
    assert found.changed.to_dicts() == [{"id": 2, "x": {"before": 2.0, "after": 2.5}}]
    mixed = compare(frame(id=["a"], x=[1]), frame(id=["a"], x=["one"]))
    assert mixed.changed.to_dicts() == [{"id": "a", "x": {"before": "1", "after": "one"}}]


def test_empty_tables():
    found = compare(frame(id=[1], x=[1]).clear(), frame(id=[1], x=[1]))
    assert (found.added.height, found.removed.height) == (1, 0)
    assert compare(pl.DataFrame(), pl.DataFrame()).unchanged == 0


def test_named_columns_must_tell_rows_apart():
    with pytest.raises(UsageError, match="several rows"):
        compare(frame(id=[1, 1], x=[1, 2]), frame(id=[1, 2], x=[1, 2]), ["id"])


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ({"b": [1], "a": None}, [{"key": "b", "value": "[1]"}, {"key": "a", "value": "null"}]),
        ([{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 2}]),
        ([1, "a"], [{"value": "1"}, {"value": '"a"'}]),
        (7, [{"value": "7"}]),
        ({}, []),
        (pl.LazyFrame({"x": [1]}), [{"x": 1}]),
    ],
)
def test_values_as_rows(value, rows):
    assert as_rows(value).to_dicts() == rows

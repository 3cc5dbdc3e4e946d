"""Bringing columns to keys: every way of doing it gives what a dict gives."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barca.lookup import absent, among, lookup, lookup_sorted

names = st.text("abcé/=\U0001f600", max_size=3)


@pytest.mark.parametrize("way", [lookup, lookup_sorted])
@given(st.dictionaries(names, st.integers(0, 9) | st.none(), max_size=40), st.lists(names, max_size=12))
def test_columns_come_to_keys_as_from_a_dict(way, held, wanted):
    table = pl.DataFrame(
        {"key": list(held), "value": list(held.values()), "other": 1},
        schema={"key": pl.String, "value": pl.Int64, "other": pl.Int64},
    ).sort("key")
    keys = pl.DataFrame({"key": wanted, "n": range(len(wanted))}, schema={"key": pl.String, "n": pl.Int64})
    found = way(keys, table, ["value"])
    assert found.columns == ["key", "n", "value"]
    assert found.rows() == [(key, n, held.get(key)) for n, key in enumerate(wanted)]


@pytest.mark.parametrize("way", [lookup, lookup_sorted])
@pytest.mark.parametrize("wanted", [["k050", "k001"], ["k050", "gone", "k050"], ["zz"], [""], []])
def test_a_few_keys_of_many(way, wanted):
    table = pl.DataFrame({"key": [f"k{n:03}" for n in range(100)], "value": range(100)})
    found = way(pl.DataFrame({"key": wanted}, schema={"key": pl.String}), table, ["value"])
    held = dict(table.iter_rows())
    assert found.rows() == [(key, held.get(key)) for key in wanted]


@given(st.lists(names, max_size=6), st.lists(names, max_size=6, unique=True))
def test_keys_that_a_table_has_and_those_that_it_lacks(wanted, held):
    keys = pl.DataFrame({"key": wanted, "n": range(len(wanted))}, schema={"key": pl.String, "n": pl.Int64})
    table = pl.DataFrame({"key": held}, schema={"key": pl.String})
    assert among(keys, table).rows() == [(key, n) for n, key in enumerate(wanted) if key in held]
    assert absent(keys, table).rows() == [(key, n) for n, key in enumerate(wanted) if key not in held]
    assert among(table, table).equals(table)
    assert absent(table, table).is_empty()

"""Fragments of many keys as one lazy table."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from barca.errors import FragmentError, InputError
from barca.io.fragments import scan_fragments
from barca.io.garbage.repack import repack
from barca.io.values import read_table
from tests.io.packing import (
    NODE,
    CountingFileStore,
    CountingMemoryStore,
    keep,
    split,
    with_dimensions,
    work_keys,
)

ONE = ("retailer",)


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    return CountingFileStore(tmp_path) if request.param == "disk" else CountingMemoryStore()


def table(names: str, start: int = 0) -> pl.DataFrame:
    """Two rows per one-letter key."""
    keys = [name for name in names for _ in range(2)]
    return pl.DataFrame({"x": range(start, start + len(keys)), "retailer": keys})


def rows(store, fragments: pl.DataFrame, dimensions=ONE) -> list[tuple]:
    lazy = scan_fragments(store, fragments, dimensions)
    found = lazy.collect(engine="in-memory")
    assert found.schema == lazy.collect_schema()
    assert sorted(lazy.collect(engine="streaming").rows()) == sorted(found.rows())
    return sorted(found.rows())


def test_dimensions_come_first_and_are_strings(store):
    fragments = split(
        store, pl.DataFrame({"x": [1, 2], "retailer": [7, 8], "y": ["a", "b"]}), work_keys("7", "8")
    )
    lazy = scan_fragments(store, fragments, ONE)
    assert lazy.collect_schema() == {"retailer": pl.String, "x": pl.Int64, "y": pl.String}
    assert rows(store, fragments) == [("7", 1, "a"), ("8", 2, "b")]


def test_the_dimension_is_there_even_if_the_user_left_it_out(store):
    fragments, _ = keep(store, [pl.DataFrame({"x": [1]}), pl.DataFrame({"x": [2]})], work_keys("a", "b"))
    assert rows(store, fragments) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("count", [10, 1000])
def test_a_table_over_any_number_of_keys_is_one_scan(store, count: int):
    names = [f"r{at}" for at in range(count)]
    fragments = split(store, pl.DataFrame({"retailer": names, "x": range(count)}), work_keys(*names))
    store.calls.clear()
    lazy = scan_fragments(store, fragments, ONE)
    assert dict(store.calls) == {"scan": 1}
    assert lazy.select(pl.len()).collect(engine="in-memory").item() == count
    half = scan_fragments(store, fragments.gather_every(2), ONE)
    assert dict(store.calls) == {"scan": 2}
    assert half.collect(engine="in-memory")["retailer"].to_list() == sorted(names)[::2]


def test_many_packs_of_one_schema_are_one_scan(store):
    parts = [split(store, table(name), work_keys(name), path=f"n/{name}.parquet") for name in "abcdef"]
    store.calls.clear()
    assert len(scan_fragments(store, pl.concat(parts), ONE).collect(engine="in-memory")) == 12
    assert dict(store.calls) == {"scan": 1}


def test_only_the_wanted_keys_of_each_pack_are_read(store):
    first = split(store, table("abc"), work_keys(*"abc"), path="n/1.parquet")
    second = split(store, table("bcd", 10), work_keys(*"bcd"), path="n/2.parquet")
    third = split(store, table("c", 20), work_keys("c"), path="n/3.parquet")
    wanted = pl.concat([first[:1], second[:1], second[2:], third])
    expected = [("a", 0), ("a", 1), ("b", 10), ("b", 11), ("c", 20), ("c", 21), ("d", 14), ("d", 15)]
    assert rows(store, wanted) == expected
    assert rows(store, wanted.reverse()) == expected


def test_more_wanted_keys_than_are_listed(store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("barca.io.scans._LISTED", 1)
    fragments = split(store, table("abc"), work_keys(*"abc"))
    assert rows(store, fragments[1:]) == [("b", 2), ("b", 3), ("c", 4), ("c", 5)]


@pytest.mark.parametrize("listed", [0, 1000])
def test_of_packs_with_several_results_of_a_key_the_wanted_ones_are_read(store, listed, monkeypatch):
    monkeypatch.setattr("barca.io.scans._LISTED", listed)
    monkeypatch.setattr("barca.io.scans._SLICED", 0)
    runs = {0: "abc", 10: "b", 20: "bc", 30: "ab", 40: "c"}
    parts = {
        start: split(store, table(names, start), work_keys(*names), path=f"n/{start}.parquet")
        for start, names in runs.items()
    }
    merged = [
        repack(store, pl.concat([parts[start].drop("dim:retailer") for start in group]), f"n/m{group[0]}")
        for group in ((0, 10, 20), (30, 40))
    ]
    moved = with_dimensions(pl.concat(merged), work_keys(*"abc"))
    assert moved["path"].n_unique() == 2

    def held(**starts: int) -> pl.DataFrame:
        was = pl.concat_str(pl.lit("n/"), pl.col("dim:retailer").replace_strict(starts), pl.lit(".parquet"))
        return moved.filter(pl.col("dim:retailer").is_in(list(starts))).filter(pl.col("was") == was)

    assert rows(store, held(a=30, b=30, c=40)) == [
        ("a", 30), ("a", 31), ("b", 32), ("b", 33), ("c", 40), ("c", 41),
    ]  # fmt: skip
    assert rows(store, held(a=0, b=10, c=40)) == [
        ("a", 0),
        ("a", 1),
        ("b", 10),
        ("b", 11),
        ("c", 40),
        ("c", 41),
    ]
    assert rows(store, held(b=20)) == [("b", 20), ("b", 21)]
    only_b = scan_fragments(store, held(a=0, b=20, c=20), ONE).filter(pl.col("retailer") == "b").select("x")
    assert only_b.collect(engine="in-memory").rows() == [(20,), (21,)]


def test_two_dimensions_are_matched_together(store):
    names = ("retailer", "month")
    keys = work_keys(("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), dimensions=names)
    given = pl.DataFrame({"retailer": ["a", "a", "b", "b"], "month": [1, 2, 1, 2], "x": [0, 1, 2, 3]})
    fragments = split(store, given, keys, names)
    assert rows(store, fragments[1:3], names) == [("a", "2", 1), ("b", "1", 2)]


def test_keys_without_rows_give_their_schema(store):
    fragments = split(store, table("a"), work_keys("a", "b"))
    lazy = scan_fragments(store, fragments.filter(pl.col("rows") == 0), ONE)
    assert lazy.collect_schema() == {"retailer": pl.String, "x": pl.Int64}
    assert lazy.collect(engine="in-memory").is_empty()


def test_f8_no_fragments_are_an_empty_table(store):
    fragments = split(store, table("a"), work_keys("a")).clear()
    assert scan_fragments(store, fragments, ONE).collect(engine="in-memory").schema == {"retailer": pl.String}


def test_schemas_that_drifted_are_one_whatever_the_order(store):
    old = split(
        store,
        pl.DataFrame({"retailer": ["a"], "gone": [1], "n": [1], "z": [None]}),
        work_keys("a"),
        path="n/1.parquet",
    )
    new = split(
        store,
        pl.DataFrame({"n": [2.5], "z": ["z"], "retailer": ["b"], "added": [True]}),
        work_keys("b"),
        path="n/2.parquet",
    )
    expected = [("a", 1.0, None, None, 1), ("b", 2.5, "z", True, None)]
    assert scan_fragments(store, pl.concat([old, new]), ONE).collect_schema().names() == [
        "retailer",
        "n",
        "z",
        "added",
        "gone",
    ]
    assert rows(store, pl.concat([old, new])) == expected
    assert rows(store, pl.concat([new, old])) == expected


def test_a_real_clash_names_the_column_and_two_keys(store):
    first = split(store, pl.DataFrame({"retailer": ["a"], "n": [1]}), work_keys("a"), path="n/1.parquet")
    second = split(store, pl.DataFrame({"retailer": ["b"], "n": ["x"]}), work_keys("b"), path="n/2.parquet")
    with pytest.raises(InputError) as caught:
        scan_fragments(store, pl.concat([first, second]), ONE)
    assert "column `n` is String for `retailer=b` and Int64 for `retailer=a`" in caught.value.message
    assert caught.value.node == NODE


def test_records_are_rows_too(store):
    values = [[{"x": 1, "y": "p"}, {"x": 2.5}], {"x": 3}, [], pl.DataFrame({"x": [9], "extra": ["e"]})]
    fragments, _ = keep(store, values, work_keys(*"abcd"))
    lazy = scan_fragments(store, fragments, ONE)
    assert lazy.collect_schema().names() == ["retailer", "x", "y", "extra"] or set(
        lazy.collect_schema().names()
    ) == {"retailer", "x", "y", "extra"}
    found = lazy.select("retailer", "x", "y", "extra").collect(engine="in-memory").sort("retailer", "x")
    assert found.rows() == [
        ("a", 1.0, "p", None),
        ("a", 2.5, None, None),
        ("b", 3.0, None, None),
        ("d", 9.0, None, "e"),
    ]
    only_empty, _ = keep(store, [[]], work_keys("c"))
    assert rows(store, only_empty) == []


def test_records_may_hold_the_key_but_nothing_else_in_its_place(store):
    fragments, _ = keep(store, [{"retailer": 1, "x": 1}, {"retailer": 2, "x": 2}], work_keys("1", "2"))
    assert rows(store, fragments) == [("1", 1), ("2", 2)]
    fragments, _ = keep(store, [{"retailer": "1"}, {"retailer": "other"}], work_keys("1", "2"))
    with pytest.raises(InputError, match="holds `other` in `retailer`, not its key") as caught:
        scan_fragments(store, fragments, ONE)
    assert caught.value.key == "retailer=2"


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        3,
        "text",
        [1, 2],
        [{"x": 1}, 2],
        [{"x": 1}, {"x": "a"}],
        [{"x": 1}, {"x": True}],
        [{"x": {"y": 1}}, {"x": 1}],
        [{"x": [1]}, {"x": 1}],
    ],
)
def test_what_is_no_table_names_the_fix(store, value):
    fragments, _ = keep(store, [value], work_keys("a"))
    with pytest.raises(InputError) as caught:
        scan_fragments(store, fragments, ONE)
    assert caught.value.remediation == f"return tables, or lists of records, from `{NODE}`"
    assert caught.value.key == "retailer=a"
    assert caught.value.node == NODE


def test_the_record_that_differs_from_those_before_it_is_told(store):
    values = [
        {"n": 1, "x": [1]},
        [{"n": 1}, {"n": 2, "x": []}],
        {"n": 3.5},
        {"n": 4, "x": {"a": 1}},
        {"x": 5},
    ]
    fragments, _ = keep(store, values, work_keys(*"abcde"))
    with pytest.raises(InputError, match="its records differ in the type of `x`") as caught:
        scan_fragments(store, fragments, ONE)
    assert caught.value.key == "retailer=d"


def test_nothing_is_read_until_it_is_queried(store, monkeypatch: pytest.MonkeyPatch):
    fragments = split(store, table("ab"), work_keys(*"ab"))

    heights = []
    collect = pl.LazyFrame.collect

    def spy(*arguments, **options):
        frame = collect(*arguments, **options)
        heights.append(frame.height)
        return frame

    monkeypatch.setattr(pl.LazyFrame, "collect", spy)
    scan_fragments(store, fragments, ONE)
    scan_fragments(store, fragments[:1], ONE)
    relation = read_table(store, fragments, "duckdb.DuckDBPyRelation", ONE).filter("x > 1")
    assert sum(heights) == 0
    assert relation.order("x").fetchall() == [("b", 2), ("b", 3)]


def test_f9_a_missing_pack_is_named(store):
    fragments = split(store, table("ab"), work_keys(*"ab"))
    store.remove([fragments["path"][0]])
    with pytest.raises(FragmentError, match="missing"):
        scan_fragments(store, fragments, ONE)


def test_a_table_over_keys_has_the_annotated_form(store):
    import duckdb
    import pandas as pd
    import pyarrow as pa
    import pyarrow.dataset as ds

    fragments = split(store, table("ab"), work_keys(*"ab"))
    expected = [("a", 0), ("a", 1), ("b", 2), ("b", 3)]
    assert read_table(store, fragments, None, ONE).collect(engine="in-memory").rows() == expected
    assert read_table(store, fragments, pl.DataFrame, ONE).rows() == expected
    relation = read_table(store, fragments, duckdb.DuckDBPyRelation, ONE)
    assert relation.order("x").fetchall() == expected
    assert relation.aggregate("retailer, sum(x)::int as x").order("retailer").fetchall() == [
        ("a", 1),
        ("b", 5),
    ]
    dataset = read_table(store, fragments, ds.Dataset, ONE)
    assert isinstance(dataset, ds.Dataset)
    assert pl.from_arrow(dataset.to_table()).rows() == expected
    assert isinstance(read_table(store, fragments, pa.Table, ONE), pa.Table)
    assert isinstance(read_table(store, fragments, pd.DataFrame, ONE), pd.DataFrame)

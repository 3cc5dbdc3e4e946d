"""Schemas that drifted, as one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest

from barca.io.unify import SchemaClash, common_type, conform, unify

A, B = pl.Enum(["a"]), pl.Enum(["b"])


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (pl.Int8, pl.Int64, pl.Int64),
        (pl.UInt8, pl.UInt32, pl.UInt32),
        (pl.UInt8, pl.Int8, pl.Int16),
        (pl.UInt64, pl.Int64, pl.Int128),
        (pl.UInt32, pl.Int64, pl.Int64),
        (pl.UInt128, pl.Int8, None),
        (pl.Float16, pl.Float32, pl.Float32),
        (pl.Int64, pl.Float32, pl.Float64),
        (pl.Decimal(10, 2), pl.Decimal(8, 4), pl.Decimal(12, 4)),
        (pl.Decimal(38, 0), pl.Decimal(38, 10), pl.Decimal(38, 10)),
        (pl.Decimal(10, 2), pl.Int64, None),
        (pl.Null, pl.List(pl.Int8), pl.List(pl.Int8)),
        (pl.Null, pl.Null, pl.Null),
        (pl.Categorical(), pl.String, pl.String),
        (A, B, pl.String),
        (A, A, A),
        (A, pl.Categorical(), pl.String),
        (pl.String, pl.Int64, None),
        (pl.String, pl.Binary, None),
        (pl.Boolean, pl.Int64, None),
        (pl.Date, pl.Datetime("us"), None),
        (pl.Datetime("ms"), pl.Datetime("us"), pl.Datetime("us")),
        (pl.Datetime("ms", "UTC"), pl.Datetime("ms"), None),
        (pl.Datetime("ms", "UTC"), pl.Datetime("ns", "UTC"), pl.Datetime("ns", "UTC")),
        (pl.Duration("ms"), pl.Duration("ns"), pl.Duration("ns")),
        (pl.List(pl.Int8), pl.List(pl.Float32), pl.List(pl.Float64)),
        (pl.List(pl.Int8), pl.List(pl.String), None),
        (pl.List(pl.Int8), pl.Int8, None),
        (pl.Array(pl.Int8, 2), pl.Array(pl.Int16, 2), pl.Array(pl.Int16, 2)),
        (pl.Array(pl.Int8, 2), pl.Array(pl.Int8, 3), pl.List(pl.Int8)),
        (pl.Array(pl.Int8, 2), pl.List(pl.Int64), pl.List(pl.Int64)),
        (pl.Struct({"x": pl.Int8}), pl.Struct({"y": pl.Int8}), pl.Struct({"x": pl.Int8, "y": pl.Int8})),
        (pl.Struct({"x": pl.Int8}), pl.Struct({"x": pl.String}), None),
        (pl.Struct({"x": pl.Int8}), pl.List(pl.Int8), None),
        (pl.Map(pl.String, pl.Int8), pl.Map(pl.String, pl.Int64), pl.Map(pl.String, pl.Int64)),
        (pl.Map(pl.String, pl.Int8), pl.Map(pl.Int8, pl.Int8), None),
    ],
    ids=str,
)
def test_types_meet_in_a_wider_one_or_nowhere(one, other, common):
    first, second = pl.Schema({"a": one})["a"], pl.Schema({"a": other})["a"]
    expected = None if common is None else pl.Schema({"a": common})["a"]
    assert common_type(first, second) == expected
    if not isinstance(expected, pl.Struct):  # whose fields keep the order of the first
        assert common_type(second, first) == expected


def test_columns_stand_in_the_order_of_the_newest():
    old = pl.Schema({"gone": pl.Int8, "b": pl.Int8, "a": pl.Null})
    new = pl.Schema({"a": pl.String, "added": pl.Float32, "b": pl.Int64})
    assert list(unify([old, new]).items()) == [
        ("a", pl.String),
        ("added", pl.Float32),
        ("b", pl.Int64),
        ("gone", pl.Int8),
    ]


def test_a_clash_names_the_column_and_both_schemas():
    schemas = [
        pl.Schema({"a": pl.String}),
        pl.Schema({"b": pl.Int8}),
        pl.Schema({"a": pl.Null}),
        pl.Schema({"a": pl.Int8}),
    ]
    with pytest.raises(SchemaClash) as caught:
        unify(schemas)
    clash = caught.value
    assert (clash.column, clash.first, clash.second, clash.types) == ("a", 3, 0, (pl.Int8, pl.String))


def test_frames_conform_at_every_level():
    old = pl.DataFrame(
        {
            "n": pl.Series([1, None], dtype=pl.Int8),
            "nulls": [None, None],
            "deep": [[{"x": 1}, None], None],
            "array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2)),
            "enum": pl.Series(["a", None], dtype=A),
            "price": [Decimal("1.5"), None],
            "at": pl.Series([dt.datetime(2026, 1, 1), None], dtype=pl.Datetime("ms")),
            "struct": [{"p": 1}, None],
        }
    )
    new = pl.DataFrame(
        {
            "extra": [True],
            "n": [2.5],
            "nulls": ["now a text"],
            "deep": [[{"y": "b", "x": 2.5}]],
            "array": [[1, 2, 3]],
            "enum": pl.Series(["b"], dtype=B),
            "price": [Decimal("1.555")],
            "at": [dt.datetime(2026, 1, 1)],
            "struct": [{"p": 1, "q": [1]}],
        }
    )
    target = unify([old.schema, new.schema])
    frames = [conform(frame.lazy(), frame.schema, target) for frame in (old, new)]
    table = pl.concat(frames, how="vertical").collect(engine="in-memory")
    assert table.schema == target
    assert table.row(0, named=True) == {
        "extra": None,
        "n": 1.0,
        "nulls": None,
        "deep": [{"y": None, "x": 1.0}, None],
        "array": [1, 2],
        "enum": "a",
        "price": Decimal("1.500"),
        "at": dt.datetime(2026, 1, 1),
        "struct": {"p": 1, "q": None},
    }
    assert table.row(1, named=True) == dict.fromkeys(target)
    assert table.row(2)[:3] == (True, 2.5, "now a text")
    assert conform(new.lazy(), target, target).collect(engine="in-memory").equals(new)

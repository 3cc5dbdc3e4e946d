"""Canonical order and digests: what a key's content is, whatever its rows' order, chunks or threads."""

from __future__ import annotations

import datetime as dt
import json
import os
import struct
import subprocess
import sys
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

from barca.io.canonical import arrange, free_name
from barca.io.digests import digest_pairs, digest_quoted, digest_rows, digest_values
from barca.io.dtypes import dtype_text

EVERY_DTYPE = pl.DataFrame(
    {
        "null": pl.Series([None, None, None], dtype=pl.Null),
        "boolean": [True, None, False],
        "int8": pl.Series([1, None, -3], dtype=pl.Int8),
        "int16": pl.Series([1, None, -3], dtype=pl.Int16),
        "int32": pl.Series([1, None, -3], dtype=pl.Int32),
        "int64": pl.Series([1, None, -3], dtype=pl.Int64),
        "int128": pl.Series([2**100, None, -(2**100)], dtype=pl.Int128),
        "uint8": pl.Series([1, None, 3], dtype=pl.UInt8),
        "uint16": pl.Series([1, None, 3], dtype=pl.UInt16),
        "uint32": pl.Series([1, None, 3], dtype=pl.UInt32),
        "uint64": pl.Series([1, None, 2**63], dtype=pl.UInt64),
        "uint128": pl.Series([1, None, 2**127], dtype=pl.UInt128),
        "float16": pl.Series([1.5, None, float("nan")], dtype=pl.Float16),
        "float32": pl.Series([1.5, None, float("inf")], dtype=pl.Float32),
        "float64": pl.Series([1.5, None, -0.0], dtype=pl.Float64),
        "decimal": pl.Series([Decimal("1.25"), None, Decimal("-3.10")], dtype=pl.Decimal(38, 2)),
        "string": ["a:1", None, ""],
        "binary": [b"\x00\xff", None, b""],
        "categorical": pl.Series(["b", None, "a"], dtype=pl.Categorical),
        "enum": pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "a"])),
        "date": [dt.date(2026, 1, 2), None, dt.date(1, 1, 1)],
        "time": [dt.time(1, 2, 3, 4), None, dt.time(0)],
        "datetime": pl.Series(
            [dt.datetime(2026, 1, 2), None, dt.datetime(1970, 1, 1)], dtype=pl.Datetime("ms")
        ),
        "zoned": pl.Series([1, None, 0], dtype=pl.Datetime("ns", "Europe/Rome")),
        "duration": pl.Series([1, None, -1], dtype=pl.Duration("us")),
        "list": [[1, 2], None, []],
        "lists": [[[1, 2], [3]], [None, []], None],
        "list_of_null": pl.Series([[None], None, []], dtype=pl.List(pl.Null)),
        "list_of_categorical": pl.Series([["x", "y"], None, ["y", None]], dtype=pl.List(pl.Categorical)),
        "list_of_structs": [[{"x": 1, "y": "a"}, None], None, []],
        "array": pl.Series([[1.0, -0.0], None, [float("nan"), None]], dtype=pl.Array(pl.Float64, 2)),
        "matrix": pl.Series([[[1, 2]], None, [[3, None]]], dtype=pl.Array(pl.Array(pl.Int8, 2), 1)),
        "empty_array": pl.Series([[], None, []], dtype=pl.Array(pl.Int8, 0)),
        "struct": [{"x": 1, "y": [{"z": "a"}]}, None, {"x": None, "y": None}],
        "struct_of_enum": pl.Series(
            [{"e": "b"}, None, {"e": None}], dtype=pl.Struct({"e": pl.Enum(["b", "a"]), "n": pl.Null})
        ),
        "map": pl.Series([{"x": 1.0, "y": -0.0}, None, {}], dtype=pl.Map(pl.String, pl.Float64)),
    }
)
"""Every type that Polars writes to Parquet, each with a null."""


def canonical(frame: pl.DataFrame) -> pl.DataFrame:
    return arrange(frame, pl.repeat(0, frame.height, dtype=pl.UInt32, eager=True))[0]


def digest(frame: pl.DataFrame) -> str:
    rows = canonical(frame)
    columns = [(name, dtype_text(dtype)) for name, dtype in rows.schema.items()]
    [only] = digest_rows(rows, [rows.height], columns)
    return only


def shuffled(frame: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    return frame.sample(fraction=1.0, shuffle=True, seed=seed)


def chunked(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows in a chunk each."""
    if frame.height < 2:
        return frame
    return pl.concat([frame.slice(at, 1) for at in range(frame.height)], rechunk=False)


# --- properties -------------------------------------------------------------------------------------

EXCLUDED = [pl.Object, pl.Struct]  # structs, which may come without fields, are in EVERY_DTYPE
FRAMES = dataframes(
    max_cols=4,
    max_size=6,
    excluded_dtypes=EXCLUDED,
    allow_null=True,
    allow_chunks=True,
    allow_time_zones=True,
)


@given(FRAMES, st.integers(0, 5))
def test_f13_a_digest_does_not_depend_on_row_order_or_chunks(frame: pl.DataFrame, seed: int):
    expected = digest(frame)
    assert digest(shuffled(frame, seed)) == expected
    assert digest(chunked(frame)) == expected
    assert digest(frame.rechunk()) == expected


@given(FRAMES, st.data())
def test_one_changed_cell_changes_the_digest(frame: pl.DataFrame, data: st.DataObject):
    usable = [name for name, dtype in frame.schema.items() if not isinstance(dtype, pl.Null)]
    if not frame.height or not usable:
        return
    name = data.draw(st.sampled_from(usable))
    row = data.draw(st.integers(0, frame.height - 1))
    column = frame.get_column(name)
    if column[row] is None:
        return
    blank = pl.int_range(frame.height, eager=True) == row
    changed = frame.with_columns(
        pl.select(pl.when(blank).then(None).otherwise(column)).to_series().cast(column.dtype).alias(name)
    )
    assert digest(changed) != digest(frame)


ALIKE = st.lists(
    st.tuples(
        st.sampled_from([None, "", "1", "1:", "~"]),
        st.sampled_from([None, [], [None], ["1"], ["1", ""], ["", "1"]]),
        st.sampled_from([None, 0.0, -0.0, float("nan"), 1.0]),
    ),
    max_size=3,
)
"""Rows of cells that are easily taken for one another."""


@given(ALIKE, ALIKE | st.none(), st.data())
def test_digests_are_equal_exactly_where_the_rows_are(one: list, other: list | None, data: st.DataObject):
    other = data.draw(st.permutations(one)) if other is None else other
    schema = {"a": pl.String, "b": pl.List(pl.String), "c": pl.Float64}
    digests = {digest(pl.DataFrame(rows, schema, orient="row")) for rows in (one, other)}
    contents = [sorted(repr((a, b, c)).replace("-0.0", "0.0") for a, b, c in rows) for rows in (one, other)]
    assert (len(digests) == 1) == (contents[0] == contents[1])


PAIRS = st.dictionaries(
    st.sampled_from(["", "a", "1", "1x1;", ":", "~"]),
    st.sampled_from([None, "", "a", "1", "1x1;:", "~", "2x0;"]),
    max_size=4,
)


PAIR = pl.Schema({"key": pl.String, "value": pl.String})


@given(PAIRS, PAIRS)
def test_digests_of_keyed_answers_are_equal_exactly_where_these_are(
    one: dict[str, str | None], other: dict[str, str | None]
):
    digests = {
        digest_pairs(pl.DataFrame(sorted(pairs.items()), PAIR, orient="row")) for pairs in (one, other)
    }
    assert (len(digests) == 1) == (one == other)


TEXTS = st.text(max_size=3) | st.sampled_from(
    ["", '"', "\\", "\x1f", "\0", "\x7f", "\x85", "\u2028", "é", '""']
)


@given(st.lists(TEXTS, max_size=5))
def test_texts_that_are_yet_to_be_quoted_have_the_digest_of_their_json(texts: list[str]):
    raw = pl.DataFrame({"key": [str(at) for at in range(len(texts))], "value": texts}, schema=PAIR)
    told = raw.with_columns(
        value=pl.Series([json.dumps(text, ensure_ascii=False) for text in texts], dtype=pl.String)
    )
    quotes_alone = told.equals(raw.with_columns(pl.format('"{}"', "value").alias("value")))
    assert digest_quoted(raw) == (digest_pairs(told) if quotes_alone else None)


@given(FRAMES)
def test_canonical_rows_are_the_same_rows(frame: pl.DataFrame):
    assert_frame_equal(canonical(frame), frame, check_row_order=False)


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.io.test_digests import EVERY_DTYPE, digest, shuffled
import polars as pl
big = pl.concat([EVERY_DTYPE] * 50).with_columns(n=pl.int_range(pl.len()))
print(pl.thread_pool_size(), digest(shuffled(big)), digest(shuffled(EVERY_DTYPE, 3)))
"""


def test_f13_a_digest_does_not_depend_on_threads_or_process(request: pytest.FixtureRequest):
    answers = []
    for threads in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(request.config.rootpath)],
            env={**os.environ, "POLARS_MAX_THREADS": threads, "PYTHONHASHSEED": threads},
            capture_output=True,
            text=True,
            check=True,
        )
        pool, *digests = done.stdout.split()
        assert pool == threads
        answers.append(digests)
    assert answers[0] == answers[1]
    assert answers[0][1] == digest(EVERY_DTYPE)


# --- cases ------------------------------------------------------------------------------------------


def test_the_digests_of_this_format_stay_what_they_are():
    """A change here is a change of the format: raise `hashing.FORMAT_VERSION`."""
    assert digest(EVERY_DTYPE) == "ceed83c66150599842d85641fe0681e8"
    assert digest(pl.DataFrame({"a": [1, 2]})) == "ff50871f043625e39ea344e064307bb5"
    assert digest(pl.DataFrame()) == "71a95c197d4f754b16999ea85f6a9e31"
    assert digest_values("json", [b"{}"]) == ["6187990a775b8836fa3c3091089be13e"]
    assert digest_values("pickle", [b"{}"]) == ["a549d002e56320272f509966ea93198b"]
    pairs = pl.DataFrame(
        {"key": ["a", "b"], "value": ["1", None]}, schema={"key": pl.String, "value": pl.String}
    )
    assert digest_pairs(pairs) == "91f485913351291edb6a9fc2b78618ca"


def test_f14_frames_that_look_alike_differ():
    alike = [
        pl.DataFrame({"a": [1, 2]}),
        pl.DataFrame({"b": [1, 2]}),
        pl.DataFrame({"a": [1, 2]}, schema={"a": pl.Int32}),
        pl.DataFrame({"a": [1, 2]}, schema={"a": pl.UInt64}),
        pl.DataFrame({"a": [1.0, 2.0]}),
        pl.DataFrame({"a": ["1", "2"]}),
        pl.DataFrame({"a": [1, 2, 2]}),
        pl.DataFrame({"a": [1, 2, None]}),
        pl.DataFrame({"a": [1]}),
        pl.DataFrame({"a": [1, 2], "A": [1, 2]}),
        pl.DataFrame({"A": [1, 2], "a": [1, 2]}),
        pl.DataFrame({"a": [""]}),
        pl.DataFrame({"a": [None]}, schema={"a": pl.String}),
        pl.DataFrame({"a": [b""]}),
        pl.DataFrame({"a": [None]}, schema={"a": pl.Null}),
        pl.DataFrame({"a": [None]}, schema={"a": pl.Int64}),
        pl.DataFrame({"a": [[[1, 2], [3]]]}),
        pl.DataFrame({"a": [[[1], [2, 3]]]}),
        pl.DataFrame({"a": [[1, 2, 3]]}),
        pl.DataFrame({"a": [[]]}, schema={"a": pl.List(pl.Int64)}),
        pl.DataFrame({"a": [None]}, schema={"a": pl.List(pl.Int64)}),
        pl.DataFrame({"a": [[None]]}, schema={"a": pl.List(pl.Int64)}),
        pl.DataFrame({"a": [["", ""]]}),
        pl.DataFrame({"a": [["1:", ""]]}),
        pl.DataFrame({"a": [[None, None]]}, schema={"a": pl.List(pl.String)}),
        pl.DataFrame({"a": [{"x": None}]}, schema={"a": pl.Struct({"x": pl.Int64})}),
        pl.DataFrame({"a": [None]}, schema={"a": pl.Struct({"x": pl.Int64})}),
        pl.DataFrame({"a": ["x", "y"], "b": ["", ""]}),
        pl.DataFrame({"a": ["x", ""], "b": ["", "y"]}),
        pl.DataFrame({"a": ["y"]}, schema={"a": pl.Categorical}),
        pl.DataFrame({"a": ["y"]}, schema={"a": pl.Enum(["y"])}),
        pl.DataFrame({"a": ["y"]}, schema={"a": pl.Enum(["y", "x"])}),
        pl.DataFrame({"a": ["y"]}, schema={"a": pl.Enum(["x", "y"])}),
        pl.DataFrame({"a": ["y"]}, schema={"a": pl.Enum(["x1", "y"])}),
        pl.DataFrame({"a": [0]}, schema={"a": pl.Datetime("us")}),
        pl.DataFrame({"a": [0]}, schema={"a": pl.Datetime("us", "UTC")}),
        pl.DataFrame({"a": [0]}, schema={"a": pl.Datetime("ms")}),
        pl.DataFrame({"a": [0]}, schema={"a": pl.Duration("ms")}),
        pl.DataFrame({"a": [Decimal("1.0")]}, schema={"a": pl.Decimal(10, 1)}),
        pl.DataFrame({"a": [Decimal("1.0")]}, schema={"a": pl.Decimal(10, 2)}),
        pl.DataFrame({"a": [[1, 2]]}, schema={"a": pl.Array(pl.Int64, 2)}),
        pl.DataFrame(),
        pl.DataFrame(height=1),
        pl.DataFrame(height=2),
    ]
    assert len({digest(frame) for frame in alike}) == len(alike)


def test_f14_one_late_cell_changes_the_digest():
    column = pl.int_range(100_000, eager=True).alias("a")
    late = column.to_frame().with_columns(
        pl.when(pl.col("a") == 99_999).then(0).otherwise(pl.col("a")).alias("a")
    )
    assert digest(column.to_frame()) != digest(late)


def test_f13_signed_zeros_and_nan_payloads_are_one_at_every_level():
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0123))[0]
    nested = pl.Struct({"x": pl.List(pl.Struct({"y": pl.Float64, "s": pl.String}))})

    def frame(zero: float, nan: float) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "flat": [zero, nan, 1.0],
                "list": [[zero, nan], None, []],
                "array": pl.Series([[zero, nan]] * 3, dtype=pl.Array(pl.Float64, 2)),
                "nested": pl.Series(
                    [{"x": [{"y": zero, "s": "a"}, None, {"y": nan, "s": "b"}]}] * 3, dtype=nested
                ),
                "map": pl.Series([{"k": zero}, None, {"k": nan}], dtype=pl.Map(pl.String, pl.Float64)),
            }
        )

    one, other = frame(0.0, float("nan")), frame(-0.0, odd_nan)
    assert digest(one) == digest(other)
    bits = pl.col("flat").reinterpret(dtype=pl.UInt64)
    assert canonical(one).select(bits).equals(canonical(other).select(bits))
    assert canonical(other)["nested"][0] == {
        "x": [{"y": 0.0, "s": "a"}, None, {"y": pytest.approx(float("nan"), nan_ok=True), "s": "b"}]
    }
    assert str(canonical(other)["nested"][0]["x"][0]["y"]) == "0.0"


def test_f13_categoricals_built_in_another_order_are_one():
    one = pl.DataFrame({"a": pl.Series(["b", "a", "c"], dtype=pl.Categorical)})
    other = pl.DataFrame({"a": pl.Series(["c", "a", "b", "zzz"], dtype=pl.Categorical).head(3)})
    assert digest(one) == digest(other)


@pytest.mark.slow
def test_f13_ten_thousand_columns_and_a_huge_cell():
    wide = pl.DataFrame({f"c{at}": [at, None, 1] for at in range(10_000)})
    assert digest(shuffled(wide)) == digest(wide)
    assert digest(wide.rename({"c9999": "other"})) != digest(wide)
    huge = pl.DataFrame({"text": ["x" * (50 << 20), "y"], "n": [1, 2]})
    assert digest(huge.reverse()) == digest(huge)


def test_a_digest_does_not_depend_on_how_many_rows_are_encoded_at_once(monkeypatch: pytest.MonkeyPatch):
    frame = pl.concat([EVERY_DTYPE] * 20)
    pairs = pl.DataFrame({"key": ["a", "bb", "cc", "é"], "value": [None, "1", "", None]})
    expected, expected_pairs = digest(frame), digest_pairs(pairs)
    quoted, escaped = (
        pairs.with_columns(value=pl.lit("é")),
        pairs.with_columns(value=pl.Series(["", "a", "b", '"'])),
    )
    expected_quoted = digest_quoted(quoted)
    monkeypatch.setattr("barca.io.digests._SLICE_BYTES", 1)
    monkeypatch.setattr("barca.io.digests._TEXT_BYTES", 1)
    monkeypatch.setattr("barca.io.digests._ROWS_AT_ONCE", 7)
    assert digest(frame) == expected
    assert digest_pairs(pairs) == digest_pairs(pl.concat([pairs[:1], pairs[1:]])) == expected_pairs
    assert digest_quoted(quoted) == digest_pairs(quoted.with_columns(value=pl.lit('"é"'))) == expected_quoted
    assert digest_quoted(escaped) is None


def test_keys_have_the_digest_of_their_own_rows():
    rows, owner = arrange(pl.DataFrame({"a": [3, 1, 2, 9]}), pl.Series([2, 0, 0, 2], dtype=pl.UInt32))
    assert rows["a"].to_list() == [1, 2, 3, 9]
    assert owner.to_list() == [0, 0, 2, 2]
    columns = [("a", "int64")]
    assert digest_rows(rows, [2, 0, 2], columns) == [
        digest(pl.DataFrame({"a": [2, 1]})),
        digest(pl.DataFrame({"a": []}, schema={"a": pl.Int64})),
        digest(pl.DataFrame({"a": [3, 9]})),
    ]


def test_rows_are_sorted_by_every_column_nulls_first():
    frame = pl.DataFrame({"b": [1, 1, None, 1], "a": ["x", None, "z", "a"]})
    assert canonical(frame).rows() == [(None, "z"), (1, None), (1, "a"), (1, "x")]


def test_digests_of_other_formats_differ_from_one_another():
    assert digest_values("json", [b'"a"']) != digest_values("pickle", [b'"a"'])
    pairs = pl.DataFrame({"key": ["a"], "value": ["1"]})
    digests = {
        digest_pairs(pairs),
        digest_pairs(pairs.with_columns(value=pl.lit("2"))),
        digest_pairs(pairs.with_columns(value=pl.lit(None, dtype=pl.String))),
        digest_pairs(pl.DataFrame({"key": ["a1"], "value": [""]})),
        digest_pairs(pl.DataFrame({"key": ["", "a"], "value": ["1", ""]})),
        digest_pairs(pl.DataFrame({"key": ["a", ""], "value": ["1", ""]})),
        digest_pairs(pl.DataFrame({"key": ["a"], "value": ["1x1;:"]})),
        digest_pairs(pairs.clear()),
    }
    assert len(digests) == 8


def test_extensions_are_digested_by_name_and_storage():
    class Metres(pl.BaseExtension):
        def __init__(self) -> None:
            super().__init__("example.metres", pl.Float64)

    plain = pl.DataFrame({"a": [1.0, -0.0, None]})
    extended = pl.DataFrame({"a": plain["a"].ext.to(Metres())})
    assert digest(extended) == digest(extended.reverse())
    assert digest(extended) != digest(plain)
    assert digest(extended) == digest(pl.DataFrame({"a": pl.Series([1.0, 0.0, None]).ext.to(Metres())}))


def test_a_free_name_is_none_of_those_taken():
    assert free_name("path", []) == "path"
    assert free_name("path", ["path", "path_"]) == "path__"
    rows, owner = arrange(pl.DataFrame({"owner": [2, 1]}), pl.Series([0, 0], dtype=pl.UInt32))
    assert rows.to_dict(as_series=False) == {"owner": [1, 2]}


@given(st.lists(st.binary(max_size=3), max_size=4))
def test_a_digest_of_json_is_of_its_text(texts: list[bytes]):
    assert len(set(digest_values("json", texts))) == len(set(texts))

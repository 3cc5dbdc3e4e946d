"""Results of calls as fragments."""

from __future__ import annotations

import asyncio
import datetime as dt
import pickle
import socket
import threading
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

from barca.errors import FragmentError, OutputError
from barca.io.fragments import pack_table, pack_values
from barca.io.values import read_value, read_values
from barca.schemas import FRAGMENTS
from tests.io.packing import (
    NODE,
    ONLY_KEY,
    PATH,
    CountingFileStore,
    CountingMemoryStore,
    keep,
    only,
    split,
    work_keys,
)
from tests.io.test_digests import EVERY_DTYPE, chunked, shuffled


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    return CountingFileStore(tmp_path) if request.param == "disk" else CountingMemoryStore()


# --- tables over the keys of a call -----------------------------------------------------------------


def test_a_table_is_split_by_its_dimension_column(store):
    keys = work_keys("r2", "r10", "r1")
    table = pl.DataFrame(
        {"x": [5, 3, 4, 1], "retailer": ["r2", "r1", "r2", "r1"], "y": ["b", None, "a", "c"]}
    )
    fragments = split(store, table, keys)
    assert fragments.drop("dim:retailer").schema == FRAGMENTS
    assert fragments.select("key", "run_hash", "format", "path", "row_offset", "rows").rows() == [
        ("retailer=r1", "h-retailer=r1", "table", PATH, 0, 2),
        ("retailer=r10", "h-retailer=r10", "table", PATH, 2, 0),
        ("retailer=r2", "h-retailer=r2", "table", PATH, 2, 2),
    ]
    pack = store.scan([PATH]).collect(engine="in-memory")
    assert pack.columns == ["retailer", "x", "y"]
    assert pack.rows() == [("r1", 1, "c"), ("r1", 3, None), ("r2", 4, "a"), ("r2", 5, "b")]
    assert fragments["size_bytes"].to_list()[1] == 0
    assert store.calls["write"] == 1
    values = read_values(store, fragments, None, ("retailer",))
    assert values["retailer=r1"].rows() == [(1, "r1", "c"), (3, "r1", None)]
    assert values["retailer=r10"].equals(table.clear())


@pytest.mark.parametrize("count", [10, 1000])
def test_any_number_of_keys_is_one_pack_written_and_one_read(store, count: int):
    keys = work_keys(*[f"r{at}" for at in range(count)])
    table = pl.DataFrame({"retailer": keys["dim:retailer"], "x": range(count)})
    fragments = split(store, shuffled(table), keys)
    store.calls.clear()
    values = read_values(store, fragments, None, ("retailer",))
    assert (len(values), store.calls["scan"]) == (count, 1)
    store.calls.clear()
    fragments, _ = pack_values(store, PATH, NODE, [(key, 1) for key in keys["key"]], keys, ("retailer",))
    assert dict(store.calls) == {"write": 1}


def test_several_dimensions_split_together(store):
    keys = work_keys(("r1", "b"), ("r1", "a"), ("r2", "a"), dimensions=("retailer", "month"))
    table = pl.DataFrame({"month": ["a", "b", "a"], "x": [1, 2, 3], "retailer": ["r2", "r1", "r1"]})
    fragments = split(store, table, keys, ("retailer", "month"))
    assert store.schema(PATH).names() == ["retailer", "month", "x"]
    values = read_values(store, fragments, None, ("retailer", "month"))
    assert {key: value["x"].to_list() for key, value in values.items()} == {
        "month=a/retailer=r1": [3],
        "month=b/retailer=r1": [2],
        "month=a/retailer=r2": [1],
    }
    assert values["month=a/retailer=r2"].rows() == [("a", 1, "r2")]


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (pl.Series([1, 2], dtype=pl.Int64), ("1", "2")),
        (pl.Series([1, 2], dtype=pl.UInt8), ("1", "2")),
        (pl.Series(["1", "2"], dtype=pl.Categorical), ("1", "2")),
        (pl.Series(["1", "2"], dtype=pl.Enum(["2", "1"])), ("1", "2")),
        (pl.Series([dt.date(2026, 1, 2), dt.date(2026, 1, 3)]), ("2026-01-02", "2026-01-03")),
        (
            pl.Series([dt.datetime(2026, 1, 2, 3), dt.datetime(2026, 1, 3)]),
            ("2026-01-02 03:00:00", "2026-01-03 00:00:00"),
        ),
        (pl.Series([True, False]), ("true", "false")),
        (pl.Series([b"1", b"2"]), ("1", "2")),
    ],
)
def test_b7_keys_are_matched_by_string_form(store, column: pl.Series, names: tuple[str, str]):
    keys = work_keys(*names)
    fragments = split(store, pl.DataFrame({"retailer": column, "x": [10, 20]}), keys)
    values = read_values(store, fragments, None, ("retailer",))
    assert [values[f"retailer={_encoded(name)}"].rows() for name in names] == [
        [(names[0], 10)],
        [(names[1], 20)],
    ]


def _encoded(name: str) -> str:
    return name.replace(":", "%3A")


def test_b7_a_null_in_the_dimension_column_is_an_extra_key(store):
    table = pl.DataFrame({"retailer": ["r1", None], "x": [1, 2]})
    with pytest.raises(OutputError, match="1 row for no key of the call: retailer=null") as caught:
        pack_table(store, PATH, NODE, table, work_keys("r1"), ("retailer",))
    assert (caught.value.code, caught.value.node) == ("extra_key", NODE)
    assert store.calls["write"] == 0


def test_b2_extra_keys_are_named(store):
    table = pl.DataFrame({"retailer": [f"x{at}" for at in range(9)] + ["r1"] * 2})
    with pytest.raises(OutputError, match=r"retailer=x0, .*retailer=x4 and 4 more") as caught:
        pack_table(store, PATH, NODE, table, work_keys("r1", "r2"), ("retailer",))
    assert "`retailer=r1`" in caught.value.remediation
    with pytest.raises(OutputError, match="retailer=1.0") as caught:
        pack_table(store, PATH, NODE, pl.DataFrame({"retailer": [1.0]}), work_keys("1"), ("retailer",))
    assert "`retailer` is Float64" in caught.value.remediation


def test_a_table_without_the_dimension_column_is_refused(store):
    with pytest.raises(OutputError, match="without a column `retailer`") as caught:
        pack_table(store, PATH, NODE, pl.DataFrame({"retailr": ["r1"]}), work_keys("r1"), ("retailer",))
    assert "did you mean `retailr`?" in caught.value.remediation
    with pytest.raises(OutputError, match="holds no keys but values of List"):
        pack_table(store, PATH, NODE, pl.DataFrame({"retailer": [["r1"]]}), work_keys("r1"), ("retailer",))


def test_a_query_that_fails_is_the_results_error(store):
    broken = pl.LazyFrame({"retailer": ["r1"], "x": ["a"]}).with_columns(pl.col("x").cast(pl.Int64))
    with pytest.raises(OutputError, match="could not be read as a table: InvalidOperationError"):
        pack_table(store, PATH, NODE, broken, work_keys("r1"), ("retailer",))
    _, failures = keep(store, [broken], work_keys("r1"))
    assert failures[0][1].code == "unreadable_table"


def test_f7_permuted_rows_give_the_same_digests_and_the_same_pack(store):
    keys = work_keys("r1", "r2", "r3")
    table = pl.concat([EVERY_DTYPE] * 2).with_columns(
        retailer=pl.Series(["r1", "r2", "r3", "r1", "r1", "r2"]), n=pl.int_range(pl.len())
    )
    one = split(store, table, keys)
    before = _bytes(store, PATH)
    other = split(store, chunked(shuffled(table, 3)), shuffled(keys))
    assert one.sort("key").equals(other.sort("key"))
    assert _bytes(store, PATH) == before
    changed = split(store, table.with_columns(int8=pl.when(pl.col("n") == 2).then(9).otherwise("int8")), keys)
    assert (one["digest"] == changed["digest"]).to_list() == [True, True, False]


def _bytes(store, path: str) -> bytes:
    return (store.root / path).read_bytes() if isinstance(store, CountingFileStore) else store.packs[path][0]


def test_b6_a_key_has_one_digest_however_it_was_computed(store):
    keys = work_keys("1", "2", "3")
    table = pl.DataFrame({"x": [1.5, None, -0.0, 2.0], "retailer": [1, 1, 2, 2]})
    batch = split(store, table, keys)
    alone, failures = keep(store, [table.filter(pl.col("retailer") == at) for at in (1, 2, 3)], keys)
    assert failures == []
    assert batch["digest"].to_list() == alone["digest"].to_list()
    part = split(store, table.filter(pl.col("retailer") == 1), work_keys("1"))
    assert part["digest"].to_list() == batch["digest"].to_list()[:1]


def test_an_unpartitioned_table_is_one_fragment(store):
    fragments = pack_table(store, PATH, NODE, pl.DataFrame({"x": [2, 1]}), ONLY_KEY, ())
    assert fragments["rows"].to_list() == [2]
    assert read_value(store, fragments, None, ()).rows() == [(1,), (2,)]


def test_tables_of_other_libraries_are_split_too(store):
    import duckdb
    import pyarrow as pa
    import pyarrow.dataset as ds

    keys = work_keys("r1", "r2")
    table = pl.DataFrame({"retailer": ["r2", "r1"], "x": [2, 1]})
    digests = [
        split(store, given, keys)["digest"].to_list()
        for given in (
            table,
            table.lazy(),
            table.to_arrow(),
            table.to_pandas(),
            duckdb.from_arrow(table.to_arrow()),
            pa.RecordBatchReader.from_batches(table.to_arrow().schema, table.to_arrow().to_batches()),
            ds.dataset(table.to_arrow()),
        )
    ]
    assert digests == [digests[0]] * 7


def test_a_named_pandas_index_is_kept(store):
    frame = pl.DataFrame({"retailer": ["r1", "r2"], "x": [1, 2]}).to_pandas().set_index("retailer")
    fragments = split(store, frame, work_keys("r1", "r2"))
    assert read_values(store, fragments, None, ("retailer",))["retailer=r2"].rows() == [("r2", 2)]


# --- values, key by key -----------------------------------------------------------------------------


PLAIN = [
    None,
    True,
    3,
    2.5,
    float("inf"),
    "é\0😀",
    [1, [2, {"b": None, "a": []}]],
    {"z": 1, "a": {"y": "x"}},
    "",
    10**30,
    "\0barca",
    ["\0barca", 1],
]


def test_plain_values_are_json_and_come_back_as_they_were(store):
    keys = work_keys(*[f"r{at:02d}" for at in range(len(PLAIN))])
    fragments, failures = keep(store, PLAIN, keys)
    assert failures == []
    assert fragments["format"].unique().to_list() == ["json"]
    back = list(read_values(store, fragments, None, ("retailer",)).values())
    assert back == PLAIN
    assert list(map(type, back)) == list(map(type, PLAIN))
    assert list(back[7]) == ["z", "a"]
    assert store.schema(PATH) == {"retailer": pl.String, "value": pl.String}


def test_nan_is_written_as_python_writes_it(store):
    fragment = only(store, {"x": float("nan")})
    assert fragment["format"].item() == "json"
    assert str(read_value(store, fragment, None, ())["x"]) == "nan"


class Colour(str):
    """Not a plain str."""


def test_everything_else_is_a_pickle(store):
    values = [
        (1, 2),
        {1: 2},
        {3},
        dt.date(2026, 1, 2),
        Decimal("1.5"),
        Colour("red"),
        pl.Series([1]),
        b"x",
        "\ud800",
    ]
    values += [10**5000, [{"a": (1,)}]]
    keys = work_keys(*[f"r{at:02d}" for at in range(len(values))])
    fragments, failures = keep(store, values, keys)
    assert failures == []
    assert fragments["format"].unique().to_list() == ["pickle"]
    back = list(read_values(store, fragments, None, ("retailer",)).values())
    assert list(map(type, back)) == list(map(type, values))
    assert back[6].equals(values[6])
    del back[6], values[6]
    assert back == values


def test_formats_and_schemas_have_packs_of_their_own(store):
    one, other = pl.DataFrame({"x": [1]}), pl.DataFrame({"x": ["a"], "y": [1]})
    keys = work_keys("a", "b", "c", "d", "e", "f")
    fragments, failures = keep(store, [one, {"j": 1}, other, (1,), one.lazy(), {"j": 2}], keys)
    assert failures == []
    stem = PATH.removesuffix(".parquet")
    assert fragments.sort("key").select("format", "path", "row_offset").rows() == [
        ("table", f"{stem}-2.parquet", 0),
        ("json", PATH, 0),
        ("table", f"{stem}-3.parquet", 0),
        ("pickle", f"{stem}-1.parquet", 0),
        ("table", f"{stem}-2.parquet", 1),
        ("json", PATH, 1),
    ]
    values = read_values(store, fragments.sort("key"), None, ("retailer",))
    assert list(values) == sorted(keys["key"])
    assert values["retailer=b"] == {"j": 1}
    assert values["retailer=d"] == (1,)
    assert values["retailer=e"].equals(one)


def test_one_bad_value_fails_only_its_key(store):
    keys = work_keys("a", "b", "c")
    fragments, failures = keep(store, [1, (part for part in ()), pl.DataFrame({"x": [1]})], keys)
    assert sorted(fragments["key"]) == ["retailer=a", "retailer=c"]
    [(key, error)] = failures
    assert (key, error.key, error.node) == ("retailer=b", "retailer=b", NODE)


async def _coroutine() -> None:
    """Never awaited."""


def test_f10_what_cannot_be_stored_fails_its_key_by_name(store):
    coroutine = _coroutine()
    with socket.socket() as opened:
        unstorable = {
            "generator": ((part for part in ()), "`generator`"),
            "socket": (opened, "`socket.socket`"),
            "lock": (threading.Lock(), "`_thread.lock`"),
            "coroutine": (coroutine, "`coroutine`"),
            "lambda": ([lambda: 1], "`list`"),
            "object": (
                pl.DataFrame({"ok": [1], "bad": pl.Series([object()], dtype=pl.Object)}),
                "column `bad`",
            ),
            "no fields": (pl.DataFrame({"bad": pl.Series([{}], dtype=pl.Struct([]))}), "column `bad`"),
            "nested": (
                pl.DataFrame(
                    {"deep": pl.Series([[{"s": {}}]], dtype=pl.List(pl.Struct({"s": pl.Struct([])})))}
                ),
                "column `deep`",
            ),
        }
        keys = work_keys(*unstorable)
        fragments, failures = keep(store, [value for value, _ in unstorable.values()], keys)
    coroutine.close()
    assert fragments.is_empty()
    assert store.calls["write"] == 0
    assert len(failures) == len(unstorable)
    for key, error in failures:
        name = key.removeprefix("retailer=").replace("%20", " ")
        assert isinstance(error, OutputError)
        assert unstorable[name][1] in error.message
        assert f"retailer={name}" in error.message
        assert error.remediation
        assert pickle.loads(pickle.dumps(error)).message == error.message
    with pytest.raises(OutputError, match="column `bad` holds Python objects"):
        table = unstorable["object"][0].with_columns(retailer=pl.lit("a"))
        pack_table(store, PATH, NODE, table, work_keys("a"), ("retailer",))


def test_a_serializer_forces_the_format(store):
    fragments, _ = keep(store, [(1, {2: Colour("x")})], work_keys("a"), serializer="json")
    assert read_values(store, fragments, None, ("retailer",)) == {"retailer=a": [1, {"2": "x"}]}
    fragments, _ = keep(store, [{"a": 1}], work_keys("a"), serializer="pickle")
    assert fragments["format"].item() == "pickle"
    fragments, _ = keep(store, [pl.DataFrame({"a": [1]})], work_keys("a"), serializer="pickle")
    assert read_value(store, fragments, None, ("retailer",)).equals(pl.DataFrame({"a": [1]}))
    fragments, _ = keep(store, [pl.LazyFrame({"a": [1]})], work_keys("a"), serializer="table")
    assert fragments["format"].item() == "table"


@pytest.mark.parametrize(
    ("serializer", "value", "text"),
    [
        ("table", {"a": 1}, "takes tables"),
        ("json", {"a": [1, {"b": dt.date(2026, 1, 1)}]}, 'at `value["a"][1]["b"]`, a date is not JSON'),
        ("json", pl.DataFrame(), "at `value`, a DataFrame is not JSON"),
        ("json", {1: 2, "1": 3}, "the key `1` stands there twice"),
        ("json", {None: 2}, "the key `None` is neither a string nor an integer"),
        ("json", ["\ud800"], "half a surrogate pair"),
        ("json", [10**5000], "a number is too long"),
    ],
)
def test_a_forced_format_that_does_not_fit_fails_the_key(store, serializer, value, text):
    fragments, [(key, error)] = keep(store, [value], work_keys("a"), serializer=serializer)
    assert fragments.is_empty()
    assert key == "retailer=a"
    assert text in error.message


def test_values_nested_without_end_fail_or_are_pickled(store):
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    _, failures = keep(store, [deep], work_keys("a"))
    assert failures[0][1].code == "unstorable"
    _, failures = keep(store, [deep], work_keys("a"), serializer="json")
    assert failures[0][1].code == "not_json"
    while deep:  # let it go level by level
        deep = deep.pop()
    circular: dict = {}
    circular["self"] = circular
    back = read_value(store, only(store, circular), None, ())
    assert back["self"] is back


# --- columns named like a dimension -----------------------------------------------------------------


def test_a_column_that_holds_the_key_is_shared_with_the_dimension(store):
    keys = work_keys("1", "2")
    frames = [pl.DataFrame({"x": [at, at], "retailer": [at, at]}) for at in (1, 2)]
    fragments, failures = keep(store, frames, keys)
    assert failures == []
    assert store.schema(PATH).names() == ["retailer", "x"]
    values = read_values(store, fragments, None, ("retailer",))
    assert values["retailer=2"].equals(pl.DataFrame({"x": [2, 2], "retailer": ["2", "2"]}))


def test_a_column_that_holds_something_else_fails_its_key(store):
    keys = work_keys("r1", "r2", "r3", "r4")
    frames = [pl.DataFrame({"retailer": [at] * 2, "x": [1, 2]}) for at in ("r1", "other", "r3", None)]
    frames[3] = frames[3].cast({"retailer": pl.String})
    fragments, failures = keep(store, frames, keys)
    assert fragments["key"].to_list() == ["retailer=r1", "retailer=r3"]
    assert [key for key, _ in failures] == ["retailer=r2", "retailer=r4"]
    message = failures[0][1].message
    assert "column `retailer` holds `other`" in message
    assert "`r2`" in message
    assert "rename the column `retailer`" in failures[0][1].remediation
    values = read_values(store, fragments, None, ("retailer",))
    assert values["retailer=r3"].rows() == [("r3", 1), ("r3", 2)]
    fragments, failures = keep(store, [pl.DataFrame({"retailer": [[1]]})], work_keys("r1"))
    assert fragments.is_empty()
    assert failures[0][1].code == "dimension_column"


def test_dimensions_and_user_columns_may_have_any_names(store):
    names = ("value", "owner", "path")
    keys = work_keys(("a", "b", "c"), ("a", "b", "d"), dimensions=names)
    json, _ = keep(store, [{"v": 1}, {"v": 2}], keys, names)
    assert store.schema(PATH).names() == ["value", "owner", "path", "value_"]
    assert list(read_values(store, json, None, names).values()) == [{"v": 1}, {"v": 2}]
    frame = pl.DataFrame(
        {"rows": [1], "key": ["k"], "dim:value": ["z"], "digest": [2], "found": [1], "own": [2]}
    )
    tables, failures = keep(store, [frame, frame], keys, names)
    assert failures == []
    assert all(value.equals(frame) for value in read_values(store, tables, None, names).values())


# --- what comes back --------------------------------------------------------------------------------


def test_f13_every_dtype_comes_back_equal(store):
    table = EVERY_DTYPE.with_columns(n=pl.int_range(pl.len())).select("n", *EVERY_DTYPE.columns)
    back = read_value(store, only(store, table), None, ())
    assert back.schema == table.schema
    assert_frame_equal(back, table)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dataframes(max_cols=4, max_size=6, excluded_dtypes=[pl.Object, pl.Struct], allow_null=True))
def test_f13_any_frame_comes_back_equal(frame: pl.DataFrame):
    memory = CountingMemoryStore()
    fragment = only(memory, chunked(frame))
    assert fragment["rows"].item() == frame.height
    assert_frame_equal(read_value(memory, fragment, None, ()), frame, check_row_order=False)


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame(),
        pl.DataFrame(height=3),
        pl.DataFrame({"a": []}, schema={"a": pl.Int8}),
        pl.DataFrame({"a": [None, None]}, schema={"a": pl.Null}),
        pl.DataFrame({"a": [1], "A": [2], " a": [3], "": [4], "é": [5]}),
        EVERY_DTYPE.clear(),
    ],
    ids=["nothing", "no columns", "no rows", "nulls", "names", "every dtype, no rows"],
)
def test_f13_odd_frames_come_back_equal(store, frame: pl.DataFrame):
    assert read_value(store, only(store, frame), None, ()).equals(frame)
    keys = work_keys("a", "b")
    fragments, failures = keep(store, [frame, frame], keys)
    assert failures == []
    assert fragments["rows"].to_list() == [frame.height] * 2
    for value in read_values(store, fragments, None, ("retailer",)).values():
        assert value.equals(frame)
        assert value.height == frame.height


@pytest.mark.slow
def test_f13_wide_and_huge_frames_come_back_equal(store):
    wide = pl.DataFrame({f"c{at}": [at, None, at] for at in range(10_000)})
    assert_frame_equal(read_value(store, only(store, wide), None, ()), wide, check_row_order=False)
    huge = pl.DataFrame({"text": ["x" * (50 << 20)]})
    assert read_value(store, only(store, huge), None, ()).equals(huge)


def test_a_pack_says_what_it_is(store):
    import json

    keep(store, [pl.DataFrame({"x": [1], "retailer": ["a"]})], work_keys("a"), engine="streaming")
    entry = json.loads(store.metadata(PATH)["barca"])
    assert entry == {
        "version": 1,
        "path": PATH,
        "node": NODE,
        "polars": pl.__version__,
        "engine": "streaming",
        "format": "table",
        "keys": 1,
        "rows": 1,
        "columns": ["x", "retailer"],
    }


def test_f9_a_pack_in_anothers_place_is_never_read(store):
    fragment = only(store, {"a": 1})
    other = only(store, {"a": 2}, "flow.py@other/run-2.parquet")
    content = _bytes(store, other["path"].item())
    if isinstance(store, CountingFileStore):
        (store.root / PATH).write_bytes(content)
    else:
        store.packs[PATH] = (content, store.packs[PATH][1])
    with pytest.raises(
        FragmentError, match="holds the pack that was written to `flow.py@other/run-2.parquet`"
    ):
        read_value(store, fragment, None, ())


def test_sizes_share_the_file_by_rows(store):
    keys = work_keys("a", "b", "c")
    table = pl.DataFrame({"retailer": ["a"] * 3 + ["b"], "x": [1, 2, 3, 4]})
    fragments = split(store, table, keys)
    total = len(_bytes(store, PATH))
    assert fragments["size_bytes"].to_list() == [round(total * 3 / 4), round(total / 4), 0]


def test_parquets_own_refusal_is_an_output_error(store, monkeypatch):
    def refuse(path, frame, metadata):
        raise pl.exceptions.ComputeError("no such thing in Parquet")

    monkeypatch.setattr(store, "write", refuse)
    with pytest.raises(OutputError, match="no such thing in Parquet"):
        pack_table(store, PATH, NODE, pl.DataFrame({"x": [1]}), ONLY_KEY, ())


def test_results_of_tasks_that_return_nothing_are_stored(store):
    assert read_value(store, only(store, None), None, ()) is None
    assert asyncio.iscoroutinefunction(_coroutine)

"""Delta sinks: one table, one commit a run, types, keys that leave, other writers, upkeep."""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from barca.io.sinks.delta import publishing
from barca.io.sinks.delta.table import Outrun, Snapshot

BY_SENSOR = """
    import json, pathlib
    import polars as pl
    from barca import asset, partitions_from, sensor, sink

    @sensor
    def versions() -> dict:
        return json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())

    @asset(partitions={{"k": partitions_from(versions)}}, batch="all")
    @sink("exports/scored/", format="delta"{options})
    def scored(k: list[str], versions: dict) -> pl.DataFrame:
        rows = [(key, n, str(n % 2)) for key in k for n in range(versions[key])]
        return pl.DataFrame(rows, schema={{"k": pl.String, "n": pl.Int64, "odd": pl.String}}, orient="row")
"""

WHOLE = """
    import datetime as dt
    import polars as pl
    from barca import asset, sink

    @asset
    @sink("table/", format="delta"{options})
    def orders():
        return {value}
"""

EACH = """
    import polars as pl
    from barca import asset, partitions, sink

    @asset(partitions={{"k": partitions({keys})}})
    @sink("table/", format="delta")
    def scored(k):
        return {value}
"""


def set_versions(project, **values):
    (project.root / "versions.json").write_text(json.dumps(values))


@pytest.fixture
def sensed(project):
    project.write("pipeline.py", BY_SENSOR.format(options=""))
    set_versions(project, a=1, b=2, c=3)
    return project


def whole(project, value: str, options: str = ""):
    project.write("pipeline.py", WHOLE.format(value=value, options=options))


def each(project, keys: str, value: str):
    project.write("pipeline.py", EACH.format(keys=keys, value=value))


def table(project, name="exports/scored") -> DeltaTable:
    return DeltaTable(project.root / name)


def rows(project, name="exports/scored", **options) -> list[tuple]:
    return sorted(pl.scan_delta(str(project.root / name), **options).collect(engine="in-memory").rows())


def error(project) -> str:
    result = project.get()
    assert result.status == "failed"
    return result.error.message


def scored(**keys) -> list[tuple]:
    return sorted((key, n, str(n % 2)) for key, count in keys.items() for n in range(count))


# --- commits ----------------------------------------------------------------------------------------


def test_each_run_is_one_commit_of_the_keys_that_changed(sensed):
    sensed.ran()
    assert table(sensed).version() == 0
    assert rows(sensed) == scored(a=1, b=2, c=3)
    set_versions(sensed, a=1, b=5, c=3)
    sensed.ran()
    assert table(sensed).version() == 1
    assert rows(sensed) == scored(a=1, b=5, c=3)
    sensed.ran()
    assert table(sensed).version() == 1


def test_readers_can_travel_in_time(sensed):
    sensed.ran()
    set_versions(sensed, a=4, b=2, c=3)
    sensed.ran()
    assert rows(sensed, version=0) == scored(a=1, b=2, c=3)
    assert rows(sensed, version=1) == scored(a=4, b=2, c=3)


def test_keys_that_left_are_gone_in_the_commit_of_the_run(sensed):
    sensed.ran()
    set_versions(sensed, a=2, c=3)
    sensed.ran()
    assert table(sensed).version() == 1
    assert rows(sensed) == scored(a=2, c=3)
    set_versions(sensed, a=2)
    sensed.ran()
    assert rows(sensed) == scored(a=2)
    set_versions(sensed)
    sensed.ran()
    assert rows(sensed) == []
    assert table(sensed).schema().fields[1].name == "n"


def test_a_selection_removes_nothing(sensed):
    sensed.ran()
    set_versions(sensed, a=4)
    sensed.ran("scored", partition={"k": ["a"]})
    assert rows(sensed) == scored(a=4, b=2, c=3)
    sensed.ran()
    assert rows(sensed) == scored(a=4)


def test_a_key_without_rows_has_none(sensed):
    sensed.ran()
    set_versions(sensed, a=1, b=0, c=3)
    sensed.ran()
    assert rows(sensed) == scored(a=1, c=3)


def test_a_changed_key_leaves_the_files_of_others(sensed, monkeypatch):
    monkeypatch.setattr("barca.io.sinks.delta.rows.FILE_ROWS", 2)
    monkeypatch.setattr(publishing, "FILE_ROWS", 2)
    set_versions(sensed, a=2, b=2, c=2)
    sensed.ran()
    before = set(table(sensed).file_uris())
    assert len(before) == 3
    set_versions(sensed, a=1, b=2, c=2)
    sensed.ran()
    assert len(before & set(table(sensed).file_uris())) == 2


def test_an_unpartitioned_asset_is_replaced_whole(project):
    whole(project, 'pl.DataFrame({"v": [1, 2]})')
    project.ran()
    whole(project, 'pl.DataFrame({"v": [3]})')
    project.ran()
    assert rows(project, "table") == [(3,)]
    assert table(project, "table").version() == 1


def test_going_back_commits_the_cached_keys_without_running_them(project):
    each(project, '["a", "b"]', 'pl.DataFrame({"v": ["A" + k]})')
    project.ran()
    each(project, '["a", "b"]', 'pl.DataFrame({"v": ["B" + k]})')
    project.ran()
    each(project, '["a", "b"]', 'pl.DataFrame({"v": ["A" + k]})')
    told = []
    assert project.open(listener=told.append).get().to_dict()["steps_executed"] == 0
    assert rows(project, "table") == [("a", "Aa"), ("b", "Ab")]
    assert [event.message for event in told if type(event).__name__ == "Noted"] == [
        "sink table/: republished 2 cached keys of scored"
    ]


def test_a_failed_key_keeps_its_rows(project):
    each(project, '["a", "b"]', 'pl.DataFrame({"v": [1]})')
    project.ran()
    each(project, '["a", "b"]', 'pl.DataFrame({"v": [2]}) if k == "a" else 1 / 0')
    assert project.get().status == "failed"
    assert rows(project, "table") == [("a", 2), ("b", 1)]


def test_a_sink_that_fails_is_committed_by_the_next_run(project):
    each(project, '["a"]', 'pl.DataFrame({"v": [1]})')
    project.write("table/theirs.txt", "")
    assert error(project).startswith(
        "SinkError: sink table/: the delta prefix table/ holds files barca did not"
    )
    (project.root / "table/theirs.txt").unlink()
    assert project.ran() == {}
    assert rows(project, "table") == [("a", 1)]


def test_a_table_of_another_asset_and_a_dataset_are_refused(project):
    each(project, '["a"]', 'pl.DataFrame({"v": [1]})')
    project.ran()
    project.edit("pipeline.py", ', format="delta"', "")
    assert "table/ is a Delta table" in error(project)
    project.edit("pipeline.py", '@sink("table/")\ndef scored', '@sink("table/", format="delta")\ndef other')
    assert "belongs to the asset pipeline.py:scored" in error(project)


def test_it_is_read_by_delta_rs_and_duckdb(sensed):
    sensed.ran()
    set_versions(sensed, a=1, b=2, c=1)
    sensed.ran()
    assert sorted(pl.from_arrow(table(sensed).to_pyarrow_table()).rows()) == scored(a=1, b=2, c=1)
    import duckdb

    dataset = table(sensed).to_pyarrow_dataset()
    assert sorted(duckdb.sql("select k, n, odd from dataset").fetchall()) == scored(a=1, b=2, c=1)
    assert dataset is not None


# --- partition columns ------------------------------------------------------------------------------


def test_columns_can_partition_the_table(project):
    project.write("pipeline.py", BY_SENSOR.format(options=', partition_by=["odd"]'))
    set_versions(project, a=1, b=2, c=3)
    project.ran()
    set_versions(project, a=1, b=5, c=3)
    project.ran()
    assert table(project).metadata().partition_columns == ["odd"]
    assert rows(project) == scored(a=1, b=5, c=3)
    assert sorted(pl.from_arrow(table(project).to_pyarrow_table()).select("k", "n", "odd").rows()) == scored(
        a=1, b=5, c=3
    )


def test_another_partitioning_of_a_table_that_is_there_is_refused(sensed):
    sensed.ran()
    sensed.write("pipeline.py", BY_SENSOR.format(options=', partition_by=["odd"]'))
    assert "is partitioned by []" in error(sensed)


PARTITIONS = {
    "pl.Series([1, None], dtype=pl.Int8)": 2,
    "pl.Series([2**62, 5], dtype=pl.UInt64)": 2,
    "pl.Series([1.5, float('nan'), float('inf'), 1e300, 1e-7, None])": 6,
    "pl.Series([0.1, 2.0], dtype=pl.Float32)": 2,
    "pl.Series([True, False, None])": 3,
    "pl.Series([dt.date(2026, 1, 1), dt.date(1, 1, 1), None])": 3,
    "pl.Series([dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 1, 2, 3, 4), None])": 3,
    "pl.Series([dt.datetime(2026, 1, 1), None]).dt.cast_time_unit('ms')": 2,
    "pl.Series([dt.datetime(2026, 1, 1, 5)]).dt.cast_time_unit('ns')": 1,
    "pl.Series([dt.datetime(2026, 1, 1, 5), None]).dt.replace_time_zone('UTC')": 2,
    "pl.Series([dt.datetime(2026, 1, 1, 5)]).dt.replace_time_zone('Asia/Tokyo')": 1,
    "pl.Series(['1.25', '-3.00']).str.to_decimal(scale=2)": 2,
    "pl.Series(['a', 'b/c', None], dtype=pl.Categorical)": 3,
    "pl.Series(['..', 'a=b', 'a%2Fb', chr(10), 'true', ' ', 'é', '*', '[1]', '?', '#', chr(92), 'a' * 200])": 13,
}


@pytest.mark.parametrize("values", PARTITIONS)
def test_values_of_every_type_partition_a_table(project, values):
    project.write(
        "pipeline.py",
        f"""
        import datetime as dt, json, pathlib
        import polars as pl
        from barca import asset, partitions_from, sensor, sink

        @sensor
        def versions() -> dict:
            return json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())

        @asset(partitions={{"k": partitions_from(versions)}})
        @sink("table/", format="delta", partition_by=["p"])
        def scored(k: str, versions: int):
            p = {values}
            return pl.DataFrame({{"p": p, "q": p, "v": [versions] * len(p)}})
        """,
    )
    for a in (1, 2):
        set_versions(project, a=a, b=1)
        project.ran()
        by_delta = pl.from_arrow(table(project, "table").to_pyarrow_table())
        for found in (pl.read_delta(str(project.root / "table")), by_delta):
            assert found.height == 2 * PARTITIONS[values]
            assert found["p"].equals(found["q"].cast(found["p"].dtype), null_equal=True)
            assert found.filter(pl.col("v") == a, pl.col("k") == "a").height == PARTITIONS[values]
        # rows of the other key that were kept lie beside the new ones: both were written alike
        assert len(table(project, "table").file_uris()) == PARTITIONS[values]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ("pl.Series([b'a'])", "`p` holds bytes, by which Polars reads no partitioned Delta table"),
        ("pl.Series([[1]])", "no directory can be named after values of `p`"),
        ("pl.Series([{'a': 1}])", "no directory can be named after values of `p`"),
    ],
)
def test_values_that_partition_no_table_are_refused_before_writing(project, values, why):
    whole(project, f"pl.DataFrame({{'p': {values}, 'v': [1]}})", ', partition_by=["p"]')
    assert why in error(project)
    assert os.listdir(project.root / "table") == ["_barca_sink.json"]


@pytest.mark.parametrize("value", ['""', '"__HIVE_DEFAULT_PARTITION__"'])
def test_s4_partition_values_that_delta_reads_as_others_are_refused(project, value):
    whole(project, f'pl.DataFrame({{"d": [None, "null", {value}], "v": [1, 2, 3]}})', ', partition_by=["d"]')
    assert "missing value" in error(project)
    assert not (project.root / "table/_delta_log").exists()


def test_s4_missing_values_and_the_text_null_come_back(project):
    odd = [None, "null", "a b", "x/y", "é", "a%2Fb", "*"]
    whole(
        project,
        f'pl.DataFrame({{"d": {odd!r}, "v": {[str(value) for value in odd]!r}}})',
        ', partition_by=["d"]',
    )
    project.ran()
    expected = sorted((str(value), value) for value in odd)
    by_delta = pl.from_arrow(table(project, "table").to_pyarrow_table())
    for found in (pl.read_delta(str(project.root / "table")), by_delta):
        assert sorted(found.select("v", "d").rows(), key=str) == sorted(expected, key=str)


# --- types ------------------------------------------------------------------------------------------

KEPT = {
    'pl.Series(["a", None], dtype=pl.Categorical)': (
        "Categorical is written as String",
        ["a", None],
        pl.String,
    ),
    'pl.Series(["a", None], dtype=pl.Enum(["a"]))': ("Enum is written as String", ["a", None], pl.String),
    "pl.Series([255, None], dtype=pl.UInt8)": ("UInt8 is written as Int16", [255, None], pl.Int16),
    "pl.Series([2**63 - 1, None], dtype=pl.UInt64)": (
        "UInt64 is written as Int64",
        [2**63 - 1, None],
        pl.Int64,
    ),
    "pl.Series([1.5, None], dtype=pl.Float16)": ("Float16 is written as Float32", [1.5, None], pl.Float32),
    "pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2))": (
        "is written as List(Int64)",
        [[1, 2], None],
        pl.List(pl.Int64),
    ),
    'pl.Series([dt.datetime(2026, 1, 1)]).dt.replace_time_zone("Asia/Tokyo")': (
        "is written as Datetime(time_unit='us', time_zone='UTC')",
        [datetime(2025, 12, 31, 15, tzinfo=UTC)],
        pl.Datetime("us", "UTC"),
    ),
    "pl.Series([dt.datetime(2026, 1, 1, 1, 1, 1, 5)]).dt.cast_time_unit('ns')": (
        None,
        [datetime(2026, 1, 1, 1, 1, 1, 5)],
        pl.Datetime("us"),
    ),
    "pl.Series([dt.datetime(2026, 1, 1)]).dt.cast_time_unit('ms')": (
        None,
        [datetime(2026, 1, 1)],
        pl.Datetime("us"),
    ),
    "pl.Series([1, None], dtype=pl.Int8)": (None, [1, None], pl.Int8),
    "pl.Series(['1.25'], dtype=pl.String).str.to_decimal(scale=2)": (None, None, None),
    "pl.Series([b'a', None])": (None, [b"a", None], pl.Binary),
    "pl.Series([{'a': 1, 'b': ['x']}])": (None, [{"a": 1, "b": ["x"]}], None),
    "pl.Series([True, None])": (None, [True, None], pl.Boolean),
    "pl.Series([dt.date(2026, 1, 1), None])": (None, None, pl.Date),
    "pl.Series([float('nan'), 1e300])": (None, None, pl.Float64),
}
LOST = {
    "pl.Series([None, None])": "missing values only",
    "pl.Series([dt.time(1)])": "Delta has no such type",
    "pl.Series([dt.timedelta(1)])": "Delta has no such type",
    "pl.Series([1], dtype=pl.Int128)": "Delta has no such type",
    "pl.Series([2**63], dtype=pl.UInt64)": "integers beyond",
    "pl.Series([1], dtype=pl.Int64).cast(pl.Datetime('ns'))": "holds nanoseconds",
    "pl.Series([2**60]).cast(pl.Datetime('ms'))": "holds times further away",
    "pl.Series([[2**63]], dtype=pl.List(pl.UInt64))": "holds values that List(Int64) has no room for: conv",
    "pl.Series([{'a': 2**63}], dtype=pl.Struct({'a': pl.UInt64}))": "has no room for: conversion from `u64`",
    "pl.Series([[2**60]]).cast(pl.List(pl.Datetime('ms')))": "has no room for",
    "pl.Series([[dt.time(1)]])": "Delta has no such type",
    "pl.Series([{'a': dt.timedelta(1)}])": "Delta has no such type",
}


@pytest.mark.parametrize("value", KEPT)
def test_s3_types_that_are_kept_or_converted_and_said_so(project, value):
    said, values, dtype = KEPT[value]
    whole(project, f"pl.DataFrame({{'c': {value}}})")
    result = project.get()
    assert result.status == "success", result.error
    warnings = result.to_dict()["warnings"]
    assert [
        warning for warning in warnings if "column `c`" in warning and (said or "?") in warning
    ] == warnings
    assert bool(warnings) == bool(said)
    found = pl.read_delta(str(project.root / "table"))["c"]
    if dtype is not None:
        assert found.dtype == dtype
    if values is not None:
        assert sorted(found.to_list(), key=str) == sorted(values, key=str)


@pytest.mark.parametrize("value", LOST)
def test_s3_types_that_would_be_lost_are_refused_before_writing(project, value):
    whole(project, f"pl.DataFrame({{'c': {value}}})")
    message = error(project)
    assert "sink table/: Lossy: column `c`" in message
    assert LOST[value] in message
    assert os.listdir(project.root / "table") == ["_barca_sink.json"]


DRIFT = """
    import json, pathlib
    import polars as pl
    from barca import asset, partitions_from, sensor, sink

    @sensor
    def versions() -> dict:
        return json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())

    @asset(partitions={"k": partitions_from(versions)})
    @sink("table/", format="delta")
    def scored(k: str, versions: str):
        return pl.DataFrame({"c": eval(versions)})
"""


@pytest.fixture
def drifting(project):
    project.write("pipeline.py", DRIFT)
    set_versions(project, a="pl.Series([1], dtype=pl.Int64)", b="pl.Series([2], dtype=pl.Int64)")
    project.ran()
    return project


def drift(project, value):
    set_versions(project, a="pl.Series([1], dtype=pl.Int64)", b=value)


def test_s3_a_float_never_becomes_an_integer(drifting):
    drift(drifting, "pl.Series([1.5])")
    assert "column `c` is Float64, and Int64 in the table" in error(drifting)
    assert rows(drifting, "table") == [("a", 1), ("b", 2)]
    drift(drifting, "pl.Series(['x'])")
    assert "column `c` is String, and Int64 in the table" in error(drifting)


def test_s3_a_narrower_integer_is_widened(drifting):
    drift(drifting, "pl.Series([7], dtype=pl.Int8)")
    drifting.ran()
    assert rows(drifting, "table") == [("a", 1), ("b", 7)]
    assert pl.read_delta(str(drifting.root / "table")).schema["c"] == pl.Int64


def test_s3_a_column_becomes_wider_in_one_commit(project):
    project.write("pipeline.py", DRIFT)
    set_versions(project, a="pl.Series([1], dtype=pl.Int32)", b="pl.Series([2], dtype=pl.Int32)")
    project.ran()
    set_versions(project, a="pl.Series([1], dtype=pl.Int32)", b="pl.Series([2**40], dtype=pl.Int64)")
    project.ran()
    assert rows(project, "table") == [("a", 1), ("b", 2**40)]
    assert pl.read_delta(str(project.root / "table")).schema["c"] == pl.Int64
    assert table(project, "table").version() == 1


def test_new_columns_are_missing_in_older_rows(drifting):
    drift(drifting, "pl.DataFrame({'c': [7], 'd': ['new']}).to_struct()")
    drifting.edit(
        "pipeline.py",
        '{"c": eval(versions)})',
        '{"c": eval(versions)}).pipe(lambda f: f.unnest("c") if k == "b" else f)',
    )
    drifting.get(partition={"k": ["b"]})
    found = pl.read_delta(str(drifting.root / "table")).sort("k")
    assert found.select("k", "c", "d").rows() == [("a", 1, None), ("b", 7, "new")]


@pytest.mark.parametrize("value", ["dt.datetime(2026, 1, 1)", "[{'a': dt.datetime(2026, 1, 1)}]"])
@pytest.mark.parametrize("partition", [None, {"k": ["b"]}])
def test_times_without_zones_may_come_to_a_table_that_had_none(project, value, partition):
    each(project, '["a", "b"]', 'pl.DataFrame({"v": [k]})')
    project.ran()
    each(project, '["a", "b"]', f'pl.DataFrame({{"v": [k], "at": [{value}]}})')
    project.edit("pipeline.py", "import polars as pl", "import datetime as dt, polars as pl")
    project.ran(partition=partition)
    for found in (
        pl.read_delta(str(project.root / "table")),
        pl.from_arrow(table(project, "table").to_pyarrow_table()),
    ):
        assert found.sort("k").select(pl.col("at").is_null()).to_series().to_list() == [
            bool(partition),
            False,
        ]
    project.ran(refresh=["scored"])
    assert [row[:2] for row in rows(project, "table")] == [("a", "a"), ("b", "b")]


def test_missing_values_only_take_the_type_that_the_table_has(drifting):
    drift(drifting, "pl.Series([None])")
    drifting.ran()
    assert rows(drifting, "table") == [("a", 1), ("b", None)]


MEETING = {
    "structs": (
        "pl.Series([{'x': 1}], dtype=pl.Struct({'x': pl.Int8}))",
        "pl.Series([{'y': 'n', 'x': 2**40}], dtype=pl.Struct({'y': pl.String, 'x': pl.Int64}))",
        pl.Struct({"x": pl.Int64, "y": pl.String}),
        [{"x": 1, "y": None}, {"x": 2**40, "y": "n"}],
    ),
    "a struct that lacks a field": (
        "pl.Series([{'x': 1, 'y': 'n'}])",
        "pl.Series([{'y': 'm'}])",
        pl.Struct({"x": pl.Int64, "y": pl.String}),
        [{"x": 1, "y": "n"}, {"x": None, "y": "m"}],
    ),
    "missing structs": (
        "pl.Series([None], dtype=pl.Struct({'x': pl.Int8}))",
        "pl.Series([{'y': 'n', 'x': 2}])",
        pl.Struct({"x": pl.Int64, "y": pl.String}),
        [None, {"x": 2, "y": "n"}],
    ),
    "structs in lists": (
        "pl.Series([[{'x': 1}, None]])",
        "pl.Series([[{'x': 2, 'y': 3}], []])",
        pl.List(pl.Struct({"x": pl.Int64, "y": pl.Int64})),
        [[], [{"x": 1, "y": None}, None], [{"x": 2, "y": 3}]],
    ),
    "lists": (
        "pl.Series([[1]], dtype=pl.List(pl.Int8))",
        "pl.Series([[2**40]])",
        pl.List(pl.Int64),
        [[1], [2**40]],
    ),
    "empty lists": ("pl.Series([[1]])", "pl.Series([[]])", pl.List(pl.Int64), [[], [1]]),
    "lists of missing values": (
        "pl.Series([[1]])",
        "pl.Series([[None, None]])",
        pl.List(pl.Int64),
        [[1], [None, None]],
    ),
    "missing values in structs": (
        "pl.Series([{'x': 1, 'y': [1.5]}])",
        "pl.Series([{'x': None, 'y': []}])",
        pl.Struct({"x": pl.Int64, "y": pl.List(pl.Float64)}),
        [{"x": 1, "y": [1.5]}, {"x": None, "y": []}],
    ),
    "decimals": (
        "pl.Series([1], dtype=pl.Decimal(10, 2))",
        "pl.Series([2], dtype=pl.Decimal(8, 4))",
        pl.Decimal(12, 4),
        [Decimal(1), Decimal(2)],
    ),
}


@pytest.mark.parametrize("case", MEETING)
def test_nested_and_missing_values_meet_in_one_type(project, case):
    old, new, dtype, expected = MEETING[case]
    project.write("pipeline.py", DRIFT)
    set_versions(project, a=old, b=old)
    project.ran()
    set_versions(project, a=old, b=new)
    project.ran()
    found = pl.read_delta(str(project.root / "table"))["c"]
    assert found.dtype == dtype
    assert sorted(found.to_list(), key=str) == sorted(expected, key=str)
    delta_rs = pl.from_arrow(table(project, "table").to_pyarrow_table())["c"]
    assert sorted(delta_rs.to_list(), key=str) == sorted(expected, key=str)
    set_versions(project, a=new, b=old)
    project.ran()
    assert pl.read_delta(str(project.root / "table"))["c"].dtype == dtype


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("pl.Series([{'x': 1}])", "pl.Series([{'x': 1.5}])", "column `c` is Struct"),
        (
            "pl.Series([[1]])",
            "pl.Series([[1.5]])",
            "column `c` is List(Float64), and List(Int64) in the table",
        ),
        ("pl.Series([[1]])", "pl.Series([1])", "column `c` is Int64, and List(Int64) in the table"),
        ("pl.Series([{'x': 1}])", "pl.Series([{'X': 1}])", "the fields `x` and `X` are one to Delta"),
        (
            "pl.Series([{'x': 1}])",
            "pl.Series([{'n': None}])",
            "column `c`, `c.n` of it, is Null: it holds missing values",
        ),
        (
            "pl.Series([1], dtype=pl.Decimal(38, 0))",
            "pl.Series([1], dtype=pl.Decimal(38, 2))",
            "column `c` is Decimal(precision=38, scale=2), and Decimal(precision=38, scale=0) in the table",
        ),
    ],
)
def test_what_meets_in_no_type_is_refused(project, old, new, why):
    project.write("pipeline.py", DRIFT)
    set_versions(project, a=old, b=old)
    project.ran()
    before = rows(project, "table")
    set_versions(project, a=old, b=new)
    assert why in error(project)
    assert rows(project, "table") == before
    assert table(project, "table").version() == 0


@pytest.mark.parametrize(
    ("value", "where"), [("[[]]", "c[]"), ("[{'x': None}]", "c.x"), ("[[{'x': []}]]", "c[].x[]")]
)
def test_a_table_takes_no_column_without_a_type(project, value, where):
    whole(project, f"pl.DataFrame({{'c': {value}}})")
    assert f"column `c`, `{where}` of it, is Null: it holds missing values only, and so no type" in error(
        project
    )


def test_an_edit_that_changes_every_key_may_change_types(drifting):
    drift(drifting, "pl.Series([7], dtype=pl.Int64)")
    drifting.edit("pipeline.py", '{"c": eval(versions)}', '{"c": eval(versions).cast(pl.String)}')
    drifting.ran()
    assert rows(drifting, "table") == [("a", "1"), ("b", "7")]


# --- others -----------------------------------------------------------------------------------------


def test_a_commit_that_was_outrun_is_made_again(sensed, monkeypatch):
    sensed.ran()
    set_versions(sensed, a=4, b=2, c=3)
    real = publishing._Attempt.run
    others = []

    def run(self):
        if not others:
            others.append(1)
            extra = pl.DataFrame({"k": ["z"], "n": [0], "odd": ["0"]})
            write_deltalake(str(sensed.root / "exports/scored"), extra, mode="append")
        return real(self)

    monkeypatch.setattr(publishing._Attempt, "run", run)
    sensed.ran()
    assert rows(sensed) == sorted([*scored(a=4, b=2, c=3), ("z", 0, "0")])
    data = {Path(uri).name for uri in table(sensed).file_uris()}
    every = {path.name for path in (sensed.root / "exports/scored").glob("*.parquet")}
    old = {
        Path(uri).name
        for version in (0, 1)
        for uri in DeltaTable(sensed.root / "exports/scored", version=version).file_uris()
    }
    assert every == data | old, "the files of the attempt that was outrun are removed"


def test_a_commit_whose_answer_was_lost_is_found_and_not_made_again(sensed, monkeypatch):
    """An object store may take a commit, and tell of a conflict where its answer got lost and was asked again."""
    sensed.ran()
    set_versions(sensed, a=4, b=2, c=3)
    real = Snapshot.commit

    def commit(self, *arguments, **options):
        real(self, *arguments, **options)
        raise Outrun

    monkeypatch.setattr(Snapshot, "commit", commit)
    sensed.ran()
    assert table(sensed).version() == 1
    assert rows(sensed) == scored(a=4, b=2, c=3)


def test_files_of_a_commit_that_may_have_come_to_be_stay(sensed, monkeypatch):
    sensed.ran()
    set_versions(sensed, a=4, b=2, c=3)

    def refuse(*arguments):
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr("barca.io.sinks.delta.table.flush_commits", refuse)
        assert "the disk is gone" in error(sensed)
    assert rows(sensed) == scored(a=4, b=2, c=3)
    set_versions(sensed, a=4, b=1, c=3)
    sensed.ran()
    assert rows(sensed) == scored(a=4, b=1, c=3)


def test_a_commit_that_the_disk_refuses_is_told_at_once(sensed, monkeypatch):
    sensed.ran()
    patient = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pytest.fail("it is not tried again"))
    monkeypatch.setattr(publishing, "time", patient)
    real = DeltaTable.create_write_transaction

    def refuse(self, *arguments, **options):
        if "exports" not in self.table_uri:  # the ledger's
            return real(self, *arguments, **options)
        raise CommitFailedError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", refuse)
        set_versions(sensed, a=4, b=2, c=3)
        assert "no space left on device" in error(sensed)
    assert rows(sensed) == scored(a=1, b=2, c=3)
    assert sensed.ran() == {"versions": 1}
    assert rows(sensed) == scored(a=4, b=2, c=3)


def test_a_table_that_could_not_be_tidied_up_has_its_rows(sensed, monkeypatch):
    def refuse(*arguments):
        raise PermissionError("nothing may be deleted there")

    monkeypatch.setattr(publishing, "tidy", refuse)
    result = sensed.get()
    assert result.status == "success"
    [warning] = result.to_dict()["warnings"]
    assert "sink exports/scored/: the table has the new rows, and was not tidied up: Permission" in warning
    assert rows(sensed) == scored(a=1, b=2, c=3)
    assert sensed.ran() == {"versions": 1}
    assert table(sensed).version() == 0


def test_a_store_that_was_deleted_replaces_the_table(sensed):
    sensed.ran()
    shutil.rmtree(sensed.root / ".barca")
    set_versions(sensed, a=2, b=2)
    sensed.ran()
    assert rows(sensed) == scored(a=2, b=2)


def test_small_files_are_merged_and_old_ones_deleted(project, monkeypatch):
    project.write("pipeline.py", BY_SENSOR.format(options=", compact_files=2, vacuum_hours=1"))
    monkeypatch.setattr("barca.io.sinks.delta.rows.FILE_ROWS", 1)
    monkeypatch.setattr(publishing, "FILE_ROWS", 1)
    set_versions(project, a=1, b=1, c=1, d=1)
    monkeypatch.setattr("barca.io.sinks.delta.publishing.tidy", lambda *arguments: None)
    project.ran()
    assert len(table(project).file_uris()) == 4
    monkeypatch.undo()
    set_versions(project, a=1, b=1, c=1, d=2)
    project.ran()
    assert len(table(project).file_uris()) == 1
    assert rows(project) == scored(a=1, b=1, c=1, d=2)
    assert (project.root / "exports/scored/_barca_sink.json").exists()
    set_versions(project, a=1, b=1, c=1, d=3)
    project.ran()
    assert rows(project) == scored(a=1, b=1, c=1, d=3)


def test_files_that_left_long_ago_are_deleted_and_others_are_not(project, monkeypatch):
    project.write("pipeline.py", BY_SENSOR.format(options=", vacuum_hours=1"))
    monkeypatch.setattr("barca.io.sinks.delta.upkeep.VACUUM_EVERY", 3)
    root = project.root / "exports/scored"

    def run(count: int, hours_ago: float) -> str:
        with monkeypatch.context() as patch:
            then = time.time_ns() - int(hours_ago * 3600e9)
            patch.setattr("barca.io.sinks.delta.table.time", SimpleNamespace(time_ns=lambda: then))
            set_versions(project, a=count, b=1)
            project.ran()
        [uri] = table(project).file_uris()
        os.utime(root / Path(uri).name, ns=(then, then))
        return Path(uri).name

    written = [run(1, 5), run(2, 4), run(3, 3), run(4, 0)]
    assert {path.name for path in root.glob("*.parquet")} == set(written[2:])
    assert rows(project) == scored(a=4, b=1)
    assert rows(project, version=2) == scored(a=3, b=1)


def test_files_of_others_in_a_table_are_not_deleted(project, monkeypatch):
    project.write("pipeline.py", BY_SENSOR.format(options=", vacuum_hours=1"))
    monkeypatch.setattr("barca.io.sinks.delta.upkeep.VACUUM_EVERY", 1)
    root = project.root / "exports/scored"
    set_versions(project, a=1)
    project.ran()
    killed = f"part-{'0' * 32}.parquet"  # of a commit that never came to be
    long_ago = time.time() - 9 * 3600
    for name in ("notes.txt", "theirs.parquet", "deep/part-0.parquet", killed):
        project.write(f"exports/scored/{name}", "theirs")
        os.utime(root / name, (long_ago, long_ago))
    set_versions(project, a=2)
    project.ran()
    assert (root / "notes.txt").exists()
    assert (root / "theirs.parquet").exists()
    assert (root / "deep/part-0.parquet").exists()
    assert not (root / killed).exists()


# --- what is gone, and what has another layout ------------------------------------------------------


def test_a_table_whose_log_is_gone_is_written_again_with_every_key(sensed):
    sensed.ran()
    shutil.rmtree(sensed.root / "exports/scored/_delta_log")
    set_versions(sensed, a=7, b=2)
    told = []
    result = sensed.open(listener=told.append).get()
    assert result.status == "success"
    assert "sink exports/scored/: the table was gone, and is written again with every key" in [
        event.message for event in told if type(event).__name__ == "Noted"
    ]
    assert rows(sensed) == scored(a=7, b=2)
    assert sensed.ran() == {"versions": 1}


def test_a_selection_does_not_make_a_table_of_some_keys_where_one_was(sensed):
    sensed.ran()
    shutil.rmtree(sensed.root / "exports/scored")
    set_versions(sensed, a=7, b=1, c=1)
    result = sensed.get("scored", partition={"k": "a"})
    assert result.status == "failed"
    assert "the Delta table exports/scored/ is gone; run the asset whole" in result.error.message
    assert not (sensed.root / "exports/scored/_delta_log").exists()
    sensed.ran()
    assert rows(sensed) == scored(a=7, b=1, c=1)


def test_keys_that_failed_while_a_table_was_written_again_come_back(project):
    text = """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"k": partitions(["a", "b"])})
        @sink("exports/scored/", format="delta")
        def scored(k):
            return pl.DataFrame({"v": [VALUE]})
    """
    project.write("pipeline.py", text.replace("VALUE", "1"))
    project.ran()
    shutil.rmtree(project.root / "exports/scored/_delta_log")
    project.write("pipeline.py", text.replace("VALUE", "2 // (k == 'a')"))
    assert project.get().status == "failed"
    assert sorted(rows(project)) == [("a", 2)]
    project.write("pipeline.py", text.replace("VALUE", "1"))
    project.ran()
    assert sorted(rows(project)) == [("a", 1), ("b", 1)]


def test_a_table_without_its_marker_is_refused(sensed):
    sensed.ran()
    (sensed.root / "exports/scored/_barca_sink.json").unlink()
    set_versions(sensed, a=7, b=1)
    result = sensed.get()
    assert result.status == "failed"
    assert "holds a Delta table and no _barca_sink.json" in result.error.message
    assert "put the file back" in result.error.message
    assert rows(sensed) == scored(a=1, b=2, c=3)


def test_a_log_that_lacks_a_commit_is_refused(sensed):
    sensed.ran()
    set_versions(sensed, a=2, b=1, c=1)
    sensed.ran()
    (sensed.root / "exports/scored/_delta_log/00000000000000000000.json").unlink()
    set_versions(sensed, a=3, b=1, c=1)
    result = sensed.get()
    assert result.status == "failed"
    assert "sink exports/scored/: " in result.error.message


def test_other_dimensions_are_for_all_keys_or_none(project):
    one = """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"k": partitions(["a", "b"])})
        @sink("exports/scored/", format="delta")
        def scored(k):
            return pl.DataFrame({"v": [1]})
    """
    two = one.replace('["a", "b"])', '["a", "b"]), "m": partitions(["1"])').replace("(k)", "(k, m)")
    project.write("pipeline.py", one)
    project.ran()
    for text, had, has, found in (
        (two, "`k`", "`k`, `m`", [("a", "1", 1), ("b", "1", 1)]),
        (one, "`k`, `m`", "`k`", [("a", 1), ("b", 1)]),
    ):
        project.write("pipeline.py", text)
        before = rows(project)
        result = project.get(partition={"k": "a"})
        assert result.status == "failed"
        assert f"has keys of {had}, and now should have those of {has}; run the" in result.error.message
        assert rows(project) == before
        project.ran()
        assert sorted(rows(project)) == found
        assert project.get(partition={"k": "a"}).status == "success"


def test_options_of_upkeep_are_in_no_hash(sensed):
    sensed.ran()
    sensed.write("pipeline.py", BY_SENSOR.format(options=", compact_files=9, vacuum_hours=9"))
    assert sensed.ran() == {"versions": 1}

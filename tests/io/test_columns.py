"""Columns whose names Polars takes for patterns, from end to end."""

from __future__ import annotations

import duckdb
import polars as pl
import pytest

from barca.io.columns import exact, exactly, fields_of, without

NAMES = ["*", "^x.*$", "^.*$", "x1", "", " "]

PIPELINE = """
    import polars as pl
    from barca import asset, collect, partitions, sink

    def table(number):
        return pl.DataFrame({
            "*": [3.5, -0.0, None],
            "^x.*$": ["b", "a", number],
            "x1": [3, 1, 2],
            "^.*$": [{"*": 1.5, "^a$": -0.0, "a": 0}, None, {"*": None, "^a$": 2.0, "a": 1}],
        })

    @asset
    @sink("one.parquet")
    @sink("one.csv.ndjson")
    @sink("one/")
    @sink("by/", partition_by=["x1"])
    @sink("delta/", format="delta")
    def one() -> pl.DataFrame:
        return table("n")

    @asset(partitions={"k": partitions(["a", "b"])})
    @sink("many/")
    @sink("table/", format="delta")
    def each(k) -> pl.DataFrame:
        return table(k)

    @asset(partitions={"k": partitions(["a", "b"])}, batch="all", inputs={"rows": each})
    def batched(k: list[str], rows: pl.DataFrame) -> pl.DataFrame:
        return rows

    @asset(inputs={"rows": collect(batched)})
    def collected(rows: pl.LazyFrame) -> pl.DataFrame:
        return rows.collect()

    @asset
    def keyed() -> pl.DataFrame:
        return pl.DataFrame({"key": ["a", "b"], "*": [1, 2], "^x.*$": ["p", "q"], "x1": [5, 6]})
"""


def rows(frame: pl.DataFrame) -> list[tuple]:
    found = frame.select(exactly(["*", "^x.*$", "x1"])).rows()
    return sorted(found, key=lambda row: (row[2], row[1]))


EXPECTED = [(0.0, "a", 1), (None, "n", 2), (3.5, "b", 3)]
EACH = [(0.0, "a", 1), (0.0, "a", 1), (None, "a", 2), (None, "b", 2), (3.5, "b", 3), (3.5, "b", 3)]


@pytest.fixture
def ran(project):
    project.write("pipeline.py", PIPELINE)
    project.ran()
    return project


def test_results_are_stored_and_read_as_they_are(ran):
    value = ran.get("one").value
    assert value.columns == ["*", "^x.*$", "x1", "^.*$"]
    assert rows(value) == EXPECTED
    parts = value.get_column("^.*$").to_list()
    assert {"*": 1.5, "^a$": 0.0, "a": 0} in parts
    assert {"*": None, "^a$": 2.0, "a": 1} in parts
    assert rows(ran.get("collected").value) == EACH
    assert rows(ran.open().scan("each").collect(engine="in-memory")) == EACH


def test_rows_come_in_one_order_whatever_order_they_were_in(project):
    text = """
        import polars as pl
        from barca import asset

        @asset
        def one() -> pl.DataFrame:
            return pl.DataFrame({"*": [NUMBERS], "^x.*$": [1, 1, 1]})
    """
    found = []
    for numbers in ("3, 1, 2", "2, 3, 1"):
        project.write("pipeline.py", text.replace("NUMBERS", numbers))
        found.append(project.get().value)
    assert found[0].equals(found[1])
    assert found[0].get_column("*").to_list() == [1, 2, 3]


def test_sinks_hold_them(ran):
    root = ran.root
    for found in (
        pl.read_parquet(root / "one.parquet"),
        pl.read_ndjson(root / "one.csv.ndjson"),
        pl.read_parquet(root / "one/part-0.parquet", hive_partitioning=False),
        pl.read_delta(str(root / "delta")),
        pl.scan_parquet(f"{root}/by/**/*.parquet", hive_partitioning=True).collect(engine="in-memory"),
        duckdb.sql(f"from '{root}/one.parquet'").pl(),
    ):
        assert rows(found) == EXPECTED
    for found in (
        pl.scan_parquet(f"{root}/many/**/*.parquet", hive_partitioning=True).collect(engine="in-memory"),
        pl.read_delta(str(root / "table")),
    ):
        assert rows(found) == EACH


def test_a_delta_table_keeps_and_merges_them(ran):
    ran.edit("pipeline.py", '"x1": [3, 1, 2],', '"x1": [3, 1, 2 if number != "b" else 7],')
    ran.edit(
        "pipeline.py", '@sink("table/", format="delta")', '@sink("table/", format="delta", compact_files=1)'
    )
    ran.open().get("each", partition={"k": "b"})
    found = pl.read_delta(str(ran.root / "table"))
    assert rows(found) == sorted([*EACH[:3], *EACH[4:], (None, "b", 7)], key=lambda row: (row[2], row[1]))


def test_they_are_compared(ran):
    ran.edit("pipeline.py", '"x1": [3, 1, 2],', '"x1": [3, 1, 9],')
    ran.ran("one")
    found = ran.open().diff("one", on=["^x.*$"]).difference
    assert found.changed.to_dicts() == [{"^x.*$": "n", "x1": {"before": 2, "after": 9}}]
    assert (found.added.height, found.removed.height, found.unchanged) == (0, 0, 2)
    ran.edit("pipeline.py", '"^x.*$": ["b", "a", number]', '"^x.*$": ["b", "b", number]')
    ran.ran("one")
    found = ran.open().diff("one").difference
    assert sorted(found.changed.columns) == ["^x.*$", "x1"]


def test_a_keyed_source_may_have_them(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions_from, sensor

        @sensor
        def source() -> pl.DataFrame:
            return pl.DataFrame({"key": ["a", "b"], "*": [1, 2], "^x.*$": ["p", "q"], "x1": [5, 6]})

        @asset(partitions={"k": partitions_from(source)})
        def one(k, source: dict) -> dict:
            return source
        """,
    )
    project.ran()
    found = project.open().scan("one").collect(engine="in-memory")
    assert rows(found) == [(1, "p", 5), (2, "q", 6)]


@pytest.mark.parametrize("name", NAMES)
def test_exactly_the_column_that_is_named(name):
    frame = pl.DataFrame({other: [number] for number, other in enumerate(NAMES)})
    place = NAMES.index(name)
    assert frame.select(exact(name)).to_dict(as_series=False) == {name: [place]}
    assert frame.select(exactly([name, "x1"]) if name != "x1" else exactly(["x1"])).columns[0] == name
    assert without(frame, [name]).columns == [other for other in NAMES if other != name]
    struct = frame.to_struct("s").to_frame()
    assert struct.select(fields_of(pl.col("s"), struct.schema["s"])[name][0]).to_series().to_list() == [place]


def test_without_nothing_is_the_frame():
    frame = pl.DataFrame({"*": [1]})
    assert without(frame, []).equals(frame)

"""Tables of streaming nodes: computed in pieces, stored part by part, with the digests of any other way."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest

from barca.io.memory import MemoryPackStore
from barca.io.storage import STAGING_PREFIX, FilePackStore
from barca.schemas import DIGEST, KEY, PATH, ROWS
from tests.exec.works import failures, run_batch, succeeded

KEYS = [f"k{number:03d}" for number in range(200)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barca.io.spool.PIECE_ROWS", 50)
    monkeypatch.setattr("barca.io.spool.HELD_BYTES", 500)


def rows() -> pl.DataFrame:
    numbers = pl.DataFrame({"n": range(1_000)})
    return numbers.select(r=pl.lit("k") + (pl.col("n") % 190).cast(pl.String).str.zfill(3), n="n")


@pytest.mark.parametrize("kind", ["lazy", "duckdb", "dataset"])
def test_a_streamed_table_is_the_table_that_is_collected(kind: str, tmp_path: Any) -> None:
    frame = rows()
    table: Any = frame.lazy()
    if kind == "duckdb":
        table = duckdb.from_arrow(frame.to_arrow())
    if kind == "dataset":
        table = ds.dataset(frame.to_arrow())
    store = FilePackStore(tmp_path)
    streamed = run_batch(lambda r: table, KEYS, store, engine="streaming")
    collected = run_batch(lambda r: table, KEYS)
    assert failures(streamed) == {}
    columns = [KEY, ROWS, DIGEST]
    assert streamed.fragments.sort(KEY).select(columns).equals(collected.fragments.sort(KEY).select(columns))
    assert streamed.fragments.get_column(PATH).n_unique() > 1
    left = [file for file in tmp_path.rglob("*") if file.name.startswith(STAGING_PREFIX)]
    assert left == [], "nothing of the passage is left"


def test_several_dimensions_and_other_types_are_matched_by_text() -> None:
    pairs = [("2026-01-01", "1"), ("2026-01-02", "2"), ("2026-01-02", "3")]
    frame = pl.LazyFrame({"d": [dt.date(2026, 1, 2), dt.date(2026, 1, 1)], "n": [2, 1], "x": [1.0, 2.0]})
    result = run_batch(lambda d, n: frame, pairs, names=("d", "n"), engine="streaming")
    heights = dict(result.fragments.select(KEY, ROWS).iter_rows())
    assert heights == {"d=2026-01-01/n=1": 1, "d=2026-01-02/n=2": 1, "d=2026-01-02/n=3": 0}


@pytest.mark.parametrize(
    ("frame", "named"),
    [
        (pl.LazyFrame({"r": ["k001", "zz"], "n": [1, 2]}), "r=zz"),
        (pl.LazyFrame({"r": ["k001", None], "n": [1, 2]}), "r=null"),
        (pl.LazyFrame({"x": [1]}), "without a column `r`"),
        (pl.LazyFrame({"r": [[1]]}), "holds no keys"),
    ],
)
def test_wrong_tables_fail_the_call_as_they_do_otherwise(frame: pl.LazyFrame, named: str) -> None:
    streamed = run_batch(lambda r: frame, KEYS[:3], engine="streaming")
    assert streamed.raised and streamed.fragments.is_empty()
    assert named in failures(streamed)["r=k000"]
    assert named in failures(run_batch(lambda r: frame, KEYS[:3]))["r=k000"]


def test_a_query_that_fails_in_the_middle_is_the_failure_of_the_call(tmp_path: Any) -> None:
    def breaks(n: int) -> int:
        if n > 500:
            raise ValueError("half way")
        return n

    query = rows().lazy().with_columns(pl.col("n").map_elements(breaks, return_dtype=pl.Int64))
    result = run_batch(lambda r: query, KEYS, FilePackStore(tmp_path), engine="streaming")
    assert result.raised and "half way" in failures(result)["r=k000"]
    assert list(tmp_path.rglob(f"{STAGING_PREFIX}*")) == []


def test_an_empty_table_gives_every_key_no_rows() -> None:
    result = run_batch(lambda r: rows().lazy().head(0), KEYS, MemoryPackStore(), engine="streaming")
    assert len(succeeded(result)) == 200
    assert result.fragments.get_column(ROWS).sum() == 0


def test_generators_and_dicts_of_streaming_nodes_are_as_anywhere() -> None:
    def step(r: list[str]) -> Iterator[Any]:
        yield rows().lazy().filter(pl.col("r") == "k001")
        yield "k002", 5

    result = run_batch(step, KEYS[:3], engine="streaming")
    assert failures(result) == {}

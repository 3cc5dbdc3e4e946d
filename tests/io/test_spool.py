"""Tables of streaming nodes: computed in pieces, stored part by part, with the digests of any other way."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest

from barca.io.memory import MemoryPackStore
from barca.io.leftovers import STAGING_PREFIX
from barca.io.storage import FilePackStore
from barca.schemas import DIGEST, KEY, PATH, ROWS
from tests.exec.works import failures, run_batch, succeeded

KEYS = [f"k{number:03d}" for number in range(200)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barca.io.spool.PIECE_ROWS", 50)
    monkeypatch.setattr("barca.io.spool.HELD_BYTES", 5_000)
    monkeypatch.setattr("barca.io.spool.PART_BYTES", 2_000)


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


def test_a_column_may_be_called_part() -> None:
    store = MemoryPackStore()
    frame = rows().rename({"n": "part"})
    result = run_batch(lambda r: frame.lazy(), KEYS, store, engine="streaming")
    assert failures(result) == {}
    stored = store.scan(result.fragments.get_column(PATH).unique().to_list()).collect(engine="in-memory")
    assert stored.get_column("part").sort().to_list() == list(range(1_000))


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


PEAK = """
import sys
from pathlib import Path
import polars as pl
from barca.exec.memory import read_peak, reset_peak
from barca.io.packing import Shelf
from barca.io.fragments import pack_table
from barca.io.spool import Spool
from barca.io.storage import FilePackStore
from tests.exec.works import work_keys

class Table:
    def to_arrow_reader(self, rows):
        for begin in range(0, KEYS, 100):
            numbers = pl.DataFrame({"n": range(begin * 20, begin * 20 + 2_000)})
            text = pl.col("n").hash().cast(pl.String).str.zfill(20)
            wide = numbers.select(r=(pl.col("n") // 20).cast(pl.String), text=pl.concat_str([text] * 125))
            yield wide.to_arrow().combine_chunks().to_batches()[0]

KEYS = int(sys.argv[2])
store = FilePackStore(Path(sys.argv[1]))
keys = work_keys([str(number) for number in range(KEYS)])
reset_peak()
with Spool(store.scratch, ("r",)) as spool:
    spool.fill(Table())
    for number, (rows, own) in enumerate(spool.parts(keys)):
        pack_table(store, f"n/{number}.parquet", "flow.py:node", rows, own, ("r",))
print(read_peak())
"""


@pytest.mark.slow
def test_b10_memory_does_not_grow_with_the_table(tmp_path: Any) -> None:
    """50 kB a key: 8,000 keys are 400 MB, 2,000 a quarter of it."""
    peaks = []
    for keys in (2_000, 8_000):
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(tmp_path / str(keys)), str(keys)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "POLARS_MAX_THREADS": "1"},
        )
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 100_000_000, peaks

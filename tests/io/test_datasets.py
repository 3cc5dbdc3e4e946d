"""Inputs as Arrow datasets and other lazy tables: read when they are queried, and only what is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from barca.io.fragments import pack_table, pack_values
from barca.io.garbage.repack import repack
from barca.io.memory import MemoryPackStore
from barca.io.storage import FilePackStore
from barca.io.values import read_table
from barca.schemas import KEY, dimension
from tests.exec.works import work_keys

NODE = "steps.py:source"


def stored(store: Any, name: str, keys: str, value: Any = 1) -> pl.DataFrame:
    """Fragments, with `dim:` columns, of a pack with a row per key."""
    frame = pl.DataFrame({"r": list(keys), "n": [value] * len(keys)})
    held = work_keys(keys)
    fragments = pack_table(store, f"n/{name}.parquet", NODE, frame, held, ("r",))
    return held.select(KEY, dimension("r")).join(fragments, on=KEY, how="left", maintain_order="left")


def rows(table: Any) -> list[tuple[str, Any]]:
    found = table.to_table().to_pydict()
    return sorted(zip(found["r"], found["n"], strict=True))


@pytest.fixture
def store(tmp_path: Path) -> FilePackStore:
    return FilePackStore(tmp_path)


def test_whole_packs_are_a_dataset_of_their_files(store: FilePackStore, monkeypatch: Any) -> None:
    fragments = pl.concat([stored(store, "a", "ab"), stored(store, "b", "c", 2)])
    monkeypatch.setattr(FilePackStore, "scan", None)  # nothing is read by Polars
    table = read_table(store, fragments, ds.Dataset, ("r",))
    assert isinstance(table, ds.FileSystemDataset)
    assert len(table.files) == 2
    assert table.schema.names == ["r", "n"]
    assert rows(table) == [("a", 1), ("b", 1), ("c", 2)]
    assert rows(table) == rows(table), "as often as you like"
    assert table.to_table(filter=pc.field("r") == "c").num_rows == 1
    assert duckdb.from_arrow(table).aggregate("sum(n)").fetchall() == [(4,)]


def test_of_one_pack_the_wanted_keys_are_filtered(store: FilePackStore, monkeypatch: Any) -> None:
    fragments = stored(store, "a", "abcd").filter(pl.col(KEY).is_in(["r=b", "r=d"]))
    monkeypatch.setattr(FilePackStore, "scan", None)
    assert rows(read_table(store, fragments, "pyarrow.dataset.Dataset", ("r",))) == [("b", 1), ("d", 1)]


def test_superseded_rows_of_a_wanted_key_are_never_read(store: FilePackStore) -> None:
    old, new = stored(store, "a", "ab"), stored(store, "b", "b", 2)
    fragments = pl.concat([old.filter(pl.col(KEY) == "r=a"), new])
    assert rows(read_table(store, fragments, ds.Dataset, ("r",))) == [("a", 1), ("b", 2)]


def test_of_a_pack_with_several_results_of_a_key_the_wanted_one_is_read(store: FilePackStore) -> None:
    old, new = stored(store, "a", "abc"), stored(store, "b", "b", 2)
    moved = repack(store, pl.concat([old, new]).drop(dimension("r")), "n/m")
    names = moved.with_columns(pl.col(KEY).str.strip_prefix("r=").alias(dimension("r")))
    for was, number in (("n/a.parquet", 1), ("n/b.parquet", 2)):
        wanted = names.filter((pl.col(KEY) == "r=a") | ((pl.col(KEY) == "r=b") & (pl.col("was") == was)))
        for form in (ds.Dataset, pl.LazyFrame):
            table = read_table(store, wanted, form, ("r",))
            table = table if form is ds.Dataset else ds.dataset(table.collect(engine="in-memory").to_arrow())
            assert rows(table) == [("a", 1), ("b", number)]


def test_packs_of_other_schemas_are_made_one_table(store: FilePackStore) -> None:
    fragments = pl.concat([stored(store, "a", "a"), stored(store, "b", "b", 2.5)])
    assert rows(read_table(store, fragments, ds.Dataset, ("r",))) == [("a", 1.0), ("b", 2.5)]


def test_records_are_tables_too_and_a_store_without_files_will_do(tmp_path: Path) -> None:
    for store in (FilePackStore(tmp_path), MemoryPackStore()):
        keys = work_keys("ab")
        values = [("r=a", [{"n": 1}, {"n": 2}]), ("r=b", [{"n": 3}])]
        packed, failed = pack_values(store, "n/v.parquet", NODE, values, keys, ("r",))
        assert not failed
        fragments = keys.select(KEY, dimension("r")).join(packed, on=KEY, how="left", maintain_order="left")
        assert rows(read_table(store, fragments, ds.Dataset, ("r",))) == [("a", 1), ("a", 2), ("b", 3)]
    assert rows(read_table(store, stored(store, "a", "ab"), ds.Dataset, ("r",))) == [("a", 1), ("b", 1)]

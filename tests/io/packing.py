"""Keys, stores that count, and shorthand for packing and reading, for the tests of fragments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from barca.io.fragments import pack_table, pack_values
from barca.io.memory import MemoryPackStore
from barca.io.storage import FilePackStore
from barca.partitions import key_text
from barca.schemas import KEY, WORK_KEYS, dimension

NODE = "flow.py:node"
PATH = "flow.py@node/run-1.parquet"


class _Counting:
    calls: Counter[str]

    def write(self, path: str, frame: pl.DataFrame, metadata: dict[str, str]) -> int:
        self.calls["write"] += 1
        return super().write(path, frame, metadata)

    def scan(self, paths: Sequence[str], schema=None) -> pl.LazyFrame:
        self.calls["scan"] += 1
        return super().scan(paths, schema)


class CountingFileStore(_Counting, FilePackStore):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls = Counter()


class CountingMemoryStore(_Counting, MemoryPackStore):
    def __init__(self) -> None:
        super().__init__()
        self.calls = Counter()


def work_keys(*values: str | tuple[str, ...], dimensions: Sequence[str] = ("retailer",)) -> pl.DataFrame:
    """`schemas.WORK_KEYS` with `dim:` columns, one row per value or tuple of values."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    columns = {dimension(name): [row[at] for row in rows] for at, name in enumerate(dimensions)}
    keys = [key_text(dict(zip(dimensions, row, strict=True))) for row in rows]
    frame = {"key": keys, "ordinal": range(len(rows)), "run_hash": [f"h-{key}" for key in keys], "call": "b1"}
    return pl.DataFrame(
        {**frame, **columns},
        schema={**WORK_KEYS, **dict.fromkeys(columns, pl.String)},
    )


ONLY_KEY = pl.DataFrame({"key": [""], "ordinal": [0], "run_hash": ["h"], "call": ["b1"]}, schema=WORK_KEYS)


def with_dimensions(fragments: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """Fragments with the `dim:` columns of their keys."""
    own = keys.select(KEY, *[name for name in keys.columns if name.startswith("dim:")])
    return fragments.join(own, on=KEY, how="inner", maintain_order="left")


def split(store, table: Any, keys: pl.DataFrame, dimensions=("retailer",), path: str = PATH) -> pl.DataFrame:
    """`pack_table` for the node of these tests, fragments with `dim:` columns, checked."""
    fragments = pack_table(store, path, NODE, table, keys, dimensions)
    check(store, fragments)
    return with_dimensions(fragments, keys)


def keep(store, values: Iterable[Any], keys: pl.DataFrame, dimensions=("retailer",), path=PATH, **options):
    """`pack_values` of one value per key, in order: fragments with `dim:` columns, and failures."""
    pairs = list(zip(keys.get_column(KEY).to_list(), values, strict=True))
    fragments, failures = pack_values(store, path, NODE, pairs, keys, dimensions, **options)
    check(store, fragments)
    return with_dimensions(fragments, keys), failures


def only(store, value: Any, path: str = PATH, **options: Any) -> pl.DataFrame:
    """The fragment of an unpartitioned node's value."""
    fragments, failures = keep(store, [value], ONLY_KEY, (), path, **options)
    assert failures == []
    return fragments


def check(store, fragments: pl.DataFrame) -> None:
    """Row ranges of each pack follow one another and cover it."""
    for (path,), part in fragments.group_by("path", maintain_order=True):
        height = store.scan([path]).select(pl.len()).collect(engine="in-memory").item()
        assert part["row_offset"].to_list() == (part["rows"].cum_sum() - part["rows"]).to_list()
        assert part["rows"].sum() == height
        assert (part["size_bytes"] >= (part["rows"] > 0).cast(pl.Int64)).all()

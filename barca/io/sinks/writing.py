"""Writing many files: tables in every format, the pieces of one table together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeVar

import polars as pl

from barca.io.canonical import free_name
from barca.io.packs import is_panic
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from polars.io.partition import FileProviderArgs

T = TypeVar("T")

PARQUET: Final[dict[str, Any]] = {"compression": "zstd", "compression_level": 3}
"""How Parquet is written for others to read."""

_WRITERS: Final[dict[str, Callable[..., Any]]] = {
    "parquet": partial(pl.LazyFrame.sink_parquet, **PARQUET),
    "ipc": partial(pl.LazyFrame.sink_ipc, compression="zstd"),
    "csv": pl.LazyFrame.sink_csv,
    "ndjson": pl.LazyFrame.sink_ndjson,
}

TABLE_FORMATS: Final = frozenset((*_WRITERS, "json"))
"""Formats that hold tables and of which Polars is the writer."""


class TableFile(Record):
    """A file to write: a table, or some rows of one.

    Attributes:
        table: The table. Files that follow one another and have the same one are its pieces.
        path: Where; the directory is made.
        format: One of `TABLE_FORMATS`.
        offset: Of the first row.
        rows: Number of rows; `None` for all that follow.
    """

    table: pl.DataFrame | pl.LazyFrame
    path: str
    format: str
    offset: int = 0
    rows: int | None = None


def write_tables(files: Sequence[TableFile]) -> Mapping[int, Exception]:
    """Write files.

    Returns:
        By position, why a file could not be written.
    """
    failures: dict[int, Exception] = {}
    for _, group in groupby(enumerate(files), lambda pair: (id(pair[1].table), pair[1].format)):
        numbered = list(group)
        pieces = [file for _, file in numbered]
        if len(pieces) > 1 and pieces[0].format != "json" and attempt(partial(_write_pieces, pieces)) is None:
            continue
        # one by one, which tells what of the pieces could not be written
        attempts = ((number, attempt(partial(_write, file))) for number, file in numbered)
        failures |= {number: error for number, error in attempts if error is not None}
    return failures


def _write(file: TableFile) -> None:
    rows = file.table.lazy().slice(file.offset, file.rows)
    if file.format == "json":
        rows.collect(engine="in-memory").write_json(file.path)
    else:
        _WRITERS[file.format](rows, file.path, mkdir=True, engine="streaming")


def _write_pieces(files: Sequence[TableFile]) -> None:
    """Write pieces of a table in one query, which has few of the files open at a time."""
    filled = [file for file in files if file.rows]
    for file in files:
        if not file.rows:  # makes no partition
            _write(file)
    if not filled:
        return
    table = filled[0].table.lazy().collect(engine="in-memory")
    begin = pl.Series("begin", [file.offset for file in filled])
    length = pl.Series("length", [file.rows for file in filled])
    placed = (
        pl.DataFrame([begin, length])
        .with_row_index("piece")
        .select("piece", pl.int_ranges("begin", pl.col("begin") + pl.col("length")).alias("row"))
        .explode("row")
    )
    key = free_name("piece", table.columns)
    rows = table[placed.get_column("row")].with_columns(placed.get_column("piece").alias(key))

    def path(told: FileProviderArgs) -> str:
        if told.index_in_partition:
            raise RuntimeError("a piece came in parts")  # of which each would replace the one before
        position: int = told.partition_keys.item()
        return filled[position].path

    pieces = pl.PartitionBy(
        "", key=key, include_key=False, approximate_bytes_per_file=None, file_path_provider=path
    )
    _WRITERS[filled[0].format](rows.lazy(), pieces, mkdir=True, engine="streaming")


def try_each(items: Mapping[str, T], action: Callable[[T], object], workers: int) -> dict[str, Exception]:
    """Do something with each item, several at a time; by name, what it raised."""
    attempts: Iterable[Exception | None]
    if workers == 1 or len(items) < 2:
        attempts = [attempt(partial(action, item)) for item in items.values()]
    else:
        with ThreadPoolExecutor(workers) as pool:
            attempts = list(pool.map(partial(_attempt_with, action), items.values()))
    return {name: error for name, error in zip(items, attempts, strict=True) if error is not None}


def _attempt_with(action: Callable[[T], object], item: T) -> Exception | None:
    return attempt(partial(action, item))


def attempt(action: Callable[[], object]) -> Exception | None:
    """Do something; what it raised, panics too."""
    try:
        action()
    except Exception as error:
        return error
    except BaseException as error:
        if is_panic(error):
            return RuntimeError(str(error))
        raise
    return None

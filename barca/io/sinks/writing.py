"""Writing many files: tables in every format, several at a time, never with more than 128 open."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import polars as pl

from barca.io.packs import is_panic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

PARQUET: Final[dict[str, Any]] = {"compression": "zstd", "compression_level": 3}
"""How Parquet is written for others to read."""

_THREADS: Final = 4
_OPEN: Final = 128
"""So many threads write, and so many files at a time in all: a query opens all of its files at once."""

_LAZY_WRITERS: Final[dict[str, Callable[..., Any]]] = {
    "parquet": partial(pl.LazyFrame.sink_parquet, **PARQUET),
    "ipc": partial(pl.LazyFrame.sink_ipc, compression="zstd"),
    "csv": pl.LazyFrame.sink_csv,
    "ndjson": pl.LazyFrame.sink_ndjson,
}

TABLE_FORMATS: Final = frozenset((*_LAZY_WRITERS, "json"))
"""Formats that hold tables and of which Polars is the writer."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file to write: a table, or some rows of one."""

    table: pl.DataFrame | pl.LazyFrame
    path: Path
    format: str
    offset: int = 0
    rows: int | None = None


def write_tables(files: Sequence[TableFile]) -> Mapping[int, Exception]:
    """Write files, and the directories that they are in.

    Returns:
        By position, why a file could not be written.
    """
    numbered = [(number, file) for number, file in enumerate(files) if file.format != "json"]
    failures: dict[int, Exception] = {}
    threads = min(_THREADS, os.cpu_count() or 1)
    groups = list(_groups(numbered, _OPEN // threads))
    if len(groups) == 1:
        failures |= _write_group(groups[0])
    elif groups:
        with ThreadPoolExecutor(threads) as pool:
            for failed in pool.map(_write_group, groups):
                failures |= failed
    for number, file in enumerate(files):
        if file.format == "json" and (error := attempt(partial(_rows(file).write_json, file.path))):
            failures[number] = error
    return failures


def _groups(
    files: Sequence[tuple[int, TableFile]], together: int
) -> Iterable[tuple[tuple[int, TableFile], ...]]:
    for start in range(0, len(files), together):
        yield tuple(files[start : start + together])


def _write_group(files: Sequence[tuple[int, TableFile]]) -> dict[int, Exception]:
    """Write files in one query; where that fails one by one, to learn which."""
    if len(files) > 1 and attempt(partial(_collect, [file for _, file in files])) is None:
        return {}
    attempts = ((number, attempt(partial(_collect, [file]))) for number, file in files)
    return {number: error for number, error in attempts if error is not None}


def _collect(files: Sequence[TableFile]) -> None:
    for directory in {file.path.parent for file in files}:  # here, while other threads write others
        directory.mkdir(parents=True, exist_ok=True)
    queries = [
        _LAZY_WRITERS[file.format](file.table.lazy().slice(file.offset, file.rows), file.path, lazy=True)
        for file in files
    ]
    pl.collect_all(queries, engine="streaming")


def _rows(file: TableFile) -> pl.DataFrame:
    return file.table.lazy().slice(file.offset, file.rows).collect(engine="in-memory")


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

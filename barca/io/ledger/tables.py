"""The Delta tables of a ledger: opening, their data files, and the errors of delta-rs.

Data files are written by Polars and flushed before the commit that names them. Their names begin with a
stamp, microseconds that grow from commit to commit, so that sorting by name gives the order of commits,
after compaction too.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import polars as pl

from barca.errors import LedgerError, StoreError
from barca.io.packs import WRITE_OPTIONS, is_panic
from barca.io.rows import partition_directory
from barca.io.storage import staged
from barca.schemas import RUN_ID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from deltalake import DeltaTable, Schema
    from deltalake.transaction import PostCommitHookProperties


CHECKPOINT_INTERVAL: Final = 20
"""Commits between checkpoints."""

CONFIGURATION: Final[dict[str, str | None]] = {
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
"""Properties of each table. A reader is pinned to a version: it may live as long as files are retained."""

_STAMP = re.compile(r"(\d{20})-")
_DELTA_TYPES: Final[dict[str, str]] = {
    "String": "string",
    "Int64": "long",
    "Float64": "double",
    "Boolean": "boolean",
}


# --- errors -----------------------------------------------------------------------------------------


@contextmanager
def delta_errors(table: Path, doing: str) -> Iterator[None]:
    """Turn what delta-rs and Polars raise, panics too, into `LedgerError`."""
    try:
        yield
    except (OSError, StoreError, pl.exceptions.PolarsError, ValueError) as error:
        if isinstance(error, LedgerError):
            raise
        raise _ledger_error(table, doing, error) from error
    except BaseException as error:
        if is_panic(error) or type(error).__module__.startswith("deltalake."):
            raise _ledger_error(table, doing, error) from error
        raise


def _ledger_error(table: Path, doing: str, error: BaseException) -> LedgerError:
    detail = str(error).strip().split("\n", 1)[0]
    return LedgerError(f"the ledger table `{table.name}` could not be {doing}: {detail}", file=str(table))


# --- tables -----------------------------------------------------------------------------------------


def open_table(path: Path, version: int | None = None) -> DeltaTable:
    """A handle on an existing table, whose log is known to be whole."""
    from deltalake import DeltaTable

    with delta_errors(path, "opened"):
        return DeltaTable(path, version=version)


def delta_schema(schema: pl.Schema) -> Schema:
    """The Delta schema of a ledger table."""
    from deltalake import Schema

    columns = [
        {"name": name, "type": _delta_type(dtype), "nullable": True, "metadata": dict[str, str]()}
        for name, dtype in schema.items()
    ]
    return Schema.from_json(json.dumps({"type": "struct", "fields": columns}))


def _delta_type(dtype: pl.DataType) -> str | dict[str, Any]:
    if isinstance(dtype, pl.List):
        inner = _delta_type(pl.Series(dtype=dtype.inner).dtype)
        return {"type": "array", "elementType": inner, "containsNull": True}
    if isinstance(dtype, pl.Datetime):
        return "timestamp"
    return _DELTA_TYPES[str(dtype)]


def quiet_hooks() -> PostCommitHookProperties:
    """No work behind a commit: checkpoints and log clean-up are done explicitly, and flushed."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


# --- data files -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class DataFile:
    """A Parquet file of a table.

    Attributes:
        stamp: Orders files by commit, in microseconds.
        path: Relative to the table.
        node: Value of the partition column, or `None`.
        size: Bytes.
        rows: Number of rows.
        stats: Delta statistics, JSON; empty for files read from the log.
    """

    stamp: int
    path: str
    node: str | None
    size: int
    rows: int
    stats: str = field(default="", compare=False)


def data_files(table: DeltaTable) -> list[DataFile]:
    """The files of a table, in the order of their commits."""
    actions = pl.DataFrame(table.get_add_actions(flatten=True))
    partition = next((column for column in actions.columns if column.startswith("partition.")), None)
    nodes = actions[partition].to_list() if partition else [None] * actions.height
    columns = ("path", "size_bytes", "modification_time", "num_records")
    return sorted(
        DataFile(stamp_of(path, modified), unquote(path), node, size, rows or 0)
        for (path, size, modified, rows), node in zip(actions.select(columns).rows(), nodes, strict=True)
    )


def stamp_of(path: str, modified: int) -> int:
    """The stamp in a file's name; of a file some other tool wrote, its modification time."""
    match = _STAMP.match(path.rpartition("/")[2])
    return int(match[1]) if match else modified * 1000


def next_stamp(files: list[DataFile]) -> int:
    """A stamp after all of these files, whatever the clock says."""
    newest = files[-1].stamp if files else 0
    return max(time.time_ns() // 1000, newest + 1)


def write_data_file(table: Path, node: str | None, rows: pl.DataFrame, stamp: int, token: str) -> DataFile:
    """Write rows as a data file, durably; it is part of the table once a commit adds it.

    Args:
        table: Directory of the table.
        node: Value of the partition column; `None` of a table without one.
        rows: Rows of `schemas.LEDGER_TABLES`, without the partition column.
        stamp: Orders the file.
        token: Makes its name unique.

    Raises:
        StoreError: The file system refused.
    """
    name = f"{stamp:020d}-{token}.parquet"
    path = name if node is None else f"{partition_directory(node)}/{name}"
    with staged(table / path) as staging:
        rows.write_parquet(staging, **WRITE_OPTIONS)
        size = staging.stat().st_size
    return DataFile(stamp, path, node, size, rows.height, _statistics(rows))


def _statistics(rows: pl.DataFrame) -> str:
    """Delta statistics by which readers skip files: ranges of times and of run ids."""
    ranged = [name for name, dtype in rows.schema.items() if name == RUN_ID or isinstance(dtype, pl.Datetime)]
    lowest, highest = ({name: _json_value(bound(rows[name])) for name in ranged} for bound in (_min, _max))
    return json.dumps(
        {
            "numRecords": rows.height,
            "minValues": {name: value for name, value in lowest.items() if value is not None},
            "maxValues": {name: value for name, value in highest.items() if value is not None},
            "nullCount": {name: rows[name].null_count() for name in ranged},
        }
    )


def _min(column: pl.Series) -> Any:
    return column.min()


def _max(column: pl.Series) -> Any:
    return column.max()


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value

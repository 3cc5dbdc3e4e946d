"""Data files of a Delta table: rows sorted by key, so that readers skip what they don't ask for."""

from __future__ import annotations

import json
import re
import uuid
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.io.columns import without
from barca.io.sinks.delta.table import DataFile
from barca.io.sinks.hive import Unnameable, segment, texts
from barca.io.sinks.writing import PARQUET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from barca.io.sinks.depots import Depot

FILE_ROWS: Final = 1_000_000
"""Rows of one data file, about; so many rows pass through memory at a time."""

DATA_FILE: Final = re.compile(r"part-[0-9a-f]{32}\.parquet")
"""Names of data files."""

_RANGED: Final = (pl.Date, pl.Datetime, pl.String)
_LONGEST: Final = 64


class RowWriter:
    """Collects rows into data files, which no commit names yet.

    Args:
        depot: The table's directory.
        staging: Where files are prepared.
        dimensions: Columns that the files are sorted by.
        by: Partition columns.

    Attributes:
        files: What was written.
    """

    def __init__(self, depot: Depot, staging: Path, dimensions: Sequence[str], by: Sequence[str]) -> None:
        self._depot = depot
        self._staging = staging
        self._dimensions = list(dimensions)
        self._by = list(by)
        self._waiting: dict[tuple[str | None, ...], list[pl.DataFrame]] = {}
        self.files: list[DataFile] = []

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows that hold the partition columns.

        Raises:
            Unnameable: A value of a partition column that Delta would read back as another.
        """
        if rows.is_empty():
            return
        if not self._by:
            self._take((), rows)
            return
        for name in self._by:
            if isinstance(rows.schema.get(name), pl.Binary):
                raise Unnameable(f"`{name}` holds bytes, by which Polars reads no partitioned Delta table")
        values = texts(rows, self._by)
        for column in values.get_columns():
            if (column == "").any():
                raise Unnameable(f"`{column.name}` holds empty texts, which Delta takes for missing values")
        names = [f"partition:{name}" for name in self._by]
        values.columns = names
        marked = without(rows, self._by).hstack(values.get_columns())
        for place, part in marked.partition_by(
            names, as_dict=True, include_key=False, maintain_order=True
        ).items():
            self._take(place, part)

    def add_to(self, partition: Iterable[str | None], rows: pl.DataFrame) -> None:
        """Take rows of one partition, the columns of the table without those it is partitioned by."""
        if rows.height:
            self._take(tuple(partition), rows)

    def finish(self) -> None:
        """Write what is left."""
        for place in list(self._waiting):
            self._write(place)
        self._depot.settle()

    def _take(self, place: tuple[Any, ...], rows: pl.DataFrame) -> None:
        waiting = self._waiting.setdefault(place, [])
        waiting.append(rows)
        if sum(frame.height for frame in waiting) >= FILE_ROWS:
            self._write(place)

    def _write(self, place: tuple[str | None, ...]) -> None:
        rows = pl.concat(self._waiting.pop(place))
        if self._dimensions:
            rows = rows.sort(self._dimensions, maintain_order=True)
        directory = "".join(f"{segment(name, value)}/" for name, value in zip(self._by, place, strict=True))
        name = f"{directory}part-{uuid.uuid4().hex}.parquet"
        staged = self._staging / uuid.uuid4().hex
        rows.write_parquet(staged, row_group_size=100_000, **PARQUET)
        size = staged.stat().st_size
        self._depot.flush([str(staged)], self._staging)
        self._depot.install_file(staged, name)
        partition = dict(zip(self._by, place, strict=True))
        self.files.append(DataFile(name, size, partition, _statistics(rows)))


def _statistics(rows: pl.DataFrame) -> str:
    """Delta statistics by which readers skip files."""
    ranged = [
        column
        for column in rows.get_columns()
        if isinstance(column.dtype, _RANGED) or column.dtype.is_integer() or column.dtype == pl.Boolean
    ]
    bounds = {column.name: (_value(column.min()), _value(column.max())) for column in ranged}
    known = {name: pair for name, pair in bounds.items() if None not in pair and not _is_long(pair)}
    return json.dumps(
        {
            "numRecords": rows.height,
            "minValues": {name: low for name, (low, _) in known.items()},
            "maxValues": {name: high for name, (_, high) in known.items()},
            "nullCount": {column.name: column.null_count() for column in ranged},
        }
    )


def _is_long(pair: tuple[Any, Any]) -> bool:
    return any(isinstance(value, str) and len(value) > _LONGEST for value in pair)


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value

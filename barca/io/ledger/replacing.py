"""Putting one data file in the place of several, in one commit."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import polars as pl

from barca.io.ledger.commits import Overtaken, commit, snapshot
from barca.io.ledger.log import flush_commits, last_version
from barca.io.ledger.tables import delta_errors, write_data_file
from barca.io.rows import PARTITION_COLUMNS, revised
from barca.schemas import LEDGER_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from barca._typing import NodeId
    from barca.io.ledger.tables import DataFile
    from barca.ports import TableName


MERGED: Final = "merged-"
"""Stands in the names of files that took the place of others."""


def replace_files(
    path: Path,
    name: TableName,
    files: Sequence[DataFile],
    change: Callable[[pl.DataFrame], pl.DataFrame],
    *,
    data_change: bool,
) -> bool:
    """Put one file in the place of several of one partition; whether that was possible.

    The commit must directly follow the version that was read: where another process committed meanwhile,
    it may have replaced the same files, and nothing is changed.

    Args:
        path: Directory of the table.
        name: Of the table.
        files: Files of the table, older commits first.
        change: Makes the rows of the new file, of `schemas.LEDGER_TABLES[name]` without the partition
            column, out of those of the old ones.
        data_change: Whether it changes more than their place.

    Raises:
        LedgerError: The table is damaged or cannot be written to.
    """
    current = snapshot(path)
    if not current.plain or not set(files) <= set(current.files):
        return False
    token = MERGED + uuid.uuid4().hex[:12]
    with delta_errors(path, "compacted"):
        rows = change(_read(path, name, files))
        merged = write_data_file(path, files[0].node, rows, files[-1].stamp, token)
        version = current.version + 1
        try:
            commit(path, version, token, [merged], files, data_change=data_change)
        except Overtaken:
            (path / merged.path).unlink()
            return False
        flush_commits(path, [version])
        for file in files:  # `vacuum` goes by this: since now nothing that begins reads them
            with suppress(FileNotFoundError):
                os.utime(path / file.path)
    return True


def revise(root: Path, node: NodeId, moved: pl.DataFrame, dropped: pl.DataFrame) -> bool:
    """See `ports.Ledger.revise`; every row of the node goes through memory."""
    path = root / "materializations"
    if last_version(path) is None:
        return False
    files = [file for file in snapshot(path).files if file.node == node]
    return bool(files) and replace_files(
        path, "materializations", files, lambda rows: revised(rows, moved, dropped), data_change=True
    )


def _read(path: Path, name: TableName, files: Sequence[DataFile]) -> pl.DataFrame:
    partition = PARTITION_COLUMNS.get(name)
    return pl.scan_parquet(
        [path / file.path for file in files],
        schema={column: dtype for column, dtype in LEDGER_TABLES[name].items() if column != partition},
        missing_columns="insert",
        extra_columns="ignore",
        glob=False,
        hive_partitioning=False,
    ).collect(engine="in-memory")

"""Putting one data file in the place of several, in one commit."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import polars as pl

from barca.io.ledger.log import BATCH, FILES, find_batch, flush_commits, last_version
from barca.io.ledger.tables import data_files, delta_errors, open_table, quiet_hooks, write_data_file
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
    from deltalake import CommitProperties
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import RemoveAction

    table = open_table(path)
    if not set(files) <= set(data_files(table)):
        return False
    partition = PARTITION_COLUMNS.get(name)
    token = MERGED + uuid.uuid4().hex[:12]
    now = time.time_ns() // 10**6
    with delta_errors(path, "compacted"):
        rows = change(_read(path, name, files))
        merged = write_data_file(path, files[0].node, rows, files[-1].stamp, token)
        removed = [
            RemoveAction(
                path=file.path,
                data_change=data_change,
                deletion_timestamp=now,
                size=file.size,
                partition_values={} if partition is None else {partition: file.node},
            )
            for file in files
        ]
        try:
            table.create_write_transaction(
                [*removed, merged.add_action(data_change=data_change)],
                "append",
                table.schema(),
                partition and [partition],
                commit_properties=CommitProperties(
                    custom_metadata={BATCH: token, FILES: 1}, max_commit_retries=0
                ),
                post_commithook_properties=quiet_hooks(),
            )
        except CommitFailedError:
            if find_batch(path, table.version(), token) is None:
                (path / merged.path).unlink()
                return False
        flush_commits(path, [table.version() + 1])
        for file in files:  # `vacuum` goes by this: since now nothing that begins reads them
            with suppress(FileNotFoundError):
                os.utime(path / file.path)
    return True


def revise(root: Path, node: NodeId, moved: pl.DataFrame, dropped: pl.DataFrame) -> bool:
    """See `ports.Ledger.revise`; every row of the node goes through memory."""
    path = root / "materializations"
    if last_version(path) is None:
        return False
    files = [file for file in data_files(open_table(path)) if file.node == node]
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

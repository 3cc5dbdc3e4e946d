"""Keeping the ledger small and quick: compaction, vacuum, clean-up of the log."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barca.io.ledger.commits import snapshot
from barca.io.ledger.log import flush_commits, last_checkpoint, last_version
from barca.io.ledger.replacing import MERGED, replace_files
from barca.io.ledger.tables import (
    CHECKPOINT_INTERVAL,
    DataFile,
    delta_errors,
    open_table,
    quiet_hooks,
)
from barca.io.ledger.writer import checkpoint
from barca.io.rows import TABLE_ORDER
from barca.schemas import KEY, MACHINE, NODE, SINK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from deltalake import DeltaTable

    from barca.ports import TableName

MANY_FILES: Final = 24
"""Files of one tier in a partition are merged once there are more."""

TIER_BYTES: Final = (2**18, 2**25)
"""Files up to the first size are merged with each other alone, so that a large file is not written again for
every few rows that come after it; up to the second size, those that came of it."""

MERGED_BYTES: Final = 128 * 2**20
"""At most so many bytes are merged into one file, all of which pass through memory."""


def maintain(root: Path, budget_seconds: float) -> None:
    """Compact, checkpoint, vacuum and clean up every table that needs it, for about so long.

    Each step is whole in itself: what the budget cuts off is left for the next time.

    Raises:
        LedgerError: A table is damaged or cannot be written to.
    """
    deadline = time.monotonic() + budget_seconds
    for table in TABLE_ORDER:
        path = root / table
        version = last_version(path)
        if version is None or not (_crowded(path) or version - last_checkpoint(path) >= CHECKPOINT_INTERVAL):
            continue
        compacted = False
        for run in _runs_to_merge(snapshot(path).files):
            if time.monotonic() >= deadline:
                return
            compacted |= _merge(path, table, run)
        version = last_version(path)
        if version is not None and version - last_checkpoint(path) >= CHECKPOINT_INTERVAL:
            checkpoint(path)
        if compacted and time.monotonic() < deadline:
            _vacuum(path)


def _crowded(path: Path) -> bool:
    """Whether some partition got so many files since its last merge that it may be due; a cheap look."""
    for _, inner, names in os.walk(path):
        inner[:] = [name for name in inner if not name.startswith("_")]
        merged = max((name for name in names if MERGED in name), default="")
        if sum(name > merged for name in names) > MANY_FILES:
            return True
    return False


def _runs_to_merge(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """Runs of small files that follow one another, of partitions that have many of them."""
    for _, partition in groupby(
        sorted(files, key=lambda file: (file.node or "", file)), lambda file: file.node
    ):
        held = list(partition)
        for limit in TIER_BYTES:
            if sum(file.size <= limit for file in held) > MANY_FILES:
                yield from _small_runs(held, limit)
                break


def _small_runs(files: list[DataFile], limit: int) -> Iterator[list[DataFile]]:
    run: list[DataFile] = []
    for file in files:
        full = sum(other.size for other in run) + file.size > MERGED_BYTES
        if run and (full or file.size > limit):
            if len(run) > 1:
                yield run
            run = []
        if file.size <= limit:
            run.append(file)
    if len(run) > 1:
        yield run


def _merge(path: Path, name: TableName, files: list[DataFile]) -> bool:
    """Put one file in the place of several, rows in the same order; whether that was possible.

    Of what sinks hold only the last rows are kept: nobody asks what they held before.
    """
    if name != "publications":
        return replace_files(path, name, files, lambda rows: rows, data_change=False)
    last = [NODE, SINK, KEY, MACHINE]
    return replace_files(
        path, name, files, lambda rows: rows.unique(last, keep="last", maintain_order=True), data_change=True
    )


def vacuum(root: Path, before: datetime) -> None:
    """Delete data files that are in no newest version, and were replaced or last written before then.

    Whoever reads an older version must have begun after `before`.

    Raises:
        LedgerError: A table is damaged.
    """
    for table in TABLE_ORDER:
        path = root / table
        if last_version(path) is None:
            continue
        held = {path / file.path for file in snapshot(path).files}
        for directory, inner, names in os.walk(path):
            inner[:] = [name for name in inner if not name.startswith("_")]
            for file in (Path(directory, name) for name in names if name.endswith(".parquet")):
                with suppress(FileNotFoundError):
                    if file not in held and file.stat().st_mtime < before.timestamp():
                        file.unlink()


def _vacuum(path: Path) -> None:
    """Delete what left the table more than the retention ago, files nobody committed, and expired commits."""
    with delta_errors(path, "vacuumed"):
        table: DeltaTable = open_table(path)
        before = table.version()
        table.vacuum(dry_run=False, full=True, post_commithook_properties=quiet_hooks())
        after = last_version(path)
        if after is not None:
            flush_commits(path, range(before + 1, after + 1))
        open_table(path).cleanup_metadata()

"""Appending to the ledger: each batch one commit, durable, made once."""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barca.errors import LedgerError
from barca.io.appending import Batch, GroupedWriter
from barca.io.ledger.log import BATCH, FILES, find_batch, flush_checkpoint, flush_commits, last_checkpoint
from barca.io.ledger.tables import (
    CHECKPOINT_INTERVAL,
    DataFile,
    data_files,
    delta_errors,
    next_stamp,
    open_or_create,
    open_table,
    quiet_hooks,
    write_data_file,
)
from barca.io.rows import PARTITION_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from deltalake import DeltaTable

    from barca.ports import TableName

CONTENTION_SECONDS: Final = 60.0
"""How long a commit is tried again while other processes commit to the same table."""

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Staged:
    """A batch whose data files are on the disk. `base`: the table's version when they were written."""

    base: int
    files: list[DataFile]


class DeltaWriter(GroupedWriter):
    """A `LedgerWriter` on Delta tables, which are made when rows first come."""

    def __init__(self, root: Path, run_id: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(run_id, monotonic)
        self._root = root
        self._staged: dict[str, _Staged] = {}

    def commit(self, batch: Batch) -> None:
        """Make a batch part of the ledger, durably and once, however often this is called with it.

        An attempt whose outcome is unclear is looked up in the log before the next one.

        Raises:
            LedgerError: The log is damaged, the disk refuses, or others kept committing for a minute.
        """
        path = self._root / batch.table
        deadline = self._monotonic() + CONTENTION_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        while (version := self._try_commit(path, batch, final=self._monotonic() >= deadline)) is None:
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 -- spreads writers, guards nothing
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        base = self._staged.pop(batch.id).base
        with delta_errors(path, "flushed to the disk"):
            flush_commits(path, range(base + 1, version + 1))
        if version - last_checkpoint(path) >= CHECKPOINT_INTERVAL:
            checkpoint(path)

    def _try_commit(self, path: Path, batch: Batch, *, final: bool) -> int | None:
        """Try once: the version that holds the batch, or `None` when another attempt may succeed."""
        from deltalake.exceptions import CommitFailedError

        staged = self._staged.get(batch.id)
        if staged is not None and (version := find_batch(path, staged.base, batch.id)) is not None:
            return version
        table = open_or_create(path, batch.table)
        if staged is None:
            staged = self._staged[batch.id] = _stage(path, table, batch)
        try:
            with delta_errors(path, "appended to"):
                _append(table, batch.id, batch.table, staged.files)
        except LedgerError as error:
            version = find_batch(path, staged.base, batch.id)
            if version is None and (final or not isinstance(error.__cause__, CommitFailedError)):
                raise
            return version
        version = find_batch(path, staged.base, batch.id)
        if version is None:
            raise LedgerError(f"the commit to `{path}` left no trace", code="ledger_lost", file=str(path))
        return version


def _stage(path: Path, table: DeltaTable, batch: Batch) -> _Staged:
    """Write the data files of a batch, one per partition."""
    stamp = next_stamp(data_files(table))
    token = batch.id.partition(":")[2].replace(":", "-")
    partition = PARTITION_COLUMNS.get(batch.table)
    with delta_errors(path, "written"):
        if partition is None:
            return _Staged(table.version(), [write_data_file(path, None, batch.rows, stamp, token)])
        parts = batch.rows.partition_by(partition, maintain_order=True, as_dict=True, include_key=False)
        files = [write_data_file(path, node, rows, stamp, token) for (node,), rows in parts.items()]
        return _Staged(table.version(), files)


def _append(table: DeltaTable, batch_id: str, name: TableName, files: list[DataFile]) -> None:
    from deltalake import CommitProperties

    partition = PARTITION_COLUMNS.get(name)
    table.create_write_transaction(
        [file.add_action() for file in files],
        "append",
        table.schema(),
        partition and [partition],
        commit_properties=CommitProperties(custom_metadata={BATCH: batch_id, FILES: len(files)}),
        post_commithook_properties=quiet_hooks(),
    )


def checkpoint(path: Path) -> None:
    """Write a checkpoint of a table, durably; one that fails costs time only and is tried again later."""
    with contextlib.suppress(LedgerError), delta_errors(path, "checkpointed"):
        open_table(path).create_checkpoint()
        flush_checkpoint(path)

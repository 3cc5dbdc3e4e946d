"""Appending to the ledger: each batch one commit, durable, made once."""

from __future__ import annotations

import contextlib
import random
import time
from typing import TYPE_CHECKING, Final

from barca.errors import LedgerError
from barca.io.appending import Batch, GroupedWriter
from barca.io.ledger.commits import Overtaken, commit, keep_head, snapshot
from barca.io.ledger.log import find_batch, flush_checkpoint, flush_commits, last_checkpoint, last_version
from barca.io.ledger.tables import (
    CHECKPOINT_INTERVAL,
    CONFIGURATION,
    DataFile,
    delta_errors,
    delta_schema,
    next_stamp,
    open_table,
    write_data_file,
)
from barca.io.rows import PARTITION_COLUMNS
from barca.io.storage import make_directory
from barca.records import Record
from barca.schemas import LEDGER_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from barca.io.ledger.commits import Snapshot
    from barca.ports import TableName

CONTENTION_SECONDS: Final = 60.0
"""How long a commit is tried again while other processes commit to the same table."""

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 2.0


class _Staged(Record):
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
        staged = self._staged.get(batch.id)
        if staged is not None and (version := find_batch(path, staged.base, batch.id)) is not None:
            return version
        current = open_or_create(path, batch.table)
        if staged is not None and current.files and current.files[-1].stamp >= staged.files[0].stamp:
            # what others committed meanwhile may hold earlier rows of ours, merged: these come after them
            for file in staged.files:
                (path / file.path).unlink(missing_ok=True)
            staged = None
        if staged is None:
            staged = self._staged[batch.id] = _stage(path, current, batch)
        try:
            with delta_errors(path, "appended to"):
                commit(path, current.version + 1, batch.id, staged.files)
        except Overtaken as error:
            if final:
                raise LedgerError(
                    f"the ledger table `{batch.table}` could not be appended to for a minute: {error}",
                    file=str(path),
                ) from error
            return None
        return current.version + 1


def open_or_create(path: Path, name: TableName) -> Snapshot:
    """A table to append to: made when missing, columns added that it lacks.

    Raises:
        LedgerError: Its log is damaged, it cannot be made, or others gave it features unknown here.
    """
    version = last_version(path)
    if version is None:
        _create(path, name)
    current = snapshot(path, version)
    if not current.plain:
        raise LedgerError(
            f"the ledger table `{name}` was given features of Delta that barca does not write",
            code="ledger_features",
            remediation=f"delete `{path}`, what it recorded is computed again; leave the ledger to barca",
            file=str(path),
        )
    absent = LEDGER_TABLES[name].keys() - current.columns
    if absent:
        with delta_errors(path, "given its new columns"):
            fields = delta_schema(LEDGER_TABLES[name]).fields
            open_table(path).alter.add_columns([field for field in fields if field.name in absent])
        current = snapshot(path)
    return current


def _create(path: Path, name: TableName) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    partition = PARTITION_COLUMNS.get(name)
    with delta_errors(path, "created"):
        make_directory(path)
        try:
            DeltaTable.create(
                path,
                delta_schema(LEDGER_TABLES[name]),
                partition_by=partition and [partition],
                configuration=CONFIGURATION,
            )
        except DeltaError:
            if last_version(path) is None:  # else another process was first
                raise


def _stage(path: Path, current: Snapshot, batch: Batch) -> _Staged:
    """Write the data files of a batch, one per partition."""
    stamp = next_stamp(current.files)
    token = batch.id.partition(":")[2].replace(":", "-")
    partition = PARTITION_COLUMNS.get(batch.table)
    with delta_errors(path, "written"):
        if partition is None:
            return _Staged(current.version, [write_data_file(path, None, batch.rows, stamp, token)])
        parts = batch.rows.partition_by(partition, maintain_order=True, as_dict=True, include_key=False)
        files = [write_data_file(path, node, rows, stamp, token) for (node,), rows in parts.items()]
        return _Staged(current.version, files)


def checkpoint(path: Path) -> None:
    """Write a checkpoint of a table, durably; one that fails costs time only and is tried again later."""
    with contextlib.suppress(LedgerError), delta_errors(path, "checkpointed"):
        open_table(path).create_checkpoint()
        flush_checkpoint(path)
        keep_head(path)

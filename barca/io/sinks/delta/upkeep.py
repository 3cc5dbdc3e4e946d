"""Keeping a Delta table small: merging its small files, deleting files that left it long ago."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from barca.io.columns import exactly
from barca.io.sinks.delta.rows import DATA_FILE, RowWriter
from barca.io.sinks.delta.table import Outrun, no_panics

if TYPE_CHECKING:
    from pathlib import Path

    from barca.io.sinks.delta.table import DataFile, Snapshot, Table
    from barca.io.sinks.depots import Depot
    from barca.io.sinks.targets import Target

COMPACT_FILES: Final = 50
VACUUM_HOURS: Final = 168
VACUUM_EVERY: Final = 20
"""A table is vacuumed at every so manieth version."""

SMALL_BYTES: Final = 32 * 2**20


def tidy(target: Target, table: Table, depot: Depot, staging: Path) -> None:
    """Merge small files once there are many, and delete what left the table long ago, now and then.

    Another process that commits meanwhile is given way to: the next run tries again.
    """
    snapshot = table.open()
    if snapshot is None:
        return
    limit = target.spec.compact_files or COMPACT_FILES
    by = target.spec.partition_by
    ordered = sorted(snapshot.files, key=lambda file: str(file.place))
    small = [
        group
        for _, files in groupby(ordered, key=lambda file: file.place)
        if len(group := [file for file in files if file.size < SMALL_BYTES]) > limit
    ]
    merged = False
    if small:
        writer = RowWriter(depot, staging, target.dimensions, by)
        merged = _merge(snapshot, table, depot, writer, [file for group in small for file in group], list(by))
    if merged or (snapshot.version and snapshot.version % VACUUM_EVERY == 0):
        hours = VACUUM_HOURS if target.spec.vacuum_hours is None else target.spec.vacuum_hours
        fresh = table.open()
        if fresh is not None:
            _vacuum(fresh, depot, hours)


def _vacuum(snapshot: Snapshot, depot: Depot, hours: int) -> None:
    """Delete files that left the table long ago, and what commits that never came to be left so long ago.

    Only files that the table's log knows of, or that are called as barca calls them: others may have files
    beside them.
    """
    vacuum = partial(snapshot.handle.vacuum, retention_hours=hours, enforce_retention_duration=False)
    with no_panics():
        vacuum(dry_run=False)
        left = vacuum(dry_run=True, full=True)
    for name in left:
        if DATA_FILE.fullmatch(name.rpartition("/")[2]):
            depot.remove_file(unquote(name))


def _merge(
    snapshot: Snapshot, table: Table, depot: Depot, writer: RowWriter, files: list[DataFile], by: list[str]
) -> bool:
    """Put few files in the place of many, the same rows; whether nobody got ahead."""
    names = [name for name in snapshot.schema if name not in by]
    for file in files:
        rows = table.scan([file.path]).select(exactly(names)).collect(engine="in-memory")
        writer.add_to([file.partition[name] for name in by], rows)
    writer.finish()
    try:
        snapshot.commit(snapshot.schema, writer.files, files, data_change=False)
    except Outrun:
        if table.holds(writer.files):
            return True
        for file in writer.files:
            with suppress(OSError):
                depot.remove_file(file.path)
        return False
    return True

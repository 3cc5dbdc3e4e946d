"""The commits of a Delta table: what they add up to, and making one.

The log is read and written here as its protocol says, since opening a table by delta-rs takes longer than all
else that a run does to the ledger. What is rare is left to delta-rs: making tables, adding columns,
checkpoints, vacuum, and reading tables that others have given features unknown here.
"""

from __future__ import annotations

import errno
import json
import os
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote

import polars as pl

from barca.errors import LedgerError, StoreError
from barca.io.ledger.log import (
    BATCH,
    FILES,
    checkpoint_before,
    commit_file,
    identity_of,
    last_version,
    read_commit,
)
from barca.io.ledger.tables import DataFile, data_files, delta_errors, open_table, stamp_of
from barca.io.leftovers import STAGING_PREFIX
from barca.io.rows import PARTITION_COLUMNS
from barca.io.storage import flush_file, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_NODE: Final = PARTITION_COLUMNS["materializations"]
_READS, _WRITES = 1, 2
"""Versions of the protocol that this module keeps to, for readers and writers: those without features."""


class Overtaken(Exception):
    """Another commit has the version that this one was to have."""


class Snapshot(NamedTuple):
    """A table at a version.

    Attributes:
        version: The version.
        files: Its data files, in the order of their commits.
        columns: Names of its columns.
        plain: Whether it has no features but those of the first versions of the protocol; else it can be
            read, and this module must not write it.
    """

    version: int
    files: list[DataFile]
    columns: frozenset[str]
    plain: bool = True


# --- reading ----------------------------------------------------------------------------------------


def snapshot(table: Path, version: int | None = None) -> Snapshot:
    """A table, whose log is known to be whole, at a version; by default the newest.

    Raises:
        LedgerError: There is no table, or it cannot be read.
    """
    if version is None:
        version = last_version(table)
    if version is None:
        raise LedgerError(f"there is no ledger table `{table.name}`", file=str(table))
    with delta_errors(table, "read"):
        found = _after_known(table, version) or _replayed(table, version) or _by_delta(table, version)
        _remember(table, found)
    return found


_known: dict[Path, tuple[tuple[int, ...], Snapshot]] = {}
"""The last snapshot of each table of this process, with what tells the file of its commit from any other."""

_MOST_KNOWN: Final = 32


def _remember(table: Path, found: Snapshot) -> None:
    identity = identity_of(commit_file(table, found.version))
    if identity is not None and found.plain:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[table] = identity, found


_HEAD: Final = "_head.json"
"""File of a table, which Delta leaves alone: a snapshot for other processes."""


def keep_head(table: Path) -> None:
    """Leave the newest snapshot where other processes find it: they read it sooner than a checkpoint.

    It is a shortcut and nothing else: one that is missing or torn is no head.
    """
    found = snapshot(table)
    identity = identity_of(commit_file(table, found.version))
    if identity is None or not found.plain:
        return
    files = [(file.stamp, file.path, file.node, file.size, file.rows) for file in found.files]
    head = {"commit": identity, "version": found.version, "columns": sorted(found.columns), "files": files}
    with suppress(StoreError):
        write_whole(table / _HEAD, json.dumps(head).encode())


def _read_head(table: Path) -> tuple[tuple[int, ...], Snapshot] | None:
    try:
        head = json.loads((table / _HEAD).read_bytes())
        files = [DataFile(*file) for file in head["files"]]
        return tuple(head["commit"]), Snapshot(head["version"], files, frozenset(head["columns"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _after_known(table: Path, version: int) -> Snapshot | None:
    """The last snapshot with the commits since added, if it is of the same table, and not a later one."""
    identity, known = _known.get(table) or _read_head(table) or (None, None)
    if known is None or known.version > version or identity_of(commit_file(table, known.version)) != identity:
        return None
    if known.version == version:
        return known
    commits = [read_commit(commit_file(table, number)) for number in range(known.version + 1, version + 1)]
    if not all(commits):
        return None
    return _added_up(version, (action for commit in commits for action in commit or ()), known)


def _replayed(table: Path, version: int) -> Snapshot | None:
    """The commits up to a version, added up; `None` where they hold what is not known here."""
    begin, actions = -1, list[dict[str, Any]]()
    checkpoint = checkpoint_before(table, version)
    if checkpoint is not None:
        begin, file = checkpoint
        if file.name != f"{begin:020d}.checkpoint.parquet":
            return None  # of several files
        kinds = ["add", "metaData", "protocol"]
        rows = pl.read_parquet(file, columns=kinds, hive_partitioning=False, glob=False)
        actions += [
            {kind: action} for kind in kinds for action in rows.get_column(kind).drop_nulls().to_list()
        ]
    for number in range(begin + 1, version + 1):
        commit = read_commit(commit_file(table, number))
        if not commit:
            return None
        actions += commit
    return _added_up(version, actions)


def _added_up(
    version: int, actions: Iterable[Mapping[str, Any]], before: Snapshot | None = None
) -> Snapshot | None:
    files = {file.path: file for file in before.files} if before else dict[str, DataFile]()
    columns = before.columns if before else frozenset[str]()
    for action in actions:
        if (add := action.get("add")) is not None:
            if add.get("deletionVector") is not None:
                return None
            file = _data_file(add)
            files[file.path] = file
        elif (remove := action.get("remove")) is not None:
            files.pop(unquote(remove["path"]), None)
        elif (metadata := action.get("metaData")) is not None:
            columns = frozenset(field["name"] for field in json.loads(metadata["schemaString"])["fields"])
        elif (protocol := action.get("protocol")) is not None and not _is_known(protocol):
            return None
    return Snapshot(version, sorted(files.values()), columns)


def _is_known(protocol: Mapping[str, Any]) -> bool:
    return bool(protocol["minReaderVersion"] <= _READS and protocol["minWriterVersion"] <= _WRITES)


def _data_file(add: Mapping[str, Any]) -> DataFile:
    path = unquote(add["path"])
    rows = json.loads(add.get("stats") or "{}").get("numRecords") or 0
    node = (add.get("partitionValues") or {}).get(_NODE)
    return DataFile(stamp_of(path, add["modificationTime"]), path, node, add["size"], rows)


def _by_delta(table: Path, version: int) -> Snapshot:
    opened = open_table(table, version)
    told = opened.protocol()
    return Snapshot(
        version,
        data_files(opened),
        frozenset(field.name for field in opened.schema().fields),
        plain=told.min_reader_version <= _READS and told.min_writer_version <= _WRITES,
    )


# --- writing ----------------------------------------------------------------------------------------


def commit(
    table: Path,
    version: int,
    batch: str,
    added: Sequence[DataFile],
    removed: Sequence[DataFile] = (),
    *,
    data_change: bool = True,
) -> None:
    """Make a version of a table; its files are on the disk before, its directory is flushed by the caller.

    Args:
        table: Directory of the table.
        version: The next one.
        batch: Names the commit, so that it can be found again.
        added: Files that become part of the table.
        removed: Files that are no part of it any more.
        data_change: Whether rows change, or only their places.

    Raises:
        Overtaken: There is that version by now.
        OSError: The file system refused; the version may have been made nevertheless.
    """
    now = time.time_ns() // 10**6
    info = {
        "timestamp": now,
        "operation": "OPTIMIZE" if removed else "WRITE",
        "operationParameters": {} if removed else {"mode": "Append"},
        "engineInfo": "barca",
        BATCH: batch,
        FILES: len(added),
    }
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    actions += [
        {
            "remove": {
                **_place(file),
                "deletionTimestamp": now,
                "dataChange": data_change,
                "extendedFileMetadata": True,
            }
        }
        for file in removed
    ]
    actions += [
        {
            "add": {
                **_place(file),
                "modificationTime": now,
                "dataChange": data_change,
                "stats": file.stats,
            }
        }
        for file in added
    ]
    text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    _create(commit_file(table, version), text.encode())


def _place(file: DataFile) -> dict[str, Any]:
    partition = {_NODE: file.node} if file.node is not None else {}
    return {"path": quote(file.path, safe="/="), "partitionValues": partition, "size": file.size}


def _create(file: Path, content: bytes) -> None:
    """Write a file that must not be there yet, whole or not at all.

    Raises:
        Overtaken: It is there.
        OSError: The file system refused.
    """
    staging = file.with_name(f"{STAGING_PREFIX}{os.getpid()}-{uuid.uuid4().hex}")
    try:
        staging.write_bytes(content)
        flush_file(staging)
        os.link(staging, file)
    except FileExistsError:
        raise Overtaken(f"version {int(file.stem)} is another commit's") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        _create_in_place(file, content)  # a file system without hard links
    finally:
        staging.unlink(missing_ok=True)


def _create_in_place(file: Path, content: bytes) -> None:
    try:
        with file.open("xb") as created:
            created.write(content)
    except FileExistsError:
        raise Overtaken(f"version {int(file.stem)} is another commit's") from None
    flush_file(file)

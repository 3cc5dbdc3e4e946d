"""Mending a ledger that a power cut, a full disk or somebody's hand has left damaged."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from barca.errors import LedgerError
from barca.io.ledger.commits import commit, snapshot
from barca.io.ledger.log import flush_commits, last_version, repair_log
from barca.io.ledger.tables import delta_errors
from barca.io.notes import outdate
from barca.io.packs import is_parquet
from barca.schemas import LEDGER_TABLES

if TYPE_CHECKING:
    from pathlib import Path


def repair(root: Path) -> list[str]:
    """Move damaged last commits and checkpoints of every table aside, and leave out data files that are lost.

    What is moved is called `<name>.damaged`; nothing is deleted. What only those files recorded is computed
    again.

    Returns:
        One line for each file.

    Raises:
        LedgerError: A table has damage that this does not mend; the others are mended.
    """
    done: list[str] = []
    worst: LedgerError | None = None
    for table in LEDGER_TABLES:
        try:
            done += [*repair_log(root / table), *_leave_out(root / table)]
        except LedgerError as error:
            worst = worst or error
    if done:
        outdate(root)
    if worst is not None:
        raise worst
    return done


def _leave_out(path: Path) -> list[str]:
    """Have a table go on without data files that are missing, cut or overwritten."""
    if last_version(path) is None:
        return []
    current = snapshot(path)
    lost = [file for file in current.files if not _is_whole(path / file.path, file.size)]
    if not lost or not current.plain:
        return []
    done = []
    with delta_errors(path, "repaired"):
        version = current.version + 1
        commit(path, version, f"repair-{uuid.uuid4().hex[:12]}", [], lost)
        flush_commits(path, [version])
        for file in lost:
            data = path / file.path
            found = data.exists()
            if found:
                data.replace(data.with_name(f"{data.name}.damaged"))
            why = f"is damaged, and called `{data.name}.damaged` now" if found else "is missing"
            done.append(f"`{path.name}` goes on without `{data}`, which {why}: {file.rows:,} rows")
    return done


def _is_whole(file: Path, size: int) -> bool:
    try:
        return file.stat().st_size == size and is_parquet(file)
    except FileNotFoundError:
        return False

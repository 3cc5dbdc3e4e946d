"""The log of a Delta table as files: whether it is whole, who made which commit, and its repair.

delta-rs flushes nothing to the disk, reads an empty commit as no commit, and writes over a last commit that
is empty: after a power cut it would go on without rows that were reported as committed. So the log is looked
at before delta-rs opens it, and a log that is not whole is refused.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from barca.errors import LedgerError
from barca.io.packs import is_parquet
from barca.io.storage import flush_directory, flush_file
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LOG: Final = "_delta_log"
BATCH: Final = "barcaBatch"
"""Entry of a commit's `commitInfo`: id of the batch it holds."""

FILES: Final = "barcaFiles"
"""Entry of a commit's `commitInfo`: how many data files it adds, so that a cut at a line's end shows."""

_HINT: Final = "_last_checkpoint"
_DIGITS: Final = 20
_JSON: Final = ".json"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint.*\.parquet")


def commit_file(table: Path, version: int) -> Path:
    """The file of a commit."""
    return table / LOG / f"{version:020d}.json"


def last_version(table: Path) -> int | None:
    """The newest version of a table whose log is whole; `None` when there is no table.

    Raises:
        LedgerError: The log is damaged; code `ledger_damaged`, with the file and what to do.
    """
    seen = _seen.get(table)
    if seen is not None and seen.is_newest_of(table):
        return seen.version
    log = _list_log(table)
    damage = _find_damage(table, log)
    if damage is not None:
        raise damage.error()
    if log.last is not None and (newly := _Seen.of(table, log.last)) is not None:
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        _seen[table] = newly
    return log.last


class _Seen(NamedTuple):
    """A log that was found whole: its newest version, and what tells log and commit from any others."""

    version: int
    log: tuple[int, ...]
    commit: tuple[int, ...]

    @classmethod
    def of(cls, table: Path, version: int) -> _Seen | None:
        """The log as it is now; `None` where it lacks the commit."""
        log, commit = identity_of(table / LOG), identity_of(commit_file(table, version))
        return None if log is None or commit is None else cls(version, log, commit)

    def is_newest_of(self, table: Path) -> bool:
        """Whether nothing came since, even within the same tick of the clock."""
        return self == self.of(table, self.version) and not commit_file(table, self.version + 1).exists()


_seen: dict[Path, _Seen] = {}
"""Logs of this process, which would list the commits of a week again and again."""

_MOST_SEEN: Final = 64


def identity_of(file: Path) -> tuple[int, ...] | None:
    """What tells a file, and its content, from any other; `None` where there is none."""
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def last_checkpoint(table: Path) -> int:
    """The version of the newest checkpoint; -1 when there is none."""
    with suppress(OSError, ValueError, TypeError, KeyError):  # what names it is quicker to read than the log
        return int(json.loads((table / LOG / _HINT).read_bytes())["version"])
    return max(_list_log(table).checkpoints, default=-1)


def checkpoint_before(table: Path, version: int) -> tuple[int, Path] | None:
    """The newest checkpoint up to a version, and its first file; `None` when there is none."""
    found = _list_log(table).checkpoints
    number = max((number for number in found if number <= version), default=None)
    return None if number is None else (number, min(found[number]))


def read_commit(file: Path) -> list[dict[str, Any]] | None:
    """The actions of a commit; `None` when it is missing, none when it is damaged."""
    try:
        entries = [json.loads(line) for line in file.read_bytes().splitlines()]
    except FileNotFoundError:
        return None
    except ValueError:
        return []
    return entries if all(isinstance(entry, dict) for entry in entries) else []


def find_batch(table: Path, after: int, batch: str) -> int | None:
    """The version, newer than `after`, whose commit holds a batch; `None` when none does."""
    version = after + 1
    while (entries := read_commit(commit_file(table, version))) is not None:
        if any(entry.get("commitInfo", {}).get(BATCH) == batch for entry in entries):
            return version
        version += 1
    return None


def flush_commits(table: Path, versions: Iterable[int]) -> None:
    """Have commits on the disk before returning: their files, then their names."""
    for version in versions:
        flush_file(commit_file(table, version))
    flush_directory(table / LOG)


def flush_checkpoint(table: Path) -> None:
    """Have the newest checkpoint, and the file that points to it, on the disk before returning."""
    log = _list_log(table)
    for file in [*log.checkpoints.get(max(log.checkpoints, default=-1), ()), table / LOG / _HINT]:
        if file.exists():
            flush_file(file)
    flush_directory(table / LOG)


def repair_log(table: Path) -> list[str]:
    """Move damaged last commits and checkpoints of a table to `<name>.damaged`; one line per file moved.

    Raises:
        LedgerError: The log has damage that moving its end aside does not mend.
    """
    done = []
    while (damage := _find_damage(table, _list_log(table))) is not None:
        if not damage.at_end:
            raise damage.error()
        aside = damage.file.with_name(f"{damage.file.name}.damaged")
        damage.file.replace(aside)
        flush_directory(aside.parent)
        done.append(f"moved `{damage.file}` to `{aside.name}`: {damage.why}")
    return done


# --- looking ----------------------------------------------------------------------------------------


class _Log(Record):
    """What a log directory holds: names of commits; checkpoints, their files; the checkpoint hint."""

    commits: list[str]
    checkpoints: dict[int, list[Path]]
    hint: Path | None

    @property
    def last(self) -> int | None:
        commits = [int(max(self.commits)[:_DIGITS])] if self.commits else []
        return max([*commits, *self.checkpoints], default=None)


class _Damage(Record):
    """Why a log is not whole. `at_end`: whether moving `file` aside leaves a log that may be whole."""

    file: Path
    why: str
    at_end: bool

    def error(self) -> LedgerError:
        table = self.file.parent.parent
        repair = (
            f"`barca doctor --repair`, or move it aside (`{self.file.name}.damaged`): "
            "what only this file recorded is computed again"
            if self.at_end
            else f"restore it from a backup, or delete `{table}`; what it recorded is computed again"
        )
        return LedgerError(
            f"the ledger table `{table.name}` is damaged: `{self.file.name}` {self.why}",
            code="ledger_damaged",
            remediation=repair,
            file=str(self.file),
        )


def _list_log(table: Path) -> _Log:
    try:
        names = os.listdir(table / LOG)  # noqa: PTH208  # every run lists the commits of a week, several times
    except (FileNotFoundError, NotADirectoryError):
        names = list[str]()
    commits = [name for name in names if name[_DIGITS:] == _JSON and name[:_DIGITS].isdecimal()]
    checkpoints: dict[int, list[Path]] = {}
    for name in names:
        if name[_DIGITS:].startswith(".checkpoint") and (match := _CHECKPOINT.fullmatch(name)):
            checkpoints.setdefault(int(match[1]), []).append(table / LOG / name)
    return _Log(commits, checkpoints, table / LOG / _HINT if _HINT in names else None)


def _find_damage(table: Path, log: _Log) -> _Damage | None:
    if log.last is None:
        return None
    checkpoint = max(log.checkpoints, default=-1)
    damage = _checkpoint_damage(log, checkpoint)
    if damage is not None:
        return damage
    if log.last > checkpoint:
        last = commit_file(table, log.last)
        why = _commit_damage(table, last)
        if why is not None:
            return _Damage(last, why, at_end=True)
    directory = os.fspath(table / LOG)
    for version in range(checkpoint + 1, log.last):
        try:
            empty = not os.stat(f"{directory}/{version:020d}.json").st_size  # noqa: PTH116  # hundreds a run
        except FileNotFoundError:
            # a listing taken while others clean up may show a commit that has expired meanwhile
            if commit_file(table, version).name in log.commits:
                continue
            why = f"is missing, though version {log.last} exists"
            return _Damage(commit_file(table, version), why, at_end=False)
        if empty:
            return _Damage(commit_file(table, version), "is empty", at_end=False)
    return None


def _checkpoint_damage(log: _Log, newest: int) -> _Damage | None:
    for file in log.checkpoints.get(newest, ()):
        if not is_parquet(file):
            return _Damage(file, "is cut short", at_end=True)
    if log.hint is None:
        return None
    try:
        named = int(json.loads(log.hint.read_bytes())["version"])
    except (ValueError, TypeError, KeyError):
        return _Damage(log.hint, "is cut short", at_end=True)
    # looked for again: the listing may be older than the hint
    if named not in log.checkpoints and not any(log.hint.parent.glob(f"{named:020d}.checkpoint*.parquet")):
        return _Damage(log.hint, f"names a checkpoint of version {named}, which is missing", at_end=True)
    return None


def _commit_damage(table: Path, file: Path) -> str | None:
    """What is wrong with the content of a commit, and with the data files it added."""
    entries = read_commit(file)
    if not entries:
        return "is cut short or overwritten"
    info = next((entry["commitInfo"] for entry in entries if "commitInfo" in entry), None)
    if not isinstance(info, dict):
        return "has no `commitInfo`"
    added = [entry["add"] for entry in entries if "add" in entry]
    if info.get(FILES, len(added)) != len(added):
        return f"is cut short: it names {len(added)} of its {info[FILES]} data files"
    for action in added:
        data = table / unquote(action["path"])
        if not data.exists() or data.stat().st_size != action["size"]:
            return f"adds the data file `{data.name}`, which is missing or cut short"
    return None

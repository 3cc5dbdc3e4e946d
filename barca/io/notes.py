"""Notes on nodes: small JSON files beside the ledger rows that they speak of.

A note is a shortcut and nothing else: what it says can be found out again, so one that is missing, torn or
of another version is no note. Notes lie inside the directory of a ledger table, so that whoever deletes or
restores the rows takes them along. Where rows were lost or given up since, a note that tells of them is none.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from barca.errors import StoreError
from barca.io.rows import partition_directory
from barca.io.storage import write_atomically, write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from barca._typing import NodeId

DIRECTORY: Final = "_notes"
"""Delta takes no files from directories whose names begin so, and its vacuum leaves them alone."""

_VERSION: Final = 2
_GIVEN_UP: Final = "given-up.json"
"""Node to a text that is another one each time that results of it were given up; `""` is every node."""


class Notes:
    """The notes of a ledger, as far as its rows are those of the moment when this was made, or newer.

    Args:
        ledger: Directory of the ledger.
    """

    def __init__(self, ledger: Path) -> None:
        self._rows = ledger / "materializations"
        self._given_up = _read_given_up(ledger)

    def pinned(self) -> Notes:
        """The same, of this moment: for a run, before it pins the ledger."""
        return Notes(self._rows.parent)

    def read(self, node: NodeId) -> dict[str, Any] | None:
        """The note on a node, or `None`."""
        try:
            note = json.loads(self._path(node).read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(note, dict) or note.pop("version", None) != _VERSION:
            return None
        told = note.pop("given_up", None), note.pop("commit", None)
        return note if told == (self._since(node), self._commit(told[1])) else None

    def write(self, node: NodeId, note: Mapping[str, Any] | None) -> None:
        """Replace the note on a node; `None` removes it.

        A reader sees the old note or the new; after a power cut there may be none.
        """
        path = self._path(node)
        with suppress(OSError, StoreError):
            if note is None:
                path.unlink(missing_ok=True)
            elif self._rows.is_dir():
                known = {"version": _VERSION, "given_up": self._since(node), "commit": self._commit()}
                write_whole(path, json.dumps({**known, **note}).encode())

    def _since(self, node: NodeId) -> list[str | None]:
        return [self._given_up.get(""), self._given_up.get(node)]

    def _commit(self, like: object = None) -> list[str | int] | None:
        """The newest commit, or that of a note as it is now: one that was lost is another's, or not there."""
        log = self._rows / "_delta_log"
        with suppress(OSError, TypeError, IndexError):  # what a note says may be anything
            if isinstance(like, list):
                name = like[0]
            else:  # of the commits of a week
                name = max(filter(_is_commit, os.listdir(log)), default=None)  # noqa: PTH208
            if name is not None:
                status = (log / name).stat()
                return [name, status.st_size, status.st_mtime_ns]
        return None

    def _path(self, node: NodeId) -> Path:
        return self._rows / DIRECTORY / f"{partition_directory(node)}.json"


def outdate(ledger: Path, node: NodeId | None = None) -> None:
    """Results of a node, or of any, are given up: what notes say, and those of runs in progress, is no more.

    Args:
        ledger: Directory of the ledger.
        node: Node id; `None` is every node.
    """
    directory = ledger / "materializations" / DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    given_up = {**_read_given_up(ledger), node or "": uuid.uuid4().hex}
    write_atomically(directory / _GIVEN_UP, json.dumps(given_up).encode())


def _read_given_up(ledger: Path) -> dict[str, str]:
    try:
        found = json.loads((ledger / "materializations" / DIRECTORY / _GIVEN_UP).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_commit(name: str) -> bool:
    return name.endswith(".json") and name[:-5].isdigit()

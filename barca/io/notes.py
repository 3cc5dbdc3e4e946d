"""Notes on nodes: small JSON files beside the ledger rows that they speak of.

A note is a shortcut and nothing else: what it says can be found out again, so one that is missing, torn or
of another version is no note. Notes lie inside the directory of a ledger table, so that whoever deletes or
restores the rows takes them along.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from barca.io.rows import partition_directory
from barca.io.storage import STAGING_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from barca._typing import NodeId

DIRECTORY: Final = "_notes"
"""Delta takes no files from directories whose names begin so, and its vacuum leaves them alone."""

_VERSION: Final = 1


class Notes:
    """The notes of a ledger.

    Args:
        ledger: Directory of the ledger.
    """

    def __init__(self, ledger: Path) -> None:
        self._rows = ledger / "materializations"

    def read(self, node: NodeId) -> dict[str, Any] | None:
        """The note on a node, or `None`."""
        try:
            note = json.loads(self._path(node).read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(note, dict) or note.pop("version", None) != _VERSION:
            return None
        return note

    def write(self, node: NodeId, note: Mapping[str, Any] | None) -> None:
        """Replace the note on a node; `None` removes it.

        A reader sees the old note or the new. Nothing is flushed: after a power cut there may be none.
        """
        path = self._path(node)
        with suppress(OSError):
            if note is None:
                path.unlink(missing_ok=True)
            elif self._rows.is_dir():
                path.parent.mkdir(exist_ok=True)
                staging = path.parent / f"{STAGING_PREFIX}{os.getpid()}-{uuid.uuid4().hex}"
                staging.write_text(json.dumps({"version": _VERSION, **note}), encoding="utf-8")
                staging.replace(path)

    def _path(self, node: NodeId) -> Path:
        return self._rows / DIRECTORY / f"{partition_directory(node)}.json"

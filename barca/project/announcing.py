"""Announcing a run before it reads the ledger, so that nothing is deleted that it may go on to read."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from barca.graph import short_name
from barca.io.runs import remove_marker, write_marker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from barca._typing import NodeId


class Announced:
    """A run, from the moment it is about to read the ledger to that of its row in the ledger.

    A context manager: a run that ends before it has begun leaves no marker, nor a new store.

    Args:
        markers: Directory of the markers of runs.
        command: `get` or `run`.

    Attributes:
        id: 15 hexadecimal digits that sort by time: milliseconds, then chance.
        target: Short names of the targets.
        started_at: When it was announced, UTC.
        begun: Whether the ledger will have a row of it; else it is as if it had never been.
    """

    def __init__(self, markers: Path, command: str) -> None:
        self.command = command
        self.target = ""
        self.started_at = dt.datetime.now(dt.UTC)
        self._began = time.monotonic()
        self.id = new_run_id(self.started_at)
        self.begun = False
        self._markers = markers
        self._made: list[Path] = []

    def announce(self, targets: Sequence[NodeId]) -> None:
        """Write the marker, which a killed run leaves behind.

        Raises:
            StoreError: The file system refused.
        """
        self.target = ",".join(short_name(node_id) for node_id in targets)
        self._made = [path for path in (self._markers, self._markers.parent) if not path.exists()]
        write_marker(
            self._markers,
            run_id=self.id,
            command=self.command,
            target=self.target,
            started_at=self.started_at,
        )

    @property
    def elapsed_seconds(self) -> float:
        """Time since it was announced."""
        return time.monotonic() - self._began

    def withdraw(self) -> None:
        """Remove the marker."""
        remove_marker(self._markers, self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.begun:
            self.withdraw()
            with suppress(OSError):  # another run has something in them by now
                for directory in self._made:
                    directory.rmdir()


def new_run_id(now: dt.datetime) -> str:
    """15 hexadecimal digits that sort by time: milliseconds, then chance."""
    return f"{int(now.timestamp() * 1000):011x}{secrets.token_hex(2)}"

"""How far a work is, readable from outside while it runs and after its process died.

A small memory-mapped file per work: process id, index of the key whose call was begun last (-1 before the
first), and the monotonic time when that was. The kernel keeps what was written when the process is killed.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import TYPE_CHECKING, Final

from barca.records import Record

if TYPE_CHECKING:
    from pathlib import Path

_LAYOUT: Final = struct.Struct("<qqd")
_STEP: Final = struct.Struct("<qd")
_STEP_OFFSET: Final = 8


class Progress:
    """The worker's side."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, _LAYOUT.size)
            self._map = mmap.mmap(descriptor, _LAYOUT.size)
        finally:
            os.close(descriptor)
        _LAYOUT.pack_into(self._map, 0, os.getpid(), -1, time.monotonic())

    def begin(self, index: int) -> None:
        """The call of the key at `index` begins now."""
        _STEP.pack_into(self._map, _STEP_OFFSET, index, time.monotonic())

    def untimed(self, index: int) -> None:
        """No user code runs until the next `begin`: the timeout does not count."""
        _STEP.pack_into(self._map, _STEP_OFFSET, index, 0.0)

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()


class Seen(Record):
    """The coordinator's side.

    Attributes:
        pid: Process that took the work.
        index: Index of the key begun last; -1 before the first.
        since: Monotonic seconds when it was begun; 0 while no user code runs.
    """

    pid: int
    index: int
    since: float


def read_progress(path: Path) -> Seen | None:
    """What a work's file says; `None` before a worker took it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < _LAYOUT.size:
        return None
    pid, index, since = _LAYOUT.unpack(data)
    return Seen(pid, index, since) if pid else None

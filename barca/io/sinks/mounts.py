"""Directories and files that are mount points, which nothing can be put in the place of."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barca.io.sinks.targets import Refused

if TYPE_CHECKING:
    from collections.abc import Generator

_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = {b"\\": rb"\134", b" ": rb"\040", b"\t": rb"\011", b"\n": rb"\012"}


def is_mount(place: Path) -> bool:
    """Whether a directory is the beginning of a file system, or shows there what is elsewhere on the same."""
    if os.path.ismount(place):
        return True
    try:
        mounts = _MOUNTS.read_bytes().splitlines()
    except OSError:  # not on this system
        return False
    name = os.fsencode(place)
    for character, escaped in _ESCAPED.items():
        name = name.replace(character, escaped)
    return any(mount.split(b" ")[4] == name for mount in mounts)


@contextmanager
def told_as_mounts(place: Path) -> Generator[None]:
    """Say what it means that a rename is refused because of a mount point.

    Raises:
        Refused: It was.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EBUSY}:
            raise
        raise Refused(
            f"{place} cannot be replaced in one step, and is as it was ({error.strerror}): it is a mount "
            "point, or holds one, or comes from a lower layer of an overlay; point the sink at a new place "
            "in that file system"
        ) from error

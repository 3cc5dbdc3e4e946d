"""Putting one directory or file in the place of another in one step."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2  # of renameat2, Linux
_RENAME_SWAP: Final = 2  # of renamex_np, macOS
OCCUPIED: Final = frozenset((errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR))
"""What a rename says where something stands that it does not replace."""

_UNSUPPORTED: Final = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def put_in_place(new: Path, place: Path, aside: Path) -> None:
    """Have `new` stand at `place`; what stood there, if anything, is then at `aside`, or at `new`.

    All three are on one file system. At every moment there is the old or the new at `place`, whole; only
    where the system cannot exchange two names is there nothing for an instant.

    Raises:
        OSError: The file system refused; nothing has changed.
    """
    try:
        new.rename(place)
    except OSError as error:
        if error.errno not in OCCUPIED:
            raise
    else:
        return
    if not exchange(new, place):
        place.rename(aside)
        try:
            new.rename(place)
        except OSError:
            aside.rename(place)
            raise


def exchange(one: Path, other: Path) -> bool:
    """Exchange two names; whether this system can do that.

    Raises:
        OSError: It can, and refused.
    """
    function = _exchange_function()
    if function is None:
        return False
    if function(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(other))


@functools.cache
def _exchange_function() -> Callable[[bytes, bytes], int] | None:
    name = {"linux": "renameat2", "darwin": "renamex_np"}.get(sys.platform)
    if name is None:
        return None
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        return None
    if sys.platform == "darwin":
        return lambda one, other: int(function(one, other, _RENAME_SWAP))
    return lambda one, other: int(function(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE))

"""Having many files on the disk before names are given to them."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barca.io.storage import flush_directory, flush_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FEW: Final = 16
"""Up to so many files are flushed one by one; more of them with all that waits for the disk."""


def flush_files(files: Sequence[str], directory: Path) -> None:
    """Have files below a directory, and their names, on the disk before returning.

    Raises:
        OSError: The disk refused.
    """
    together = _sync_function() if len(files) > _FEW else None
    if together is not None:
        together(directory)
        return
    paths = [Path(file) for file in files]
    for file in paths:
        flush_file(file)
    for parent in {above for file in paths for above in file.parents if above.is_relative_to(directory)}:
        flush_directory(parent)


@functools.cache
def _sync_function() -> Callable[[Path], None] | None:
    """Writes to the disk all that waits for a directory's file system; `None` where there is no such call."""
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if os.name == "posix" else None
    if sys.platform != "linux" or function is None:
        return None

    def sync(directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            if function(descriptor) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(directory))
        finally:
            os.close(descriptor)

    return sync

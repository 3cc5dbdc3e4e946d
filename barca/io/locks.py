"""Locks on files, which the system takes away when their owner ends, in whatever way."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from barca.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

try:
    import fcntl as _fcntl
except ImportError:  # Windows
    _locks: Any = None
else:
    _locks = _fcntl

LOCKS: Final = _locks is not None
"""Whether the system has such locks."""

CLAIM: Final = "claim.lock"
"""File in the directory of a ledger that is locked by who gives up results, or pins them."""

_PAUSE_SECONDS: Final = 0.05


def try_lock(descriptor: int) -> bool:
    """Lock a file; whether nobody else had."""
    if _locks is None:
        return False
    try:
        _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def claim(directory: Path, wait_seconds: float) -> Iterator[None]:
    """Keep others who claim a directory waiting; one that is not there needs no claim.

    Args:
        directory: Of a ledger.
        wait_seconds: How long to wait for the others.

    Raises:
        LedgerError: They took longer, or the file system refused.
    """
    if not directory.is_dir():
        yield
        return
    deadline = time.monotonic() + wait_seconds
    try:
        descriptor = os.open(directory / CLAIM, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise LedgerError(f"the ledger cannot be claimed: {error}", file=str(directory)) from error
    try:
        while LOCKS and not try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise claimed(wait_seconds)
            time.sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)


def claimed(wait_seconds: float) -> LedgerError:
    """The error of somebody who waited in vain."""
    return LedgerError(
        f"another process collects garbage or makes a tag, and did not end in {wait_seconds:.0f} s",
        code="claimed",
        remediation="try again once it has ended",
    )

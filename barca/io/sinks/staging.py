"""Directories in which writers prepare what they publish, and the removal of what killed ones left there.

A writer has a directory of its own, and a file beside it that it keeps locked. The system unlocks the file
when the writer ends, in whatever way, so that the next one can tell leftovers from what is going on.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barca.io.locks import LOCKS, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

STAGING_SUFFIX: Final = ".barca-staging"
_LOCK: Final = ".lock"
_FRESH: Final = ".new"
_OLD_SECONDS: Final = 3600.0
_ATTEMPTS: Final = 20


def staging_home(parent: Path, name: str) -> Path:
    """Where writers of something called `name` in a directory prepare it: beside it, hidden."""
    return parent / f".{name}{STAGING_SUFFIX}"


@contextmanager
def staging(home: Path) -> Iterator[Path]:
    """An empty directory in `home` for one writer; what writers that were killed left there is removed.

    Raises:
        OSError: The file system refused.
    """
    _sweep(home)
    own, descriptor = _enter(home)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        own.with_suffix(_LOCK).unlink(missing_ok=True)
        os.close(descriptor)
        with suppress(OSError):  # others are writing
            home.rmdir()


def discard(path: Path) -> None:
    """Remove a directory, or a file or link that stood where a directory should."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _enter(home: Path) -> tuple[Path, int]:
    """Make a writer's directory; its lock gets the name by which others find it once it is locked."""
    for attempt in range(_ATTEMPTS):
        home.mkdir(parents=True, exist_ok=True)
        own = home / uuid.uuid4().hex
        try:
            descriptor = os.open(own.with_suffix(_FRESH), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        except FileNotFoundError:  # the last of the others has just left, and took `home` away
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        try_lock(descriptor)
        own.with_suffix(_FRESH).rename(own.with_suffix(_LOCK))
        own.mkdir()
        return own, descriptor
    raise AssertionError


def _sweep(home: Path) -> None:
    """Remove what writers that ended without doing so themselves left in a directory."""
    try:
        entries = list(os.scandir(home))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        path = Path(entry.path)
        if path.suffix in {_LOCK, _FRESH} and _is_left(path):
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            path.unlink(missing_ok=True)


def _is_left(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except OSError:
        return False
    try:
        # without locks, and before a new one is locked, only age tells
        if not LOCKS or lock.suffix == _FRESH:
            return time.time() - os.fstat(descriptor).st_mtime > _OLD_SECONDS
        return try_lock(descriptor)
    finally:
        os.close(descriptor)

"""What killed processes left below a directory, told by its name: files that never became whole."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STAGING_PREFIX: Final = ".staging-"
"""Begins the names of files that are being written; the number of the process follows."""

STAGING_MAX_AGE_SECONDS: Final = 3600.0


def leftovers(root: Path) -> list[Path]:
    """Files below a directory that killed processes left under staging names an hour ago or longer."""
    return [
        file
        for file, status in files_below(root, is_staging)
        if time.time() - status.st_mtime > STAGING_MAX_AGE_SECONDS and not _writer_lives(file.name)
    ]


def files_below(root: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[Path, os.stat_result]]:
    """Files under a directory by name, with their status; those that vanish meanwhile are passed over."""
    for directory, _, names in os.walk(root):
        for name in filter(wanted, names):
            file = Path(directory, name)
            try:
                yield file, file.stat()
            except FileNotFoundError:
                continue


def is_staging(name: str) -> bool:
    """Whether a file of that name is being written, or was left so."""
    return name.startswith(STAGING_PREFIX)


def _writer_lives(name: str) -> bool:
    pid = name.removeprefix(STAGING_PREFIX).split("-")[0]
    return pid.isdigit() and process_exists(int(pid))


def process_exists(pid: int) -> bool:
    """Whether this machine runs a process of that id, whoever owns it."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True

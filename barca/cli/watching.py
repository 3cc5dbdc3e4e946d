"""`barca get --watch`: computing again when the project's files change, or every so many seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barca.cli.output import Mode, is_gone, report, write
from barca.config import find_root
from barca.discovery.files import stamps
from barca.errors import BarcaError, Cancelled, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

POLL_SECONDS: Final = 0.5
"""Seconds between looks at the files."""


def watch(compute: Callable[[bool, bool], object], mode: Mode, every: float | None) -> int:
    """Compute, and again and again until interrupted or nobody reads the results any more.

    Args:
        compute: Computes once; told whether this is the first time, and whether to keep quiet where nothing
            but sensors and what always runs did. What it raises is shown, and waited on.
        mode: For showing errors.
        every: Seconds after which to compute though no file changed, for what sensors look at; or never.

    Returns:
        The exit code, once stdout is closed.

    Raises:
        Cancelled: Interrupted.
    """
    root = find_root(Path.cwd())
    seen = stamps(root)
    _attempt(compute, mode, first=True, quiet=False)
    again = "" if every is None else f", and every {every:g} s"
    write(sys.stderr, f"watching {plural(len(seen), 'file')}{again}; Ctrl-C ends it\n")
    last = time.monotonic()
    while not is_gone(sys.stdout):
        time.sleep(POLL_SECONDS)
        found = stamps(root)
        due = every is not None and time.monotonic() - last >= every
        if found != seen:
            write(sys.stderr, f"changed: {_changed(root, seen, found)}\n")
        elif not due:
            continue
        seen, quiet = found, found == seen
        _attempt(compute, mode, first=False, quiet=quiet)
        last = time.monotonic()
    return 0


def _attempt(compute: Callable[[bool, bool], object], mode: Mode, *, first: bool, quiet: bool) -> None:
    """Compute once, and show what was wrong; only an interruption passes through."""
    try:
        compute(first, quiet)
    except Cancelled:
        raise
    except BarcaError as error:
        report(error, mode)


def _changed(root: Path, before: Mapping[str, object], after: Mapping[str, object]) -> str:
    from barca.render.text import listing

    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return listing([str(Path(name).relative_to(root)) for name in names])

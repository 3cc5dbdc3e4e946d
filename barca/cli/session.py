"""Opening the project of a command, and listening to what it does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from barca.project import Project
    from barca.render.progress import ProgressListener


def listening() -> ProgressListener:
    """A listener that shows progress, warnings and what steps print on stderr."""
    from barca.cli.output import console
    from barca.render.progress import ProgressListener

    return ProgressListener(console(sys.stderr))


def open_project(
    files: Sequence[Path] = (),
    *,
    env: str | None = None,
    listener: ProgressListener | None = None,
) -> Project:
    """The project around the working directory; its files are read when it is first asked something."""
    from barca.project import Project

    return Project(files=files, env=env, listener=listener)

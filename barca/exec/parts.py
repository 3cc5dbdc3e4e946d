"""What a call has stored before its end, told from the worker to the coordinator.

Numbered files beside the work's progress file, each renamed into place whole: what is told survives the
worker.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from barca.exec.wire import from_parts, to_parts

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl


class PartWriter:
    """The worker's side; a `ports.Keep`.

    Args:
        progress: The work's progress file.
    """

    def __init__(self, progress: Path) -> None:
        self._progress = progress
        self._count = 0

    def __call__(self, fragments: pl.DataFrame, elapsed_seconds: float, /, *, commit: bool = False) -> None:  # noqa: ARG002
        """Tell it; when it is committed is the coordinator's affair."""
        staged = self._progress.with_suffix(".part")
        staged.write_bytes(pickle.dumps([bytes(part) for part in to_parts((fragments, elapsed_seconds))]))
        staged.rename(_part(self._progress, self._count))
        self._count += 1


class PartReader:
    """The coordinator's side."""

    def __init__(self, progress: Path) -> None:
        self._progress = progress
        self._count = 0

    def read(self) -> list[tuple[pl.DataFrame, float]]:
        """What was told since the last time: `schemas.FRAGMENTS` and the seconds that the call had taken."""
        told = []
        while (path := _part(self._progress, self._count)).exists():
            told.append(from_parts(pickle.loads(path.read_bytes())))
            path.unlink()
            self._count += 1
        return told


def _part(progress: Path, number: int) -> Path:
    return progress.with_suffix(f".part{number}")

"""What the finished calls of a work of several came to, kept outside of their process until all are stored.

Calls that travel together are stored together, once all of them have ended. Should the process die before,
what they came to is read from the file that is written here, so that none of them is made twice.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPILL_BYTES: Final = 64 * 1024 * 1024
"""A chunk ends once so much of it would be lost."""


class Spill:
    """The worker's side: a file of pickles.

    Args:
        path: Of the file, which is made with the first call that is kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            self._file.close()

    def keep(self, came: Any, elapsed_seconds: float) -> bool:
        """Keep what the next call of the work came to.

        Args:
            came: What it returned, or its `Failure`; of a batched call, its `Done`.
            elapsed_seconds: Of the call.

        Returns:
            Whether it is safe to go on: what cannot be kept, or is too much, has to be stored first.
        """
        try:
            data = pickle.dumps((came, elapsed_seconds), protocol=5)
            if self._file is None:
                self._file = self._path.open("wb", buffering=0)
            self._file.write(data)
        except BaseException:  # pickling is the code of the value's class
            return False
        self._size += len(data)
        return self._size < SPILL_BYTES


def read_spill(path: Path) -> Iterator[tuple[Any, float]]:
    """What was kept, in order, as far as it can be read.

    Classes of the values must be importable: the work's function is loaded first.
    """
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except BaseException:  # the end, a cut record, or the code of a value's class
                return

"""Hashes of values that only pickle can write, for closures that nothing else tells apart."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

from barca.fingerprint.values import Unencodable
from barca.hashing import hash_text

if TYPE_CHECKING:
    from collections.abc import Callable


class _Pickler(pickle.Pickler):
    """Refuses instances of the project's classes, whose methods pickling would run."""

    def __init__(self, file: io.BytesIO, is_project: Callable[[type], bool]) -> None:
        super().__init__(file, protocol=4)
        self._is_project = is_project

    def persistent_id(self, obj: Any) -> None:
        if not isinstance(obj, type) and self._is_project(type(obj)):
            raise Unencodable(f"an instance of `{type(obj).__qualname__}` is in it")


def pickle_hash(value: object, is_project: Callable[[type], bool]) -> str | None:
    """The hash of a value's pickle, or `None` if it has none.

    It may differ between processes and versions of the value's package, which costs a computation and never
    takes two values for one.

    Args:
        value: The value.
        is_project: Whether a class is the project's.
    """
    file = io.BytesIO()
    try:
        _Pickler(file, is_project).dump(value)
    except Exception:
        return None
    return hash_text(file.getvalue().hex())

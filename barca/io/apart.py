"""What a function gave, kept apart from what it does with the same objects later.

What calls return that travel together, or a generator yields, is stored a while later. Until then a function
may have filled a dict, a model or an array again that it gave before, and keys would get what later ones did.
"""

from __future__ import annotations

import copy
import pickle
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from barca.io.plain import SCALARS, NotPlain
from barca.io.tables import is_table

if TYPE_CHECKING:
    from barca._typing import Serializer


class Pickled(NamedTuple):
    """A value that is stored as a pickle.

    Attributes:
        data: The pickle.
    """

    data: bytes


def apart(value: Any, serializer: Serializer | None) -> Any:
    """A value that is stored as this one is now, and that nobody else can change.

    Args:
        value: What a call returned for a key; a table of Arrow or DuckDB, or a LazyFrame, as a frame.
        serializer: The node's.
    """
    if type(value) in SCALARS:
        return value
    try:
        if serializer == "pickle":
            return _pickled(value)
        if isinstance(value, pl.DataFrame):
            return frame_apart(value)
        if is_table(value):
            return value.copy()  # of pandas
        return _plain_or_pickled(value) if serializer is None else copy.deepcopy(value)
    except Exception:  # the code of the value's class; storing it tells what is wrong
        return value


def frame_apart(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with columns of its own: those of NumPy and pandas become a frame's without being copied."""
    if "numpy" not in sys.modules or not frame.width:
        return frame.clone()
    few = frame.height <= _FEW.len()
    rows = _FEW.head(frame.height) if few else pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
    return frame[rows]


def _plain_or_pickled(value: Any) -> Any:
    try:
        return _copied(value)
    except (NotPlain, RecursionError):
        return _pickled(value)


def _pickled(value: Any) -> Pickled:
    return Pickled(pickle.dumps(value, protocol=5))


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind is dict and all(type(key) is str for key in value):
        return {key: item if type(item) in SCALARS else _copied(item) for key, item in value.items()}
    if kind is list:
        return [item if type(item) in SCALARS else _copied(item) for item in value]
    raise NotPlain("", f"a {kind.__qualname__} is not JSON")


_FEW: Final = pl.Series(range(1024), dtype=pl.UInt32)
"""The positions of a small frame, which take longer to make than to use."""

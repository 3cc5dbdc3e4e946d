"""Works and their results as bytes between processes of one machine."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.io.columns import exactly, without
from barca.records import replace
from barca.schemas import CALL, INPUT_HASHES, ORDINAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca._typing import Buffer
    from barca.model import Work

MANY_ROWS: Final = 1000
"""In a frame of so many rows it pays to look for columns that hold one value in all of them."""


def work_parts(work: Work) -> list[Buffer]:
    """A work for a worker, without what only the coordinator asks its keys for."""
    keys = work.keys.drop(ORDINAL, CALL, INPUT_HASHES, strict=False)
    return to_parts(replace(work, keys=keys))


def to_parts(value: Any) -> list[Buffer]:
    """The value, with its frames, as bytes that `from_parts` reads in another process of this machine.

    Returns:
        A pickle, and after it what its frames hold.
    """
    file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(file, buffers).dump(value)
    return [file.getvalue(), *(buffer.raw() for buffer in buffers)]


def from_parts(parts: Sequence[Buffer]) -> Any:
    """The inverse of `to_parts`."""
    return pickle.loads(parts[0], buffers=parts[1:])


class _Pickler(pickle.Pickler):
    """Writes frames by their columns, those that hold one value in every row as that value.

    Status, format and path mostly are such columns. The others are not compressed: copying what hashes
    take is quicker than making it smaller.
    """

    def __init__(self, file: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)

    def reducer_override(self, obj: Any) -> Any:
        """How a frame is written; everything else as usual."""
        if not isinstance(obj, pl.DataFrame):
            return NotImplemented
        same = [column for column in obj.iter_columns() if _is_one_value(column)][: obj.width - 1]
        if not same:
            return _read, (_written(obj),)
        values = pl.DataFrame([column.head(1) for column in same])
        return _joined, (_written(without(obj, values.columns)), _written(values), obj.columns)


def _is_one_value(column: pl.Series) -> bool:
    """Whether it pays to write a column as its one value; never for floats, of which 0.0 equals -0.0."""
    if column.len() < MANY_ROWS or column.dtype.is_nested() or column.dtype.is_float():
        return False
    if nulls := column.null_count():
        return nulls == column.len()
    first: Any = column[0]
    return first == column[-1] and bool((column == first).all())


def _written(frame: pl.DataFrame) -> pickle.PickleBuffer:
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="uncompressed")
    return pickle.PickleBuffer(buffer.getvalue())


def _read(written: Buffer) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(written))


def _joined(rows: Buffer, values: Buffer, columns: Sequence[str]) -> pl.DataFrame:
    """A frame of the columns that are written whole and those that are written as one value."""
    constants = [pl.lit(value).first() for value in _read(values)]
    return _read(rows).with_columns(constants).select(exactly(columns))

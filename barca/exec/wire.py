"""Works and their results as bytes between processes of one machine."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.frames import without
from barca.records import replace
from barca.schemas import CALL, INPUT_HASHES, ORDINAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca._typing import Buffer
    from barca.model import Work

MANY_ROWS: Final = 1000
"""In a frame of so many rows it pays to look for columns that need not be written."""


def work_parts(work: Work) -> list[Buffer]:
    """A work for a worker, without what only the coordinator asks its keys for."""
    keys = without(work.keys, ORDINAL, CALL, INPUT_HASHES)
    return to_parts(replace(work, keys=keys))


def to_parts(value: Any, known: pl.DataFrame | None = None) -> list[Buffer]:
    """The value, with its frames, as bytes that `from_parts` reads in another process of this machine.

    Args:
        value: What pickles.
        known: A frame that the reader has too: the keys of the work that is answered.

    Returns:
        A pickle, and after it what its frames hold.
    """
    file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(file, buffers, known).dump(value)
    return [file.getvalue(), *(buffer.raw() for buffer in buffers)]


def from_parts(parts: Sequence[Buffer], known: pl.DataFrame | None = None) -> Any:
    """The inverse of `to_parts`."""
    return _Unpickler(io.BytesIO(parts[0]), parts[1:], known).load()


class _Known:
    """A column of the frame that both sides have."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Pickler(pickle.Pickler):
    """Writes frames by their columns: those that the reader has by name, those of one value as that value.

    Keys and run hashes mostly are the former, status, format and path the latter. The others are not
    compressed: copying what hashes take is quicker than making it smaller.
    """

    def __init__(
        self, file: io.BytesIO, buffers: list[pickle.PickleBuffer], known: pl.DataFrame | None
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._known = known

    def persistent_id(self, obj: Any) -> str | None:
        """How a column that the reader has is written."""
        return obj.name if isinstance(obj, _Known) else None

    def reducer_override(self, obj: Any) -> Any:
        """How a frame is written; everything else as usual."""
        if not isinstance(obj, pl.DataFrame):
            return NotImplemented
        if obj.height < MANY_ROWS:
            return _read_few, (_written_few(obj),)
        known, same, rows = list[_Known](), list[pl.Series](), list[pl.Series]()
        for column in obj.iter_columns():
            if self._has(column):
                known.append(_Known(column.name))
            else:
                (same if _is_one_value(column) else rows).append(column)
        values = pl.DataFrame([column.head(1) for column in same])
        return _joined, (_written(pl.DataFrame(rows)), _written(values), known, obj.columns, obj.height)

    def _has(self, column: pl.Series) -> bool:
        """Whether the reader has a column."""
        known = self._known
        if known is None or known.height != column.len() or column.name not in known.columns:
            return False
        other = known.get_column(column.name)
        return other.dtype == column.dtype and other.equals(column, null_equal=True)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, buffers: Sequence[Buffer], known: pl.DataFrame | None) -> None:
        super().__init__(file, buffers=buffers)
        self._known = known

    def persistent_load(self, name: str) -> pl.Series:
        """A column that both sides have."""
        assert self._known is not None
        return self._known.get_column(name)


def _is_one_value(column: pl.Series) -> bool:
    """Whether it pays to write a column as its one value; never for floats, of which 0.0 equals -0.0."""
    if column.dtype.is_nested() or column.dtype.is_float() or column.dtype == pl.Binary:
        return False
    if nulls := column.null_count():
        return nulls == column.len()
    first: Any = column[0]
    return first == column[-1] and bool((column == first).all())


def _written_few(frame: pl.DataFrame) -> pickle.PickleBuffer:
    """As `_written`, which is quicker for many rows, but takes half a millisecond for any."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="uncompressed")
    return pickle.PickleBuffer(buffer.getvalue())


def _read_few(written: Buffer) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(written))


def _written(frame: pl.DataFrame) -> pickle.PickleBuffer:
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="uncompressed")
    return pickle.PickleBuffer(buffer.getvalue())


def _read(written: Buffer) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(written))


def _joined(
    rows: Buffer, values: Buffer, known: Sequence[pl.Series], columns: Sequence[str], height: int
) -> pl.DataFrame:
    """A frame of the columns that are written whole, those of one value, and those that are known."""
    found = {column.name: column for column in (*_read(rows), *known)}
    found |= {value.name: value.new_from_index(0, height) for value in _read(values)}
    return pl.DataFrame([found[name] for name in columns])

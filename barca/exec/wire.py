"""Works and their results as bytes between processes."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.records import replace
from barca.schemas import CALL, INPUT_HASHES, ORDINAL

if TYPE_CHECKING:
    from barca.model import Work


def work_bytes(work: Work) -> bytes:
    """A work for a worker, without what only the coordinator asks its keys for."""
    keys = work.keys.drop(ORDINAL, CALL, INPUT_HASHES, strict=False)
    return to_bytes(replace(work, keys=keys))


class _Pickler(pickle.Pickler):
    """Writes frames compressed: the same path and hash prefixes stand in 200,000 rows."""

    def reducer_override(self, obj: Any) -> Any:
        """How a frame is written; everything else as usual."""
        if not isinstance(obj, pl.DataFrame):
            return NotImplemented
        buffer = io.BytesIO()
        obj.write_ipc_stream(buffer, compression="lz4")
        return pl.read_ipc_stream, (buffer.getvalue(),)


def to_bytes(value: Any) -> bytes:
    """The value, with its frames, as bytes that `from_bytes` reads in another process of this machine."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(value)
    return buffer.getvalue()


def from_bytes(data: bytes) -> Any:
    """The inverse of `to_bytes`."""
    return pickle.loads(data)

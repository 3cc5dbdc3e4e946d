"""A table larger than memory on its way into packs: computed once, in pieces, onto the disk.

Rows are put into parts by a hash of their key, so that each part holds whole keys and is sorted and stored by
itself: what is in memory at once is a part, not the table.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

import polars as pl

from barca.io.storage import STAGING_PREFIX
from barca.io.tables import text_form
from barca.schemas import dimension

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

PARTS: Final = 32
"""Into so many parts a table is cut."""

HELD_BYTES: Final = 4_000_000
"""Of each part so much waits in memory to be written."""

PIECE_ROWS: Final = 2_000
"""Rows computed at once: rows may be wide."""

_PART: Final = "part"


class Spool:
    """The parts of one table. A context: its files go with it.

    Args:
        directory: Where files of passage are.
        dimensions: Columns that make up a row's key.
    """

    def __init__(self, directory: Path, dimensions: Sequence[str]) -> None:
        self._directory = directory
        self._names = list(dimensions)
        self._schema: pl.Schema | None = None
        self._held: dict[int, list[pl.DataFrame]] = {}
        self._bytes: dict[int, int] = {}
        self._files: dict[int, list[Path]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in [file for files in self._files.values() for file in files]:
            with suppress(OSError):
                file.unlink(missing_ok=True)
        self._files.clear()
        self._held.clear()

    def fill(self, table: Any) -> None:
        """Compute a LazyFrame, DuckDB relation or Arrow dataset; what that raises passes through."""
        if isinstance(table, pl.LazyFrame):
            self._schema = table.collect_schema()
            table.sink_batches(self._take, chunk_size=PIECE_ROWS, maintain_order=False, engine="streaming")
            return
        for piece in _arrow_pieces(table):
            self._take(pl.DataFrame(pl.from_arrow(piece)))

    def parts(self, keys: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Each part that has rows or keys.

        Args:
            keys: Frame with the `dim:` columns, String.

        Yields:
            The part's rows, columns as computed; and the rows of `keys` that may own them.
        """
        empty = pl.DataFrame(schema=self._schema)
        if any(text_form(name, empty.schema[name]) is None for name in self._names if name in empty.columns):
            yield empty, keys  # what stores it says what is wrong
            return
        numbered = keys.with_columns(_number([pl.col(dimension(name)) for name in self._names]))
        for (part,), own in numbered.partition_by(_PART, as_dict=True, include_key=False).items():
            yield self._read(int(part), empty), own
        for part in [*self._held, *self._files]:
            if (rows := self._read(part, empty)).height:
                yield rows, keys.clear()

    def _take(self, piece: pl.DataFrame) -> None:
        self._schema = piece.schema
        texts = [text_form(name, piece.schema[name]) for name in self._names if name in piece.columns]
        known = [text for text in texts if text is not None]
        number = _number(known) if len(known) == len(self._names) else pl.lit(0, pl.UInt64).alias(_PART)
        parts = piece.with_columns(number).partition_by(_PART, as_dict=True, include_key=False)
        for (part,), rows in parts.items():
            held = self._held.setdefault(part, [])
            held.append(rows)
            self._bytes[part] = self._bytes.get(part, 0) + int(rows.estimated_size())
            if self._bytes[part] > HELD_BYTES:
                self._write(part)

    def _write(self, part: int) -> None:
        file = self._directory / f"{STAGING_PREFIX}{os.getpid()}-{uuid.uuid4().hex}"
        self._files.setdefault(part, []).append(file)
        self._directory.mkdir(parents=True, exist_ok=True)
        pl.concat(self._held.pop(part)).write_ipc(file, compression="lz4")
        self._bytes[part] = 0

    def _read(self, part: int, empty: pl.DataFrame) -> pl.DataFrame:
        """The rows of a part, which are then gone."""
        files = self._files.pop(part, [])
        frames = [pl.read_ipc(file.read_bytes()) for file in files]
        frames += self._held.pop(part, [])
        for file in files:
            file.unlink(missing_ok=True)
        return pl.concat([empty, *frames])


def _number(texts: Sequence[pl.Expr]) -> pl.Expr:
    """The part of each row, from the texts of its key."""
    names = [f"key{index}" for index in range(len(texts))]
    key = pl.struct([text.alias(name) for text, name in zip(texts, names, strict=True)])
    return (key.hash() % PARTS).alias(_PART)


def _arrow_pieces(table: Any) -> Iterable[Any]:
    if hasattr(table, "to_arrow_reader"):
        return table.to_arrow_reader(PIECE_ROWS)  # type: ignore[no-any-return]
    return table.to_batches(batch_size=PIECE_ROWS)  # type: ignore[no-any-return]

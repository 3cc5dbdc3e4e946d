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

from barca.io.leftovers import STAGING_PREFIX
from barca.io.tables import text_form
from barca.schemas import dimension

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

PARTS: Final = 64
"""Into so many parts a table is cut."""

PART_BYTES: Final = 8_000_000
"""Parts are stored together up to so much: a small table is one of them."""

HELD_BYTES: Final = 48_000_000
"""So much of the table waits in memory to be written."""

PIECE_ROWS: Final = 2_000
"""Rows computed at once: rows may be wide."""

_PART: Final = "\0part"  # tables may have a column `part`


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
        self._held: list[pl.DataFrame] = []
        self._held_bytes = 0
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
        """The table part by part, small parts together.

        Args:
            keys: Frame with the `dim:` columns, String.

        Yields:
            The part's rows, columns as computed; and the rows of `keys` that may own them.
        """
        empty = pl.DataFrame(schema=self._schema)
        if any(text_form(name, empty.schema[name]) is None for name in self._names if name in empty.columns):
            yield empty, keys  # what stores it says what is wrong
            return
        held = self._cut()
        numbered = keys.with_columns(_number([pl.col(dimension(name)) for name in self._names]))
        for parts in self._grouped():
            own = numbered.filter(pl.col(_PART).is_in(parts)).drop(_PART)
            rows = [frame for part in parts for frame in (*self._read(part), *held.pop(part, ()))]
            if rows or own.height:
                yield pl.concat([empty, *rows]), own

    def _take(self, piece: pl.DataFrame) -> None:
        self._schema = piece.schema
        texts = [text_form(name, piece.schema[name]) for name in self._names if name in piece.columns]
        known = [text for text in texts if text is not None]
        number = _number(known) if len(known) == len(self._names) else pl.lit(0, pl.UInt64).alias(_PART)
        self._held.append(piece.with_columns(number))
        self._held_bytes += int(piece.estimated_size())
        if self._held_bytes > HELD_BYTES:
            self._directory.mkdir(parents=True, exist_ok=True)
            for part, (rows,) in self._cut().items():
                file = self._directory / f"{STAGING_PREFIX}{os.getpid()}-{uuid.uuid4().hex}"
                self._files.setdefault(part, []).append(file)
                rows.write_ipc(file, compression="lz4")

    def _cut(self) -> dict[int, tuple[pl.DataFrame]]:
        """What is held, by part, and no longer held.

        All of it at once: what is cut out of a piece keeps the texts of the whole piece in memory.
        """
        if not self._held:
            return {}
        held, self._held, self._held_bytes = pl.concat(self._held), list[pl.DataFrame](), 0
        cut = held.partition_by(_PART, as_dict=True, include_key=False)
        for (part,), rows in cut.items():
            self._bytes[part] = self._bytes.get(part, 0) + int(rows.estimated_size())
        return {int(part): (rows,) for (part,), rows in cut.items()}

    def _grouped(self) -> Iterator[list[int]]:
        """Parts that are stored together."""
        group: list[int] = []
        size = 0
        for part in range(PARTS):
            if group and size + self._bytes.get(part, 0) > PART_BYTES:
                yield group
                group, size = list[int](), 0
            group.append(part)
            size += self._bytes.get(part, 0)
        yield group

    def _read(self, part: int) -> list[pl.DataFrame]:
        """The rows of a part that lie on the disk, and then no longer."""
        frames = []
        for file in self._files.pop(part, []):
            frames.append(pl.read_ipc(file.read_bytes()))
            file.unlink(missing_ok=True)
        return frames


def _number(texts: Sequence[pl.Expr]) -> pl.Expr:
    """The part of each row, from the texts of its key."""
    names = [f"key{index}" for index in range(len(texts))]
    key = pl.struct([text.alias(name) for text, name in zip(texts, names, strict=True)])
    return (key.hash() % PARTS).alias(_PART)


def _arrow_pieces(table: Any) -> Iterable[Any]:
    if hasattr(table, "to_arrow_reader"):
        return table.to_arrow_reader(PIECE_ROWS)  # type: ignore[no-any-return]
    return table.to_batches(batch_size=PIECE_ROWS)  # type: ignore[no-any-return]

"""What keys hold, read from the store for publishing: some keys at a time, so that memory stays bounded."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.io.annotations import table_form
from barca.io.plain import NotPlain, plain_text
from barca.io.reading import Pack, open_packs, read_payloads, read_rows
from barca.io.tables import is_table, to_frame
from barca.io.values import form_table, read_value
from barca.records import Record
from barca.schemas import ROW_OFFSET, SIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barca.ports import PackStore

_KEYS: Final = 1_000
_BYTES: Final = 16 * 2**20
_ROWS: Final = 1_000_000
"""At most about so many keys, bytes of a pack, and rows between the first and the last, are read at once."""


class Unfit(TypeError):
    """A value that a sink's format cannot hold."""


class Content(Record):
    """What one key holds.

    Attributes:
        key: The key, Hive form.
        format: Of its fragment.
        size: In bytes, about, of its fragment.
        table: Its rows, if it is stored as a table.
        payload: Otherwise what is stored: JSON text, a pickle, or the value of a keyed source.
    """

    key: str
    format: str
    size: int
    table: pl.DataFrame | None = None
    payload: Any = None

    def as_table(self) -> pl.DataFrame:
        """The value as a table, of its own columns without the dimensions.

        Raises:
            Unfit: It is none.
        """
        if self.table is not None:
            return self.table
        value = self.value()
        if is_table(value):
            return to_frame(value, "in-memory")
        raise Unfit(f"a table is needed, and the result is a {type(value).__name__}")

    @property
    def is_tabular(self) -> bool:
        """Whether the value is a table."""
        return self.table is not None or (self.format != "json" and is_table(self.value()))

    def as_json(self) -> str:
        """A value that is no table as a JSON document.

        Raises:
            Unfit: JSON cannot hold it.
        """
        if self.format == "json":
            return str(self.payload)
        try:
            return plain_text(self.value())
        except NotPlain as error:
            raise Unfit(f"JSON cannot hold the result: at `value{error.path}`, {error.why}") from error

    def as_pickle(self, annotation: Any) -> bytes:
        """The value as a pickle, a table in the annotated form.

        Raises:
            Unfit: It cannot be pickled.
        """
        if self.format == "pickle":
            return bytes(self.payload)
        value = self.value()
        if self.table is not None:
            form = table_form(annotation) or "polars"
            value = self.table if form == "lazy" else form_table(self.table, form)
        try:
            return pickle.dumps(value, protocol=5)
        except Exception as error:
            raise Unfit(f"a {type(value).__name__} cannot be pickled: {error}") from error

    def value(self) -> Any:
        """The Python value."""
        if self.table is not None:
            return self.table
        if self.format == "json":
            return json.loads(self.payload)
        return pickle.loads(self.payload) if self.format == "pickle" else self.payload


def read_contents(
    store: PackStore, fragments: pl.DataFrame, annotation: Any, dimensions: Sequence[str]
) -> Iterator[list[Content]]:
    """What the keys of fragments hold, in groups that fit in memory together.

    Args:
        store: Holds the packs.
        fragments: `schemas.FRAGMENTS`; more columns allowed.
        annotation: What the function returns, for keyed sources, which may be tables.
        dimensions: The node's dimensions, declared order.

    Raises:
        FragmentError: A pack is missing, unreadable, or another one.
    """
    for pack in open_packs(store, fragments):
        ordered = pack.fragments.sort(ROW_OFFSET)
        group = pl.struct(
            pl.int_range(pl.len()) // _KEYS,
            pl.col(SIZE_BYTES).cum_sum().alias("bytes") // _BYTES,
            pl.col(ROW_OFFSET) // _ROWS,
        )
        for part in ordered.with_columns(group.alias("group")).partition_by("group", include_key=False):
            yield _read(store, Pack(pack.path, pack.format, pack.footer, part), annotation, dimensions)


def _read(store: PackStore, pack: Pack, annotation: Any, dimensions: Sequence[str]) -> list[Content]:
    sizes = pack.fragments.get_column(SIZE_BYTES).to_list()
    if pack.format == "keyed":
        value = read_value(store, pack.fragments, annotation, dimensions)
        return [Content(pack.keys[0], "keyed", sizes[0], payload=value)]
    if pack.format != "table":
        payloads = read_payloads(store, pack)
        return [
            Content(key, pack.format, size, payload=payload)
            for key, size, payload in zip(pack.keys, sizes, payloads, strict=True)
        ]
    begin, end = pack.span
    rows = read_rows(store, pack) if pack.columns else pl.DataFrame(height=end - begin)
    return [
        Content(key, "table", size, rows.slice(offset, height))
        for size, (key, offset, height) in zip(sizes, pack.ranges(), strict=True)
    ]

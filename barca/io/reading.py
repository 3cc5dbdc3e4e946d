"""Fragments read into memory, pack by pack: one read per distinct pack, never one per key."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import InputError
from barca.io.columns import exactly
from barca.io.footer import verify
from barca.io.packs import readable
from barca.partitions import display_text
from barca.records import Record
from barca.schemas import FORMAT, KEY, PATH, ROW_OFFSET, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barca.ports import PackStore


class Pack(Record):
    """Some fragments of one pack.

    Attributes:
        path: Of the pack.
        format: Of all its fragments.
        footer: The `barca` entry of its footer.
        fragments: `schemas.FRAGMENTS`.
    """

    path: str
    format: str
    footer: dict[str, Any]
    fragments: pl.DataFrame

    @property
    def columns(self) -> list[str]:
        """The user's columns, in order; for `json` and `pickle`, the one that holds the values."""
        return list(self.footer["columns"])

    @property
    def keys(self) -> list[str]:
        """Keys of the fragments."""
        return self.fragments.get_column(KEY).to_list()

    def rows(self, store: PackStore) -> pl.LazyFrame:
        """The user's columns of the row range that the fragments span."""
        begin, end = self.span
        return store.scan([self.path]).select(exactly(self.columns)).slice(begin, end - begin)

    @property
    def span(self) -> tuple[int, int]:
        """The first row of any fragment, and the row after the last."""
        ends = (pl.col(ROW_OFFSET) + pl.col(ROWS)).alias(ROWS)
        begin, end = self.fragments.select(pl.col(ROW_OFFSET).min(), ends.max()).row(0)
        return int(begin), int(end)

    @property
    def adjoining(self) -> bool:
        """Whether the row range that the fragments span has no other fragment's rows in it."""
        begin, end = self.span
        return int(self.fragments.get_column(ROWS).sum()) == end - begin

    def ranges(self) -> Iterator[tuple[str, int, int]]:
        """For each fragment its key, and its offset and length in `rows`."""
        begin, _ = self.span
        offsets = (self.fragments.get_column(ROW_OFFSET) - begin).to_list()
        return zip(self.keys, offsets, self.fragments.get_column(ROWS).to_list(), strict=True)


def open_packs(store: PackStore, fragments: pl.DataFrame) -> list[Pack]:
    """The distinct packs of fragments, in order of first appearance.

    Args:
        store: Holds the packs.
        fragments: `schemas.FRAGMENTS`, more columns allowed.

    Raises:
        FragmentError: A pack is missing, unreadable, or another one.
    """
    if fragments.is_empty():
        return []
    paths = fragments.get_column(PATH)
    if (paths == paths[0]).all():  # which grouping takes longer to tell
        parts = [(str(paths[0]), fragments)]
    else:
        parts = [(str(path), part) for (path,), part in fragments.group_by(PATH, maintain_order=True)]
    return [
        Pack(path, part.get_column(FORMAT)[0], verify(path, store.metadata(path)), part)
        for path, part in parts
    ]


def read_rows(store: PackStore, pack: Pack) -> pl.DataFrame:
    """`Pack.rows`, read: the columns `Pack.columns`.

    Raises:
        FragmentError: The pack is missing, unreadable, or another one.
    """
    rows = pack.rows(store)
    with readable(pack.path):
        return rows.collect(engine="in-memory")


def read_payloads(store: PackStore, pack: Pack) -> list[Any]:
    """What is stored of a `json` or `pickle` pack's fragments, in their order: JSON texts, or pickles.

    Raises:
        FragmentError: The pack is missing, unreadable, or another one.
    """
    column = read_rows(store, pack).to_series()
    begin, _ = pack.span
    return column.gather(pack.fragments.get_column(ROW_OFFSET) - begin).to_list()


def read_objects(store: PackStore, pack: Pack) -> list[Any]:
    """The Python values of a `json` or `pickle` pack's fragments, in their order.

    Raises:
        FragmentError: The pack is missing, unreadable, or another one.
        InputError: A pickle cannot be loaded, its class being gone, for instance.
    """
    payloads = read_payloads(store, pack)
    if pack.format == "json":
        values: list[Any] = json.loads(f"[{','.join(payloads)}]")
        return values
    return [_unpickled(pack, key, payload) for key, payload in zip(pack.keys, payloads, strict=True)]


def _unpickled(pack: Pack, key: str, payload: bytes) -> Any:
    try:
        return pickle.loads(payload)
    except Exception as error:
        node: str = pack.footer["node"]
        raise InputError(
            f"the stored result of `{node}` cannot be loaded: {type(error).__name__}: {error}",
            code="unpickle",
            node=node,
            key=display_text(key),
            remediation=f"run it again: --refresh {node.rpartition(':')[2]}",
        ) from error

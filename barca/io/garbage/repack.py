"""Putting fragments out of several packs into one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from barca.errors import StoreError
from barca.io.canonical import free_name
from barca.io.footer import footer
from barca.io.packs import readable
from barca.io.reading import Pack, open_packs
from barca.schemas import KEY, MOVED, PATH, ROW_OFFSET, ROWS, RUN_HASH, SIZE_BYTES, WAS, WAS_OFFSET, empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barca.ports import PackStore


def repack(store: PackStore, fragments: pl.DataFrame, stem: str) -> pl.DataFrame:
    """Write the fragments of several packs of one node into as few as their schemas allow.

    The packs they come from stay. Rows keep their order, and so their digests.

    Args:
        store: Holds the packs, receives the new ones.
        fragments: `schemas.FRAGMENTS`, each once.
        stem: Path of a new pack without a number and `.parquet`.

    Returns:
        `schemas.MOVED`, a row per fragment.

    Raises:
        FragmentError: A pack is missing, unreadable, or another one.
        StoreError: The file system refused, or a new pack does not hold what it should.
    """
    fragments = fragments.sort(PATH, ROW_OFFSET, ROWS, KEY)
    groups: dict[str, list[Pack]] = {}
    for pack in open_packs(store, fragments):
        told = {name: pack.footer[name] for name in ("node", "format", "engine", "columns")}
        kind = json.dumps([told, str(store.schema(pack.path))], sort_keys=True)
        groups.setdefault(kind, []).append(pack)
    moved = [_merge(store, packs, f"{stem}-{number}.parquet") for number, packs in enumerate(groups.values())]
    return pl.concat([empty(MOVED), *moved])


def _merge(store: PackStore, packs: Sequence[Pack], path: str) -> pl.DataFrame:
    """Write fragments of packs of one kind into one pack, in the order given."""
    fragments = pl.concat([pack.fragments for pack in packs])
    total = int(fragments.get_column(ROWS).sum())
    told = packs[0].footer
    fields = {name: told[name] for name in ("format", "engine", "columns")}
    metadata = footer(told["node"], path, keys=fragments.height, rows=total, **fields)
    with readable(path):
        size = store.sink(path, pl.concat(list(_rows(store, packs))), metadata)
    written = store.scan([path]).select(pl.len()).collect(engine="in-memory").item()
    if written != total:
        raise StoreError(f"`{path}` holds {written} rows in the place of {total}", code="repack", file=path)
    rows = pl.col(ROWS)
    share = (rows * (size / max(total, 1))).round().cast(pl.Int64).clip(1)
    return fragments.select(
        KEY,
        RUN_HASH,
        "format",
        pl.lit(path).alias(PATH),
        (rows.cum_sum() - rows).alias(ROW_OFFSET),
        ROWS,
        pl.when(rows > 0).then(share).otherwise(0).alias(SIZE_BYTES),
        "digest",
        pl.col(PATH).alias(WAS),
        pl.col(ROW_OFFSET).alias(WAS_OFFSET),
    ).match_to_schema(MOVED)


def _rows(store: PackStore, packs: Sequence[Pack]) -> Iterator[pl.LazyFrame]:
    """The rows of the packs' fragments; of neighbours that are wanted whole in one scan."""
    whole: list[str] = []
    for pack in packs:
        if int(pack.fragments.get_column(ROWS).sum()) == pack.footer["rows"]:
            whole.append(pack.path)
            continue
        if whole:
            yield store.scan(whole)
            whole = []
        yield _some_rows(store, pack)
    if whole:
        yield store.scan(whole)


def _some_rows(store: PackStore, pack: Pack) -> pl.LazyFrame:
    """The rows of a pack that its fragments own."""
    row = free_name("row", store.schema(pack.path))
    ranges = pl.int_ranges(pl.col(ROW_OFFSET), pl.col(ROW_OFFSET) + pl.col(ROWS), dtype=pl.UInt32)
    wanted = pack.fragments.select(ranges.alias(row)).explode(row, empty_as_null=False).lazy()
    rows = store.scan([pack.path]).with_row_index(row)
    return rows.join(wanted, on=row, how="semi", maintain_order="left").drop(row)

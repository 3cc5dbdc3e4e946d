"""Writing one pack: its columns, its footer, and the fragments it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import OutputError
from barca.io.canonical import arrange, free_name, strictly_rising
from barca.io.digests import digest_rows, digest_values
from barca.io.dtypes import dtype_text
from barca.io.footer import footer
from barca.records import Record
from barca.schemas import (
    DIGEST,
    FORMAT,
    FRAGMENTS,
    KEY,
    PATH,
    ROW_OFFSET,
    ROWS,
    RUN_HASH,
    SIZE_BYTES,
    VALUE,
    dimensions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barca._typing import Engine, NodeId
    from barca.ports import PackStore


class Shelf(Record):
    """Where the results of one call go.

    Attributes:
        store: Holds the packs.
        path: Of the call's pack; the call's further packs have `-1`, `-2`, ... before the suffix.
        node: Node id.
        keys: `schemas.WORK_KEYS` with `dim:` columns, sorted by them: the order of keys in a pack.
        dimensions: The node's dimensions, declared order.
        engine: Collects LazyFrames; recorded in the footer.
    """

    store: PackStore
    path: str
    node: NodeId
    keys: pl.DataFrame
    dimensions: tuple[str, ...]
    engine: Engine

    @classmethod
    def of(
        cls,
        store: PackStore,
        path: str,
        node: NodeId,
        keys: pl.DataFrame,
        names: Sequence[str],
        engine: Engine,
    ) -> Shelf:
        """A shelf for a call's keys, `schemas.WORK_KEYS` with `dim:` columns in any order."""
        by = dimensions(names)
        return cls(store, path, node, keys.sort(by) if by else keys, tuple(names), engine)

    def numbered(self, position: int) -> Shelf:
        """The shelf for the call's pack number `position`, from 0."""
        stem = self.path.removesuffix(".parquet")
        path = f"{stem}-{position}.parquet" if position else self.path
        return Shelf(self.store, path, self.node, self.keys, self.dimensions, self.engine)

    def of_keys(self, positions: pl.Series) -> Shelf:
        """The shelf for some of the keys, by position, ascending."""
        chosen = self.keys[positions] if positions.len() < self.keys.height else self.keys
        return Shelf(self.store, self.path, self.node, chosen, self.dimensions, self.engine)


def payload_column(names: Iterable[str]) -> str:
    """The column of `json` and `pickle` packs that holds the values: `value`, if no dimension is named so."""
    return free_name(VALUE, names)


def write_rows(shelf: Shelf, rows: pl.DataFrame, owner: pl.Series, columns: Sequence[str]) -> pl.DataFrame:
    """Write a `table` pack.

    Args:
        shelf: Where; every one of its keys gets a fragment, those that own no rows one of no rows.
        rows: The user's columns but the dimensions, in any row order.
        owner: For each row the position of its key in `shelf.keys`, `UInt32`.
        columns: The user's columns in the user's order, dimensions among them.

    Returns:
        `schemas.FRAGMENTS`, in the order of `shelf.keys`.
    """
    rows, owner = arrange(rows, owner)
    one_each = owner.len() == shelf.keys.height and strictly_rising(owner)
    counts = _counts(owner, shelf.keys.height, one_each=one_each)
    types = {name: dtype_text(dtype) for name, dtype in rows.schema.items()}
    text = dtype_text(pl.String())
    digests = digest_rows(rows, counts.to_list(), [(name, types.get(name, text)) for name in columns])
    dims = _dimension_columns(shelf) if shelf.dimensions else None
    if dims is not None and not one_each:
        dims = dims[owner]
    frame = rows if dims is None else dims.hstack(rows.get_columns())
    return _write(shelf, "table", frame, counts, digests, {"columns": list(columns)})


def write_values(shelf: Shelf, kind: str, values: pl.Series) -> pl.DataFrame:
    """Write a `json` or `pickle` pack.

    Args:
        shelf: Where; one row per key.
        kind: `json` or `pickle`.
        values: JSON texts (String) or pickles (Binary), in the order of `shelf.keys`.

    Returns:
        `schemas.FRAGMENTS`, in the order of `shelf.keys`.
    """
    column = payload_column(shelf.dimensions)
    # a frame without columns has no rows, so it cannot take one
    frame = pl.DataFrame([*_dimension_columns(shelf).get_columns(), values.alias(column)])
    counts = pl.repeat(1, values.len(), dtype=pl.Int64, eager=True)
    digests = digest_values(kind, values.cast(pl.Binary).to_list())
    return _write(shelf, kind, frame, counts, digests, {"columns": [column]})


def write_keyed(shelf: Shelf, pairs: pl.DataFrame, digest: str, **fields: Any) -> pl.DataFrame:
    """Write a `keyed` pack: one fragment of all rows.

    Args:
        shelf: Where; its only key is the empty one.
        pairs: `schemas.KEYED`, sorted by key.
        digest: Of the keys and values.
        **fields: What else the footer shall say.
    """
    counts = pl.Series([pairs.height], dtype=pl.Int64)
    return _write(shelf, "keyed", pairs, counts, [digest], fields)


def _write(
    shelf: Shelf,
    kind: str,
    frame: pl.DataFrame,
    counts: pl.Series,
    digests: list[str],
    fields: dict[str, Any],
) -> pl.DataFrame:
    metadata = footer(
        shelf.node,
        shelf.path,
        engine=shelf.engine,
        format=kind,
        keys=counts.len(),
        rows=frame.height,
        **fields,
    )
    try:
        size = shelf.store.write(shelf.path, frame.rechunk(), metadata)
    except pl.exceptions.PolarsError as error:
        raise OutputError(
            f"`{shelf.node}` returned what Parquet cannot hold: {error}",
            code="unstorable",
            node=shelf.node,
            remediation="return columns of types that Parquet has",
        ) from error
    rows = pl.lit(counts)
    share = (rows * (size / max(frame.height, 1))).round().cast(pl.Int64)
    columns = {  # one query: these are what a small call takes longest for
        KEY: pl.col(KEY),
        RUN_HASH: pl.col(RUN_HASH),
        FORMAT: pl.lit(kind),
        PATH: pl.lit(shelf.path),
        ROW_OFFSET: rows.cum_sum() - rows,
        ROWS: rows,
        SIZE_BYTES: pl.when(rows > 0).then(share.clip(1)).otherwise(0),
        DIGEST: pl.lit(pl.Series(digests, dtype=pl.String)),
    }
    return shelf.keys.select(columns[name].alias(name) for name in FRAGMENTS)


def _dimension_columns(shelf: Shelf) -> pl.DataFrame:
    """The dimensions of the shelf's keys under their plain names, String, declared order."""
    frame = shelf.keys.select(dimensions(shelf.dimensions))
    frame.columns = list(shelf.dimensions)
    return frame


def _counts(owner: pl.Series, keys: int, *, one_each: bool) -> pl.Series:
    """Rows of each key, from the sorted owners."""
    if one_each:
        return pl.repeat(1, keys, dtype=pl.Int64, eager=True)
    positions = pl.DataFrame({"owner": pl.int_range(keys, dtype=pl.UInt32, eager=True)})
    found = pl.DataFrame({"owner": owner}).group_by("owner").len("rows")
    joined = positions.join(found, on="owner", how="left", maintain_order="left")
    return joined.get_column("rows").fill_null(0).cast(pl.Int64)

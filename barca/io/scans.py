"""Fragments of many keys as one lazy table: a few scans, whatever the number of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import InputError
from barca.io.canonical import free_name
from barca.io.keyed import ROW, read_keyed_rows
from barca.io.reading import Pack, open_packs, read_objects
from barca.io.records import NotATable, records_of, records_table
from barca.io.tables import text_form
from barca.io.unify import SchemaClash, conform, unify
from barca.partitions import display_text
from barca.schemas import ORDINAL, ROW_OFFSET, ROWS, dimension

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barca.ports import PackStore

_SLICED: Final = 20_000
"""Up to so many rows that lie together are read as they lie, and filters of the user come after; more are
found by their keys and places, so that a filter may skip row groups."""

_LISTED: Final = 1_000
"""Up to so many wanted values are also given as a list, by which whole row groups are skipped."""


def scan_fragments(store: PackStore, fragments: pl.DataFrame, dimensions: Sequence[str]) -> pl.LazyFrame:
    """One lazy table over the rows of fragments: the dimensions as String columns, then the user's.

    Tables are read when the result is collected; of `json` fragments, a list of records or one record is
    rows of the table too, read at once. Schemas that drifted are unified, see `barca.io.unify`: columns stand
    in the order of the pack with the greatest path, which, paths being named by run, is the newest.

    Args:
        store: Holds the packs.
        fragments: `schemas.FRAGMENTS` with the `dim:` columns, at most one row per key.
        dimensions: The node's dimensions, declared order.

    Returns:
        The table; row order is not promised. Without fragments it has no rows and only the dimensions.

    Raises:
        InputError: A fragment is no table, or two have columns of types that meet nowhere.
        FragmentError: A pack is missing, unreadable, or another one.
    """
    packs = sorted(open_packs(store, fragments), key=lambda pack: pack.path)
    if not packs:
        return pl.LazyFrame(schema=dict.fromkeys(dimensions, pl.String))
    schemas: list[pl.Schema] = []
    groups: dict[Any, list[Pack]] = {}
    loaded: list[tuple[pl.Schema, pl.LazyFrame]] = []
    for pack in packs:
        if pack.format == "table":
            schema = store.schema(pack.path)
            partial = pack.fragments.height < pack.footer["keys"]
            groups.setdefault((tuple(schema.items()), partial), []).append(pack)
        else:
            frame = _records(store, pack, dimensions)
            schema = frame.schema
            loaded.append((schema, frame.lazy()))
        schemas.append(schema)
    target = _target(packs, schemas, dimensions)
    scans = [
        conform(_scan(store, group, pl.Schema(items), dimensions, partial=partial), pl.Schema(items), target)
        for (items, partial), group in groups.items()
    ]
    scans += [conform(frame, schema, target) for schema, frame in loaded]
    return scans[0] if len(scans) == 1 else pl.concat(scans, how="vertical")


def _scan(
    store: PackStore, packs: Sequence[Pack], schema: pl.Schema, dimensions: Sequence[str], *, partial: bool
) -> pl.LazyFrame:
    """One scan of packs of one schema; where they hold other keys too, only the rows of those wanted."""
    paths = [pack.path for pack in packs]
    if not partial:
        return store.scan(paths, schema)
    if len(packs) == 1 and packs[0].adjoining:
        first, last = packs[0].span
        if last - first <= _SLICED:
            return store.scan(paths, schema).slice(first, last - first)
    row, begin, end = (free_name(name, schema.names()) for name in ("row", "begin", "end"))
    wanted = pl.concat(_places(packs, dimensions, begin, end))
    scan = store.scan(paths, schema).with_row_index(row)
    for name in dimensions:
        values = wanted.get_column(name).unique()
        if values.len() <= _LISTED:
            scan = scan.filter(pl.col(name).is_in(values.to_list()))
    found = scan.join(wanted.lazy(), on=list(dimensions), how="inner", maintain_order="left")
    # a pack that was made of several may hold earlier results of its keys too
    return found.filter(pl.col(row).is_between(begin, end, closed="left")).drop(row, begin, end)


def _places(packs: Sequence[Pack], dimensions: Sequence[str], begin: str, end: str) -> Iterator[pl.DataFrame]:
    """The dimensions of the packs' fragments, and where the rows of each lie in one scan of these packs."""
    before = 0
    for pack in packs:
        first = pl.col(ROW_OFFSET) + before
        yield pack.fragments.select(
            *(pl.col(dimension(name)).alias(name) for name in dimensions),
            first.alias(begin),
            (first + pl.col(ROWS)).alias(end),
        )
        before += pack.footer["rows"]


def _target(packs: Sequence[Pack], schemas: Sequence[pl.Schema], dimensions: Sequence[str]) -> pl.Schema:
    """The schema that covers all, dimensions first."""
    try:
        unified = unify(schemas)
    except SchemaClash as clash:
        one, other = packs[clash.first], packs[clash.second]
        node = one.footer["node"]
        raise InputError(
            f"the results of `{node}` are no one table: column `{clash.column}` is {clash.types[0]} for "
            f"`{display_text(one.keys[0])}` and {clash.types[1]} for `{display_text(other.keys[0])}`",
            code="schema_clash",
            node=node,
            remediation=f"cast `{clash.column}` to one type in `{node}`",
        ) from None
    rest = [name for name in unified if name not in dimensions]
    return pl.Schema({name: unified[name] for name in (*dimensions, *rest)})


def _records(store: PackStore, pack: Pack, dimensions: Sequence[str]) -> pl.DataFrame:
    """The records of `json` fragments as rows, dimensions first; a keyed source's table as it is.

    Raises:
        InputError: A value is not a record or a list of records.
    """
    returned = read_keyed_rows(store, pack.fragments) if pack.format == "keyed" else None
    if returned is not None:
        return returned.sort(ORDINAL).get_column(ROW).struct.unnest()
    if pack.format != "json":
        raise _not_tabular(pack, pack.keys[0], f"its results are stored as `{pack.format}`")
    records: list[dict[str, Any]] = []
    owners: list[int] = []
    position = 0
    try:
        for position, value in enumerate(read_objects(store, pack)):  # named in the error
            owners += [position] * len(rows := records_of(value))
            records += rows
    except NotATable as error:
        raise _not_tabular(pack, pack.keys[position], error.why) from error
    try:
        table = records_table(records)
    except NotATable as error:
        raise _not_tabular(pack, pack.keys[owners[error.record]], error.why) from error
    own = pack.fragments.select(pl.col(dimension(name)).alias(name) for name in dimensions)[owners]
    for name in dimensions:
        if name in table.columns:
            _require_equal(pack, table, own, name, owners)
    return own.hstack(table.drop(dimensions, strict=False).get_columns())


def _require_equal(
    pack: Pack, table: pl.DataFrame, own: pl.DataFrame, name: str, owners: Sequence[int]
) -> None:
    """Make sure that a field named like a dimension holds the key's value in every record."""
    text = text_form(name, table.schema[name])
    found = table.select(text).to_series() if text is not None else own.get_column(name).clear(own.height)
    differs = found.ne_missing(own.get_column(name))
    if differs.any():
        position = differs.arg_max() or 0
        raise InputError(
            f"a record of `{pack.footer['node']}` holds `{found[position]}` in `{name}`, not its key",
            code="dimension_column",
            node=pack.footer["node"],
            key=display_text(pack.keys[owners[position]]),
            remediation=f"rename the field `{name}`",
        )


def _not_tabular(pack: Pack, key: str, why: str) -> InputError:
    node: str = pack.footer["node"]
    return InputError(
        f"`{node}` cannot be read as a table: {why}",
        code="not_tabular",
        node=node,
        key=display_text(key) if key else None,
        remediation=f"return tables, or lists of records, from `{node}`",
    )

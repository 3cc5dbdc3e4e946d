"""Results of calls as fragments: tables split by key, and values key by key.

`pack_table` stores the table that a batched call returned for all its keys; `pack_values` stores what
one-key calls returned, or the values of a batched call's dict. Both give a frame of `schemas.FRAGMENTS`.
Keyed sources are in `barca.io.keyed`, reading is in `barca.io.scans` and `barca.io.values`.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import OutputError
from barca.io.apart import Pickled
from barca.io.keyed import pack_keyed, read_keyed
from barca.io.owners import row_owners
from barca.io.packing import Shelf, write_rows, write_values
from barca.io.plain import NotPlain, faithful_texts, plain_text
from barca.io.scans import scan_fragments
from barca.io.tables import Unconvertible, is_table, text_form, to_frame, unstorable, unstorable_column
from barca.partitions import display_text
from barca.schemas import FRAGMENTS, KEY, dimension, empty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca._typing import Engine, NodeId, Serializer
    from barca.ports import PackStore

__all__ = ["pack_keyed", "pack_table", "pack_values", "read_keyed", "scan_fragments"]

_SHOWN = 5
_FIX_TYPE = "return a table, a JSON value, or something that pickle can write"


# --- tables over all keys of a call -----------------------------------------------------------------


def pack_table(
    store: PackStore,
    path: str,
    node: NodeId,
    table: Any,
    keys: pl.DataFrame,
    dimensions: Sequence[str],
    *,
    engine: Engine = "in-memory",
) -> pl.DataFrame:
    """Store a table over all keys of a batched call as one pack, split by its dimension columns.

    Rows belong to the key whose values equal the string forms of their dimension columns. Those columns are
    stored as String.

    Args:
        store: Receives the pack.
        path: Of the pack, relative to the store, `.parquet` at its end.
        node: Node id.
        table: A table of Polars, Arrow, pandas or DuckDB.
        keys: `schemas.WORK_KEYS` with `dim:` columns: the call's keys.
        dimensions: The node's dimensions, declared order.
        engine: Collects a LazyFrame.

    Returns:
        `schemas.FRAGMENTS`, one row per key of the call; keys without rows have `rows = 0`.

    Raises:
        OutputError: A dimension has no column, a row is of no key of the call, a column cannot be stored, or
            the table could not be computed.
    """
    shelf = Shelf.of(store, path, node, keys, dimensions, engine)
    try:
        frame = to_frame(table, engine)
    except Unconvertible as error:
        raise unstorable_column(node, None, error.column, error.why) from error
    except Exception as error:
        raise _not_computed(node, None, table, error) from error
    if reason := unstorable(frame.schema):
        raise unstorable_column(node, None, *reason)
    owner = row_owners(shelf, frame)
    return write_rows(shelf, frame.drop(dimensions), owner, frame.columns)


# --- values, key by key -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Sorted:
    """Results of a call by how they are stored: the positions of their keys, ascending, and their forms."""

    texts: dict[int, str] = field(default_factory=dict)
    blobs: dict[int, bytes] = field(default_factory=dict)
    frames: dict[int, pl.DataFrame] = field(default_factory=dict)
    failures: dict[int, OutputError] = field(default_factory=dict)


def pack_values(
    store: PackStore,
    path: str,
    node: NodeId,
    values: Sequence[tuple[str, Any]],
    keys: pl.DataFrame,
    dimensions: Sequence[str],
    *,
    serializer: Serializer | None = None,
    engine: Engine = "in-memory",
) -> tuple[pl.DataFrame, list[tuple[str, OutputError]]]:
    """Store one value per key, in one pack per format and table schema.

    Tables become `table` fragments, faithful plain values `json`, everything else `pickle`, unless
    `serializer` says which. A table's column that is named like a dimension is shared with the dimension's;
    it must hold the key's value in every row.

    Args:
        store: Receives the packs.
        path: Of the first pack, relative to the store, `.parquet` at its end; further ones are numbered.
        node: Node id.
        values: Key (Hive form) and value, each key once and among `keys`.
        keys: `schemas.WORK_KEYS` with `dim:` columns.
        dimensions: The node's dimensions, declared order.
        serializer: Forces a format.
        engine: Collects LazyFrames.

    Returns:
        `schemas.FRAGMENTS` of the keys that are stored, and the keys that cannot be, each with its error.

    Raises:
        OutputError: Parquet refused a whole pack.
    """
    shelf = Shelf.of(store, path, node, keys, dimensions, engine)
    names = shelf.keys.get_column(KEY).to_list()
    places = dict(zip(names, range(len(names)), strict=True))
    places_given = [places[key] for key, _ in values]
    order = pl.Series(places_given, dtype=pl.UInt32).arg_sort().to_list()
    positions, objects = [places_given[index] for index in order], [values[index][1] for index in order]
    results = _sort_out(shelf, names, positions, objects, serializer)
    packs: list[pl.DataFrame] = []
    for kind, dtype, payload in (("json", pl.String, results.texts), ("pickle", pl.Binary, results.blobs)):
        if payload:
            here = shelf.numbered(len(packs)).of_keys(pl.Series(list(payload), dtype=pl.UInt32))
            packs.append(write_values(here, kind, pl.Series(list(payload.values()), dtype=dtype)))
    for frames in _by_schema(shelf.node, names, results):
        packs += _pack_frames(shelf.numbered(len(packs)), frames, results.failures)
    failures = [(names[position], results.failures[position]) for position in sorted(results.failures)]
    return pl.concat(packs) if packs else empty(FRAGMENTS), failures


def _sort_out(
    shelf: Shelf,
    names: Sequence[str],
    positions: Sequence[int],
    objects: Sequence[Any],
    serializer: Serializer | None,
) -> _Sorted:
    """Find each value's form, its JSON text, pickle or frame; what has none is a failure."""
    results = _Sorted()
    texts = faithful_texts(objects) if serializer is None else [None] * len(objects)
    for position, value, text in zip(positions, objects, texts, strict=True):
        if text is not None:
            results.texts[position] = text
            continue
        try:
            _place(results, position, value, shelf, names[position], serializer)
        except OutputError as error:
            results.failures[position] = error
    return results


def _place(
    results: _Sorted, position: int, value: Any, shelf: Shelf, key: str, serializer: Serializer | None
) -> None:
    node = shelf.node
    if isinstance(value, Pickled):
        results.blobs[position] = value.data
    elif serializer == "json":
        results.texts[position] = _forced_text(node, key, value)
    elif serializer != "pickle" and is_table(value):
        try:
            results.frames[position] = to_frame(value, shelf.engine)
        except Unconvertible as error:
            raise unstorable_column(node, key, error.column, error.why) from error
        except Exception as error:
            raise _not_computed(node, key, value, error) from error
    elif serializer == "table":
        raise OutputError(
            f'`{node}` returned {_a(value)} for {_of(key)}, but `serializer="table"` takes tables',
            code="not_a_table",
            node=node,
            key=display_text(key),
            remediation="return a Polars, Arrow, pandas or DuckDB table, or leave out `serializer`",
        )
    else:
        try:
            results.blobs[position] = pickle.dumps(value, protocol=5)
        except Exception as error:
            raise _unpicklable(node, key, value, error) from error


def _forced_text(node: NodeId, key: str, value: Any) -> str:
    try:
        return plain_text(value)
    except NotPlain as error:
        where = f"value{error.path}"
        raise OutputError(
            f'`{node}` returned for {_of(key)} what `serializer="json"` cannot write: '
            f"at `{where}`, {error.why}",
            code="not_json",
            node=node,
            key=display_text(key),
            remediation="return None, bool, int, float, str, and lists and dicts of them",
        ) from error


# --- tables, one per key ----------------------------------------------------------------------------


def _by_schema(node: NodeId, names: Sequence[str], results: _Sorted) -> list[dict[int, pl.DataFrame]]:
    """The frames grouped by schema; those of schemas that cannot be stored become failures."""
    groups: dict[Any, dict[int, pl.DataFrame]] = {}
    for position, frame in results.frames.items():
        groups.setdefault((*frame.columns, *frame.dtypes), {})[position] = frame
    kept = []
    for frames in groups.values():
        if reason := unstorable(next(iter(frames.values())).schema):
            results.failures |= {place: unstorable_column(node, names[place], *reason) for place in frames}
        else:
            kept.append(frames)
    return kept


def _pack_frames(
    shelf: Shelf,
    frames: Mapping[int, pl.DataFrame],
    failures: dict[int, OutputError],
) -> list[pl.DataFrame]:
    """Write frames of one schema as one pack; keys whose shared dimension column disagrees fail.

    Returns:
        The pack's `schemas.FRAGMENTS`; an empty list when every key failed.
    """
    heights = [frame.height for frame in frames.values()]
    ordinal = pl.int_range(len(heights), dtype=pl.UInt32, eager=True)
    owner = ordinal.gather(ordinal.repeat_by(pl.Series(heights)).explode(empty_as_null=False))
    table = _stacked(list(frames.values()))
    columns = table.columns
    positions = pl.Series(list(frames), dtype=pl.UInt32)
    here = shelf.of_keys(positions)
    shared = [name for name in shelf.dimensions if name in columns]
    wrong = _disagreeing(here, table, owner, shared)
    for index, error in wrong.items():
        failures[positions[index]] = error
    if wrong:
        good = ordinal.filter(~ordinal.is_in(list(wrong)))
        kept = owner.is_in(good)
        table, owner = table.filter(kept), good.search_sorted(owner.filter(kept)).cast(pl.UInt32)
        here = here.of_keys(good)
        if good.is_empty():
            return []
    return [write_rows(here, table.drop(shared), owner, columns)]


def _stacked(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    if frames[0].width:
        return pl.concat(frames, how="vertical")
    return pl.DataFrame(height=sum(frame.height for frame in frames))


def _disagreeing(
    shelf: Shelf, table: pl.DataFrame, owner: pl.Series, shared: Sequence[str]
) -> dict[int, OutputError]:
    """The keys of the shelf in whose rows a shared dimension column is not the key's value."""
    wrong: dict[int, OutputError] = {}
    for name in shared:
        own = shelf.keys.get_column(dimension(name)).gather(owner)
        text = text_form(name, table.schema[name])
        found = own.clear(own.len()) if text is None else table.select(text).to_series()
        differs = pl.DataFrame({"owner": owner, "found": found, "own": own}).filter(
            pl.col("found").ne_missing(pl.col("own"))
        )
        for index, value, key_value in differs.unique("owner", keep="first").iter_rows():
            key = shelf.keys.get_column(KEY)[index]
            wrong[index] = OutputError(
                f"`{shelf.node}` returned for {_of(key)} a table whose column `{name}` holds `{value}`; "
                f"a column named like a dimension must hold the key's value, `{key_value}`",
                code="dimension_column",
                node=shelf.node,
                key=display_text(key),
                remediation=f"rename the column `{name}`, or leave it out",
            )
    return wrong


# --- errors -----------------------------------------------------------------------------------------


def _of(key: str) -> str:
    return f"`{display_text(key)}`" if key else "its only key"


def _a(value: Any) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"a value of type `{name}`"


def _unpicklable(node: NodeId, key: str, value: Any, error: Exception) -> OutputError:
    return OutputError(
        f"`{node}` returned for {_of(key)} {_a(value)}, which cannot be stored: {error}",
        code="unstorable",
        node=node,
        key=display_text(key),
        remediation=_FIX_TYPE,
    )


def _not_computed(node: NodeId, key: str | None, table: Any, error: Exception) -> OutputError:
    whose = "" if key is None else f" for {_of(key)}"
    return OutputError(
        f"`{node}` returned{whose} {_a(table)} that could not be read as a table: "
        f"{type(error).__name__}: {error}",
        code="unreadable_table",
        node=node,
        key=None if key is None else display_text(key),
        remediation="collect the table inside the function to see where it fails",
    )

"""Keyed sources: what an unpartitioned node returns to give other nodes their keys.

A `keyed` fragment holds one row per key, `schemas.KEYED`, sorted by key: 200,000 versions are a column.
Values are canonical JSON, so that equal values have equal text. What a table held stands beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import FragmentError, OutputError
from barca.io.columns import exact, exactly
from barca.io.footer import verify
from barca.io.packing import Shelf, write_keyed
from barca.io.packs import readable
from barca.io.pairs import Pairs, key_column, of_columns, of_dict, of_list, of_texts, value_column
from barca.io.tables import Unconvertible, is_table, to_frame, unstorable, unstorable_column
from barca.schemas import DIGEST, FORMAT, KEY, KEYED, ORDINAL, PATH, RUN_HASH, VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca._typing import Engine, NodeId
    from barca.ports import PackStore

_ACCEPTED = (
    "return a dict of key to value, a list of keys, or a table with a column of keys, named like the "
    "dimension or else its first, and columns of values"
)

ROW: Final = "row"
"""Column of a keyed pack that a table made: its rows as structs, with their own types."""

_TEXTUAL: Final = (pl.String, pl.Categorical, pl.Enum)
_ALONE: Final = "v"


def pack_keyed(
    store: PackStore,
    path: str,
    node: NodeId,
    returned: Any,
    keys: pl.DataFrame,
    *,
    dimensions: Sequence[str] = (),
    engine: Engine = "in-memory",
    before: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Store what a keyed source returned, unless that is what is stored already.

    Keys are strings, or integers, which become their text; in a table dates too. A table's keys stand in the
    column that is named like a dimension, else in its first column; a single further column holds the
    values, several become objects of them.

    Args:
        store: Receives the pack.
        path: Of the pack, relative to the store, `.parquet` at its end.
        node: Node id.
        returned: Dict, list, tuple, Series or table.
        keys: `schemas.WORK_KEYS` of the node's one call: one row, the empty key.
        dimensions: Names of the dimensions that take their keys from it.
        engine: Collects a LazyFrame.
        before: `schemas.FRAGMENTS`, one row: an earlier result, whose pack serves if nothing has changed.

    Returns:
        `schemas.FRAGMENTS`, one row; its `rows` is the number of keys.

    Raises:
        OutputError: It is none of those, a key is of another type or there twice, or a value is not JSON; the
            key is named.
    """
    fields: dict[str, Any] = {"columns": []}
    if is_table(returned):
        try:
            frame = to_frame(returned, engine)
        except Unconvertible as error:
            raise unstorable_column(node, None, error.column, error.why) from error
        column = _key_column_of(node, frame, dimensions)
        fields = {"columns": frame.columns, "keyed_by": column}
        form, pairs = "table", _of_table(node, frame, column)
    elif isinstance(returned, dict):
        form, pairs = "dict", of_dict(node, returned)
    elif isinstance(returned, list | tuple | pl.Series):
        form, pairs = "list", of_list(node, returned)
    else:
        raise OutputError(
            f"`{node}` gives other nodes their keys, but returned a `{type(returned).__qualname__}`",
            code="keyed_type",
            node=node,
            remediation=_ACCEPTED,
        )
    fields["form"] = form
    if before is not None and before.item(0, DIGEST) == pairs.digest and _holds(store, before, pairs, fields):
        return before.with_columns(keys.get_column(RUN_HASH))
    shelf = Shelf.of(store, path, node, keys, (), engine)
    return write_keyed(shelf, pairs.stored(), pairs.digest, **fields)


def _holds(store: PackStore, fragment: pl.DataFrame, pairs: Pairs, fields: dict[str, Any]) -> bool:
    """Whether a stored result of the same digest is this one, in the order returned and the rows of a table.

    The digest has told keys and values, so that these columns need not be read.
    """
    path, frame = fragment.item(0, PATH), pairs.frame
    untold = frame.select(name for name in frame.columns if name not in (KEY, VALUE))
    try:
        if not fields.items() <= verify(path, store.metadata(path)).items():
            return False
        with readable(path):
            stored = store.scan([path]).select(untold.columns).collect(engine="in-memory")
    except FragmentError:
        return False
    return stored.schema == untold.schema and stored.equals(untold)


# --- reading ----------------------------------------------------------------------------------------


def read_keyed(store: PackStore, fragment: pl.DataFrame) -> pl.DataFrame:
    """The keys and values of a keyed source, as `schemas.KEYED`, sorted by key.

    Args:
        store: Holds the pack.
        fragment: `schemas.FRAGMENTS`, one row.

    Raises:
        FragmentError: The pack is missing, unreadable, or holds no keys.
    """
    path = _keyed_path(fragment)
    pairs = store.scan([path], KEYED)
    with readable(path):
        return pairs.collect(engine="in-memory")


def read_keyed_values(store: PackStore, fragment: pl.DataFrame, wanted: pl.Series) -> pl.DataFrame:
    """Keys and values from the first of some keys to the last: `key`, `value`, sorted by key.

    A pack is sorted by key: what lies close together is in few of its row groups, and no others are read.

    Args:
        store: Holds the pack.
        fragment: `schemas.FRAGMENTS`, one row.
        wanted: Raw keys.

    Raises:
        FragmentError: The pack is missing, unreadable, or holds no keys.
    """
    path = _keyed_path(fragment)
    pairs = store.scan([path], pl.Schema({KEY: KEYED[KEY], VALUE: KEYED[VALUE]}))
    with readable(path):
        return pairs.filter(_around(wanted)).collect(engine="in-memory")


def read_keyed_rows(
    store: PackStore, fragment: pl.DataFrame, wanted: pl.Series | None = None
) -> pl.DataFrame | None:
    """The rows of a table that a keyed source returned: `key: String`, `ordinal: Int64`, `row: Struct`.

    Args:
        store: Holds the pack.
        fragment: `schemas.FRAGMENTS`, one row.
        wanted: Raw keys: only the rows from the first of these to the last.

    Returns:
        The rows sorted by key, or `None` when it returned no table.

    Raises:
        FragmentError: The pack is missing, unreadable, or holds no keys.
    """
    path = _keyed_path(fragment)
    schema = store.schema(path)
    if ROW not in schema:
        return None
    rows = store.scan([path], pl.Schema({KEY: schema[KEY], ORDINAL: schema[ORDINAL], ROW: schema[ROW]}))
    if wanted is not None:
        rows = rows.filter(_around(wanted))
    with readable(path):
        return rows.collect(engine="in-memory")


def _around(wanted: pl.Series) -> pl.Expr:
    first, last = (pl.lit(key, dtype=pl.String) for key in (wanted.min(), wanted.max()))
    return pl.col(KEY).is_between(first, last)


def keyed_by(store: PackStore, path: str) -> str | None:
    """Which column of a table gave its keys; `None` when a keyed source returned no table.

    Raises:
        FragmentError: The pack is missing, unreadable, or another one.
    """
    column: str | None = verify(path, store.metadata(path)).get("keyed_by")
    return column


def keyed_as(store: PackStore, path: str, dimensions: Sequence[str]) -> bool:
    """Whether a keyed pack has the keys that dimensions of these names take from what was returned.

    Raises:
        FragmentError: The pack is missing, unreadable, or another one.
    """
    told = verify(path, store.metadata(path))
    return told.get("keyed_by") in (None, *_named(told["columns"], dimensions))


def _named(columns: Sequence[str], dimensions: Sequence[str]) -> list[str]:
    """The columns of a table that could hold keys: those named like a dimension, else the first."""
    return [name for name in columns if name in dimensions] or list(columns[:1])


def _keyed_path(fragment: pl.DataFrame) -> str:
    path: str = fragment.get_column(PATH).item()
    if (kind := fragment.get_column(FORMAT).item()) != "keyed":
        raise FragmentError(
            f"`{path}` holds a result of format `{kind}`, not the keys of a keyed source",
            code="fragment_format",
            remediation="run the source again with --refresh",
            file=path,
        )
    return path


# --- tables -----------------------------------------------------------------------------------------


def _key_column_of(node: NodeId, frame: pl.DataFrame, dimensions: Sequence[str]) -> str:
    if not frame.width:
        raise OutputError(
            f"`{node}` gives other nodes their keys, but returned a table without columns",
            code="keyed_type",
            node=node,
            remediation=_ACCEPTED,
        )
    if len(named := _named(frame.columns, dimensions)) > 1:
        raise OutputError(
            f"`{node}` returned a table with the columns {' and '.join(f'`{name}`' for name in named)}, each "
            "named like a dimension that takes its keys from it; it can give one dimension its keys",
            code="keyed_columns",
            node=node,
            remediation="let a node of its own return the keys of each dimension",
        )
    if reason := unstorable(frame.schema):
        raise unstorable_column(node, None, *reason)
    return named[0]


def _of_table(node: NodeId, frame: pl.DataFrame, column: str) -> Pairs:
    """The pairs of a table, and its rows."""
    keys = frame.get_column(column)
    textual = isinstance(keys.dtype, (*_TEXTUAL, pl.Date)) or keys.dtype.is_integer()
    if keys.null_count() or not textual:
        keys = key_column(node, keys.to_list())
    keys = keys.cast(pl.String).alias(KEY)
    rows = frame.select(pl.struct(pl.all()).alias(ROW)).to_series()
    values = frame.drop(column)
    plain = values.select(_plain_column(name, dtype) for name, dtype in values.schema.items())
    if plain.dtypes == [pl.String] and not plain.to_series().null_count():
        pairs = of_texts(node, [keys, plain.to_series().alias(VALUE), rows])
        if pairs is not None:
            return pairs
    return of_columns(node, [keys, _table_values(node, keys, plain), rows])


def _table_values(node: NodeId, keys: pl.Series, plain: pl.DataFrame) -> pl.Series:
    """Canonical JSON of each row: of a single column its value, of several an object; null without any."""
    if not plain.width:
        return pl.repeat(None, keys.len(), dtype=pl.String, eager=True).alias(VALUE)
    if not all(_is_simple(dtype) for dtype in plain.dtypes):
        listed = plain.to_series().to_list() if plain.width == 1 else plain.to_dicts()
        return value_column(node, keys.to_list(), listed)
    if plain.width > 1:
        return plain.select(
            pl.struct(exactly(sorted(plain.columns))).struct.json_encode().alias(VALUE)
        ).to_series()
    text = pl.struct(_ALONE).struct.json_encode()
    alone = plain.to_series().alias(_ALONE).to_frame()
    return alone.select(text.str.strip_prefix(f'{{"{_ALONE}":').str.head(-1).alias(VALUE)).to_series()


def _plain_column(name: str, dtype: pl.DataType) -> pl.Expr:
    """A column as JSON can hold it: times as ISO texts, decimals and categories as their text."""
    if isinstance(dtype, pl.Datetime):
        return exact(name).dt.to_string("iso:strict")
    if dtype.is_temporal():
        return exact(name).dt.to_string("iso")
    return exact(name).cast(pl.String) if isinstance(dtype, (*_TEXTUAL, pl.Decimal)) else exact(name)


def _is_simple(dtype: pl.DataType) -> bool:
    """Whether Polars writes the type's JSON as Python does; floats, for one, it does not."""
    small = dtype.is_integer() and not isinstance(dtype, pl.Int128 | pl.UInt128)
    return small or isinstance(dtype, pl.String | pl.Boolean)

"""Keyed sources: what an unpartitioned node returns to give other nodes their keys.

A `keyed` fragment holds one row per key, `schemas.KEYED`, sorted by key: 200,000 versions are a column.
Values are canonical JSON, so that equal values have equal text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import FragmentError, OutputError
from barca.io.digests import digest_pairs
from barca.io.packing import Shelf, write_keyed
from barca.io.packs import readable
from barca.io.plain import canonical_texts, why_not_canonical
from barca.io.tables import is_table, to_frame
from barca.schemas import FORMAT, KEY, KEYED, ORDINAL, PATH, VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca._typing import Engine, NodeId
    from barca.ports import PackStore

_ACCEPTED = (
    "return a dict of key to value, a list of keys, or a table whose first column holds the keys and whose "
    "other columns the values"
)


def pack_keyed(
    store: PackStore,
    path: str,
    node: NodeId,
    returned: Any,
    keys: pl.DataFrame,
    *,
    engine: Engine = "in-memory",
) -> pl.DataFrame:
    """Store what a keyed source returned.

    Keys are strings, or integers, which become their text. Of a table, the first column holds the keys; a
    single further column holds the values, several become objects of them.

    Args:
        store: Receives the pack.
        path: Of the pack, relative to the store, `.parquet` at its end.
        node: Node id.
        returned: Dict, list, tuple or table.
        keys: `schemas.WORK_KEYS` of the node's one call: one row, the empty key.
        engine: Collects a LazyFrame.

    Returns:
        `schemas.FRAGMENTS`, one row; its `rows` is the number of keys.

    Raises:
        OutputError: It is none of those, a key is of another type or there twice, or a value is not JSON; the
            key is named.
    """
    names: Sequence[Any]
    values: Sequence[Any] | None
    columns: list[str] = []
    if is_table(returned):
        form = "table"
        names, values, columns = _of_table(node, returned, engine)
    elif isinstance(returned, dict):
        form, names, values = "dict", list(returned), list(returned.values())
    elif isinstance(returned, list | tuple):
        form, names, values = "list", returned, None
    else:
        raise OutputError(
            f"`{node}` gives other nodes their keys, but returned a `{type(returned).__qualname__}`",
            code="keyed_type",
            node=node,
            remediation=_ACCEPTED,
        )
    pairs = _pairs(node, names, values)
    shelf = Shelf.of(store, path, node, keys, (), engine)
    return write_keyed(shelf, pairs, digest_pairs(pairs.select(KEY, VALUE)), form=form, columns=columns)


def read_keyed(store: PackStore, fragment: pl.DataFrame) -> pl.DataFrame:
    """The keys and values of a keyed source, as `schemas.KEYED`, sorted by key.

    Args:
        store: Holds the pack.
        fragment: `schemas.FRAGMENTS`, one row.

    Raises:
        FragmentError: The pack is missing, unreadable, or holds no keys.
    """
    path: str = fragment.get_column(PATH).item()
    if (kind := fragment.get_column(FORMAT).item()) != "keyed":
        raise FragmentError(
            f"`{path}` holds a result of format `{kind}`, not the keys of a keyed source",
            code="fragment_format",
            remediation="run the source again with --refresh",
            file=path,
        )
    pairs = store.scan([path], KEYED)
    with readable(path):
        return pairs.collect(engine="in-memory")


def _of_table(node: NodeId, table: Any, engine: Engine) -> tuple[list[Any], list[Any] | None, list[str]]:
    """Keys, values and column names of a table; no values when it has no further column."""
    frame = to_frame(table, engine)
    if not frame.width:
        raise OutputError(
            f"`{node}` gives other nodes their keys, but returned a table without columns",
            code="keyed_type",
            node=node,
            remediation=_ACCEPTED,
        )
    first = frame.columns[0]
    keys = frame.get_column(first)
    if isinstance(keys.dtype, pl.Categorical | pl.Enum | pl.Date):
        keys = keys.cast(pl.String)
    rest = frame.drop(first)
    if rest.width == 1:
        values: list[Any] | None = rest.to_series().to_list()
    else:
        values = rest.to_dicts() if rest.width else None
    return keys.to_list(), values, frame.columns


def _pairs(node: NodeId, names: Sequence[Any], values: Sequence[Any] | None) -> pl.DataFrame:
    """`schemas.KEYED`, sorted by key."""
    keys = names if set(map(type, names)) <= {str} else [_key(node, name) for name in names]
    frame = pl.DataFrame(
        {KEY: _key_column(node, keys), VALUE: _value_column(node, keys, values)}
    ).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(ORDINAL))
    pairs = frame.match_to_schema(KEYED).sort(KEY)
    twice = pairs.filter(pl.col(KEY) == pl.col(KEY).shift())
    if twice.height:
        key = twice.get_column(KEY)[0]
        raise OutputError(
            f"`{node}` returned the key `{key}` twice",
            code="keyed_twice",
            node=node,
            remediation="keys are compared as strings (1 is `1`); return each once",
        )
    return pairs


def _key(node: NodeId, name: Any) -> str:
    if isinstance(name, str):
        return str.__str__(name)
    if isinstance(name, int) and not isinstance(name, bool):
        return str(int(name))
    raise OutputError(
        f"`{node}` returned the key `{name!r}`, of type `{type(name).__qualname__}`",
        code="keyed_key",
        node=node,
        remediation="keys are strings or integers; convert it, e.g. with str(...)",
    )


def _key_column(node: NodeId, keys: Sequence[str]) -> pl.Series:
    try:
        return pl.Series(KEY, keys, dtype=pl.String)
    except UnicodeEncodeError as error:
        raise OutputError(
            f"`{node}` returned the key `{error.object!r}`, which holds half a surrogate pair",
            code="keyed_key",
            node=node,
            remediation="keys are texts that UTF-8 can write",
        ) from error


def _value_column(node: NodeId, keys: Sequence[str], values: Sequence[Any] | None) -> pl.Series:
    if values is None:
        return pl.repeat(None, len(keys), dtype=pl.String, eager=True)
    texts = canonical_texts(values)
    column = pl.Series(VALUE, texts, dtype=pl.String)
    if column.null_count():
        position = column.is_null().arg_max() or 0
        reason = why_not_canonical(values[position])
        raise OutputError(
            f"`{node}` returned a value for the key `{keys[position]}` that is not JSON: "
            f"at `value{reason.path}`, {reason.why}",
            code="keyed_value",
            node=node,
            remediation="values are None, bool, int, finite float, str, and lists and dicts of them",
        )
    return column

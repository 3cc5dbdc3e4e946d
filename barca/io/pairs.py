"""Keys and values of a keyed source in columns: checked, in order, with their digest.

Every warm run begins with this, of all keys, and mostly nothing has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import OutputError
from barca.io.canonical import strictly_rising
from barca.io.digests import digest_pairs, digest_quoted
from barca.io.plain import canonical_texts, why_not_canonical
from barca.records import Record
from barca.schemas import KEY, KEYED, ORDINAL, VALUE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca._typing import NodeId

_NUMBER: Final = pl.int_range(pl.len(), dtype=pl.Int64).alias(ORDINAL)
_QUOTED: Final = pl.format('"{}"', VALUE).alias(VALUE)
_ESCAPED: Final = r'["\\\x00-\x1f]'
_SHOWING: Final = 1_000
"""Where JSON escapes characters of texts at all, mostly one among so many has such."""


class Pairs(Record):
    """What a keyed source returned.

    Attributes:
        frame: `schemas.KEYED`, and what else is stored beside it; sorted by key.
        digest: Of the keys and values.
        unquoted: Whether `value` is texts that are yet to be put between quotes.
    """

    frame: pl.DataFrame
    digest: str
    unquoted: bool = False

    def stored(self) -> pl.DataFrame:
        """The frame as it is stored, its values JSON."""
        return self.frame.with_columns(_QUOTED) if self.unquoted else self.frame


def of_dict(node: NodeId, returned: Mapping[Any, Any]) -> Pairs:
    """The pairs of a dict.

    Raises:
        OutputError: A key is of another type or there twice, or a value is not JSON.
    """
    keys, values = key_column(node, list(returned)), list(returned.values())
    try:
        texts = _texts(VALUE, values)
    except UnicodeEncodeError:
        texts = None
    if texts is not None and (pairs := of_texts(node, [keys, texts])) is not None:
        return pairs
    return of_columns(node, [keys, value_column(node, keys, values)])


def of_list(node: NodeId, returned: Sequence[Any] | pl.Series) -> Pairs:
    """The pairs of keys alone.

    Raises:
        OutputError: A key is of another type or there twice.
    """
    keys = key_column(node, list(returned))
    return of_columns(node, [keys, pl.repeat(None, keys.len(), dtype=pl.String, eager=True).alias(VALUE)])


def of_columns(node: NodeId, columns: Sequence[pl.Series]) -> Pairs:
    """The pairs of columns in the order returned.

    Args:
        node: Node id.
        columns: `key`; `value`, canonical JSON; and what is stored beside them.

    Raises:
        OutputError: A key is there twice.
    """
    pairs = _numbered(pl.DataFrame(columns))
    if not strictly_rising(pairs.get_column(KEY)):
        pairs = pairs.sort(KEY)
        _require_once(node, pairs)
    return Pairs(pairs, digest_pairs(pairs))


def of_texts(node: NodeId, columns: Sequence[pl.Series]) -> Pairs | None:
    """As `of_columns`, of values that are texts; `None` where JSON does more to one than quote it.

    Args:
        node: Node id.
        columns: `key`; `value`, texts without nulls; and what is stored beside them.

    Raises:
        OutputError: A key is there twice.
    """
    keys, texts, *_ = columns
    if _any_escaped(texts.head(_SHOWING)):
        return None
    pairs = pl.DataFrame(columns)
    if strictly_rising(keys):
        digest = digest_quoted(pairs)  # which tells that too
        return None if digest is None else Pairs(_numbered(pairs), digest, unquoted=True)
    if _any_escaped(texts):
        return None
    # before they are sorted: texts that lie in their order are quoted several times faster
    return of_columns(node, pairs.with_columns(_QUOTED).get_columns())


def _numbered(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.select(KEY, VALUE, _NUMBER, *(name for name in pairs.columns if name not in KEYED))


def _require_once(node: NodeId, pairs: pl.DataFrame) -> None:
    twice = pairs.filter(pl.col(KEY) == pl.col(KEY).shift())
    if twice.height:
        key = twice.get_column(KEY)[0]
        raise OutputError(
            f"`{node}` returned the key `{key}` twice",
            code="keyed_twice",
            node=node,
            remediation="keys are compared as strings (1 is `1`); return each once",
        )


def _any_escaped(texts: pl.Series) -> bool:
    """Whether JSON escapes a character of texts."""
    return texts.str.contains(_ESCAPED).any()


def _texts(name: str, values: Sequence[Any]) -> pl.Series | None:
    """Values that are all texts as a column, else `None`.

    Raises:
        UnicodeEncodeError: One holds half a surrogate pair.
    """
    if len(values) and not isinstance(values[0], str):
        return None
    try:
        texts = pl.Series(name, values, dtype=pl.String)
    except UnicodeEncodeError:
        raise
    except (TypeError, ValueError):
        return None
    return None if texts.null_count() else texts


def key_column(node: NodeId, names: Sequence[Any]) -> pl.Series:
    """Keys as texts.

    Raises:
        OutputError: One is neither a string nor an integer, or cannot be written.
    """
    try:
        texts = _texts(KEY, names)
        return pl.Series(KEY, [_key(node, name) for name in names]) if texts is None else texts
    except UnicodeEncodeError as error:
        raise OutputError(
            f"`{node}` returned the key `{error.object!r}`, which holds half a surrogate pair",
            code="keyed_key",
            node=node,
            remediation="keys are texts that UTF-8 can write",
        ) from error


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


def value_column(node: NodeId, keys: Sequence[str] | pl.Series, values: Sequence[Any]) -> pl.Series:
    """The canonical JSON of values.

    Raises:
        OutputError: One is not JSON; its key is named.
    """
    column = pl.Series(VALUE, canonical_texts(values), dtype=pl.String)
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

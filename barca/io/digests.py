"""Digests: the identity of a fragment's content, 32 hexadecimal digits of xxh3-128.

The encoding is a file format, specified in `docs/concepts/hash-format.md`. A digest is the hash of a head and
a body. The head is the hash of the schema text: the format version, and the name and type of every column in
the user's order, the types written by `dtype_text`. The body is every cell of the canonically sorted rows:

| type | a cell | a null |
|---|---|---|
| Boolean | `true` or `false` | `~` |
| integers, Decimal, Date, Datetime, Time, Duration | the physical integer in decimal digits, `;` | `~;` |
| floats | their bits as an unsigned integer in decimal digits, `;` | `~;` |
| String, Categorical, Enum | length in UTF-8 bytes, `:`, the text | `~:` |
| Binary | hexadecimal, `;` | `~;` |
| List, Array | `[`, the elements, `]` | `~` |
| Struct | `(`, the fields, `)` | `~` |
| Map | as the List of its entries | `~` |
| Extension | as its storage | as its storage |
| Null | | `~` |

and a line feed after every row. Each cell ends where its own text says, so that different rows never give
the same text.

The body of a keyed source's answer, which is hashed in every run, is told by column: the lengths of its
texts in UTF-8 bytes, as runs of equal ones (`<count>x<length>;`, the length `~` for nulls), a `:`, then the
texts on end.

Nothing of it depends on chunks, on the file's layout, or on how Polars prints a value.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final, cast

import polars as pl
import xxhash

from barca.hashing import FORMAT_VERSION, hash_fields
from barca.io.columns import exact, fields_of
from barca.io.dtypes import dtype_text, element_type, map_entry, storage_type
from barca.schemas import KEY, VALUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SLICE_BYTES: Final = 32 << 20
_TEXT_BYTES: Final = 1 << 20
_ROWS_AT_ONCE: Final = 10_000
_ESCAPED: Final = bytes([*range(0x20), *b'"\\'])
"""What JSON writes as something else within a text; no byte of a longer character is among it."""
_BITS: Final[dict[type[pl.DataType], type[pl.DataType]]] = {
    pl.Float16: pl.UInt16,
    pl.Float32: pl.UInt32,
    pl.Float64: pl.UInt64,
}


# --- rows -------------------------------------------------------------------------------------------


def digest_rows(rows: pl.DataFrame, counts: Sequence[int], columns: Sequence[tuple[str, str]]) -> list[str]:
    """The digest of each key of a table.

    Args:
        rows: Canonically sorted rows, without dimension columns.
        counts: Rows of each key, in the order they stand in `rows`; zeros allowed.
        columns: Name and `dtype_text` of every column the user returned, dimension columns too.
    """
    head = _head("table", columns).encode()
    digest = xxhash.xxh3_128_hexdigest
    texts = _row_texts(rows)
    if counts.count(1) == len(counts):
        return [digest(head + text) for text in texts]
    digests = []
    for count in counts:
        if count <= _ROWS_AT_ONCE:
            digests.append(digest(head + b"".join(islice(texts, count))))
            continue
        hasher = xxhash.xxh3_128(head)
        for begin in range(0, count, _ROWS_AT_ONCE):
            hasher.update(b"".join(islice(texts, min(_ROWS_AT_ONCE, count - begin))))
        digests.append(hasher.hexdigest())
    return digests


def digest_values(kind: str, values: Iterable[bytes]) -> list[str]:
    """The digest of each JSON text in UTF-8 (`kind` `json`) or pickle (`kind` `pickle`)."""
    head = _head(kind, ()).encode()
    digest = xxhash.xxh3_128_hexdigest
    return [digest(head + value) for value in values]


def digest_pairs(pairs: pl.DataFrame) -> str:
    """The digest of a keyed source's frame: its keys and values, not their order.

    Args:
        pairs: `key: String`, `value: String`, null of a list, sorted by `key`; other columns do not count.
    """
    hasher = _hasher_of_keys(pairs)
    values = pairs.get_column(VALUE)
    hasher.update(_runs(values.str.len_bytes()))
    for _, text in _on_end(values):
        hasher.update(text)
    return hasher.hexdigest()


def digest_quoted(pairs: pl.DataFrame) -> str | None:
    """As `digest_pairs`, of values that are texts which quotes make JSON of; `None` where one takes more.

    The texts lie on end here anyway, where looking for what JSON escapes takes a fraction of looking into
    each: there is none of it but the quotes that were set.

    Args:
        pairs: `key: String`, `value: String`, the texts without quotes, sorted by `key`.
    """
    hasher = _hasher_of_keys(pairs)
    values = pairs.get_column(VALUE)
    hasher.update(_runs(values.str.len_bytes() + 2))
    for count, inner in _on_end(values, '""'):
        text = b'"%b"' % inner
        if len(text) - len(text.translate(None, _ESCAPED)) > 2 * count:
            return None
        hasher.update(text)
    return hasher.hexdigest()


def _hasher_of_keys(pairs: pl.DataFrame) -> xxhash.xxh3_128:
    """The hasher of `key` and `value` that has been given the head and the keys."""
    columns = [(name, dtype_text(pairs.schema[name])) for name in (KEY, VALUE)]
    hasher = xxhash.xxh3_128(_head("keyed", columns).encode())
    keys = pairs.get_column(KEY)
    hasher.update(_runs(keys.str.len_bytes()))
    for _, text in _on_end(keys):
        hasher.update(text)
    return hasher


def _on_end(column: pl.Series, between: str = "") -> Iterator[tuple[int, bytes]]:
    """Numbers of consecutive texts, and these texts on end: so few that the memory they take is at hand."""
    step = _rows_at_once(column.to_frame(), _TEXT_BYTES)
    for begin in range(0, column.len(), step):
        texts = column.slice(begin, step)
        yield texts.len(), texts.str.join(between).item().encode()


def _runs(lengths: pl.Series) -> bytes:
    """The lengths of texts, equal ones that follow each other told once."""
    runs = lengths.rle().struct.unnest()
    length = pl.col("value").cast(pl.String).fill_null("~")
    text: str = runs.select(pl.format("{}x{};", "len", length).str.join("")).item()
    return f"{text}:".encode()


def _head(kind: str, columns: Sequence[tuple[str, str]]) -> str:
    fields = [("format", FORMAT_VERSION), ("kind", kind)]
    fields += [part for name, dtype in columns for part in (("column", name), ("type", dtype))]
    return hash_fields(fields)


def _row_texts(rows: pl.DataFrame) -> Iterator[bytes]:
    """The body text of each row; encoded in slices, so that memory does not grow with the table."""
    if not rows.width:
        return iter([b"\n"] * rows.height)
    return chain.from_iterable(
        cast("list[bytes]", texts.cast(pl.Binary).to_list())
        for texts in _slices(rows, _body_text(rows.schema))
    )


def _body_text(schema: pl.Schema) -> pl.Expr:
    cells = chain.from_iterable(_cell(exact(name), dtype) for name, dtype in schema.items())
    return pl.concat_str([*cells, pl.lit("\n")]).alias("text")


def _slices(rows: pl.DataFrame, text: pl.Expr) -> Iterator[pl.Series]:
    """A text of consecutive rows, String, some megabytes at a time."""
    step = _rows_at_once(rows, _SLICE_BYTES)
    for begin in range(0, rows.height, step):
        yield rows.slice(begin, step).select(text).to_series()


def _rows_at_once(rows: pl.DataFrame, size: int) -> int:
    """How many rows take so many bytes, on an average; one at least."""
    return max(1, size * rows.height // max(1, int(rows.estimated_size())))


# --- cells ------------------------------------------------------------------------------------------


def _cell(value: pl.Expr, dtype: pl.DataType) -> list[pl.Expr]:
    """The non-null String expressions whose concatenation is a cell's text."""
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        text = value.cast(pl.String)
        return [text.str.len_bytes().cast(pl.String).fill_null("~"), pl.lit(":"), text.fill_null("")]
    if isinstance(dtype, pl.Binary):
        return [value.bin.encode("hex").fill_null("~"), pl.lit(";")]
    if isinstance(dtype, pl.Null | pl.Boolean):
        return [value.cast(pl.String).fill_null("~")]
    if dtype.is_nested() or isinstance(dtype, pl.BaseExtension):
        return _nested(value, dtype)
    number = value.reinterpret(dtype=_BITS[type(dtype)]) if dtype.is_float() else value.to_physical()
    return [number.cast(pl.String).fill_null("~"), pl.lit(";")]


def _nested(value: pl.Expr, dtype: pl.DataType) -> list[pl.Expr]:
    if isinstance(dtype, pl.BaseExtension):
        return _cell(value.ext.storage(), storage_type(dtype))
    if isinstance(dtype, pl.Struct):
        cells = chain.from_iterable(_cell(part, inner) for part, inner in fields_of(value, dtype).values())
        text = pl.concat_str([pl.lit("("), *cells, pl.lit(")")])
        return [pl.when(value.is_not_null()).then(text).otherwise(pl.lit("~"))]
    if isinstance(dtype, pl.Map):
        return _nested(value.map.entries(), pl.List(map_entry(dtype)))
    elements = value.arr.to_list() if isinstance(dtype, pl.Array) else value
    text = elements.list.eval(pl.concat_str(_cell(pl.element(), element_type(dtype)))).list.join("")
    return [pl.concat_str([pl.lit("["), text, pl.lit("]")]).fill_null("~")]

"""Stable hashes over tagged, length-prefixed fields.

A hash is a file format here: `docs/concepts/hash-format.md` specifies the encoding and golden tests pin
it. Fields are never joined with a separator, which would not be injective; each is written as
`tag<length>:<value>`, the length in UTF-8 bytes.

Every function has a scalar form and a vectorised twin over Polars columns with equal results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

FORMAT_VERSION = "1"
"""Part of every run hash, definition hash and digest; raised when any encoding changes."""

HASH_LENGTH = 32
"""Characters of a hash: 128 bits in lower-case hexadecimal."""


def field(tag: str, value: str) -> str:
    """One field: `tag`, the value's length in bytes, `:`, the value. Tags hold no digits."""
    return f"{tag}{len(value.encode('utf-8', 'surrogatepass'))}:{value}"


def encode(fields: Sequence[tuple[str, str]]) -> str:
    """The fields in the order given, as one injective text."""
    return "".join(field(tag, value) for tag, value in fields)


def hash_text(text: str) -> str:
    """xxh3-128 of the UTF-8 text, 32 hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))


def hash_fields(fields: Sequence[tuple[str, str]]) -> str:
    """`hash_text(encode(fields))`."""
    return hash_text(encode(fields))


def encode_columns(fields: Sequence[tuple[str, str | pl.Expr]]) -> pl.Expr:
    """`encode` row by row, as a String expression; a plain `str` value is the same in every row.

    Every value must be a non-null String; a null makes the row's text null, never a shorter text. The frame
    that it is selected from is rechunked before: Polars 2.1 panics where a filter left a chunk without rows.
    """
    import polars as pl

    template = ""
    values: list[pl.Expr] = []
    for tag, value in fields:
        if isinstance(value, str):
            text = field(tag, value)
            braces = "{" in text or "}" in text
            template += "{}" if braces else text
            values += [pl.lit(text)] if braces else []
        else:
            template += tag + "{}:{}"
            values += [value.str.len_bytes().cast(pl.String), value]
    return pl.format(template, *values) if values else pl.lit(template)


def hash_column(texts: pl.Series) -> pl.Series:
    """`hash_text` of every row of a String column; nulls stay null.

    Polars' own `hash` is not stable across versions, so the digest itself is xxhash's, a C call per
    row of about 0.15 microseconds.
    """
    import polars as pl

    rows = texts.cast(pl.Binary).to_list()
    if texts.null_count():
        hashes = [None if row is None else xxhash.xxh3_128_hexdigest(row) for row in rows]
    else:
        hashes = list(map(xxhash.xxh3_128_hexdigest, rows))
    return pl.Series(texts.name, hashes, dtype=pl.String)


def short_hash(hashes: pl.Expr) -> pl.Expr:
    """The first 15 hexadecimal digits of a hash column as Int64: compact, for comparing, not for identity."""
    import polars as pl

    return hashes.str.slice(0, 15).str.to_integer(base=16, dtype=pl.Int64)

"""The one order and the one form in which the rows of a key are stored.

Rows are sorted by every column, in column order, the way Polars sorts: nulls first, NaN last, Categorical by
its text, Enum by the position of its category, nested values element by element. Before that, every float at
every nesting level is brought to one form: `-0.0` becomes `0.0`, and every NaN the positive quiet one, since
those compare equal but are not the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.io.columns import exact, exactly, fields_of
from barca.io.dtypes import element_type, holds, map_entry, storage_type

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAN = float("nan")


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, with as many `_` behind it as it takes to be none of `taken`."""
    names = set(taken)
    while name in names:
        name += "_"
    return name


def arrange(rows: pl.DataFrame, owner: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
    """The rows in canonical order and form.

    Args:
        rows: The user's columns of any types, without dimensions.
        owner: For each row the position of its key among the keys, `UInt32`.

    Returns:
        The rows, same columns, sorted by owner and then by every column; the owners in the same order.
    """
    names = rows.columns
    normal = [
        _normal(exact(name), dtype).alias(name) for name, dtype in rows.schema.items() if _holds_float(dtype)
    ]
    frame = rows.with_columns(normal) if normal else rows
    if strictly_rising(owner):  # mostly: one row a key, in the order of the keys
        return frame, owner
    by = free_name("owner", names)
    frame = frame.with_columns(owner.alias(by))
    if not owner.is_sorted():
        frame = frame.sort(by, maintain_order=True)
    if names and not strictly_rising(frame.get_column(by)):
        frame = frame.sort(exactly([by, *names]))
    return frame.select(exactly(names)) if names else pl.DataFrame(height=rows.height), frame.get_column(by)


def strictly_rising(owner: pl.Series) -> bool:
    """Whether positions rise from row to row: no key owns two rows, and the rows are in order."""
    return owner.len() < 2 or (owner.slice(1) > owner.slice(0, owner.len() - 1)).all()


def _holds_float(dtype: pl.DataType) -> bool:
    return holds(dtype, lambda inner: inner.is_float())


def _normal(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The value with every float in it brought to its one form."""
    if not _holds_float(dtype):
        return value
    if isinstance(dtype, pl.List | pl.Array):
        inner = _normal(pl.element(), element_type(dtype))
        return value.list.eval(inner) if isinstance(dtype, pl.List) else value.arr.eval(inner)
    if isinstance(dtype, pl.Struct):
        fields = fields_of(value, dtype).items()
        return value.struct.with_fields(
            [_normal(part, inner).alias(name) for name, (part, inner) in fields if _holds_float(inner)]
        )
    if isinstance(dtype, pl.Map):
        return value.map.entries().list.eval(_normal(pl.element(), map_entry(dtype))).list.to_map()
    if isinstance(dtype, pl.BaseExtension):
        return _normal(value.ext.storage(), storage_type(dtype)).ext.to(dtype)
    number = pl.when(value == 0).then(pl.lit(0.0, dtype=dtype)).otherwise(value)
    return pl.when(value.is_nan()).then(pl.lit(_NAN, dtype=dtype)).otherwise(number)

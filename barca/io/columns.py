"""Columns by their exact names: Polars takes `*` and `^...$` for patterns, and a column may be called so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from barca.io.dtypes import struct_fields

if TYPE_CHECKING:
    from collections.abc import Sequence


def exact(name: str) -> pl.Expr:
    """The column of a name."""
    return cs.by_name(name).as_expr() if _is_pattern(name) else pl.col(name)


def exactly(names: Sequence[str]) -> list[pl.Expr]:
    """The columns of names, in their order."""
    return [exact(name) for name in names]


def without(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """A frame without the columns of names, each of which it has."""
    return frame.drop(cs.by_name(names)) if names else frame


def fields_of(value: pl.Expr, dtype: pl.DataType) -> dict[str, tuple[pl.Expr, pl.DataType]]:
    """The fields of a struct, and their types, by their names."""
    fields = struct_fields(dtype)
    if not any(_is_pattern(name) for name, _ in fields):
        return {name: (value.struct.field(name), inner) for name, inner in fields}
    numbered = value.struct.rename_fields([str(place) for place in range(len(fields))])
    return {name: (numbered.struct.field(str(place)), inner) for place, (name, inner) in enumerate(fields)}


def _is_pattern(name: str) -> bool:
    return name == "*" or (name.startswith("^") and name.endswith("$"))

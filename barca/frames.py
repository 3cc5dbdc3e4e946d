"""Steps on frames that need no query.

Polars makes a lazy query of most methods of an eager frame. Such a query takes a quarter of a millisecond
whatever the frame holds, and hundreds of them are what a run takes in which little is to do. Columns by
`frame[[...]]`, `hstack`, `slice`, `clear`, and comparing a column are no queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from polars._typing import PolarsDataType


def where(frame: pl.DataFrame, holds: pl.Series) -> pl.DataFrame:
    """The rows for which a Boolean column holds, where null does not. Mostly these are all or none.

    Args:
        frame: Any frame.
        holds: As long as the frame.
    """
    rows = holds.sum()
    if rows == frame.height:
        return frame
    return frame.filter(holds) if rows else frame.clear()


def same_value(name: str, value: Any, dtype: PolarsDataType, height: int) -> pl.Series:
    """A column of one value in every row."""
    return pl.Series(name, [value], dtype).new_from_index(0, height)


def filled(column: pl.Series, value: Any) -> pl.Series:
    """The column with a value in place of nulls, of which there mostly are none."""
    return column.fill_null(value) if column.has_nulls() else column


def without(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The frame without columns, which it may lack."""
    return frame[[name for name in frame.columns if name not in names]]


def sorted_by(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The frame sorted by a column, which it mostly is already."""
    return frame if frame.get_column(name).is_sorted() else frame.sort(name)

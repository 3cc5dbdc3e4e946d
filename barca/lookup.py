"""Bringing columns of one keyed frame to the keys of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from barca.frames import same_value
from barca.schemas import KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEW: Final = 8
"""Keys are few where the table has more than so many times theirs."""


def lookup(keys: pl.DataFrame, table: pl.DataFrame, columns: Sequence[str], on: str = KEY) -> pl.DataFrame:
    """`keys` with `columns` of `table` beside them, by key; nulls where `table` lacks the key.

    `table` has each key at most once. What belongs together mostly has its keys in one order, and comparing
    two columns is several times cheaper than joining them, so that case is told first. A left join hashes
    all of `table`: for a few keys those that it has are found first, by a join that hashes the smaller side.

    Args:
        keys: Frame with the column `on`, String.
        table: Frame with the column `on` and `columns`.
        columns: Of the table.
        on: The column that holds the key.
    """
    if same_keys(keys, table, on):
        return keys.hstack([table.get_column(name) for name in columns])
    held = table[[on, *columns]]
    if keys.height * _FEW < table.height:
        found = keys[[on]].join(held, on=on, how="inner", maintain_order="left")
        if found.height == keys.height:
            return keys.hstack([found.get_column(name) for name in columns])
        held = found.unique(on, keep="any")
    if held.is_empty():
        return keys.hstack([same_value(name, None, held.schema[name], keys.height) for name in columns])
    return keys.join(held, on=on, how="left", maintain_order="left")


def lookup_sorted(
    keys: pl.DataFrame, table: pl.DataFrame, columns: Sequence[str], on: str = KEY
) -> pl.DataFrame:
    """As `lookup`, of a `table` that is sorted by its column `on`: a few keys are found in it by halving.

    A join would hash the whole table for them.
    """
    if keys.height * _FEW > table.height or same_keys(keys, table, on):
        return lookup(keys, table, columns, on)
    wanted, held = keys.get_column(on), table.get_column(on)
    places = held.search_sorted(wanted).clip(upper_bound=held.len() - 1)
    there = held.gather(places) == wanted
    found = table.select(columns)[places]
    if not there.all():
        found = found.select(pl.when(there).then(pl.col(name)).alias(name) for name in columns)
    return keys.hstack(found.get_columns())


def among(keys: pl.DataFrame, table: pl.DataFrame, on: str = KEY) -> pl.DataFrame:
    """The rows of `keys` whose key, in the column `on: String`, `table` has."""
    if same_keys(keys, table, on):
        return keys
    if keys.is_empty() or table.is_empty():
        return keys.clear()
    return keys.join(table[[on]], on=on, how="semi", maintain_order="left")


def absent(keys: pl.DataFrame, table: pl.DataFrame, on: str = KEY) -> pl.DataFrame:
    """The rows of `keys` whose key, in the column `on: String`, `table` lacks."""
    if keys.is_empty() or table.is_empty():
        return keys
    if same_keys(keys, table, on):
        return keys.clear()
    return keys.join(table[[on]], on=on, how="anti", maintain_order="left")


def same_keys(left: pl.DataFrame, right: pl.DataFrame, on: str = KEY) -> bool:
    """Whether two frames have the same keys, in the column `on: String`, in the same order."""
    return left.height == right.height and left.get_column(on).equals(right.get_column(on))

"""Keys of a node as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.frames import sorted_by
from barca.partitions import ESCAPES, UNSAFE
from barca.schemas import KEY, KEYS, ORDINAL, dimension, dimensions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def empty_key() -> pl.DataFrame:
    """The one key of an unpartitioned node, in `schemas.KEYS`."""
    return pl.DataFrame({KEY: [""], ORDINAL: [0]}, schema=KEYS)


def explicit_keys(
    declared: Mapping[str, Sequence[str]], selection: Mapping[str, Sequence[str]]
) -> tuple[pl.DataFrame, int]:
    """Keys of declared dimensions: every combination, the first dimension slowest.

    Only the selected keys are built; `ordinal` is what it would be among all keys.

    Args:
        declared: Dimension to its keys, in declared order.
        selection: Dimension to the selected values.

    Returns:
        `schemas.KEYS` with `dim:` columns, and the number of keys without the selection.
    """
    frame = pl.DataFrame({ORDINAL: [0]}, schema={ORDINAL: pl.Int64})
    total = 1
    for name, values in declared.items():
        column = dimension(name)
        axis = pl.DataFrame({column: list(values)}, schema={column: pl.String}).with_row_index("position")
        total *= axis.height
        frame = (
            frame.join(narrow(axis, selection), how="cross", maintain_order="left_right")
            .with_columns((pl.col(ORDINAL) * len(values) + pl.col("position")).cast(pl.Int64).alias(ORDINAL))
            .drop("position")
        )
    return with_key(frame, tuple(declared)), total


def keyed_keys(
    name: str, source: pl.DataFrame, selection: Mapping[str, Sequence[str]]
) -> tuple[pl.DataFrame, int]:
    """Keys that a keyed source returned, in the order it returned them.

    Args:
        name: The dimension.
        source: Frame of `schemas.KEYED`.
        selection: Dimension to the selected values.

    Returns:
        `schemas.KEYS` with the `dim:` column, and the number of keys without the selection.
    """
    keys = pl.DataFrame([source.get_column(KEY).alias(dimension(name)), source.get_column(ORDINAL)])
    return with_key(narrow(sorted_by(keys, ORDINAL), selection), (name,)), source.height


def narrow(keys: pl.DataFrame, selection: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """The keys whose `dim:` columns have selected values; dimensions the frame lacks select nothing away."""
    for name, values in selection.items():
        if (column := dimension(name)) in keys.columns:
            keys = keys.filter(pl.col(column).is_in(list(values)))
    return keys


def with_key(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The frame with `key`, the Hive form of its `dim:` columns; columns `key, dim:..., ordinal`."""
    parts: list[pl.Expr] = []
    for name in sorted(names):
        column = dimension(name)
        value = pl.col(column)
        if frame.get_column(column).str.contains(UNSAFE).any():
            value = value.str.replace_many(list(ESCAPES), list(ESCAPES.values()))
        parts += [pl.lit(f"{'/' if parts else ''}{name}="), value]
    return frame.select(pl.concat_str(parts).alias(KEY), *dimensions(names), ORDINAL)

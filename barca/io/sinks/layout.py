"""How the rows of keys are laid out in directories and files of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from barca.io.canonical import free_name
from barca.io.columns import without
from barca.io.sinks.contents import Unfit
from barca.io.sinks.hive import Unnameable, check_alike, check_columns, merges_missing, segment, texts
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OWNER: Final = "owner"
_DIRECTORY: Final = "directory"
_VALUE: Final = "value"


class Part(Record):
    """Rows of one key that share a directory.

    Attributes:
        owner: Position of the key.
        directory: Below the key's own, `""` for that itself.
        offset: Of the first row in `Layout.rows`.
        rows: Number of rows.
    """

    owner: int
    directory: str
    offset: int
    rows: int


class Layout(Record):
    """Where the rows of some keys go.

    Attributes:
        rows: The columns that stand in files, rows of each part one after the other.
        parts: The parts.
        failures: By position of a key, why its rows fit no directories.
        emptied: Columns of whose empty texts the directories say that they are missing.
    """

    rows: pl.DataFrame
    parts: Sequence[Part]
    failures: Mapping[int, Exception]
    emptied: Sequence[str] = ()


def lay_out(tables: Sequence[pl.DataFrame], dimensions: Sequence[str], by: Sequence[str]) -> Layout:
    """Lay out the tables of keys.

    Args:
        tables: Of one schema, one for each key.
        dimensions: Columns of these names are left out: the path carries the key.
        by: Columns that have directory levels of their own.

    Raises:
        Unnameable: A column of `by` is missing or fits no directory names, or one is called like a level.
        Unfit: No column would be left for the files.
    """
    check_columns(by, tables[0].schema)
    check_alike([*dimensions, *by], tables[0].columns)
    left_out = [name for name in (*dimensions, *by) if name in tables[0].columns]
    if len(left_out) == tables[0].width:
        raise Unfit("no column is left for the files: every one of them is a level of directories")
    heights = [table.height for table in tables]
    frame = tables[0] if len(tables) == 1 else pl.concat(tables, how="vertical")
    if not by:
        offsets = [0, *pl.Series(heights, dtype=pl.Int64).cum_sum().to_list()]
        parts = [Part(owner, "", offsets[owner], height) for owner, height in enumerate(heights)]
        return Layout(without(frame, left_out), parts, {})
    owner = pl.concat([pl.repeat(number, height, eager=True) for number, height in enumerate(heights)])
    values = texts(frame, by)
    names, failures = _directories(values, owner.alias(_OWNER))
    place = free_name("row", names.columns)
    ordered = names.with_row_index(place).sort(_OWNER, _DIRECTORY, place)
    runs = (
        ordered.group_by(_OWNER, _DIRECTORY, maintain_order=True)
        .agg(pl.len())
        .with_columns((pl.col("len").cum_sum() - pl.col("len")).alias("offset"))
    )
    parts = [
        Part(number, directory, offset, length)
        for number, directory, length, offset in runs.iter_rows()
        if number not in failures
    ]
    emptied = [column.name for column in values.get_columns() if (column == "").any()]
    return Layout(without(frame, left_out)[ordered.get_column(place)], parts, failures, emptied)


def _directories(values: pl.DataFrame, owner: pl.Series) -> tuple[pl.DataFrame, dict[int, Exception]]:
    """For each row its key and its directory; and the keys of which some row fits none."""
    failures: dict[int, Exception] = {}
    levels: list[pl.Series] = []
    for column in values.get_columns():
        distinct = column.unique()
        found: dict[str | None, str] = {}
        for value in distinct:
            try:
                found[value] = segment(column.name, value)
            except Unnameable as error:
                found[value] = ""
                bad = owner.filter(column.eq_missing(pl.Series([value], dtype=pl.String)))
                failures |= dict.fromkeys(bad.unique().to_list(), error)
        old, new = pl.Series(list(found), dtype=pl.String), pl.Series(list(found.values()), dtype=pl.String)
        levels.append(column.replace_strict(old, new, return_dtype=pl.String))
    failures |= _merging(values, owner)
    joined = pl.DataFrame([level.alias(str(number)) for number, level in enumerate(levels)]).select(
        pl.concat_str(pl.all(), separator="/").alias(_DIRECTORY)
    )
    return joined.insert_column(0, owner), failures


def _merging(values: pl.DataFrame, owner: pl.Series) -> dict[int, Exception]:
    """The keys with both empty texts and missing values in a column, which would be read back as one."""
    failures: dict[int, Exception] = {}
    value = pl.col(_VALUE)
    for name in merges_missing(values):
        both = (
            pl.DataFrame([owner, values.get_column(name).alias(_VALUE)])
            .group_by(_OWNER)
            .agg((value == "").any() & value.is_null().any())
            .filter(value)
        )
        error = Unnameable(
            f"`{name}` holds empty texts and missing values, which would be read back as one value"
        )
        failures |= dict.fromkeys(both.get_column(_OWNER).to_list(), error)
    return failures

"""What differs between two results of one key, as rows added, removed and changed."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import UsageError, did_you_mean
from barca.io.columns import exact, exactly
from barca.io.records import NotATable, records_of, records_table
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

BEFORE: Final = "before"
AFTER: Final = "after"
"""A changed cell is a struct of these two fields."""

_COUNT: Final = "barca count"
_TRIED: Final = 6
"""So many columns are tried in pairs when no single one tells rows apart."""


class Difference(Record):
    """Rows of the newer of two tables against the older.

    Attributes:
        on: Columns that tell rows apart; empty when none do, and nothing counts as changed.
        added: Rows that only the newer has.
        removed: Rows that only the older has.
        changed: Rows that both have by `on`, with other cells: those columns, and of each column that differs
            anywhere a struct of `before` and `after`, null where the row's cell is the same.
        unchanged: Number of rows that both have.
        columns: Columns that only one has: name to `added` or `removed`.
    """

    on: tuple[str, ...]
    added: pl.DataFrame
    removed: pl.DataFrame
    changed: pl.DataFrame
    unchanged: int
    columns: dict[str, str]


def as_rows(value: Any) -> pl.DataFrame:
    """A stored value as rows: a table as it is, records as one, anything else as JSON texts.

    Returns:
        The table's own columns; `key, value: String` of a dict; `value: String` of a list, one row per item,
        or of anything else, one row.
    """
    if isinstance(value, pl.LazyFrame):
        value = value.collect(engine="in-memory")
    if isinstance(value, pl.DataFrame):
        return value
    if isinstance(value, dict):
        texts = {str(key): _text(item) for key, item in value.items()}
        return pl.DataFrame({"key": list(texts), "value": list(texts.values())}, schema=_PAIRS)
    if isinstance(value, list):
        try:
            return records_table(records_of(value))
        except NotATable:
            return pl.DataFrame({"value": [_text(item) for item in value]}, schema={"value": pl.String})
    return pl.DataFrame({"value": [_text(value)]}, schema={"value": pl.String})


_PAIRS: Final = {"key": pl.String, "value": pl.String}


def _text(value: Any) -> str:
    return json.dumps(value, default=repr, ensure_ascii=False, sort_keys=True)


def compare(older: pl.DataFrame, newer: pl.DataFrame, on: Sequence[str] = ()) -> Difference:
    """What differs between two tables, whatever the order of their rows.

    Args:
        older: The earlier rows.
        newer: The later rows.
        on: Columns that tell rows apart in both; without any, the first column or pair that does.

    Raises:
        UsageError: A column of `on` is not in both tables, or does not tell rows apart.
    """
    common = [name for name in newer.columns if name in older.columns]
    columns = {name: "added" for name in newer.columns if name not in common}
    columns |= {name: "removed" for name in older.columns if name not in common}
    identity = _given(older, newer, on, common) if on else _found(older, newer, common)
    older, newer = _aligned(older.select(exactly(common)), newer.select(exactly(common)))
    if not identity:
        return _by_whole_rows(older, newer, columns)
    added = newer.join(older, on=exactly(identity), how="anti", nulls_equal=True, maintain_order="left")
    removed = older.join(newer, on=exactly(identity), how="anti", nulls_equal=True, maintain_order="left")
    both = newer.join(
        older, on=exactly(identity), how="inner", nulls_equal=True, suffix=f" {BEFORE}", maintain_order="left"
    )
    rest = [name for name in common if name not in identity]
    differs = {name: exact(name).ne_missing(pl.col(f"{name} {BEFORE}")) for name in rest}
    changed = both.filter(pl.any_horizontal(*differs.values())) if rest else both.clear()
    cells = [
        pl.when(differs[name]).then(
            pl.struct(pl.col(f"{name} {BEFORE}").alias(BEFORE), exact(name).alias(AFTER))
        )
        for name in rest
    ]
    shown = changed.select(
        *exactly(identity), *(cell.alias(name) for cell, name in zip(cells, rest, strict=True))
    )
    kept = [name for name in rest if shown.get_column(name).null_count() < shown.height]
    return Difference(
        tuple(identity),
        added,
        removed,
        shown.select(*exactly(identity), *exactly(kept)),
        both.height - changed.height,
        columns,
    )


def _given(older: pl.DataFrame, newer: pl.DataFrame, on: Sequence[str], common: Sequence[str]) -> list[str]:
    for name in on:
        if name not in common:
            raise UsageError(
                f"`{name}` is not a column of both results",
                code="diff_on",
                remediation=did_you_mean(name, common),
            )
    if not all(_tells_apart(frame, on) for frame in (older, newer)):
        raise UsageError(
            f"{', '.join(f'`{name}`' for name in on)} has the same value in several rows",
            code="diff_on",
            remediation="name columns that tell rows apart, or leave --on out to compare whole rows",
        )
    return list(on)


def _found(older: pl.DataFrame, newer: pl.DataFrame, common: Sequence[str]) -> list[str]:
    """The first column, or pair of columns, whose values tell rows apart in both tables."""
    fit = [
        name
        for name in common
        if not newer.schema[name].is_nested() and not newer.schema[name].is_float() and len(common) > 1
    ]
    pairs = itertools.combinations(fit[:_TRIED], 2) if len(common) > 2 else ()
    for names in itertools.chain(((name,) for name in fit), pairs):
        if _tells_apart(older, names) and _tells_apart(newer, names):
            return list(names)
    return []


def _tells_apart(frame: pl.DataFrame, names: Sequence[str]) -> bool:
    return not frame.select(pl.struct(exactly(names)).is_duplicated().any()).item() if frame.height else True


def _aligned(older: pl.DataFrame, newer: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both with one dtype per column: the wider one, or text where there is none."""
    try:
        both = pl.concat(
            [older.with_columns(pl.lit(0).alias(_COUNT)), newer.with_columns(pl.lit(1).alias(_COUNT))],
            how="vertical_relaxed",
        )
    except pl.exceptions.PolarsError:
        mixed = [name for name in newer.columns if newer.schema[name] != older.schema[name]]
        as_text = [exact(name).cast(pl.String, strict=False) for name in mixed]
        return older.with_columns(as_text), newer.with_columns(as_text)
    first = pl.col(_COUNT) == 0
    return both.filter(first).drop(_COUNT), both.filter(~first).drop(_COUNT)


def _by_whole_rows(older: pl.DataFrame, newer: pl.DataFrame, columns: dict[str, str]) -> Difference:
    """Rows as a whole, with repetitions."""
    names = newer.columns
    numbered = [
        frame.with_columns(pl.int_range(pl.len()).over(exactly(names)).alias(_COUNT)) if names else frame
        for frame in (older, newer)
    ]
    if not names:
        return Difference((), newer, older, newer, min(older.height, newer.height), columns)
    first, second = numbered
    by = [*names, _COUNT]
    added = second.join(first, on=exactly(by), how="anti", nulls_equal=True, maintain_order="left").drop(
        _COUNT
    )
    removed = first.join(second, on=exactly(by), how="anti", nulls_equal=True, maintain_order="left").drop(
        _COUNT
    )
    return Difference((), added, removed, newer.clear(), newer.height - added.height, columns)

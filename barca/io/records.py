"""JSON records as a table, when that loses nothing."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence


class NotATable(Exception):
    """Why values are not the rows of one table.

    Attributes:
        why: Ends the sentence "... cannot be read as a table: ".
        record: Position of a record concerned, or 0.
    """

    def __init__(self, why: str, record: int = 0) -> None:
        super().__init__(why, record)
        self.why = why
        self.record = record


def records_of(value: Any) -> list[dict[str, Any]]:
    """A record, or the records of a list.

    Raises:
        NotATable: The value is neither.
    """
    records = value if isinstance(value, list) else [value]
    if all(isinstance(record, dict) for record in records):
        return records
    raise NotATable(f"it is neither a record nor a list of records but a `{type(value).__qualname__}`")


def records_table(records: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """A row per record and a column per field.

    Fields that a record lacks are null; integers among floats become floats.

    Raises:
        NotATable: A field holds text in one record and a number in another, or the like.
    """
    try:
        table = _table(records)
    except pl.exceptions.PolarsError:
        raise _clash(records) from None
    for position, (row, record) in enumerate(zip(table.iter_rows(named=True), records, strict=True)):
        for name, given in record.items():
            if not _is_same(row.get(name), given):
                raise NotATable(f"its records differ in the type of `{name}`", position)
    return table


def _table(records: Sequence[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(records, infer_schema_length=None, strict=False) if records else pl.DataFrame()


def _is_clash(records: Sequence[dict[str, Any]]) -> bool:
    """Whether Polars finds no type for a field, as of lists among numbers."""
    try:
        _table(records)
    except pl.exceptions.PolarsError:
        return True
    return False


def _clash(records: Sequence[dict[str, Any]]) -> NotATable:
    """What is wrong with records of which some field has no type: the first record that does not fit."""
    position = bisect_left(range(len(records) - 1), 1, key=lambda last: _is_clash(records[: last + 1]))
    until = records[: position + 1]
    names = [name for name in records[position] if _is_clash([{name: one.get(name)} for one in until])]
    return NotATable(
        f"its records differ in the type of {', '.join(f'`{name}`' for name in names)}", position
    )


def _is_same(found: Any, given: Any) -> bool:
    """Whether a cell still is the JSON value it was made of."""
    if isinstance(given, dict):
        return isinstance(found, dict) and all(
            _is_same(value, given.get(name)) for name, value in found.items()
        )
    if isinstance(given, list):
        return isinstance(found, list) and len(found) == len(given) and all(map(_is_same, found, given))
    if isinstance(given, bool) or isinstance(found, bool) or given is None:
        return found is given
    if isinstance(given, str):
        return isinstance(found, str) and found == given
    return isinstance(found, int | float) and (found == given or (found != found and given != given))  # noqa: PLR0124

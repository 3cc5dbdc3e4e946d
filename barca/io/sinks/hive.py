"""Values as names of directories, the way of Hive: `column=value`, percent-encoded.

Every character but ASCII letters, digits, `-`, `_`, `.` and `~` is encoded, which is what pyarrow does;
Polars, pyarrow and DuckDB decode it. A missing value has a name of its own, and the empty text has the same
one. Two of the three readers take that name for a missing value even when it is encoded, so that no value
can be called so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from barca.io.tables import text_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

MISSING: Final = "__HIVE_DEFAULT_PARTITION__"

PART: Final = re.compile(r"part-[0-9]+\.(?:parquet|csv|jsonl|arrow)")
"""Names of the files of a dataset."""

MAX_NAME_BYTES: Final = 255
"""What file systems take as the name of one file."""

_UNFIT_COLUMN = re.compile(r"\..*|.*[/\\=\x00-\x1f].*", re.DOTALL)


class Unnameable(ValueError):
    """A value, or a column, that no directory can be named after."""


def segment(column: str, value: str | None) -> str:
    """The name of the directory of a value.

    Raises:
        Unnameable: It would be too long, or be read back as another value.
    """
    if value == MISSING:
        raise Unnameable(f"`{column}` holds the text `{MISSING}`, which readers take for a missing value")
    name = f"{column}={quote(value, safe='') if value else MISSING}"
    if len(name.encode()) > MAX_NAME_BYTES:
        raise Unnameable(
            f"a directory for `{column}` would have a name of {len(name)} characters, more than the "
            f"{MAX_NAME_BYTES} that file systems take"
        )
    return name


def check_columns(names: Sequence[str], schema: pl.Schema) -> None:
    """Make sure that a table has columns that its rows can be told apart by in directory names.

    Raises:
        Unnameable: A column is missing, or its name or values fit no directory name.
    """
    for name in names:
        if name not in schema:
            known = ", ".join(f"`{column}`" for column in schema.names())
            raise Unnameable(f"partition_by= names `{name}`, which is no column; there are {known or 'none'}")
        if _UNFIT_COLUMN.fullmatch(name):
            raise Unnameable(f"no directory can be named after the column `{name}`")
        if text_form(name, schema[name]) is None:
            raise Unnameable(f"no directory can be named after values of `{name}`: they are {schema[name]}")


def texts(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The named columns, String each, as the texts that directories are named by; null stays null.

    Raises:
        Unnameable: As `check_columns`.
    """
    check_columns(names, frame.schema)
    forms = [form for name in names if (form := text_form(name, frame.schema[name])) is not None]
    return frame.select(forms)


def merges_missing(values: pl.DataFrame) -> list[str]:
    """The columns in which empty texts and missing values would share a directory."""
    return [column.name for column in values.get_columns() if column.null_count() and (column == "").any()]

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

import polars as pl

from barca.io.tables import text_form

if TYPE_CHECKING:
    from collections.abc import Sequence

MISSING: Final = "__HIVE_DEFAULT_PARTITION__"

PART: Final = re.compile(r"part-[0-9]+\.(?:parquet|csv|jsonl|arrow)")
"""Names of the files of a dataset."""

MAX_NAME_BYTES: Final = 255
"""What file systems take as the name of one file."""


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


def check_alike(levels: Sequence[str], columns: Sequence[str]) -> None:
    """Make sure that no column of the files is called like a level of directories but for its case.

    Raises:
        Unnameable: One is: DuckDB, like Hive, takes them for one column, and shows one of the two.
    """
    folded = {name.lower(): name for name in levels}
    for name in columns:
        level = folded.get(name.lower(), name)
        if level != name:
            raise Unnameable(
                f"the column `{name}` and the directories of `{level}` differ in case only, and readers take "
                "them for one column; rename the column"
            )


def check_columns(names: Sequence[str], schema: pl.Schema) -> None:
    """Make sure that a table has columns that its rows can be told apart by in directory names.

    Raises:
        Unnameable: A column is missing, or its values fit no directory name.
    """
    for name in names:
        if name not in schema:
            known = ", ".join(f"`{column}`" for column in schema.names())
            raise Unnameable(f"partition_by= names `{name}`, which is no column; there are {known or 'none'}")
        if text_form(name, schema[name]) is None:
            raise Unnameable(f"no directory can be named after values of `{name}`: they are {schema[name]}")


def texts(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The named columns, String each, as the texts that directories are named by; null stays null.

    Raises:
        Unnameable: As `check_columns`; or bytes are no text.
    """
    check_columns(names, frame.schema)
    forms = [form for name in names if (form := text_form(name, frame.schema[name])) is not None]
    try:
        return frame.select(forms)
    except pl.exceptions.PolarsError:
        named = ", ".join(f"`{name}`" for name in names if isinstance(frame.schema[name], pl.Binary))
        raise Unnameable(f"{named} holds bytes that are no UTF-8 text, and cannot name a directory") from None


def merges_missing(values: pl.DataFrame) -> list[str]:
    """The columns in which empty texts and missing values would share a directory."""
    return [column.name for column in values.get_columns() if column.null_count() and (column == "").any()]

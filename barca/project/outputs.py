"""What keys hold, as JSON-writable values: where it lies, or what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.partitions import display_text
from barca.schemas import DIGEST, FORMAT, KEY, PATH, ROW_OFFSET, ROWS, SIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping


def pointers(held: pl.DataFrame, root: str) -> dict[str, Any]:
    """Where the result of each key lies.

    Args:
        held: `schemas.FRAGMENTS`.
        root: Directory of the packs, relative to the project.
    """
    return {
        row[KEY]: {
            "_barca_artifact": {
                "path": f"{root}/{row[PATH]}",
                **{name: row[name] for name in (FORMAT, ROW_OFFSET, ROWS, SIZE_BYTES, DIGEST)},
            }
        }
        for row in held.iter_rows(named=True)
    }


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values for JSON: tables as lists of row objects."""
    return {key: _plain(value) for key, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, pl.LazyFrame):
        value = value.collect(engine="in-memory")
    return value.to_dicts() if isinstance(value, pl.DataFrame) else value


def displayed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the display form of their keys."""
    return {display_text(key): value for key, value in values.items()}

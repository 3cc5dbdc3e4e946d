"""Fragments of many keys as an Arrow dataset over the packs themselves, where that is possible."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from barca.io.reading import open_packs
from barca.schemas import ROWS, dimension

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from barca.ports import PackStore


def pack_dataset(store: PackStore, fragments: pl.DataFrame, dimensions: Sequence[str]) -> Any | None:
    """A `pyarrow.dataset.Dataset` whose rows are read when it is queried, or `None` where there is none.

    There is one when packs are files of one schema that hold the wanted keys and no others. A single pack may
    hold others, which are filtered, but not further results of wanted keys, as one made of several packs may:
    of its key column, their rows are counted at once.

    Args:
        store: Holds the packs.
        fragments: `schemas.FRAGMENTS` with the `dim:` columns, at most one row per key.
        dimensions: The node's dimensions, declared order.

    Raises:
        FragmentError: A pack is missing, unreadable, or another one.
    """
    packs = open_packs(store, fragments)
    files = store.files([pack.path for pack in packs])
    if not packs or files is None or any(pack.format != "table" for pack in packs):
        return None
    schema = store.schema(packs[0].path)
    if any(store.schema(pack.path) != schema for pack in packs[1:]):
        return None
    whole = all(pack.fragments.height == pack.footer["keys"] for pack in packs)
    if not whole and (len(packs) > 1 or len(dimensions) > 1):
        return None
    found = importlib.import_module("pyarrow.dataset").dataset(
        [str(file) for file in files], format="parquet"
    )
    if whole:
        return found
    (name,) = dimensions
    wanted = fragments.get_column(dimension(name)).to_list()
    filtered = found.filter(importlib.import_module("pyarrow.compute").field(name).isin(wanted))
    return filtered if filtered.count_rows() == fragments.get_column(ROWS).sum() else None

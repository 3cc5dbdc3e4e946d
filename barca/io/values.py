"""Fragments as the values that functions receive and `get` returns.

Without an annotation a table is a Polars frame, and JSON and pickles are the Python values they were. An
annotation asks for another form of a table; it never changes what was not stored as a table, except that
records can be had as a table. What cannot be had as annotated is given as it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import InputError
from barca.io.annotations import TableForm, admits, list_item, mapping_value, table_form
from barca.io.datasets import pack_dataset
from barca.io.keyed import ROW, read_keyed, read_keyed_rows
from barca.io.reading import Pack, open_packs, read_objects, read_rows
from barca.io.records import NotATable, records_of, records_table
from barca.io.scans import scan_fragments
from barca.schemas import KEY, ORDINAL, VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca.ports import PackStore

_EXTRAS: Final[dict[str, str]] = {"pyarrow": "arrow", "pandas": "pandas", "duckdb": "duckdb"}


def read_value(store: PackStore, fragment: pl.DataFrame, annotation: Any, dimensions: Sequence[str]) -> Any:
    """The value of one fragment, a row of `schemas.FRAGMENTS`; see `read_values`."""
    [value] = read_values(store, fragment, annotation, dimensions).values()
    return value


def read_values(
    store: PackStore,
    fragments: pl.DataFrame,
    annotation: Any,
    dimensions: Sequence[str],  # noqa: ARG001  # every reader has one signature; footers tell the columns
) -> dict[str, Any]:
    """The value of each key, in the order of the fragments, from one read per distinct pack.

    Args:
        store: Holds the packs.
        fragments: `schemas.FRAGMENTS`, one row per key; more columns allowed.
        annotation: What each value shall be: a table type of Polars, Arrow, pandas or DuckDB, alone or in a
            union, or text of one; `list` or `list[dict]` for a table's rows as dicts; `None` for Polars.
        dimensions: The node's dimensions, declared order.

    Raises:
        InputError: A pickle cannot be loaded, keys of a source are no table, or a library is missing.
        FragmentError: A pack is missing, unreadable, or another one.
    """
    form = table_form(annotation)
    values: dict[str, Any] = {}
    packs = open_packs(store, fragments)
    for pack in packs:
        if pack.format == "table":
            values |= _tables(store, pack, form, annotation)
        elif pack.format == "keyed":
            values[pack.keys[0]] = _keyed(store, pack, form, annotation)
        else:
            objects = read_objects(store, pack)
            if form is not None and pack.format == "json":
                objects = [_as_form(value, form, annotation) for value in objects]
            values |= zip(pack.keys, objects, strict=True)
    return values if len(packs) == 1 else {key: values[key] for key in fragments.get_column(KEY).to_list()}


def read_table(store: PackStore, fragments: pl.DataFrame, annotation: Any, dimensions: Sequence[str]) -> Any:
    """One table over many keys, the dimensions its first columns, in the annotated form.

    A LazyFrame, a DuckDB relation and, over packs of one schema, an Arrow dataset read nothing until they are
    queried; the other forms hold their rows.

    Args:
        store: Holds the packs.
        fragments: `schemas.FRAGMENTS` with the `dim:` columns.
        annotation: Names a table type; a LazyFrame is given where it names none.
        dimensions: The node's dimensions, declared order.

    Raises:
        InputError: As `scan_fragments`, or the library of the form is not installed.
        FragmentError: A pack is missing, unreadable, or another one.
    """
    form = table_form(annotation) or "lazy"
    if form == "dataset":
        _library("pyarrow.dataset", "pyarrow.dataset.Dataset")
        if (found := pack_dataset(store, fragments, dimensions)) is not None:
            return found
    return form_table(scan_fragments(store, fragments, dimensions), form)


# --- tables -----------------------------------------------------------------------------------------


def _tables(store: PackStore, pack: Pack, form: TableForm | None, annotation: Any) -> dict[str, Any]:
    if not pack.columns:
        whole: pl.DataFrame | pl.LazyFrame = pl.DataFrame(height=pack.span[1] - pack.span[0])
    else:
        whole = pack.rows(store) if form == "lazy" else read_rows(store, pack)
    alone = pack.fragments.height == 1
    as_rows = form is None and list_item(annotation)[0]
    values: dict[str, Any] = {}
    for key, offset, height in pack.ranges():
        part = whole if alone else whole.slice(offset, height)
        if isinstance(part, pl.DataFrame) and as_rows:
            values[key] = part.to_dicts()
        else:
            values[key] = form_table(part, form or "polars")
    return values


def form_table(table: pl.DataFrame | pl.LazyFrame, form: TableForm) -> Any:
    """A table of any columns in a form; DuckDB queries a LazyFrame each time the relation is used."""
    if form == "lazy":
        return table.lazy()
    if form == "duckdb":
        return _library("duckdb", "duckdb.DuckDBPyRelation").from_arrow(table)
    frame = table.collect(engine="in-memory") if isinstance(table, pl.LazyFrame) else table
    if form == "polars":
        return frame
    if form == "pandas":
        _library("pandas", "pandas.DataFrame")
        _library("pyarrow", "pandas.DataFrame")
        return frame.to_pandas()
    _library("pyarrow", "pyarrow.Table")
    if form == "arrow":
        return frame.to_arrow()
    return _library("pyarrow.dataset", "pyarrow.dataset.Dataset").dataset(frame.to_arrow())


def _library(name: str, wanted: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        extra = _EXTRAS[wanted.partition(".")[0]]
        raise InputError(
            f"an input is annotated `{wanted}`, but `{error.name}` is not installed",
            code="missing_extra",
            remediation=f"install the extra `barca[{extra}]`",
        ) from None


# --- values that were not stored as tables ----------------------------------------------------------


def formed(value: Any, form: TableForm, annotation: Any) -> Any:
    """A plain value where a table is asked for: itself if the annotation takes it too, records as a table.

    Raises:
        NotATable: It is neither.
    """
    return value if admits(annotation, type(value)) else form_table(records_table(records_of(value)), form)


def _as_form(value: Any, form: TableForm, annotation: Any) -> Any:
    try:
        return formed(value, form, annotation)
    except NotATable:
        return value


def _keyed(store: PackStore, pack: Pack, form: TableForm | None, annotation: Any) -> Any:
    """What a keyed source returned: its dict, its list, or its table."""
    pairs = read_keyed(store, pack.fragments).sort(ORDINAL)
    keys = pairs.get_column(KEY)
    texts = pairs.get_column(VALUE)
    values: list[Any] = json.loads(f"[{','.join(texts)}]") if texts.null_count() == 0 else []
    shape = pack.footer["form"]
    mapping, _ = mapping_value(annotation)
    if shape == "table" and not mapping:
        rows = read_keyed_rows(store, pack.fragments)
        if rows is not None:
            table = rows.sort(ORDINAL).get_column(ROW).struct.unnest()
            as_rows = form is None and list_item(annotation)[0]
            return table.to_dicts() if as_rows else form_table(table, form or "polars")
    if shape == "list" or (shape == "table" and not values):
        answer: Any = keys.to_list()
    else:
        answer = dict(zip(keys.to_list(), values, strict=True))
    if form is not None and not admits(annotation, type(answer)):
        raise InputError(
            f"`{pack.footer['node']}` returned a {shape} of keys, which is no table",
            code="annotation",
            node=pack.footer["node"],
            remediation=f"annotate `{shape}`, or nothing to be given what was returned",
        )
    return answer

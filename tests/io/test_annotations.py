"""What annotations ask for, resolved or not."""

from __future__ import annotations

import collections.abc
import subprocess
import sys
import typing as t
from typing import Annotated, Any, Optional, Union

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from barca.io.annotations import (
    admits,
    list_item,
    mapping_value,
    parameter_annotations,
    return_annotation,
    table_form,
)


@pytest.mark.parametrize(
    ("annotation", "form"),
    [
        (pl.DataFrame, "polars"),
        (pl.LazyFrame, "lazy"),
        (pa.Table, "arrow"),
        (ds.Dataset, "dataset"),
        (pd.DataFrame, "pandas"),
        (duckdb.DuckDBPyRelation, "duckdb"),
        (pl.DataFrame | None, "polars"),
        (Optional[pl.LazyFrame], "lazy"),
        (Union[int, pd.DataFrame, pl.DataFrame], "pandas"),
        (Annotated[pl.LazyFrame, "note"], "lazy"),
        (t.ForwardRef("pl.LazyFrame"), "lazy"),
        (None, None),
        (Any, None),
        (int, None),
        (list[pl.DataFrame], None),
        (dict[str, pl.DataFrame], None),
        ("pl.DataFrame", "polars"),
        ("DataFrame", "polars"),
        ("polars.LazyFrame | None", "lazy"),
        ("Optional[duckdb.DuckDBPyRelation]", "duckdb"),
        ("pa.Table", "arrow"),
        ("pyarrow.dataset.Dataset", "dataset"),
        ("ds.Dataset", "dataset"),
        ("pd.DataFrame", "pandas"),
        ("dict[str, pl.DataFrame]", None),
        ("list[pl.DataFrame] | None", None),
        ("dict[str, list[pl.DataFrame]]", None),
        ("Union[str, pl.LazyFrame]", "lazy"),
        ("Annotated[pl.DataFrame, 'x']", "polars"),
        ("other.DataFrame", None),
        ("str", None),
        ("not python [", None),
    ],
)
def test_table_types_are_found(annotation, form):
    assert table_form(annotation) == form


@pytest.mark.parametrize(
    ("annotation", "answer"),
    [
        (dict[str, int], (True, int)),
        (t.Dict[str, pl.LazyFrame], (True, pl.LazyFrame)),
        (collections.abc.Mapping[str, Any], (True, Any)),
        (dict, (True, None)),
        (dict[str, int] | None, (True, int)),
        ("dict[str, pl.DataFrame]", (True, "pl.DataFrame")),
        ("dict[str, dict[str, int]]", (True, "dict[str,int]")),
        ("t.Mapping[str, int]", (True, "int")),
        ("dict", (True, None)),
        (pl.DataFrame, (False, None)),
        (None, (False, None)),
        ("dictionary", (False, None)),
        (list[int], (False, None)),
    ],
)
def test_mappings_say_what_they_hold(annotation, answer):
    assert mapping_value(annotation) == answer


@pytest.mark.parametrize(
    ("annotation", "answer"),
    [
        (list[dict], (True, dict)),
        (list, (True, None)),
        (tuple[int, ...], (True, int)),
        (collections.abc.Sequence[str], (True, str)),
        (t.List[int], (True, int)),
        ("list[pl.LazyFrame]", (True, "pl.LazyFrame")),
        ("list", (True, None)),
        (list[int] | None, (True, int)),
        (dict[str, int], (False, None)),
        ("str", (False, None)),
        (str, (False, None)),
    ],
)
def test_sequences_say_what_they_hold(annotation, answer):
    assert list_item(annotation) == answer


def test_parameters_are_resolved_where_they_can_be():
    def function(a: pl.DataFrame, b: Missing, c: "dict[str, int]", d, *, e: int = 1) -> pl.LazyFrame: ...  # noqa: F821

    found = parameter_annotations(function)
    assert found == {"a": pl.DataFrame, "b": "Missing", "c": dict[str, int], "e": int}
    assert return_annotation(function) is pl.LazyFrame
    assert table_form(found["a"]) == "polars"
    assert parameter_annotations(len) == {}
    assert return_annotation(len) is None


def test_no_library_is_imported_for_an_annotation():
    code = (
        "import sys; from barca.io.annotations import table_form; "
        "assert table_form('duckdb.DuckDBPyRelation') == 'duckdb'; "
        "print([name for name in ('duckdb', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Point(t.TypedDict):
    x: int


class Names(dict):
    pass


@pytest.mark.parametrize(
    ("annotation", "taken", "refused"),
    [
        (dict, [dict], [list, str, pl.DataFrame]),
        (dict[str, int], [dict, Names], [list]),
        (Names, [dict, Names], [list]),
        (Point, [dict], [list, int]),
        (collections.abc.Mapping[str, int], [dict], [list]),
        (list[int], [list, tuple], [dict, int, set]),
        (tuple[int, ...], [list, tuple], [dict]),
        (collections.abc.Iterable, [list, dict, set], [int]),
        (float, [int, float, bool], [str, dict]),
        (str, [str], [int, bytes]),
        (int | None, [int, type(None)], [str]),
        (Annotated[str, "note"], [str], [list]),
        (pl.DataFrame, [pl.DataFrame], [dict, pd.DataFrame, pl.LazyFrame]),
        (pl.DataFrame | dict, [pl.DataFrame, dict], [list]),
        (t.ForwardRef("pl.DataFrame"), [pl.DataFrame], [dict]),
        ("pl.DataFrame", [pl.DataFrame], [dict]),
        ("dict[str, Nowhere]", [dict], [list]),
        ("list[Nowhere]", [list, tuple], [dict]),
        ("Nowhere", [dict, int], []),
        (Any, [dict, int], []),
        (object, [dict, int], []),
        (t.Literal["a"], [str, dict], []),
        (t.TypeVar("T"), [dict], []),
        (t.SupportsInt, [int], []),
    ],
    ids=str,
)
def test_what_an_annotation_takes(annotation, taken, refused):
    assert [kind for kind in [*taken, *refused] if admits(annotation, kind)] == taken

"""Fragments as the values that functions receive."""

from __future__ import annotations

import builtins
import importlib
import sys
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from barca.errors import FragmentError, InputError
from barca.io.values import read_value, read_values
from tests.io.packing import NODE, PATH, CountingFileStore, CountingMemoryStore, keep, only, split, work_keys

ONE = ("retailer",)
TABLE = pl.DataFrame({"x": [1, 2], "y": ["a", None]})


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    return CountingFileStore(tmp_path) if request.param == "disk" else CountingMemoryStore()


FORMS = {
    pl.DataFrame: lambda value: value,
    pl.LazyFrame: lambda value: value.collect(engine="in-memory"),
    pa.Table: pl.from_arrow,
    ds.Dataset: lambda value: pl.from_arrow(value.to_table()),
    pd.DataFrame: pl.from_pandas,
    duckdb.DuckDBPyRelation: lambda value: value.pl(),
}


@pytest.mark.parametrize("annotation", FORMS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_table_has_the_annotated_form(store, annotation):
    value = read_value(store, only(store, TABLE), annotation, ())
    assert isinstance(value, annotation)
    assert FORMS[annotation](value).equals(TABLE)
    keys = work_keys("a", "b", "c")
    fragments = split(store, TABLE.with_columns(retailer=pl.Series(["c", "a"])), keys)
    values = read_values(store, fragments, annotation, ONE)
    found = {key: FORMS[annotation](value).rows() for key, value in values.items()}
    assert found == {"retailer=a": [(2, None, "a")], "retailer=b": [], "retailer=c": [(1, "a", "c")]}


def test_values_are_in_the_order_of_the_fragments(store):
    keys = work_keys(*"abcd")
    fragments, _ = keep(store, [1, TABLE, (2,), {"x": 3}], keys)
    for order in (fragments, fragments.reverse(), fragments.sort("key")):
        assert list(read_values(store, order, None, ONE)) == order["key"].to_list()
    part = read_values(store, fragments.filter(pl.col("key").is_in(["retailer=d", "retailer=a"])), None, ONE)
    assert part == {"retailer=a": 1, "retailer=d": {"x": 3}}
    assert read_values(store, fragments.clear(), None, ONE) == {}


def test_each_pack_is_read_once(store):
    keys = work_keys(*"abcd")
    fragments, _ = keep(store, [1, TABLE, (2,), {"x": 3}], keys)
    store.calls.clear()
    read_values(store, fragments, None, ONE)
    assert dict(store.calls) == {"scan": 3}


def test_only_the_wanted_rows_of_a_pack_are_read(store, monkeypatch: pytest.MonkeyPatch):
    names = [f"r{at:03d}" for at in range(100)]
    fragments, _ = keep(store, range(100), work_keys(*names))
    heights = []
    collect = pl.LazyFrame.collect

    def spy(*arguments, **options):
        heights.append((frame := collect(*arguments, **options)).height)
        return frame

    wanted = fragments[40:43]
    monkeypatch.setattr(pl.LazyFrame, "collect", spy)
    assert list(read_values(store, wanted, None, ONE).values()) == [40, 41, 42]
    assert heights == [3]


def test_rows_as_dicts_where_a_list_is_asked_for(store):
    fragment = only(store, TABLE)
    rows = [{"x": 1, "y": "a"}, {"x": 2, "y": None}]
    for annotation in (list, list[dict], "list[dict]", list[dict] | None):
        assert read_value(store, fragment, annotation, ()) == rows
    assert read_value(store, fragment, object, ()).equals(TABLE)


def test_records_can_be_had_as_a_table(store):
    fragment = only(store, [{"x": 1, "y": "a"}, {"x": 2.5}])
    expected = pl.DataFrame({"x": [1.0, 2.5], "y": ["a", None]})
    for annotation, frame in FORMS.items():
        assert frame(read_value(store, fragment, annotation, ())).equals(expected)
    record = only(store, {"x": 1}, "n/record.parquet")
    assert read_value(store, record, pl.DataFrame, ()).rows() == [(1,)]
    assert read_value(store, fragment, list, ()) == [{"x": 1, "y": "a"}, {"x": 2.5}]


@pytest.mark.parametrize("value", [3, "text", [1], (1, 2), [{"x": 1}, {"x": "a"}]])
def test_what_is_no_table_is_given_as_it_is(store, value):
    assert read_value(store, only(store, value), pl.DataFrame, ()) == value


def test_a_pickled_table_of_the_annotated_type_is_itself(store):
    fragment = only(store, TABLE, serializer="pickle")
    assert read_value(store, fragment, pl.DataFrame, ()).equals(TABLE)
    assert read_value(store, fragment, pd.DataFrame, ()).equals(TABLE)


def test_a_lazy_value_reads_nothing_until_it_is_queried(store, monkeypatch: pytest.MonkeyPatch):
    fragments = split(store, TABLE.with_columns(retailer=pl.Series(["b", "a"])), work_keys("a", "b"))
    with monkeypatch.context() as patch:
        patch.setattr(pl.LazyFrame, "collect", lambda *_, **__: pytest.fail("read"))
        values = read_values(store, fragments, pl.LazyFrame, ONE)
    assert values["retailer=b"].select("x").collect(engine="in-memory").rows() == [(1,)]


@pytest.mark.parametrize(
    ("annotation", "module", "extra"),
    [
        ("pa.Table", "pyarrow", "arrow"),
        ("ds.Dataset", "pyarrow", "arrow"),
        ("pd.DataFrame", "pandas", "pandas"),
        ("pd.DataFrame", "pyarrow", "pandas"),
        ("duckdb.DuckDBPyRelation", "duckdb", "duckdb"),
    ],
)
def test_a_missing_library_names_its_extra(store, monkeypatch, annotation, module, extra):
    real = importlib.import_module

    def without(name, *arguments):
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return real(name, *arguments)

    fragment = only(store, TABLE)
    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(InputError, match=f"`{module}` is not installed") as caught:
        read_value(store, fragment, annotation, ())
    assert f"barca[{extra}]" in caught.value.remediation


class Gone:
    """A class that is not there any more when its pickle is loaded."""


def test_a_pickle_whose_class_is_gone_is_an_input_error(store, monkeypatch: pytest.MonkeyPatch):
    fragments, _ = keep(store, [Gone(), Gone()], work_keys("a", "b"))
    monkeypatch.delattr(sys.modules[__name__], "Gone")
    with pytest.raises(InputError, match="cannot be loaded: AttributeError") as caught:
        read_values(store, fragments, None, ONE)
    assert (caught.value.node, caught.value.key) == (NODE, "retailer=a")
    assert "--refresh node" in caught.value.remediation


def test_f9_a_pack_cut_or_gone_is_named(store):
    fragment = only(store, {"a": 1})
    if isinstance(store, CountingFileStore):
        (store.root / PATH).write_bytes((store.root / PATH).read_bytes()[:-20])
    else:
        store.packs[PATH] = (store.packs[PATH][0][:-20], store.packs[PATH][1])
    with pytest.raises(FragmentError, match=PATH):
        read_value(store, fragment, None, ())
    store.remove([PATH])
    with pytest.raises(FragmentError, match="missing"):
        read_value(store, fragment, None, ())


def test_f9_damaged_data_inside_a_whole_file_is_a_fragment_error(store):
    fragment = only(store, pl.DataFrame({"x": range(50_000)}))
    damage = b"\xff" * 100
    if isinstance(store, CountingFileStore):
        content = bytearray((store.root / PATH).read_bytes())
        content[4:104] = damage
        (store.root / PATH).write_bytes(bytes(content))
    else:
        content = bytearray(store.packs[PATH][0])
        content[4:104] = damage
        store.packs[PATH] = (bytes(content), store.packs[PATH][1])
    with pytest.raises(FragmentError, match=PATH):
        read_value(store, fragment, None, ())


def test_reading_polars_imports_no_other_library(store, monkeypatch: pytest.MonkeyPatch):
    fragment = only(store, TABLE)
    real = builtins.__import__

    def guarded(name, *arguments, **options):
        assert name.partition(".")[0] not in {"pandas", "duckdb"}
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", guarded)
    assert read_value(store, fragment, None, ()).equals(TABLE)

"""What parameters receive, by mode and annotation."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from barca.exec import binding
from barca.io import packs
from barca.io.fragments import pack_keyed
from barca.io.memory import MemoryPackStore
from barca.model import InputBinding
from barca.schemas import PATH
from tests.exec.works import (
    failures,
    make_work,
    run_batch,
    run_function,
    same_key,
    stored_values,
    succeeded,
    work_keys,
)

SOURCE = "steps.py:source"


@pytest.fixture
def store() -> MemoryPackStore:
    return MemoryPackStore()


def tables(values: list[str]) -> dict[str, pl.DataFrame]:
    return {value: pl.DataFrame({"x": [number, number + 1]}) for number, value in enumerate(values)}


def keyed(store: MemoryPackStore, returned: Any) -> InputBinding:
    fragment = pack_keyed(store, "versions/1.parquet", "steps.py:versions", returned, work_keys([()], ()))
    return InputBinding("versions", "steps.py:versions", "value", fragment, ("r",))


def collected(
    store: MemoryPackStore, values: dict[Any, Any], names: tuple[str, ...] = ("r",)
) -> InputBinding:
    return InputBinding("source", SOURCE, "collect", stored_values(store, SOURCE, values, names), names)


# --- one key a call ---------------------------------------------------------------------------------


def test_each_key_gets_its_own_value_in_any_order_of_fragments(store: MemoryPackStore) -> None:
    seen: dict[str, Any] = {}

    def step(r: str, source: dict[str, int]) -> int:
        seen[r] = source
        return 1

    fragments = stored_values(store, SOURCE, {"b": {"n": 2}, "a": {"n": 1}})
    run_function(step, make_work(["a", "b"], inputs=(same_key("source", fragments),)), store)
    assert seen == {"a": {"n": 1}, "b": {"n": 2}}


def test_inputs_of_many_keys_are_one_read(store: MemoryPackStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fragments = stored_values(store, SOURCE, tables([f"r{n}" for n in range(50)]))
    scans: list[Any] = []
    scan = MemoryPackStore.scan
    monkeypatch.setattr(MemoryPackStore, "scan", lambda *args: (scans.append(args), scan(*args))[1])
    work = make_work([f"r{n}" for n in range(50)], inputs=(same_key("source", fragments),))
    result = run_function(lambda r, source: source.height, work, store)
    assert len(succeeded(result)) == 50
    assert len(scans) == 1


def test_a_value_of_a_keyed_source_goes_to_its_key(store: MemoryPackStore) -> None:
    seen: dict[str, Any] = {}

    def step(r: str, versions: Any) -> int:
        seen[r] = versions
        return 1

    binding = keyed(store, {"c": {"v": [1, None]}, "b": 2.5, "a": "x"})
    run_function(step, make_work(["a", "c"], inputs=(binding,)), store)
    assert seen == {"a": "x", "c": {"v": [1, None]}}


MANY = {f"k{number:05}": number for number in range(4_000)}
"""More than the smaller row groups of these tests hold."""


@pytest.mark.parametrize(
    "keys", [["k00000"], ["k03999"], ["k02001", "k02000"], ["k03999", "k00007"], list(MANY)]
)
@pytest.mark.parametrize("group_size", [700, 1_000_000])
@pytest.mark.parametrize("table", [False, True])
def test_keys_get_their_values_of_a_large_source_however_it_lies(
    store: MemoryPackStore, monkeypatch: pytest.MonkeyPatch, keys: list[str], group_size: int, table: bool
) -> None:
    monkeypatch.setitem(packs.WRITE_OPTIONS, "row_group_size", group_size)
    returned = pl.DataFrame({"r": list(MANY), "n": list(MANY.values())}) if table else MANY
    source = keyed(store, returned)
    seen: list[Any] = []

    def as_dict(r: list[str], versions: dict[str, int]) -> dict[str, int]:
        seen.append(versions)
        return versions

    def as_table(r: list[str], versions: pl.DataFrame) -> pl.DataFrame:
        seen.append(dict(versions.rows()))
        return versions

    for _ in range(3):  # few, all of it, and what is kept
        result = run_batch(as_table if table else as_dict, keys, store, inputs=(source,))
        assert failures(result) == {}
    assert seen == [{key: MANY[key] for key in keys}] * 3
    result = run_batch(as_dict, ["k00000x"], store, inputs=(source,))
    assert "returned no value for `r=k00000x`" in failures(result)["r=k00000x"]


def test_few_keys_are_read_alone_once(store: MemoryPackStore, monkeypatch: pytest.MonkeyPatch) -> None:
    source = keyed(store, MANY)
    read: list[int] = []
    for name in ("read_keyed", "read_keyed_values"):
        original = getattr(binding, name)

        def counting(*values: Any, original: Any = original) -> pl.DataFrame:
            pairs = original(*values)
            read.append(pairs.height)
            return pairs

        monkeypatch.setattr(binding, name, counting)

    def step(r: list[str], versions: dict[str, int]) -> dict[str, int]:
        return versions

    for key in ("k00007", "k00008", "k00009"):
        run_batch(step, [key], store, inputs=(source,))
    assert read == [1, len(MANY)]
    run_batch(step, ["k00001"], store, inputs=(keyed(store, {**MANY, "k00001": 2}),))
    assert read[2:] == [1]


def test_a_store_that_cannot_tell_packs_apart_has_them_read_each_time(
    store: MemoryPackStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "stamps", lambda _: {})
    seen: list[int] = []

    def step(r: str, versions: int) -> int:
        seen.append(versions)
        return versions

    for value in range(3):
        run_function(step, make_work(["a"], inputs=(keyed(store, {"a": value}),)), store)
    assert seen == [0, 1, 2]


def test_a_key_that_a_keyed_source_has_not_is_named(store: MemoryPackStore) -> None:
    work = make_work(["a", "z"], inputs=(keyed(store, {"a": 1}),))
    assert "`r=z`" in failures(run_function(lambda r, versions: 1, work, store))["r=z"]


def test_calls_of_one_source_read_it_once_and_not_when_it_is_gone(
    store: MemoryPackStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    scan = store.scan
    monkeypatch.setattr(store, "scan", lambda paths, *rest: (read.extend(paths), scan(paths, *rest))[1])
    binding = keyed(store, {"a": 1, "b": 2})
    for key in ("a", "b", "a"):
        result = run_function(annotated(int, "versions"), make_work([key], inputs=(binding,)), store)
        assert failures(result) == {}
    assert SEEN[-3:] == [1, 2, 1] and read == ["versions/1.parquet"]
    again = keyed(store, {"a": 3})
    run_function(annotated(int, "versions"), make_work(["a"], inputs=(again,)), store)
    assert SEEN[-1] == 3, "the pack was written anew"
    store.remove(["versions/1.parquet"])
    assert (
        "missing"
        in failures(run_function(lambda r, versions: 1, make_work(["a"], inputs=(again,)), store))["r=a"]
    )


def test_whole_is_read_once_for_all_keys(store: MemoryPackStore) -> None:
    seen: list[Any] = []
    fragment = stored_values(store, SOURCE, {(): pl.DataFrame({"rate": [2.0]})}, ())
    binding = InputBinding("rates", SOURCE, "whole", fragment)
    work = make_work(["a", "b"], inputs=(binding,))
    run_function(lambda r, rates: seen.append(rates), work, store)
    assert seen[0] is seen[1]
    assert seen[0].item() == 2.0


def test_collect_is_a_list_in_key_order(store: MemoryPackStore) -> None:
    seen: list[Any] = []
    binding = collected(store, {"b": {"n": 2}, "a": {"n": 1}})
    run_function(lambda source: seen.append(source), make_work(inputs=(binding,)), store)
    assert seen == [[{"n": 2}, {"n": 1}]]


def test_f8_collect_of_no_keys_is_an_empty_list_or_table(store: MemoryPackStore) -> None:
    seen: list[Any] = []

    def lazily(source: pl.LazyFrame) -> None:
        seen.append(source.collect(engine="in-memory"))

    binding = collected(store, {"a": {"n": 1}})
    empty = InputBinding("source", SOURCE, "collect", binding.fragments.clear(), ("r",))
    run_function(lambda source: seen.append(source), make_work(inputs=(empty,)), store)
    run_function(lazily, make_work(inputs=(empty,)), store)
    assert seen[0] == []
    assert seen[1].columns == ["r"]
    assert seen[1].is_empty()


def test_collect_as_a_table_has_the_dimensions_first(store: MemoryPackStore) -> None:
    seen: list[pl.DataFrame] = []

    def step(source: pl.DataFrame) -> None:
        seen.append(source.sort("r", "x"))

    run_function(step, make_work(inputs=(collected(store, tables(["b", "a"])),)), store)
    assert seen[0].to_dict(as_series=False) == {"r": ["a", "a", "b", "b"], "x": [1, 2, 0, 1]}


def test_collect_as_a_list_of_annotated_values(store: MemoryPackStore) -> None:
    seen: list[Any] = []

    def step(source: list[pd.DataFrame]) -> None:
        seen.extend(source)

    run_function(step, make_work(inputs=(collected(store, tables(["a"])),)), store)
    assert isinstance(seen[0], pd.DataFrame)


def test_parameters_that_nothing_fills_keep_their_defaults(store: MemoryPackStore) -> None:
    seen: list[int] = []

    def step(r: str, limit: int = 7) -> None:
        seen.append(limit)

    run_function(step, make_work(["a"]), store)
    assert seen == [7]


def test_f9_keys_whose_pack_is_gone_fail_alone(store: MemoryPackStore) -> None:
    a, b = (stored_values(store, SOURCE, {value: {"n": 1}}) for value in "ab")
    store.remove(b.get_column(PATH).to_list())
    work = make_work(["a", "b"], inputs=(same_key("source", pl.concat([a, b])),))
    result = run_function(lambda r, source: source["n"], work, store)
    assert succeeded(result) == ["r=a"]
    message = failures(result)["r=b"]
    assert "`r=b`" in message
    assert b.item(0, PATH) in message


def test_an_input_in_a_form_it_has_not_is_an_error_of_the_key(store: MemoryPackStore) -> None:
    def step(r: str, source: pl.LazyFrame) -> int:
        return 1

    work = make_work(["a"], inputs=(same_key("source", stored_values(store, SOURCE, {"a": 5})),))
    assert failures(run_function(step, work, store))["r=a"] == (
        "the parameter `source` of `steps.py:step`, annotated `polars.LazyFrame`, cannot be given: what "
        "`steps.py:source` returned for `r=a` is no table: it is neither a record nor a list of records but a "
        "`int` (annotate `int`, or nothing to be given what was returned)"
    )


def annotated(annotation: Any, parameter: str = "source") -> Any:
    def step(**given: Any) -> int:
        SEEN.append(given[parameter])
        return 1

    step.__annotations__ = {parameter: annotation}
    return step


SEEN: list[Any] = []
RECORDS = [{"x": 1}, {"x": 2}]


def test_only_keys_whose_value_does_not_fit_fail(store: MemoryPackStore) -> None:
    values = {"a": {"x": 1}, "b": [1], "c": None, "d": pl.DataFrame({"x": [1]})}
    work = make_work(list(values), inputs=(same_key("source", stored_values(store, SOURCE, values)),))
    result = run_function(annotated(dict[str, int]), work, store)
    assert succeeded(result) == ["r=a", "r=c"]
    told = failures(result)
    assert told["r=b"] == (
        "the parameter `source` of `steps.py:step`, annotated `dict[str, int]`, cannot be given: "
        "`steps.py:source` returned a `list` for `r=b` (annotate `list`, or nothing to be given what was "
        "returned)"
    )
    assert "returned a table for `r=d`" in told["r=d"]
    assert "`list[dict]` for its rows" in told["r=d"]


@pytest.mark.parametrize("annotation", [dict, dict[str, int], "dict[str, int]", str, "str", int, float, set])
def test_a_table_is_not_given_as_something_else(store: MemoryPackStore, annotation: Any) -> None:
    fragments = stored_values(store, SOURCE, tables(["a"]))
    one = make_work(["a"], inputs=(same_key("source", fragments),))
    assert "returned a table" in failures(run_function(annotated(annotation), one, store))["r=a"]
    binding = InputBinding(
        "source", SOURCE, "whole", stored_values(store, SOURCE, {(): tables(["a"])["a"]}, ())
    )
    whole = make_work(inputs=(binding,))
    assert "returned a table (" in failures(run_function(annotated(annotation), whole, store))[""]


def test_records_become_the_table_that_is_asked_for_however_they_are_read(store: MemoryPackStore) -> None:
    SEEN.clear()
    frame = pl.DataFrame({"x": [1, 2]})
    fragments = stored_values(store, SOURCE, {"a": RECORDS})
    each = make_work(["a"], inputs=(same_key("source", fragments),))
    whole = InputBinding("source", SOURCE, "whole", stored_values(store, SOURCE, {(): RECORDS}, ()))
    value = make_work(["a"], inputs=(keyed(store, {"a": RECORDS}),))
    runs = [
        run_function(annotated(pl.DataFrame), each, store),
        run_function(annotated(pl.DataFrame), make_work(inputs=(whole,)), store),
        run_function(annotated(pl.DataFrame, "versions"), value, store),
    ]
    assert [failures(result) for result in runs] == [{}, {}, {}]
    assert all(seen.equals(frame) for seen in SEEN)
    SEEN.clear()
    run_batch(annotated(dict[str, pl.DataFrame]), ["a"], store, inputs=(same_key("source", fragments),))
    batch = annotated(dict[str, pl.DataFrame], "versions")
    run_batch(batch, ["a"], store, inputs=(keyed(store, {"a": RECORDS}),))
    collect = make_work(inputs=(collected(store, {"a": RECORDS}),))
    run_function(annotated(list[pl.DataFrame]), collect, store)
    assert [seen["a"].equals(frame) for seen in SEEN[:2]] + [SEEN[2][0].equals(frame)] == [True] * 3


def test_a_keyed_value_that_does_not_fit_fails_its_key(store: MemoryPackStore) -> None:
    work = make_work(["a", "b"], inputs=(keyed(store, {"a": RECORDS, "b": 3}),))
    result = run_function(annotated(pl.DataFrame, "versions"), work, store)
    assert succeeded(result) == ["r=a"]
    assert "what `steps.py:versions` returned for `r=b` is no table" in failures(result)["r=b"]


@pytest.mark.parametrize("annotation", [dict[str, int], dict, "dict[str, int]", int, str])
def test_collect_gives_no_dict_and_no_scalar(store: MemoryPackStore, annotation: Any) -> None:
    work = make_work(inputs=(collected(store, {"b": 1, "a": 2}),))
    told = failures(run_function(annotated(annotation), work, store))[""]
    assert told.startswith("the parameter `source` of `steps.py:step`, annotated `")
    assert "collect() gives a list of every key's value (annotate `list`, or nothing; or, where its" in told


def test_an_item_of_collect_that_does_not_fit_is_named(store: MemoryPackStore) -> None:
    work = make_work(inputs=(collected(store, {"b": 1, "a": {"n": 2}}),))
    told = failures(run_function(annotated(list[dict]), work, store))[""]
    assert "`steps.py:source` returned a `int` for `r=b`" in told


@pytest.mark.parametrize("annotation", [list, list[int], str])
def test_a_batch_gets_no_list(store: MemoryPackStore, annotation: Any) -> None:
    fragments = stored_values(store, SOURCE, {"a": 1})
    own = run_batch(annotated(annotation), ["a"], store, inputs=(same_key("source", fragments),))
    value = run_batch(annotated(annotation, "versions"), ["a"], store, inputs=(keyed(store, {"a": 1}),))
    for result in (own, value):
        assert "a call with batch= is given a dict of key to value" in failures(result)["r=a"]


def hint(result: Any) -> str:
    """What the message of the first failed key says to write."""
    return next(iter(failures(result).values())).rpartition("; or annotate `")[2].partition("`")[0]


@pytest.mark.parametrize("value", [1, "text"])
@pytest.mark.parametrize("annotation", [pl.LazyFrame, pl.DataFrame, "duckdb.DuckDBPyRelation"])
def test_who_does_what_a_message_says_is_given_what_there_is(
    store: MemoryPackStore, annotation: Any, value: Any
) -> None:
    fragments = stored_values(store, SOURCE, {"a": value})
    collects = make_work(inputs=(InputBinding("source", SOURCE, "collect", fragments, ("r",)),))
    assert hint(run_function(annotated(annotation), collects, store)) == "list[T]"
    assert failures(run_function(annotated(list[type(value)]), collects, store)) == {}
    own = (same_key("source", fragments),)
    assert hint(run_batch(annotated(annotation), ["a"], store, inputs=own)) == "dict[str, T]"
    SEEN.clear()
    run_batch(annotated(dict[str, type(value)]), ["a"], store, inputs=own)
    assert SEEN == [{"a": value}]


def test_items_that_do_not_fit_are_told_with_what_is_around_them(store: MemoryPackStore) -> None:
    collects = make_work(inputs=(collected(store, {"a": "text"}),))
    told = failures(run_function(annotated(list[int]), collects, store))[""]
    assert "annotate `list[str]`, or nothing" in told
    own = (same_key("source", stored_values(store, SOURCE, {"a": pl.DataFrame({"x": [1]})})),)
    told = failures(run_batch(annotated(dict[str, int]), ["a"], store, inputs=own))["r=a"]
    assert (
        "annotate `dict[str, pl.DataFrame]`, another table, or `dict[str, list[dict]]` for its rows" in told
    )


def test_a_whole_keyed_source_is_no_table(store: MemoryPackStore) -> None:
    fragment = pack_keyed(store, "v/1.parquet", "steps.py:versions", {"a": {"x": 1}}, work_keys([()], ()))
    work = make_work(inputs=(InputBinding("versions", "steps.py:versions", "whole", fragment),))
    told = failures(run_function(annotated(pl.DataFrame, "versions"), work, store))[""]
    assert "returned a dict of keys, which is no table" in told


# --- many keys a call -------------------------------------------------------------------------------


def test_dimensions_of_a_batch_are_aligned_lists(store: MemoryPackStore) -> None:
    seen: dict[str, Any] = {}

    def step(b: list[str], a: list[str]) -> dict[Any, int]:
        seen.update(a=a, b=b)
        return {(x, y): 1 for x, y in zip(b, a, strict=True)}

    result = run_batch(step, [("x", "1"), ("y", "2")], store, names=("b", "a"))
    assert seen == {"a": ["1", "2"], "b": ["x", "y"]}
    assert succeeded(result) == ["a=1/b=x", "a=2/b=y"]


def test_a_batch_gets_a_dict_by_raw_value_or_display_text(store: MemoryPackStore) -> None:
    seen: list[Any] = []

    def step(source: Any, **dimensions: Any) -> dict[Any, int]:
        seen.append(source)
        return dict.fromkeys(source, 1)

    one = same_key("source", stored_values(store, SOURCE, {"x y": 1, "z": 2}))
    assert succeeded(run_batch(step, ["x y", "z"], store, inputs=(one,))) == ["r=x y", "r=z"]
    names = ("a", "b")
    two = same_key("source", stored_values(store, SOURCE, {("1", "x"): 3}, names), names)
    assert succeeded(run_batch(step, [("1", "x")], store, names=names, inputs=(two,))) == ["a=1/b=x"]
    assert seen == [{"x y": 1, "z": 2}, {"a=1,b=x": 3}]


FORMS: dict[str, Any] = {
    "lazy": (pl.LazyFrame, lambda table: table.collect(engine="in-memory")),
    "polars": (pl.DataFrame, lambda table: table),
    "arrow": (pa.Table, pl.from_arrow),
    "dataset": (ds.Dataset, lambda table: pl.from_arrow(table.to_table())),
    "duckdb": (duckdb.DuckDBPyRelation, lambda table: table.pl()),
    "pandas": (pd.DataFrame, pl.from_pandas),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_gets_one_table_over_its_keys(store: MemoryPackStore, form: str) -> None:
    annotation, framed = FORMS[form]
    seen: list[pl.DataFrame] = []

    def step(r, source):  # type: ignore[no-untyped-def]
        assert isinstance(source, annotation)
        seen.append(framed(source).sort("r", "x"))
        return dict.fromkeys(r, 1)

    step.__annotations__["source"] = annotation
    fragments = stored_values(store, SOURCE, tables(["a", "b", "c"]))
    result = run_batch(step, ["a", "c"], store, inputs=(same_key("source", fragments[[0, 2]]),))
    assert failures(result) == {}
    assert seen[0].to_dict(as_series=False) == {"r": ["a", "a", "c", "c"], "x": [0, 1, 2, 3]}


def test_a_batch_gets_a_dict_of_annotated_values(store: MemoryPackStore) -> None:
    def step(r: list[str], source: dict[str, pa.Table]) -> dict[str, int]:
        return {key: source[key].num_rows for key in r}

    fragments = stored_values(store, SOURCE, tables(["a", "b"]))
    assert failures(run_batch(step, ["a", "b"], store, inputs=(same_key("source", fragments),))) == {}


def test_values_of_a_keyed_source_as_a_dict_and_as_a_table(store: MemoryPackStore) -> None:
    seen: list[Any] = []

    def as_dict(r: list[str], versions: dict[str, int]) -> dict[str, int]:
        seen.append(versions)
        return versions

    def as_table(r: list[str], versions: pl.DataFrame) -> pl.DataFrame:
        seen.append(versions.to_dict(as_series=False))
        return versions

    binding = keyed(store, {"a": 1, "b": 2, "c": 3})
    assert failures(run_batch(as_dict, ["c", "a"], store, inputs=(binding,))) == {}
    assert failures(run_batch(as_table, ["c", "a"], store, inputs=(binding,))) == {}
    assert seen == [{"c": 3, "a": 1}, {"r": ["c", "a"], "value": [3, 1]}]


def test_annotations_that_do_not_resolve_are_read_by_name(store: MemoryPackStore) -> None:
    seen: list[Any] = []

    def step(r: list[str], source: "pl.LazyFrame", other: "Nowhere" = None) -> dict[str, int]:  # type: ignore[name-defined]  # noqa: F821, UP037
        seen.append(source)
        return dict.fromkeys(r, 1)

    step.__annotations__ = {"r": "list[str]", "source": "pl.LazyFrame", "other": "Nowhere"}
    fragments = stored_values(store, SOURCE, tables(["a"]))
    assert failures(run_batch(step, ["a"], store, inputs=(same_key("source", fragments),))) == {}
    assert isinstance(seen[0], pl.LazyFrame)

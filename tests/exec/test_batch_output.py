"""What batched functions may answer, and what becomes of each key."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from barca.io.memory import MemoryPackStore
from barca.io.values import read_values
from barca.errors import Failed
from barca.schemas import KEY, PATH, ROWS
from tests.exec.works import failures, run_batch, succeeded

KEYS = ["r1", "r2", "r3"]


def stored(store: MemoryPackStore, result: Any) -> dict[str, Any]:
    return read_values(store, result.fragments.sort(KEY), None, ("r",))


def test_a_dict_is_one_pack_with_a_fragment_per_key() -> None:
    store = MemoryPackStore()
    result = run_batch(lambda r: {key: {"name": key} for key in r}, KEYS, store)
    assert succeeded(result) == ["r=r1", "r=r2", "r=r3"]
    assert result.fragments.get_column(PATH).n_unique() == 1
    assert stored(store, result) == {f"r={key}": {"name": key} for key in KEYS}


def test_b2_keys_without_an_answer_fail_by_name_and_the_others_are_kept() -> None:
    result = run_batch(lambda r: {key: 1 for key in r if key != "r2"}, KEYS)
    assert failures(result) == {"r=r2": "no result for r=r2"}
    assert result.fragments.height == 2
    assert not result.raised


def test_b2_an_answer_for_another_key_fails_the_call_and_names_it() -> None:
    result = run_batch(lambda r: {**dict.fromkeys(r, 1), "r9": 1}, KEYS)
    assert result.raised
    assert result.fragments.is_empty()
    assert all("`r=r9`" in message for message in failures(result).values())
    assert len(failures(result)) == 3


def test_b2_a_key_given_twice_is_an_error_naming_it() -> None:
    result = run_batch(lambda r: {"1": 1, 1: 2}, ["1", "2"])
    assert result.raised
    assert "answered twice for `r=1`" in failures(result)["r=1"]


def test_failed_fails_its_key_with_its_reason() -> None:
    result = run_batch(lambda r: {**dict.fromkeys(r, 1), "r2": Failed("no stock")}, KEYS)
    assert failures(result) == {"r=r2": "no stock"}
    assert succeeded(result) == ["r=r1", "r=r3"]
    assert not result.raised


def test_dict_keys_are_matched_by_their_string_form() -> None:
    day = dt.date(2026, 10, 1)
    assert succeeded(run_batch(lambda r: {1: "a", day: "b"}, ["1", "2026-10-01"])) == ["r=1", "r=2026-10-01"]


def test_several_dimensions_are_matched_by_tuple_or_text() -> None:
    keys = [("1", "x"), ("2", "y"), ("3", "z")]
    answer = {(1, "x"): 1, "a=2,b=y": 2, "a=3/b=z": 3}
    result = run_batch(lambda a, b: answer, keys, names=("a", "b"))
    assert succeeded(result) == ["a=1/b=x", "a=2/b=y", "a=3/b=z"]


def frame() -> pl.DataFrame:
    return pl.DataFrame({"r": ["r2", "r1", "r2"], "n": [1, 2, 3]})


TABLES: dict[str, Any] = {
    "polars": frame,
    "lazy": lambda: frame().lazy(),
    "arrow": lambda: frame().to_arrow(),
    "pandas": lambda: frame().to_pandas(),
    "duckdb": lambda: duckdb.from_arrow(frame().to_arrow()),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_is_split_by_its_dimension_column(kind: str) -> None:
    result = run_batch(lambda r: TABLES[kind](), KEYS)
    assert failures(result) == {}
    rows = dict(result.fragments.select(KEY, ROWS).iter_rows())
    assert rows == {"r=r1": 1, "r=r2": 2, "r=r3": 0}


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Categorical, pl.Enum(["1", "2"]), pl.String])
def test_b7_a_dimension_column_of_any_type_is_matched_by_text(dtype: Any) -> None:
    table = pl.DataFrame({"r": pl.Series(["1", "2"]).cast(dtype), "n": [1, 2]})
    assert succeeded(run_batch(lambda r: table, ["1", "2"])) == ["r=1", "r=2"]


def test_b7_dates_match_and_a_null_is_an_extra_key() -> None:
    days = pl.DataFrame({"r": [dt.date(2026, 10, 1)], "n": [1]})
    assert succeeded(run_batch(lambda r: days, ["2026-10-01"])) == ["r=2026-10-01"]
    with_null = run_batch(lambda r: pl.DataFrame({"r": ["r1", None]}), KEYS)
    assert with_null.raised
    assert "null" in failures(with_null)["r=r1"]


def test_a_table_without_the_dimension_column_names_it_and_the_columns() -> None:
    result = run_batch(lambda r: pl.DataFrame({"retailer": r}), KEYS)
    assert result.raised
    assert "`r`" in failures(result)["r=r1"]
    assert "`retailer`" in failures(result)["r=r1"]


@pytest.mark.parametrize("answer", [None, 5, [1, 2, 3], "text", (1, 2)])
def test_what_is_neither_dict_nor_table_fails_the_call(answer: Any) -> None:
    result = run_batch(lambda r: answer, KEYS)
    assert result.raised
    assert "return a dict of key to value" in failures(result)["r=r1"]


def test_b1_a_call_that_raises_fails_all_keys_as_a_whole() -> None:
    def step(r: list[str]) -> dict[str, int]:
        raise ValueError("boom")

    result = run_batch(step, KEYS)
    assert result.raised
    assert failures(result) == dict.fromkeys(["r=r1", "r=r2", "r=r3"], "boom")


def test_a_lazy_query_that_fails_is_the_failure_of_the_call() -> None:
    result = run_batch(lambda r: pl.LazyFrame({"r": r}).with_columns(n=pl.col("nowhere")), KEYS)
    assert result.raised
    assert set(result.outcomes.get_column("error_type")) == {"ColumnNotFoundError"}


def test_f10_one_value_that_cannot_be_stored_fails_its_key_alone() -> None:
    odd = pl.DataFrame({"thing": pl.Series([object()], dtype=pl.Object)})
    result = run_batch(lambda r: {"r1": 1, "r2": odd, "r3": pl.DataFrame({"a": [1]})}, KEYS)
    assert succeeded(result) == ["r=r1", "r=r3"]
    assert "`r=r2`" in failures(result)["r=r2"]
    assert "`thing`" in failures(result)["r=r2"]


def test_f10_a_table_that_cannot_be_stored_names_its_column() -> None:
    odd = pl.DataFrame({"r": ["r1"], "thing": pl.Series([object()], dtype=pl.Object)})
    result = run_batch(lambda r: odd, KEYS)
    assert "`thing`" in failures(result)["r=r1"]
    assert result.fragments.is_empty()


# --- generators -------------------------------------------------------------------------------------


def test_b8_pairs_yielded_before_an_error_are_kept() -> None:
    def step(r: list[str]) -> Iterator[tuple[str, int]]:
        for number, key in enumerate(r):
            if number == 60:
                raise RuntimeError("lost the connection")
            yield key, number

    result = run_batch(step, [f"k{number:03}" for number in range(100)])
    assert len(succeeded(result)) == 60
    assert set(failures(result).values()) == {"lost the connection"}
    assert result.raised


def test_b8_tables_yielded_before_an_error_are_kept() -> None:
    store = MemoryPackStore()

    def step(r: list[str]) -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"r": ["r1"], "n": [1]})
        yield pl.DataFrame({"r": ["r2", "r2"], "n": [2, 3]})
        raise RuntimeError("lost")

    result = run_batch(step, KEYS, store)
    assert succeeded(result) == ["r=r1", "r=r2"]
    assert result.fragments.get_column(PATH).n_unique() == 1
    assert {key: value.height for key, value in stored(store, result).items()} == {"r=r1": 1, "r=r2": 2}


def test_a_generator_of_tables_that_ends_leaves_other_keys_without_rows() -> None:
    def step(r: list[str]) -> Iterator[Any]:
        yield pl.DataFrame({"r": ["r1"], "n": [1]}).to_arrow()
        yield {"r2": pl.DataFrame({"n": [5]})}

    result = run_batch(step, KEYS)
    assert failures(result) == {}
    assert dict(result.fragments.select(KEY, ROWS).iter_rows()) == {"r=r1": 1, "r=r2": 1, "r=r3": 0}


def test_a_generator_of_pairs_that_ends_fails_the_keys_it_left_out() -> None:
    result = run_batch(lambda r: iter([("r1", 1)]), KEYS)
    assert failures(result) == {"r=r2": "no result for r=r2", "r=r3": "no result for r=r3"}


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([("r1", 1), ("r1", 2)], "answered twice for `r=r1`"),
        ([pl.DataFrame({"r": ["r1"]}), ("r1", 2)], "answered twice for `r=r1`"),
        ([pl.DataFrame({"r": ["r1"]}), pl.DataFrame({"r": ["r1"]})], "answered twice for `r=r1`"),
        ([("r1", 1), ("r9", 2)], "answered for `r=r9`"),
        ([pl.DataFrame({"r": ["r9"]})], "answered for `r=r9`"),
        ([pl.DataFrame({"x": ["r9"]})], "without a column `r`"),
        ([5], "yielded a value of type `int`"),
    ],
)
def test_pieces_that_do_not_fit_fail_the_call(pieces: list[Any], message: str) -> None:
    result = run_batch(lambda r: iter(pieces), KEYS)
    assert result.raised
    assert result.fragments.is_empty()
    assert message in failures(result)["r=r2"]


def test_tables_of_other_libraries_in_a_dict() -> None:
    answer = {"r1": pd.DataFrame({"a": [1]}), "r2": pa.table({"a": [1]}), "r3": pl.LazyFrame({"a": [1]})}
    assert failures(run_batch(lambda r: answer, KEYS)) == {}


def test_an_answer_that_does_not_fit_fails_no_key_for_a_reason_of_its_own() -> None:
    result = run_batch(lambda r: {"r1": Failed("closed"), "r9": 1}, ["r1", "r2"])
    assert all("r9" in message for message in failures(result).values())
    assert len(failures(result)) == 2
    assert result.raised


def test_a_tuple_that_is_no_pair_is_no_answer() -> None:
    result = run_batch(lambda r: iter([("r1", 1, 2)]), ["r1", "r2"])
    assert all("yielded a value of type `tuple`" in message for message in failures(result).values())
    assert result.malformed

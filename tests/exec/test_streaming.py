"""What a batched function yields is stored while it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from barca.errors import LedgerError
from barca.exec.inline import InlineExecutor
from barca.exec.parts import PartReader, PartWriter
from barca.io.memory import MemoryPackStore
from barca.io.values import read_values
from barca.schemas import KEY, PATH
from tests.exec.works import definition_of, failures, make_work, run_function, succeeded, values_of

KEYS = [f"k{number}" for number in range(6)]


class Kept:
    """A `Keep` that remembers."""

    def __init__(self) -> None:
        self.parts: list[pl.DataFrame] = []

    def __call__(self, fragments: pl.DataFrame, elapsed_seconds: float, /, *, commit: bool = False) -> None:
        assert elapsed_seconds > 0
        self.parts.append(fragments)

    @property
    def keys(self) -> list[str]:
        return [key for part in self.parts for key in part.get_column(KEY)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that comes in is stored at once."""
    monkeypatch.setattr("barca.exec.streaming.FIRST_SECONDS", 0.0)
    monkeypatch.setattr("barca.exec.streaming._COSTS", 0)
    monkeypatch.setattr("barca.exec.streaming._PARTS", 1e9)


def test_b8_what_was_yielded_is_told_before_the_call_ends_and_not_again() -> None:
    kept, store = Kept(), MemoryPackStore()
    seen: list[list[str]] = []

    def step(r: list[str]) -> Iterator[tuple[str, int]]:
        for number, key in enumerate(r):
            seen.append(list(kept.keys))
            if number == 4:
                raise RuntimeError("late")
            yield key, number

    result = run_function(step, make_work(KEYS, batched=True), store, keep=kept)
    assert seen[-1] == kept.keys == ["r=k0", "r=k1", "r=k2", "r=k3"], "each was stored before the next"
    assert succeeded(result) == []
    assert failures(result) == {"r=k4": "late", "r=k5": "late"}
    assert result.raised
    held = pl.concat(kept.parts)
    assert held.get_column(PATH).n_unique() == 4
    assert read_values(store, held, None, ("r",)) == {f"r=k{number}": number for number in range(4)}


def test_tables_told_early_and_keys_without_rows_at_the_end() -> None:
    kept, store = Kept(), MemoryPackStore()

    def step(r: list[str]) -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"r": ["k0", "k0", "k1"], "n": [1, 2, 3]})
        yield pl.DataFrame({"r": ["k2"], "n": [4]})

    result = run_function(step, make_work(KEYS, batched=True), store, keep=kept)
    assert failures(result) == {}
    assert kept.keys == ["r=k0", "r=k1", "r=k2"]
    assert succeeded(result) == ["r=k3", "r=k4", "r=k5"]
    values = read_values(store, pl.concat([*kept.parts, result.fragments]), None, ("r",))
    assert {key: value.height for key, value in values.items()} == {
        "r=k0": 2, "r=k1": 1, "r=k2": 1, "r=k3": 0, "r=k4": 0, "r=k5": 0,
    }  # fmt: skip
    assert {tuple(value.columns) for value in values.values()} == {("r", "n")}


def test_what_waits_is_stored_though_nothing_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barca.exec.streaming.FIRST_SECONDS", 0.05)
    kept, told = Kept(), list[str]()

    def step(r: list[str]) -> Iterator[tuple[str, int]]:
        yield from [("k0", 0), ("k1", 1), ("k2", 2)]
        deadline = time.monotonic() + 30
        while len(kept.keys) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        told.extend(kept.keys)
        raise RuntimeError("late")

    result = run_function(step, make_work(KEYS, batched=True), keep=kept)
    assert told == ["r=k0", "r=k1", "r=k2"], "while the call was still on"
    assert sorted(failures(result)) == ["r=k3", "r=k4", "r=k5"]


def test_a_failed_key_and_one_that_cannot_be_stored_fail_alone() -> None:
    from barca import Failed

    kept = Kept()

    def step(r: list[str]) -> Iterator[tuple[str, Any]]:
        yield "k0", Failed("no data")
        yield "k1", threading.Lock()
        yield from ((key, 1) for key in r[2:])

    result = run_function(step, make_work(KEYS, batched=True), keep=kept)
    assert not result.raised
    assert failures(result)["r=k0"] == "no data" and "pickle" in failures(result)["r=k1"]
    assert kept.keys + succeeded(result) == ["r=k2", "r=k3", "r=k4", "r=k5"]


def test_a_wrong_answer_ends_the_call_and_what_was_stored_stands() -> None:
    kept = Kept()
    closed: list[bool] = []

    def step(r: list[str]) -> Iterator[tuple[str, int]]:
        try:
            yield "k0", 0
            yield "zz", 1
            yield "k1", 1
        finally:
            closed.append(True)

    result = run_function(step, make_work(KEYS, batched=True), keep=kept)
    assert result.raised and closed
    assert kept.keys == ["r=k0"]
    assert "zz" in failures(result)["r=k1"]
    assert "r=k0" not in failures(result)


def test_time_spent_storing_is_a_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    kept = Kept()

    def step(r: list[str]) -> Iterator[tuple[str, int]]:
        yield from ((key, 1) for key in r)

    run_function(step, make_work([f"k{n}" for n in range(2000)], batched=True), keep=kept)
    assert len(kept.parts) <= 2, "thousands of answers at once are not thousands of files"


def test_what_keeping_raises_is_no_failure_of_the_step() -> None:
    def step(r: list[str]) -> Iterator[tuple[str, int]]:
        yield from ((key, 1) for key in r)

    def broken(*_: object, commit: bool) -> None:
        raise LedgerError("the disk is full")

    executor = InlineExecutor(MemoryPackStore(), lambda _: definition_of(step), quiet=True)
    executor.submit(make_work(KEYS, batched=True), broken)
    with pytest.raises(LedgerError, match="disk is full"):
        executor.wait(None)


def test_the_timeout_stands_still_while_something_is_stored() -> None:
    def slow(*_: object, commit: bool = False) -> None:
        time.sleep(0.3)

    def step(r: list[str]) -> Iterator[tuple[str, int]]:
        yield "k0", 0
        yield from ((key, 1) for key in r[1:])

    result = run_function(step, make_work(KEYS, batched=True, timeout_seconds=1.0), keep=slow)
    assert failures(result) == {}


def test_parts_are_read_once_and_in_order(tmp_path: Any) -> None:
    progress = tmp_path / "run-b1.progress"
    write, reader = PartWriter(progress), PartReader(progress)
    frames = [pl.DataFrame({KEY: [name]}) for name in "abc"]
    assert reader.read() == []
    write(frames[0], 0.5)
    write(frames[1], 1.0)
    assert [(frame.item(), seconds) for frame, seconds in reader.read()] == [("a", 0.5), ("b", 1.0)]
    write(frames[2], 1.5)
    assert [frame.item() for frame, _ in reader.read()] == ["c"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["pairs", "dicts", "tables", "relations"])
def test_what_was_yielded_is_not_changed_by_what_follows(form: str) -> None:
    row: dict[str, str] = {}
    numbers = np.zeros(1)
    database = duckdb.connect()

    def function(r: list[str]) -> Any:
        for key in r:
            row["key"] = key
            numbers[0] = ord(key)
            database.execute("create or replace table t as select ? as key", [key])
            yield {
                "pairs": (key, row),
                "dicts": {key: row},
                "tables": pl.DataFrame({"r": [key], "key": numbers}),
                "relations": (key, database.table("t")),
            }[form]

    store = MemoryPackStore()
    work = make_work(["a", "b", "c"], batched=True)
    values = values_of(store, work, run_function(function, work, store))
    kept = [value["key"] if isinstance(value, dict) else value["key"].item() for value in values]
    assert kept == ([97.0, 98.0, 99.0] if form == "tables" else ["a", "b", "c"])


def test_a_yielded_table_that_cannot_be_computed_fails_its_key_alone() -> None:
    def function(r: list[str]) -> Any:
        for key in r:
            yield key, pl.LazyFrame({"x": [1]}).select("x" if key != "b" else "nowhere")

    result = run_function(function, make_work(["a", "b", "c"], batched=True))
    assert succeeded(result) == ["r=a", "r=c"]
    assert "nowhere" in failures(result)["r=b"]


def test_a_generator_that_somebody_holds_is_closed_where_its_answer_is_wrong() -> None:
    held: list[Any] = []

    def step(r: list[str]) -> Iterator[tuple[str, int]]:
        held.append(("zz", key) for key in r)
        return held[0]

    run_function(step, make_work(KEYS, batched=True), keep=Kept())
    assert held[0].gi_frame is None


def test_a_generator_does_not_go_on_once_something_could_not_be_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("barca.exec.streaming.FIRST_SECONDS", 0.05)
    tried, went_on = threading.Event(), []

    def keep(*_: Any, **__: Any) -> None:
        if not tried.is_set():
            tried.set()
            raise LedgerError("the disk is full", code="full")

    def step(r: list[str]) -> Iterator[tuple[str, int]]:
        yield "k0", 0
        tried.wait(30)
        time.sleep(0.05)
        yield "k1", 1
        went_on.append("k2")

    result = run_function(step, make_work(KEYS, batched=True), keep=keep)
    assert "the disk is full" in failures(result)["r=k5"]
    assert went_on == []

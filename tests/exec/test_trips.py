"""Quick batched calls in one work: each a call of its own, their answers one pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from barca.errors import Failed
from barca.exec import trips
from barca.exec.call import Interrupted, execute, recover
from barca.exec.records import Ended, call_rows, materialization_rows
from barca.exec.spill import Spill, read_spill
from barca.exec.division import failed_result, own_death, part_of, parts_of
from barca.io.logs import read_logs
from barca.io.memory import MemoryPackStore
from barca.model import Fingerprint, InputBinding, Work, WorkerDied, WorkResult
from barca.records import replace
from barca.schemas import CALL, ELAPSED_SECONDS, KEY, MAX_RSS_BYTES, PATH
from tests.exec.works import (
    definition_of,
    failures,
    make_work,
    run_function,
    stored_values,
    succeeded,
    values_of,
    work_keys,
)
from tests.exec.works import NODE as NAME

KEYS = list("abcdef")


def make_trip(*sizes: int, **fields: Any) -> Work:
    calls = tuple((f"b{number}", size) for number, size in enumerate(sizes, 1))
    return make_work(KEYS[: sum(sizes)], batched=True, id="b1", calls=calls, **fields)


def table(r: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame({"r": list(r), "x": [len(r)] * len(r)})


def came(work: Work, result: WorkResult) -> list[tuple[str, list[str], list[str]]]:
    """Of each part: its first call, and the keys that succeeded and failed."""
    return [(part.id, succeeded(one), sorted(failures(one))) for part, one in parts_of(work, result)]


@pytest.mark.parametrize(
    "function",
    [table, lambda r: {key: {"x": len(r)} for key in r}, lambda r: {key: table([key]) for key in r}],
)
def test_calls_that_go_well_are_made_one_by_one_and_share_a_pack(function: Callable[..., Any]) -> None:
    calls = []
    result = run_function(lambda r: calls.append(r) or function(r), work := make_trip(2, 1, 3))
    assert calls == [["a", "b"], ["c"], ["d", "e", "f"]]
    [(_, one)] = parts_of(work, result)
    assert succeeded(one) == [f"r={key}" for key in KEYS]
    assert one.fragments.get_column(PATH).n_unique() == 1
    assert sorted(one.fragments.get_column(KEY)) == [f"r={key}" for key in KEYS]
    assert len(one.took) == 3
    assert one.outcomes.get_column(ELAPSED_SECONDS).n_unique() == 3, "of each key's call"


def test_what_a_trip_stores_is_what_single_calls_would() -> None:
    together, alone = MemoryPackStore(), MemoryPackStore()
    work = make_trip(2, 2)
    [(_, one)] = parts_of(work, run_function(table, work, together))
    parts = [run_function(table, part_of(work, index), alone).fragments for index in range(2)]
    digests = ["key", "run_hash", "format", "rows", "digest"]
    assert one.fragments.select(digests).sort(KEY).equals(pl.concat(parts).select(digests).sort(KEY))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda r: 1 / 0, "division by zero"),
        (lambda r: table(["a"]), "no key of the call"),  # which another call of the work has
        (lambda r: {"c": 1}, "no result for r=d"),
        (lambda r: {"c": 1, "d": Failed("closed")}, "closed"),
        (lambda r: pl.DataFrame({"r": r, "x": [object(), object()]}), "x"),
        (lambda r: 5, "a value of type `int`"),
    ],
)
def test_the_first_call_that_is_not_well_ends_the_work(bad: Callable[..., Any], message: str) -> None:
    calls = []

    def function(r: list[str]) -> Any:
        calls.append(r)
        return bad(r) if "c" in r else table(r)

    work = make_trip(2, 2, 2)
    result = run_function(function, work)
    assert calls == [["a", "b"], ["c", "d"]]
    (first, well), (second, ill) = parts_of(work, result)
    assert (first.id, succeeded(well)) == ("b1", ["r=a", "r=b"])
    assert second.id == "b2"
    assert any(message in text for text in failures(ill).values())
    single = run_function(bad, part_of(work, 1))
    assert failures(ill) == failures(single), "as if the call had been alone"
    assert (ill.raised, ill.malformed, ill.took) == (single.raised, single.malformed, ())


def test_a_generator_is_taken_like_any_answer_and_ends_the_work() -> None:
    def function(r: list[str]) -> Any:
        return iter([table(r)]) if "b" in r else table(r)

    work = make_trip(1, 1, 1)
    assert came(work, run_function(function, work)) == [("b1", ["r=a"], []), ("b2", ["r=b"], [])]


def test_answers_that_do_not_go_together_are_stored_one_by_one() -> None:
    def function(r: list[str]) -> pl.DataFrame:
        return table(r).with_columns(pl.lit("more").alias(r[0]))

    work = make_trip(2, 1)
    result = run_function(function, work)
    assert came(work, result) == [("b1", ["r=a", "r=b"], []), ("b2", ["r=c"], [])]
    paths = [path for part in result.parts for path in part.fragments.get_column(PATH).unique()]
    assert len(set(paths)) == 2


def test_values_that_cannot_be_stored_fail_their_own_keys_after_all() -> None:
    work = make_trip(2, 1)
    result = run_function(lambda r: {key: (lambda: None) if key == "b" else 1 for key in r}, work)
    assert came(work, result) == [("b1", ["r=a"], ["r=b"]), ("b2", ["r=c"], [])]


def test_each_call_gets_its_own_inputs() -> None:
    store = MemoryPackStore()
    fragments = stored_values(store, "steps.py:up", {key: pl.DataFrame({"n": [ord(key)]}) for key in KEYS})
    seen = []

    def function(r: list[str], up: pl.LazyFrame) -> pl.DataFrame:
        seen.append(dict(up.collect(engine="in-memory").sort("r").iter_rows()))
        return table(r)

    work = make_trip(2, 1, 3, inputs=(InputBinding("up", "steps.py:up", "same_key", fragments, ("r",)),))
    run_function(function, work, store)
    assert seen == [{"a": 97, "b": 98}, {"c": 99}, {"d": 100, "e": 101, "f": 102}]


def test_an_input_at_fault_ends_the_work_with_its_call() -> None:
    store = MemoryPackStore()
    fragments = stored_values(store, "steps.py:up", {key: 1 for key in KEYS})
    fragments = fragments.with_columns(pl.when(pl.col(KEY) != "r=b").then(pl.col(PATH)).alias(PATH))
    work = make_trip(1, 1, 1, inputs=(InputBinding("up", "steps.py:up", "same_key", fragments, ("r",)),))
    result = run_function(lambda r, up: table(r), work, store)
    assert came(work, result) == [("b1", ["r=a"], []), ("b2", [], ["r=b"])]
    assert result.parts[1].raised


def test_what_the_budget_does_not_cover_is_handed_back() -> None:
    work = make_trip(1, 1, 1, budget_seconds=1e-9)
    assert came(work, run_function(table, work)) == [("b1", ["r=a"], [])]


def test_timeouts_are_of_each_call() -> None:
    import time

    def function(r: list[str]) -> pl.DataFrame:
        time.sleep(9.0 if "c" in r else 0.65)  # twice that is more than one call may take
        return table(r)

    work = make_trip(1, 1, 1, timeout_seconds=1.2)
    result = run_function(function, work)
    assert came(work, result) == [("b1", ["r=a", "r=b"], []), ("b3", [], ["r=c"])]
    assert "timed out" in failures(result.parts[1])["r=c"]


def test_lines_belong_to_the_call_that_printed_them(tmp_path: Path) -> None:
    def function(r: list[str]) -> pl.DataFrame:
        print(*r)
        return table(r)

    definition = definition_of(function)
    execute(make_trip(2, 1), MemoryPackStore(), lambda _: definition, tmp_path, quiet=True)
    assert read_logs(tmp_path, "run1").select("call", "line").rows() == [("b1", "a b"), ("b2", "c")]


def test_ctrl_c_keeps_the_calls_before_it() -> None:
    def function(r: list[str]) -> pl.DataFrame:
        if "b" in r:
            raise KeyboardInterrupt
        return table(r)

    definition = definition_of(function)
    work = make_trip(1, 1, 1)
    with pytest.raises(Interrupted) as raised:
        execute(work, MemoryPackStore(), lambda _: definition, quiet=True, interruptible=True)
    assert came(work, raised.value.result) == [("b1", ["r=a"], [])]


def test_what_calls_answered_outlives_their_process(tmp_path: Path) -> None:
    calls = []

    def function(r: list[str]) -> Any:
        calls.append(r)
        return table(r)

    work = make_trip(2, 1, 1)
    with Spill(tmp_path / "b1.spill") as spill:
        run_function(function, work, spill=spill)
    store = MemoryPackStore()
    finished = list(read_spill(tmp_path / "b1.spill"))[:2]
    result = recover(work, store, lambda _: definition_of(function), finished)
    assert came(work, result) == [("b1", ["r=a", "r=b", "r=c"], [])]
    assert len(calls) == 3, "nothing is called again"


def test_a_work_that_fails_as_a_whole_fails_each_call() -> None:
    def load(_: Any) -> Any:
        raise RuntimeError("gone")

    work = make_trip(2, 1)
    result = execute(work, MemoryPackStore(), load, quiet=True)
    assert came(work, result) == [("b1", [], ["r=a", "r=b"]), ("b2", [], ["r=c"])]
    [failure] = {text for part in result.parts for text in failures(part).values()}
    from barca.exec.boundary import Failure

    same = failed_result(work, Failure("RuntimeError", failure))
    assert came(work, same) == came(work, result)


def test_every_call_has_a_row_and_every_key_its_call() -> None:
    import datetime as dt

    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    work = make_trip(2, 1)
    [(part, one)] = parts_of(work, run_function(table, work))
    rows = call_rows(part, one, now)
    assert [(row[CALL], row["keys"]) for row in rows] == [("b1", 2), ("b2", 1)]
    assert [row[ELAPSED_SECONDS] for row in rows] == [elapsed for elapsed, _ in one.took]
    assert rows[0]["started_at"] <= rows[1]["started_at"] <= now
    keys = part.keys.with_columns(pl.lit(None, pl.List(pl.String)).alias("input_hashes"))
    ended = Ended(replace(part, keys=keys), one.outcomes, one.fragments)
    stored = materialization_rows(NAME, Fingerprint(hash="h", components={}, source=""), {}, [ended], now)
    assert dict(stored.select(KEY, CALL).iter_rows()) == {"r=a": "b1", "r=b": "b1", "r=c": "b2"}


@pytest.mark.parametrize(
    ("function", "travels"),
    [
        (table, True),
        (lambda r: {key: 1 for key in r}, True),
        (lambda r: iter([table(r)]), False),
        (lambda r: {"a": 1, "b": Failed("no")}, False),
        (lambda r: 1 / 0, False),
    ],
)
def test_a_single_call_tells_whether_more_of_its_like_may_travel(
    function: Callable[..., Any], travels: bool
) -> None:
    result = run_function(function, make_work(["a", "b"], batched=True))
    assert bool(result.took) is travels


def test_parts_of_a_trip_are_cut_where_its_calls_are() -> None:
    work = make_trip(2, 1, 3)
    assert part_of(work, 1).keys.get_column(KEY).to_list() == ["r=c"]
    assert (part_of(work, 1).id, part_of(work, 1).calls) == ("b2", ())
    both = part_of(work, 1, 2)
    assert both.calls == (("b2", 1), ("b3", 3))
    assert both.keys.equals(work_keys(KEYS).slice(2, 4))


@pytest.mark.parametrize("serializer", [None, "pickle", "json"])
def test_what_a_call_answered_is_not_changed_by_the_next(serializer: Any) -> None:
    same: dict[str, Any] = {"rows": []}

    def function(r: list[str]) -> dict[str, Any]:
        same["rows"][:] = r
        return {key: same for key in r}

    store = MemoryPackStore()
    work = make_trip(2, 1, serializer=serializer)
    [part] = run_function(function, work, store).parts
    assert values_of(store, work, part) == [{"rows": ["a", "b"]}, {"rows": ["a", "b"]}, {"rows": ["c"]}]


@pytest.mark.parametrize("library", ["numpy", "pandas"])
def test_arrays_that_are_filled_again_do_not_change_what_was_answered(library: str) -> None:
    import numpy as np
    import pandas as pd

    numbers = np.zeros(1)
    frame = pd.DataFrame({"r": ["a"], "x": [0.0]})

    def function(r: list[str]) -> Any:
        numbers[0] = frame.iloc[0, 1] = ord(r[0])
        frame["r"] = r
        return pl.DataFrame({"r": r, "x": numbers}) if library == "numpy" else frame

    store = MemoryPackStore()
    work = make_trip(1, 1)
    [part] = run_function(function, work, store).parts
    assert [table["x"].to_list() for table in values_of(store, work, part)] == [[97.0], [98.0]]


def test_tables_and_values_in_turn_are_all_stored() -> None:
    work = make_trip(2, 1, 2, 1)
    result = run_function(lambda r: table(r) if len(r) == 2 else dict.fromkeys(r, 1), work)
    assert came(work, result) == [
        ("b1", ["r=a", "r=b"], []),
        ("b2", ["r=c"], []),
        ("b3", ["r=d", "r=e"], []),
        ("b4", ["r=f"], []),
    ]
    assert sum(part.fragments.height for part in result.parts) == 6


def test_tables_that_are_not_computed_yet_end_the_work_with_their_call() -> None:
    work = make_trip(1, 1)
    result = run_function(lambda r: {key: pl.LazyFrame({"x": [1]}) for key in r}, work)
    assert came(work, result) == [("b1", ["r=a"], [])]


def test_no_pack_is_written_twice() -> None:
    class Once(MemoryPackStore):
        def write(self, path: str, *args: Any, **named: Any) -> int:
            assert path not in self.packs, path
            return super().write(path, *args, **named)

    work = make_trip(2, 1)
    result = run_function(lambda r: {key: (lambda: None) if key == "b" else 1 for key in r}, work, Once())
    assert came(work, result) == [("b1", ["r=a"], ["r=b"]), ("b2", ["r=c"], [])]


def test_the_peak_of_memory_is_of_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(trips, "reset_peak", lambda: done.append("reset"))

    def function(r: list[str]) -> pl.DataFrame:
        done.append(r[0])
        return table(r)

    run_function(function, make_trip(1, 1))
    assert done == ["reset", "a", "reset", "b"]


def test_what_yields_pairs_ends_the_work_and_does_not_travel() -> None:
    def function(r: list[str]) -> Any:
        return ((key, 1) for key in r)

    work = make_trip(1, 1)
    assert came(work, run_function(function, work)) == [("b1", ["r=a"], [])]
    assert run_function(function, make_work(["a", "b"], batched=True)).took == ()


def test_ctrl_c_between_two_calls_keeps_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter([1, 2])

    def read_peak() -> int:
        if (peak := next(peaks, None)) is None:
            raise KeyboardInterrupt
        return peak

    monkeypatch.setattr(trips, "read_peak", read_peak)
    definition = definition_of(table)
    work = make_trip(1, 1, 1, 1)
    with pytest.raises(Interrupted) as raised:
        execute(work, MemoryPackStore(), lambda _: definition, quiet=True, interruptible=True)
    assert came(work, raised.value.result) == [("b1", ["r=a", "r=b"], [])]


def test_the_memory_of_each_call_is_recorded_however_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    import datetime as dt

    peaks = iter([10, 20])
    monkeypatch.setattr(trips, "read_peak", lambda: next(peaks))

    def function(r: list[str]) -> pl.DataFrame:
        return table(r).with_columns(pl.lit("more").alias(r[0]))

    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    work = make_trip(2, 1)
    rows = [row for part in parts_of(work, run_function(function, work)) for row in call_rows(*part, now)]
    assert [row[MAX_RSS_BYTES] for row in rows] == [10, 20]
    peaks = iter([30])
    work = make_trip(2, 1)
    well, _ = parts_of(work, run_function(lambda r: table(r) if "a" in r else 1 / 0, work))
    assert [row[MAX_RSS_BYTES] for row in call_rows(*well, now)] == [30], "of a call that alone went well"


def test_a_death_takes_the_time_of_its_own_call() -> None:
    work = make_trip(1, 1, 1)
    one = run_function(table, part_of(work, 0))
    finished = replace(one, parts=(replace(one, elapsed_seconds=0.25),))
    death = own_death(
        WorkerDied(reason="ended", timed_out=False, begun=2, elapsed_seconds=1.0, finished=finished)
    )
    assert (death.elapsed_seconds, death.begun, death.finished) == (0.75, None, None)


def test_what_is_kept_of_calls_outlives_their_process_with_the_memory_they_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trips, "read_peak", lambda: 7)
    work = make_trip(2, 1, 1)
    with Spill(tmp_path / "b1.spill") as spill:
        run_function(table, work, spill=spill)
    finished = list(read_spill(tmp_path / "b1.spill"))[:2]
    result = recover(work, MemoryPackStore(), lambda _: definition_of(table), finished)
    assert [peak for _, peak in result.parts[0].took] == [7, 7]


def test_inputs_of_a_call_are_read_in_its_own_name_and_off_the_clock() -> None:
    class Noted:
        def __init__(self) -> None:
            self.steps: list[tuple[str, int]] = []

        def begin(self, index: int) -> None:
            self.steps.append(("begin", index))

        def untimed(self, index: int) -> None:
            self.steps.append(("untimed", index))

    progress: Any = Noted()
    run_function(table, make_trip(1, 1), progress=progress)
    assert progress.steps == [("begin", 0), ("untimed", 0), ("untimed", 1), ("begin", 1), ("untimed", 1)]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_what_streams_does_not_travel_and_streams_where_the_node_says_so_only(engine: Any) -> None:
    work = make_work(["a", "b"], batched=True, engine=engine)
    result = run_function(lambda r: table(r).lazy(), work)
    assert succeeded(result) == ["r=a", "r=b"]
    assert bool(result.took) is (engine == "in-memory")

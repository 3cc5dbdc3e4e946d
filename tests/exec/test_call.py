"""One-key calls, the error boundary, and what surrounds a call."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from barca.exec.call import Interrupted, execute
from barca.exec.progress import Progress, read_progress
from barca.io.fragments import read_keyed
from barca.io.memory import MemoryPackStore
from barca.io.values import read_values
from barca.errors import Failed
from barca.schemas import ATTEMPTS, ELAPSED_SECONDS, ERROR_TYPE, KEY, PATH, RUN_HASH, TRACEBACK
from tests.exec.works import (
    definition_of,
    failures,
    make_work,
    run_batch,
    run_function,
    succeeded,
    values_of,
    work_keys,
)


def test_one_key_calls_that_run_together_share_a_pack() -> None:
    store = MemoryPackStore()
    result = run_function(lambda r: {"r": r}, make_work(["a", "b", "c"]), store)
    assert result.fragments.get_column(PATH).n_unique() == 1
    assert read_values(store, result.fragments, None, ("r",)) == {f"r={key}": {"r": key} for key in "abc"}
    assert result.fragments.get_column(RUN_HASH).to_list() == work_keys("abc").get_column(RUN_HASH).to_list()


def test_works_of_other_runs_never_share_a_path() -> None:
    paths = [
        run_function(lambda: 1, make_work(id="w1")).fragments.item(0, PATH),
        run_function(lambda: 1, make_work(id="w2")).fragments.item(0, PATH),
    ]
    assert len(set(paths)) == 2
    assert all(path.startswith("steps.py@step/run1-w") for path in paths)


def test_a_key_that_raises_fails_alone() -> None:
    def step(r: str) -> int:
        return int(r)

    result = run_function(step, make_work(["1", "x", "3"], attempt=2))
    assert succeeded(result) == ["r=1", "r=3"]
    assert "'x'" in failures(result)["r=x"]
    assert result.outcomes.get_column(ERROR_TYPE).to_list() == [None, "ValueError", None]
    assert result.outcomes.get_column(ATTEMPTS).unique().to_list() == [2]
    assert not result.raised


def test_failed_is_accepted_of_a_one_key_call() -> None:
    assert failures(run_function(lambda r: Failed("closed"), make_work(["a"]))) == {"r=a": "closed"}


def test_f15_the_traceback_shows_the_users_frames_only() -> None:
    def helper() -> None:
        raise KeyError("price")

    def step(r: str) -> None:
        try:
            helper()
        except KeyError as error:
            raise RuntimeError("no price") from error

    result = run_function(step, make_work(["a"]))
    text = result.outcomes.item(0, TRACEBACK)
    assert "in helper" in text
    assert "in step" in text
    assert text.rstrip().endswith("RuntimeError: no price")
    assert f"barca{os.sep}exec" not in text


def test_f15_sys_exit_is_a_failure_of_the_key() -> None:
    def step(r: str) -> int:
        if r == "b":
            sys.exit(3)
        return 1

    result = run_function(step, make_work(["a", "b", "c"]))
    assert failures(result) == {"r=b": "3"}
    assert result.outcomes.get_column(ERROR_TYPE).to_list() == [None, "SystemExit", None]


class Unpicklable(Exception):
    def __init__(self, lock: Any, text: str) -> None:
        super().__init__(lock, text)

    def __str__(self) -> str:
        raise ValueError("no text")


def test_f15_exceptions_that_neither_pickle_nor_print_are_described() -> None:
    def step(r: str) -> None:
        raise Unpicklable(threading.Lock(), "x")

    result = run_function(step, make_work(["a"]))
    assert result.outcomes.item(0, ERROR_TYPE) == "Unpicklable"
    assert "cannot be shown" in failures(result)["r=a"]


def test_f15_messages_that_utf8_cannot_write_fail_their_own_key_only() -> None:
    def step(r: str) -> str:
        if r == "b":
            raise FileNotFoundError(os.fsdecode(b"caf\xe9.csv"))
        return r

    result = run_function(step, make_work(["a", "b", "c"]))
    assert failures(result) == {"r=b": r"caf\udce9.csv"}
    assert r"caf\udce9.csv" in result.outcomes.item(1, TRACEBACK)


def test_a_panic_of_native_code_is_a_failure_of_the_key() -> None:
    class PanicException(BaseException):
        pass

    def step(r: str) -> None:
        raise PanicException("index out of bounds")

    assert failures(run_function(step, make_work(["a"]))) == {"r=a": "index out of bounds"}


def test_exception_groups_are_told_and_long_messages_cut() -> None:
    def step(r: str) -> None:
        raise ExceptionGroup("y" * 10_000, [ValueError("inner one")])

    result = run_function(step, make_work(["a"]))
    assert "inner one" in result.outcomes.item(0, TRACEBACK)
    assert len(failures(result)["r=a"]) < 5_000


def test_a_function_that_cannot_be_loaded_fails_every_key() -> None:
    def load(_: Any) -> Any:
        raise ImportError("no module named grapes")

    result = execute(make_work(["a", "b"]), MemoryPackStore(), load, quiet=True)
    assert failures(result) == dict.fromkeys(["r=a", "r=b"], "no module named grapes")


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: pl.DataFrame({"thing": pl.Series([object()], dtype=pl.Object)}), "`thing`"),
        (lambda: pl.DataFrame({"hollow": [{}]}), "`hollow`"),
        (socket.socket, "socket"),
        (lambda: (number for number in range(3)), "generator"),
    ],
)
def test_f10_results_that_cannot_be_stored_fail_the_key(make: Any, named: str) -> None:
    made: list[Any] = []

    def step(r: str) -> Any:
        made.append(make() if r == "b" else 1)
        return made[-1]

    result = run_function(step, make_work(["a", "b"]))
    assert succeeded(result) == ["r=a"]
    assert "`r=b`" in failures(result)["r=b"]
    assert named in failures(result)["r=b"]
    for thing in made:
        if isinstance(thing, socket.socket):
            thing.close()


def test_a_lazy_result_is_computed_within_its_call() -> None:
    def step(r: str) -> pl.LazyFrame:
        return pl.LazyFrame({"a": [1]}).with_columns(pl.col("nowhere" if r == "b" else "a").alias("c"))

    result = run_function(step, make_work(["a", "b"]))
    assert succeeded(result) == ["r=a"]
    assert result.outcomes.get_column(ERROR_TYPE).to_list() == [None, "ColumnNotFoundError"]


def test_a_keyed_source_stores_its_keys_in_one_fragment() -> None:
    store = MemoryPackStore()
    result = run_function(lambda: {"b": 2, "a": {"x": 1}}, make_work(keyed=True), store)
    pairs = read_keyed(store, result.fragments)
    assert pairs.get_column(KEY).to_list() == ["a", "b"]
    assert result.fragments.item(0, "rows") == 2


def test_what_a_keyed_source_may_not_return_is_its_failure() -> None:
    result = run_function(lambda: {True: 1}, make_work(keyed=True))
    assert "True" in failures(result)[""]


def test_a_chunk_hands_back_what_its_budget_does_not_cover() -> None:
    calls: list[str] = []

    def step(r: str) -> int:
        calls.append(r)
        time.sleep(0.02)
        return 1

    result = run_function(step, make_work(["a", "b", "c"], budget_seconds=0.001))
    assert calls == ["a"]
    assert result.outcomes.get_column(KEY).to_list() == ["r=a"]
    assert result.outcomes.item(0, ELAPSED_SECONDS) >= 0.02


def test_environment_variables_are_set_around_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARCA_TEST_B", "before")
    seen: list[Any] = []
    work = make_work(["a"], env={"BARCA_TEST_A": "1", "BARCA_TEST_B": "2"})
    run_function(lambda r: seen.append((os.environ["BARCA_TEST_A"], os.environ["BARCA_TEST_B"])), work)
    assert seen == [("1", "2")]
    assert "BARCA_TEST_A" not in os.environ
    assert os.environ["BARCA_TEST_B"] == "before"


@pytest.mark.parametrize(("engine", "expected"), [("in-memory", "in-memory"), ("streaming", None)])
def test_the_users_own_collect_is_reproducible_unless_the_node_streams(
    engine: Any, expected: str | None
) -> None:
    seen: list[str | None] = []
    run_function(lambda: seen.append(os.environ.get("POLARS_ENGINE_AFFINITY")), make_work(engine=engine))
    assert seen == [expected]
    assert "POLARS_ENGINE_AFFINITY" not in os.environ


def test_a_timeout_ends_a_call_of_this_process_and_the_next_goes_on() -> None:
    def step(r: str) -> int:
        while r == "b":
            try:
                time.sleep(5)
            except Exception:  # a step that swallows errors is stopped all the same
                continue
        return 1

    result = run_function(step, make_work(["a", "b", "c"], timeout_seconds=0.1))
    assert succeeded(result) == ["r=a", "r=c"]
    assert failures(result) == {"r=b": "timed out after 0.1 s"}
    assert result.outcomes.get_column(ERROR_TYPE).to_list() == [None, "TimeoutError", None]


def test_a_timeout_ends_a_batched_call_of_this_process() -> None:
    result = run_function(lambda r: time.sleep(5), make_work(["a"], batched=True, timeout_seconds=0.1))
    assert result.raised
    assert failures(result) == {"r=a": "timed out after 0.1 s"}


def test_ctrl_c_keeps_what_the_work_had_computed() -> None:
    def step(r: str) -> int:
        if r == "c":
            raise KeyboardInterrupt
        return 1

    definition = definition_of(step)
    with pytest.raises(Interrupted) as raised:
        execute(
            make_work(["a", "b", "c", "d"]),
            MemoryPackStore(),
            lambda _: definition,
            quiet=True,
            interruptible=True,
        )
    result = raised.value.result
    assert succeeded(result) == ["r=a", "r=b"]
    assert result.outcomes.height == 2
    assert result.fragments.height == 2


def test_a_step_that_raises_keyboard_interrupt_in_a_worker_fails() -> None:
    def step(r: str) -> int:
        raise KeyboardInterrupt

    result = run_function(step, make_work(["a"]))
    assert result.outcomes.item(0, ERROR_TYPE) == "KeyboardInterrupt"


def test_progress_names_the_key_that_is_on(tmp_path: Path) -> None:
    path = tmp_path / "w1.progress"
    seen: list[int] = []

    def step(r: str) -> None:
        progress = read_progress(path)
        assert progress is not None
        assert progress.pid == os.getpid()
        assert 0 <= time.monotonic() - progress.since < 5
        seen.append(progress.index)

    assert read_progress(path) is None
    progress = Progress(path)
    before = read_progress(path)
    assert before is not None
    assert before.index == -1
    run_function(step, make_work(["a", "b"]), progress=progress)
    assert seen == [0, 1]
    after = read_progress(path)
    assert after is not None
    assert (after.index, after.since) == (1, 0.0)
    progress.close()


def test_the_peak_is_of_the_work_alone() -> None:
    small = run_function(lambda: 1, make_work())

    def step() -> int:
        return len(bytearray(b"x") * 200_000_000)

    large = run_function(step, make_work())
    again = run_function(lambda: 1, make_work())
    assert small.max_rss_bytes is not None
    assert large.max_rss_bytes is not None
    assert again.max_rss_bytes is not None
    assert large.max_rss_bytes - small.max_rss_bytes > 150_000_000
    assert large.max_rss_bytes - again.max_rss_bytes > 100_000_000


def test_f10_a_pandas_column_that_cannot_be_converted_is_named_with_its_key():
    import pandas as pd

    mixed = pd.DataFrame({"fine": [1, 2], "odd": [1, "a"]})
    told = failures(run_function(lambda r: mixed if r == "b" else r, make_work(["a", "b"])))
    assert list(told) == ["r=b"]
    start = (
        "`steps.py:step` returned for `r=b` a table that cannot be stored: column `odd` of the pandas dtype"
    )
    assert told["r=b"].startswith(start)
    assert "cast or drop `odd`" in told["r=b"]
    whole = run_batch(lambda r: pd.concat([mixed.assign(r=key) for key in r]), ["a", "b"])
    assert all(
        "column `odd` of the pandas dtype object cannot be" in text for text in failures(whole).values()
    )
    assert len(failures(whole)) == 2


def test_f10_columns_of_arrow_and_repeated_columns_are_named_with_their_key():
    import pandas as pd
    import pyarrow as pa

    spans = pa.array([(1, 2, 3)], type=pa.month_day_nano_interval())
    tables = {
        "a": pa.table([[1], [2]], names=["odd", "odd"]),
        "b": pa.record_batch([pa.array([1]), spans], names=["fine", "odd"]),
        "c": pd.DataFrame([[1, 2]], columns=["odd", "odd"]),
    }
    told = failures(run_function(lambda r: tables.get(r, 1), make_work(["a", "b", "c", "d"])))
    whys = ["stands in it more than once", "of the Arrow type month_day_nano_interval", "stands in it more"]
    for key, why in zip(tables, whys, strict=True):
        start = f"`steps.py:step` returned for `r={key}` a table that cannot be stored: column `odd` {why}"
        assert told.pop(f"r={key}").startswith(start)
    assert told == {}


@dataclass
class Model:
    """What is fitted again for each key."""

    fitted: str = ""


@pytest.mark.parametrize("serializer", [None, "pickle"])
def test_what_a_key_was_given_is_not_changed_by_the_next(serializer: Any) -> None:
    rows: dict[str, list[str]] = {"rows": [""]}
    model = Model()
    numbers, frame = np.zeros(1), pd.DataFrame({"x": [""]})

    def function(r: str) -> Any:
        rows["rows"][0] = model.fitted = frame.iloc[0, 0] = r[:1]
        numbers[0] = ord(r[0])
        given = {"1": rows, "2": model, "3": (rows, model), "4": frame, "5": pl.DataFrame({"x": numbers})}
        return given[r[1]]

    store = MemoryPackStore()
    for kind, read in {
        "1": lambda value: value["rows"][0],
        "2": lambda value: value.fitted,
        "3": lambda value: value[0]["rows"][0] + value[1].fitted,
        "4": lambda value: (value if isinstance(value, pd.DataFrame) else value.to_pandas()).iloc[0, 0],
        "5": lambda value: chr(int(value["x"][0])),
    }.items():
        work = make_work([f"a{kind}", f"b{kind}"], serializer=serializer)
        values = values_of(store, work, run_function(function, work, store))
        assert [read(value) for value in values] == (["aa", "bb"] if kind == "3" else ["a", "b"]), kind


def test_what_keys_were_given_is_stored_as_it_would_be_alone() -> None:
    shared = ["x"]
    values = {"a": {"1": shared, "2": shared}, "b": {1: shared, 2: shared}, "c": (shared, Model("m"))}
    together, alone = MemoryPackStore(), MemoryPackStore()
    for serializer in (None, "pickle"):
        work = make_work(list(values), serializer=serializer)
        digests = run_function(lambda r: values[r], work, together).fragments.sort("key").get_column("digest")
        single = [
            run_function(lambda r: values[r], make_work([key], serializer=serializer), alone)
            for key in values
        ]
        assert digests.to_list() == [one.fragments.item(0, "digest") for one in single]


@pytest.mark.parametrize("batched", [True, False])
def test_to_load_a_project_is_no_part_of_its_first_call(batched: bool) -> None:
    def load(_: Any) -> Any:
        time.sleep(0.3)
        return definition_of(lambda r: dict.fromkeys(r, 1))

    began = time.perf_counter()
    result = execute(make_work(["a", "b"], batched=batched), MemoryPackStore(), load, quiet=True)
    assert len(succeeded(result)) == 2
    assert time.perf_counter() - began - result.elapsed_seconds >= 0.3

"""The inline executor, and how executors queue."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from barca.exec.executors import InlineExecutor, ProcessExecutor
from barca.io.memory import MemoryPackStore
from barca.io.storage import FilePackStore
from barca.model import WorkResult
from tests.exec.works import definition_of, failures, make_work, succeeded


def inline(function: Any) -> InlineExecutor:
    definition = definition_of(function)
    return InlineExecutor(MemoryPackStore(), lambda _: definition, quiet=True)


def test_works_run_in_order_one_per_wait() -> None:
    executor = inline(lambda r: r)
    first, second = executor.submit(make_work(["a"])), executor.submit(make_work(["b"]))
    [(pending, result)] = executor.wait(0)
    assert pending is first
    assert succeeded(result) == ["r=a"]
    assert executor.wait(None)[0][0] is second
    assert executor.wait(None) == []


def test_a_cancelled_work_is_left_out() -> None:
    executor = inline(lambda r: r)
    first, second = executor.submit(make_work(["a"])), executor.submit(make_work(["b"]))
    first.cancel()
    assert [pending for pending, _ in executor.wait(None)] == [second]


def test_what_has_not_begun_can_be_withdrawn() -> None:
    executor = inline(lambda r: r)
    executor.submit(make_work(["a"]))
    executor.withdraw()
    assert executor.wait(None) == []


def test_shutdown_runs_what_is_queued_unless_cancelled() -> None:
    ran: list[str] = []
    executor = inline(lambda r: ran.append(r))
    executor.submit(make_work(["a"]))
    executor.shutdown()
    executor.submit(make_work(["b"]))
    executor.shutdown(cancel=True)
    assert ran == ["a"]
    assert executor.wait(None) == []


def test_a_timeout_works_in_the_main_thread_and_leaves_no_alarm() -> None:
    executor = inline(lambda r: [number for number in iter(int, 1)])
    handler = signal.getsignal(signal.SIGALRM)
    executor.submit(make_work(["a"], timeout_seconds=0.1))
    [(_, result)] = executor.wait(None)
    assert failures(result) == {"r=a": "timed out after 0.1 s"}
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is handler


def test_ctrl_c_returns_what_was_computed_then_raises() -> None:
    # a shell that runs tests in the background ignores the signal for them
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def step(r: str) -> int:
        if r == "b":
            signal.raise_signal(signal.SIGINT)
        return 1

    executor = inline(step)
    executor.submit(make_work(["a", "b", "c"]))
    executor.submit(make_work(["d"]))
    try:
        [(_, result)] = executor.wait(None)
        assert succeeded(result) == ["r=a"]
        with pytest.raises(KeyboardInterrupt):
            executor.wait(None)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_store_that_fails_is_a_failure_of_the_keys(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    definition = definition_of(lambda r: {"r": r})
    executor = InlineExecutor(FilePackStore(tmp_path / "file"), lambda _: definition, quiet=True)
    executor.submit(make_work(["a", "b"]))
    [(_, result)] = executor.wait(None)
    assert set(result.outcomes.get_column("error_type")) == {"StoreError"}
    assert result.fragments.is_empty()


def test_a_process_executor_that_never_started_leaves_nothing() -> None:
    executor = ProcessExecutor(2, MemoryPackStore(), definition_of)
    executor.shutdown()
    executor.shutdown(cancel=True)
    assert executor.wait(0) == []


def test_results_travel_as_pickles() -> None:
    import pickle

    executor = inline(lambda r: 1 / 0)
    executor.submit(make_work([f"r{number}" for number in range(100)]))
    [(_, result)] = executor.wait(None)
    again = pickle.loads(pickle.dumps(result))
    assert isinstance(again, WorkResult)
    assert again.outcomes.equals(result.outcomes)
    assert isinstance(again.fragments, pl.DataFrame)

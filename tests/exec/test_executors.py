"""The inline executor, and how executors queue."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from barca.exec.inline import InlineExecutor
from barca.exec.processes import ProcessExecutor
from barca.exec.pool import WorkerEnded
from barca.exec.progress import _STEP, Progress
from barca.exec.worker import Order
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


# --- works and the workers they are given to, without a process ------------------------------------


class Desk:
    """Workers that do what a function says, in this process; remembers their orders."""

    def __init__(self, answers: Callable[[Order], Any]) -> None:
        self.answers = answers
        self.orders: list[Order] = []

    def take(self) -> Any:
        answer = partial(self._answer, len(self.orders))
        return SimpleNamespace(equipped=True, order=self._order, answer=answer, kill=lambda: None)

    def _order(self, order: Order, work: list[bytes]) -> None:
        assert work
        self.orders.append(order)

    def _answer(self, place: int) -> Any:
        return self.answers(self.orders[place])

    def give_back(self, worker: Any) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Desk, ProcessExecutor]]:
    monkeypatch.setattr("barca.exec.processes.wait_for_any", lambda *_: None)

    def make(answers: Callable[[Order], Any]) -> tuple[Desk, ProcessExecutor]:
        executor = ProcessExecutor(1, MemoryPackStore(), definition_of)
        executor._pool = workers = Desk(answers)  # type: ignore[assignment]
        return workers, executor

    return make


def dies_on(index: int | None, exit_code: int) -> Callable[[Order], Any]:
    """A worker that dies once it has begun the call at `index`; `None`: before it takes the work."""

    orders: list[Order] = []

    def answer(order: Order) -> Any:
        if order.finished is not None:
            return None
        orders.append(order)
        assert len(orders) < 10, "it comes to an end"
        if index is not None:
            Progress(Path(order.progress)).begin(index)
        raise WorkerEnded(exit_code)

    return answer


def test_a_work_that_no_worker_takes_is_given_to_a_few_and_then_given_up(desk: Any) -> None:
    workers, executor = desk(dies_on(None, 1))
    executor.submit(make_work(["a", "b"]))
    [(_, death)] = executor.wait(None)
    assert len(workers.orders) == 3
    assert death.reason == "could not start: it ended with exit code 1"
    executor.shutdown(cancel=True)


@pytest.mark.parametrize(
    ("exit_code", "exhausted"), [(-9, True), (-6, True), (-11, False), (1, False), (0, False)]
)
def test_a_worker_that_is_killed_or_aborts_may_have_run_out_of_memory(
    desk: Any, exit_code: int, exhausted: bool
) -> None:
    _, executor = desk(dies_on(0, exit_code))
    executor.submit(make_work(["a", "b"], batched=True))
    [(_, death)] = executor.wait(None)
    assert (death.exhausted, death.begun) == (exhausted, None)
    executor.shutdown(cancel=True)


def test_what_ended_before_a_worker_died_is_stored_by_another_and_is_not_withdrawn(desk: Any) -> None:
    workers, executor = desk(dies_on(2, 1))
    calls = tuple((f"b{number}", 1) for number in range(4))
    pending = executor.submit(make_work(list("abcd"), batched=True, id="b0", calls=calls))
    executor.workers = 0  # the others are busy
    assert executor.wait(0) == []
    assert pending.death.begun == 3
    executor.withdraw()
    executor.workers = 1
    executor.wait(0)
    assert [order.finished for order in workers.orders] == [None, 2], "the third call is the one it died on"
    executor.shutdown(cancel=True)


@pytest.mark.parametrize(("index", "seconds", "limit"), [(0, 60.0, 1), (-1, 60.0, None), (-1, 301.0, 300)])
def test_a_work_that_is_past_its_time_has_run_out(
    desk: Any, index: int, seconds: float, limit: int | None
) -> None:
    """Before the first call the project is imported, which a short timeout is not about."""

    def overdue(order: Order) -> Any:
        _STEP.pack_into(progress := bytearray(24), 8, index, time.monotonic() - seconds)
        Path(order.progress).write_bytes(bytes([1]) + bytes(progress[1:]))

    _, executor = desk(overdue)
    executor.submit(make_work(["a", "b"], batched=True, timeout_seconds=1.0))
    ended = executor.wait(0.0)
    told = [(death.timed_out, death.exhausted, death.reason) for _, death in ended]
    assert told == ([] if limit is None else [(True, True, f"timed out after {limit} s")])
    executor.shutdown(cancel=True)

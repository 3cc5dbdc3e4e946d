"""Worker processes start one by one, the first of them before this process has Polars."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barca.discovery.refs import load_function
from barca.exec import messages, pool
from barca.exec.processes import ProcessExecutor
from barca.exec.launch import Setup
from barca.exec.pool import Worker, WorkerEnded, Workers
from barca.io.storage import FilePackStore
from tests.exec.works import make_work, succeeded, write_steps

STEPS = """
    from barca import asset, partitions

    @asset(partitions={"r": partitions(["a", "b"])})
    def step(r):
        return {"r": r}
"""


@pytest.fixture
def step(tmp_path: Path) -> Callable[[], object]:
    ref = write_steps(tmp_path / "project", STEPS)
    return lambda **options: make_work(["a"], function=ref("step"), **options)


def workers() -> set[int]:
    return {worker.process_id for worker in pool._all}


def test_a_worker_starts_before_polars_is_imported():
    script = (
        "import sys\nfrom barca.exec.pool import Workers\nworkers = Workers(2)\nworkers.start()\n"
        "assert 'polars' not in sys.modules\nworkers.stop()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_workers_that_nobody_stops_end_with_the_process():
    script = (
        "from barca.exec.pool import Workers\nworkers = Workers(1)\nworkers.start()\n"
        "worker = workers.take()\nprint(worker.process_id)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, timeout=60, capture_output=True, text=True
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_a_worker_that_was_taken_ends_with_the_others():
    started = Workers(2)
    taken = started.take().process_id  # a Ctrl-C: whoever took it has not come to keep it
    started.start()
    assert taken in workers()
    started.stop()
    assert not workers()
    with pytest.raises(ProcessLookupError):
        os.kill(taken, 0)


def test_one_work_needs_one_worker_and_later_ones_take_it_again(tmp_path: Path, step: Callable):
    before = workers()
    executor = ProcessExecutor(3, FilePackStore(tmp_path / "artifacts"), load_function, quiet=True)
    executor.start()
    started = workers() - before
    assert len(started) == 1
    try:
        for number in range(2):
            executor.submit(step(id=f"w{number}"))
            [(_, result)] = executor.wait(60)
            assert succeeded(result) == ["r=a"]
            assert workers() - before == started
    finally:
        executor.shutdown()
    assert workers() == before


def test_files_of_the_working_directory_do_not_stand_in_for_pythons(
    tmp_path: Path, step: Callable, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "selectors.py").write_text("raise RuntimeError('of the project')")
    monkeypatch.chdir(tmp_path)
    executor = ProcessExecutor(1, FilePackStore(tmp_path / "artifacts"), load_function, quiet=True)
    executor.submit(step())
    [(_, result)] = executor.wait(60)
    assert succeeded(result) == ["r=a"]
    executor.shutdown()


def test_an_executor_takes_the_workers_that_are_starting(tmp_path: Path, step: Callable):
    starting = Workers(1)
    starting.start()
    started = workers()
    executor = ProcessExecutor(starting, FilePackStore(tmp_path / "artifacts"), load_function, quiet=True)
    executor.submit(step())
    [(_, result)] = executor.wait(60)
    assert succeeded(result) == ["r=a"] and workers() == started
    executor.shutdown()
    assert workers().isdisjoint(started)


def test_a_worker_that_dies_before_its_first_work_is_replaced(tmp_path: Path, step: Callable):
    starting = Workers(1)
    starting.start()
    [first] = workers()
    executor = ProcessExecutor(starting, FilePackStore(tmp_path / "artifacts"), load_function, quiet=True)
    os.kill(first, 9)
    executor.submit(step())
    [(_, result)] = executor.wait(60)
    assert succeeded(result) == ["r=a"] and first not in workers()
    executor.shutdown()


def test_tools_that_do_not_load_are_told_by_the_first_work(tmp_path: Path, step: Callable):
    starting = Workers(1)
    starting.start()
    worker: Worker = starting.take()
    worker.equip(b"no pickle")
    starting.give_back(worker)
    executor = ProcessExecutor(starting, FilePackStore(tmp_path / "artifacts"), load_function, quiet=True)
    executor.submit(step())
    [(_, result)] = executor.wait(60)
    assert "UnpicklingError" in result.outcomes.item(0, "error_type")
    executor.shutdown()


def test_a_stopped_worker_has_ended():
    starting = Workers(1)
    starting.start()
    worker = starting.take()
    worker.stop()
    with pytest.raises(WorkerEnded):
        worker.answer()
    assert worker.process_id not in workers()


def test_the_first_worker_has_every_core_and_the_others_their_share(monkeypatch: pytest.MonkeyPatch):
    threads = []

    class Started:
        def __init__(self, setup: Setup) -> None:
            threads.append(setup.environment["POLARS_MAX_THREADS"])

    monkeypatch.setattr(pool, "Worker", Started)
    monkeypatch.setattr(pool, "available_cores", lambda: 8)
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    starting = Workers(3)
    for _ in range(3):
        starting.take()
    assert threads == ["8", "2", "2"]
    monkeypatch.setenv("POLARS_MAX_THREADS", "5")
    threads.clear()
    starting = Workers(3)
    starting.take(), starting.take()
    assert threads == ["5", "5"]


@pytest.mark.parametrize("module", [messages, pool], ids=lambda module: module.__name__)
def test_ctrl_c_while_an_answer_is_read_loses_nothing_of_it(
    module: Any, tmp_path: Path, step: Callable, monkeypatch: pytest.MonkeyPatch
):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    name = "_read" if module is messages else "receive"
    read = getattr(module, name)

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.setattr(module, name, read)
        signal.raise_signal(signal.SIGINT)
        return read(*arguments)

    executor = ProcessExecutor(1, FilePackStore(tmp_path / "artifacts"), load_function, quiet=True)
    try:
        executor.submit(step())
        monkeypatch.setattr(module, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            executor.wait(60)
        [(_, result)] = executor.wait(60)
        assert succeeded(result) == ["r=a"]
        executor.submit(step(id="w2"))
        assert succeeded(executor.wait(60)[0][1]) == ["r=a"]
    finally:
        executor.shutdown(cancel=True)
        signal.signal(signal.SIGINT, before)


def test_a_second_ctrl_c_in_the_middle_of_an_answer_ends_its_worker(
    tmp_path: Path, step: Callable, monkeypatch: pytest.MonkeyPatch
):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(*_: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    executor = ProcessExecutor(1, FilePackStore(tmp_path / "artifacts"), load_function, quiet=True)
    try:
        executor.submit(step())
        with monkeypatch.context() as patch:
            patch.setattr(messages, "_read", interrupted)
            with pytest.raises(KeyboardInterrupt):
                executor.wait(60)
        executor.submit(step(id="w2"))
        assert succeeded(executor.wait(60)[0][1]) == ["r=a"]
    finally:
        executor.shutdown(cancel=True)
        signal.signal(signal.SIGINT, before)


def test_released_workers_end_without_being_waited_for_and_busy_ones_go_on(monkeypatch: pytest.MonkeyPatch):
    starting = Workers(2)
    busy, idle = starting.take(), starting.take()
    starting.give_back(idle)
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "stop", lambda _: pytest.fail("waited"))
        starting.release()
    assert idle._process.wait(60) == -signal.SIGKILL
    assert busy._process.poll() is None
    starting.stop()
    assert busy.process_id not in workers() and idle.process_id not in workers()


def test_a_worker_has_its_tools_before_there_is_work(tmp_path: Path):
    executor = ProcessExecutor(1, FilePackStore(tmp_path / "artifacts"), load_function, quiet=True)
    try:
        executor.start()
        [worker] = executor._workers()._idle
        assert worker.equipped
        executor.start()
        assert executor._workers()._idle == [worker]
    finally:
        executor.shutdown(cancel=True)

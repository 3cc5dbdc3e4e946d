"""Worker processes that die, hang, print and exit: only their own work suffers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barca.discovery.refs import load_function
from barca.exec.processes import ProcessExecutor
from barca.io.logs import read_logs
from barca.io.leftovers import process_exists
from barca.io.storage import FilePackStore
from barca.model import FunctionRef, WorkerDied, WorkResult
from tests.exec.works import failures, make_work, succeeded, write_steps

STEPS = """
    import logging, os, signal, subprocess, sys, time
    import polars as pl
    from barca import asset, partitions

    KEYS = partitions(["a", "b", "c"])

    @asset(partitions={"r": KEYS})
    def fine(r):
        return {"r": r, "pid": os.getpid()}

    @asset(partitions={"r": KEYS})
    def kills_itself(r):
        print("last words of", r)
        if r == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        return 1

    @asset(partitions={"r": KEYS})
    def exits(r):
        if r == "b":
            os._exit(3)
        return 1

    @asset(partitions={"r": KEYS})
    def exits_quietly(r):
        os._exit(0)

    @asset(partitions={"r": KEYS}, batch="all")
    def exits_in_a_batch(r):
        os._exit(1)

    @asset(partitions={"r": KEYS}, batch=1)
    def exits_in_the_second_call(r):
        if "b" in r:
            os._exit(1)
        return {key: 1 for key in r}

    @asset(partitions={"r": KEYS}, batch=1)
    def sleeps_in_the_third_call(r):
        if "c" in r:
            time.sleep(60)
        return {key: 1 for key in r}

    @asset(partitions={"r": KEYS})
    def sleeps(r):
        if r == "b":
            time.sleep(60)
        return 1

    @asset(partitions={"r": KEYS})
    def spins(r):
        while r == "b":
            pass
        return 1

    @asset(partitions={"r": KEYS}, batch="all")
    def sleeps_in_a_batch(r):
        time.sleep(60)

    @asset(partitions={"r": KEYS})
    def waits_for_a_child(r):
        child = subprocess.Popen(["sleep", "60"])
        print(child.pid)
        child.wait()

    @asset(partitions={"r": KEYS})
    def asks(r):
        return input("which one? ")

    @asset(partitions={"r": KEYS})
    def prints(r):
        os.write(1, b"past Python\\n")
        os.system("echo from a child")
        print("to stdout")
        logging.warning("careful")
        sys.exit(3)

    @asset(partitions={"r": KEYS})
    def surroundings(r):
        return {
            "threads": pl.thread_pool_size(),
            "affinity": os.environ.get("POLARS_ENGINE_AFFINITY"),
            "late": os.environ.get("BARCA_TEST_LATE"),
            "directory": os.getcwd(),
            "main": getattr(sys.modules["__main__"], "__file__", None),
        }
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def ref(place: Path) -> Callable[[str], FunctionRef]:
    return write_steps(place, STEPS)


@pytest.fixture(scope="module")
def shared(place: Path) -> Iterator[ProcessExecutor]:
    os.environ["BARCA_TEST_LATE"] = "set before the workers started"
    made = ProcessExecutor(2, FilePackStore(place / "artifacts"), load_function, place / "logs", quiet=True)
    made.start()
    yield made
    made.shutdown(cancel=True)
    del os.environ["BARCA_TEST_LATE"]


def answers(executor: ProcessExecutor, count: int, seconds: float = 60) -> list[Any]:
    """What the next `count` works came to, in the order of their ids."""
    ended: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(ended) < count:
        assert time.monotonic() < deadline, "the works did not end"
        ended += executor.wait(0.5)
    return [answer for _, answer in sorted(ended, key=lambda pair: int(pair[0].work.id[1:]))]


def died(answer: Any) -> WorkerDied:
    assert isinstance(answer, WorkerDied)
    return answer


def test_b9_f15_a_killed_worker_names_its_key_and_the_others_go_on(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef], place: Path
) -> None:
    shared.submit(make_work(["a", "b", "c"], function=ref("kills_itself"), id="w9001"))
    shared.submit(make_work(["a", "b", "c"], function=ref("fine"), id="w9002"))
    shared.submit(make_work(["a"], function=ref("fine"), id="w9003"))
    killed, fine, queued = answers(shared, 3)
    death = died(killed)
    assert "killed by signal 9 (SIGKILL)" in death.reason
    assert death.begun == 2
    assert not death.timed_out
    assert succeeded(fine) == ["r=a", "r=b", "r=c"]
    assert succeeded(queued) == ["r=a"]
    lines = read_logs(place / "logs", "run1")
    assert lines.filter(lines.get_column("call") == "w9001").get_column("line").to_list() == [
        "last words of a",
        "last words of b",
    ]


def test_f15_os_exit_names_its_code(shared: ProcessExecutor, ref: Callable[[str], FunctionRef]) -> None:
    shared.submit(make_work(["a", "b"], function=ref("exits")))
    shared.submit(make_work(["a", "b"], function=ref("exits_in_a_batch"), batched=True))
    one_key, batch = (died(answer) for answer in answers(shared, 2))
    assert "exit code 3" in one_key.reason
    assert one_key.begun == 2
    assert "exit code 1" in batch.reason
    assert batch.begun is None


def test_of_several_batched_calls_only_the_one_that_ended_the_worker_is_lost(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef]
) -> None:
    calls = (("b9301", 1), ("b9302", 1), ("b9303", 1))
    for name, limit in (("exits_in_the_second_call", 300.0), ("sleeps_in_the_third_call", 0.5)):
        work = make_work(
            ["a", "b", "c"], function=ref(name), batched=True, calls=calls, timeout_seconds=limit
        )
        shared.submit(work)
    exited, timed_out = (died(answer) for answer in answers(shared, 2))
    assert (exited.begun, exited.timed_out) == (2, False)
    assert (timed_out.begun, timed_out.timed_out) == (3, True)
    for death, kept in ((exited, ["r=a"]), (timed_out, ["r=a", "r=b"])):
        assert death.finished is not None
        assert [key for part in death.finished.parts for key in succeeded(part)] == kept


def test_a_worker_that_exits_as_if_all_were_well_is_noticed(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef]
) -> None:
    shared.submit(make_work(["a"], function=ref("exits_quietly")))
    death = died(answers(shared, 1)[0])
    assert "without an answer" in death.reason
    assert death.begun == 1


@pytest.mark.slow
def test_timeouts_stop_sleeping_and_spinning_calls(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef]
) -> None:
    shared.submit(make_work(["a", "b", "c"], function=ref("sleeps"), timeout_seconds=1.0))
    shared.submit(make_work(["a", "b", "c"], function=ref("spins"), timeout_seconds=1.0))
    shared.submit(make_work(["a"], function=ref("sleeps_in_a_batch"), batched=True, timeout_seconds=1.0))
    *one_key, batch = (died(answer) for answer in answers(shared, 3))
    for death in one_key:
        assert death.timed_out
        assert death.reason == "timed out after 1 s"
        assert death.begun == 2
    assert batch.timed_out
    assert batch.begun is None


def test_a_timeout_ends_what_the_step_started_too(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef], place: Path
) -> None:
    shared.submit(make_work(["a"], function=ref("waits_for_a_child"), timeout_seconds=0.5, id="w9200"))
    assert died(answers(shared, 1)[0]).timed_out
    lines = read_logs(place / "logs", "run1")
    child = int(lines.filter(lines.get_column("call") == "w9200").item(0, "line"))
    deadline = time.monotonic() + 20
    while process_exists(child):
        assert time.monotonic() < deadline, "the child lives on"
        shared.wait(0.05)
        time.sleep(0.05)


def test_a_cancelled_work_is_stopped_and_never_comes_back(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef]
) -> None:
    running = shared.submit(make_work(["b"], function=ref("sleeps")))
    shared.submit(make_work(["a"], function=ref("fine")))
    queued = shared.submit(make_work(["b"], function=ref("sleeps")))
    queued.cancel()
    [fine] = answers(shared, 1)
    running.cancel()
    assert succeeded(fine) == ["r=a"]
    assert shared.wait(0.3) == []


def test_f15_nothing_reaches_stdout_and_what_python_printed_is_recorded(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef], place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shared.submit(make_work(["a"], function=ref("prints"), id="w9100"))
    [result] = answers(shared, 1)
    assert failures(result) == {"r=a": "3"}
    lines = read_logs(place / "logs", "run1")
    assert lines.filter(lines.get_column("call") == "w9100").select("stream", "line").rows() == [
        ("stdout", "to stdout"),
        ("stderr", "WARNING root: careful"),
    ]
    assert capfd.readouterr().out == ""


def test_a_step_that_asks_fails_instead_of_waiting(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef]
) -> None:
    shared.submit(make_work(["a"], function=ref("asks")))
    [result] = answers(shared, 1)
    assert result.outcomes.get_column("error_type").to_list() == ["EOFError"]


def test_workers_have_the_environment_of_the_moment_and_their_share_of_threads(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef], place: Path
) -> None:
    from barca.io.values import read_values

    shared.submit(make_work(["a"], function=ref("surroundings")))
    [result] = answers(shared, 1)
    [seen] = read_values(FilePackStore(place / "artifacts"), result.fragments, None, ("r",)).values()
    assert seen == {
        "threads": max(1, (os.cpu_count() or 1) // 2),
        "affinity": "in-memory",
        "late": "set before the workers started",
        "directory": os.getcwd(),
        "main": None,
    }


def test_a_function_that_is_gone_fails_its_keys(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef]
) -> None:
    shared.submit(make_work(["a"], function=ref("renamed")))
    [result] = answers(shared, 1)
    assert "no longer in the file" in failures(result)["r=a"]


def test_a_worker_killed_while_idle_is_replaced(
    shared: ProcessExecutor, ref: Callable[[str], FunctionRef], place: Path
) -> None:
    from barca.io.values import read_values

    shared.submit(make_work(["a"], function=ref("fine")))
    [result] = answers(shared, 1)
    [value] = read_values(FilePackStore(place / "artifacts"), result.fragments, None, ("r",)).values()
    os.kill(value["pid"], signal.SIGKILL)
    while any(child.pid == value["pid"] for child in multiprocessing.active_children()):
        time.sleep(0.01)
    for _ in range(3):
        shared.submit(make_work(["a"], function=ref("fine")))
    assert all(isinstance(answer, WorkResult) for answer in answers(shared, 3))


def test_shutdown_leaves_no_process_and_no_file(
    place: Path, ref: Callable[[str], FunctionRef], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    executor = ProcessExecutor(
        1, FilePackStore(place / "artifacts"), load_function, place / "logs", quiet=True
    )
    executor.submit(make_work(["a"], function=ref("fine")))
    [result] = answers(executor, 1)
    executor.submit(make_work(["b"], function=ref("sleeps")))
    executor.wait(0.3)
    began = time.monotonic()
    executor.shutdown(cancel=True)
    assert time.monotonic() - began < 5
    assert succeeded(result) == ["r=a"]
    assert [file for file in tmp_path.iterdir() if file.name.startswith("barca-")] == []


# --- whole programs ---------------------------------------------------------------------------------

SCRIPT = """
    print("script runs")
    import os, sys
    from pathlib import Path
    from barca.discovery.refs import load_function
    from barca.exec.processes import ProcessExecutor
    from barca.io.storage import FilePackStore
    from tests.exec.works import make_work, succeeded, write_steps

    place = Path(sys.argv[1])
    ref = write_steps(place / "project", '''
        import os, time
        from barca import asset, partitions

        @asset(partitions={"r": partitions(["a"])})
        def step(r):
            print("pid", os.getpid())
            time.sleep(float(os.environ["PAUSE"]))
            return 1
    ''')
    executor = ProcessExecutor(1, FilePackStore(place / "artifacts"), load_function, place / "logs")
    executor.submit(make_work(["a"], function=ref("step")))
    [(_, result)] = executor.wait(60)
    print(succeeded(result))
    executor.shutdown()
"""


def start_script(place: Path, pause: float) -> subprocess.Popen[str]:
    script = place / "unguarded.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return subprocess.Popen(
        [sys.executable, str(script), str(place)],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PAUSE": str(pause),
            "TMPDIR": str(place),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_script_without_a_guard_is_not_run_again_by_its_workers(tmp_path: Path) -> None:
    process = start_script(tmp_path, 0)
    out, err = process.communicate(timeout=120)
    assert out.splitlines() == ["script runs", "['r=a']"], err
    assert err.startswith("pid ")


@pytest.mark.slow
def test_workers_end_when_the_run_is_killed(tmp_path: Path) -> None:
    process = start_script(tmp_path, 120)
    deadline = time.monotonic() + 60
    while (lines := read_logs(tmp_path / "logs", "run1")).is_empty():
        assert time.monotonic() < deadline, "the step did not start"
        time.sleep(0.1)
    worker = int(lines.item(0, "line").split()[1])
    process.kill()
    process.communicate(timeout=60)
    while process_exists(worker):
        assert time.monotonic() < deadline, "the worker lives on"
        time.sleep(0.05)
    assert list(tmp_path.glob("barca-*")) == []


def test_a_short_timeout_does_not_end_a_worker_that_still_imports_the_project(
    shared: ProcessExecutor, place: Path
) -> None:
    late = write_steps(
        place / "late",
        """
        import time
        from barca import asset, partitions

        time.sleep(1.5)

        @asset(partitions={"r": partitions(["a"])}, batch="all")
        def late(r):
            return {"a": 1}
        """,
    )
    shared.submit(make_work(["a"], function=late("late"), batched=True, timeout_seconds=0.3, id="w9300"))
    assert failures(answers(shared, 1)[0]) == {}

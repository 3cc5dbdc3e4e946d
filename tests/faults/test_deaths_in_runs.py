"""Workers that die in the middle of a run: the call that was on fails, and no call is made twice."""

import collections
import os
import signal
import threading
import time

import pytest


STEPS = """
    import os, pathlib, resource, signal, time
    import polars as pl
    from barca import asset, partitions

    HERE = pathlib.Path(__file__).parent
    KEYS = partitions([f"k{n}" for n in range(8)])
    TABLES = {"k0": pl.DataFrame({"x": [None, 1.5]}), "k1": "text", "k2": {1, 2}}

    def note(k):
        with (HERE / "calls.txt").open("a") as file:
            file.write(f"{k} {os.getpid()}\\n")

    @asset(partitions={"k": KEYS})
    def kills_itself(k: str):
        note(k)
        print("a line of", k)
        if k == "k3":
            os.kill(os.getpid(), signal.SIGKILL)
        if k == "k1":
            raise ValueError("a plain failure")
        return TABLES.get(k, {"k": k})

    @asset(partitions={"k": KEYS})
    def waits_to_be_killed(k: str):
        note(k)
        while k == "k2":
            time.sleep(0.01)
        return k

    @asset(partitions={"k": KEYS}, timeout_seconds=1)
    def sleeps(k: str):
        note(k)
        while k == "k2":
            time.sleep(0.01)
        return k

    @asset(partitions={"k": KEYS})
    def wants_too_much(k: str):
        note(k)
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        used = int((pathlib.Path("/proc/self/statm").read_text()).split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), hard))
        try:
            if k == "k2":  # Python notices
                bytearray(1 << 32)
            if k == "k6":  # native code gives up the process
                pl.Series([0], dtype=pl.Int64).new_from_index(0, 1 << 30)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        return k

    @asset(partitions={"k": KEYS})
    def leaves_something_odd(k: str):
        note(k)
        if k == "k1":
            return lambda: None
        if k == "k3":
            os._exit(1)
        return k
"""


def calls(project):
    lines = (project.root / "calls.txt").read_text().splitlines()
    return collections.Counter(line.split()[0] for line in lines)


def run(project, name):
    project.write("pipeline.py", STEPS)
    opened = project.open(executor="processes")
    result = opened.get(name).to_dict()
    steps = opened.history(result["run_id"])["steps"]
    failed = {step["partition_key"]: step["error_type"] for step in steps if step["status"] == "failed"}
    return result, failed, opened


ALL = {f"k{n}": 1 for n in range(8)}


def test_b9_calls_that_ended_before_their_worker_died_are_not_made_again(project):
    result, failed, opened = run(project, "kills_itself")
    assert failed == {"k=k1": "ValueError", "k=k3": "WorkerDied"}
    assert calls(project) == ALL
    lines = collections.Counter(entry["line"] for entry in opened.logs(result["run_id"]))
    assert lines == {f"a line of k{n}": 1 for n in range(8)}
    stored = opened.get("kills_itself", partition={"k": ["k0", "k2", "k4"]}).value
    assert stored["k=k0"].to_dict(as_series=False) == {"x": [None, 1.5]}
    assert (stored["k=k2"], stored["k=k4"]) == ({1, 2}, {"k": "k4"})
    assert calls(project) == ALL


@pytest.mark.slow
def test_a_worker_killed_from_outside_fails_the_call_that_was_on(project):
    def kill():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            notes = project.root / "calls.txt"
            for line in notes.read_text().splitlines() if notes.exists() else ():
                if line.startswith("k2 "):
                    os.kill(int(line.split()[1]), signal.SIGKILL)
                    return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    _, failed, _ = run(project, "waits_to_be_killed")
    killer.join()
    assert failed == {"k=k2": "WorkerDied"}
    assert calls(project) == ALL


@pytest.mark.slow
def test_a_timeout_keeps_the_calls_before_it(project):
    _, failed, _ = run(project, "sleeps")
    assert failed == {"k=k2": "TimeoutError"}
    assert calls(project) == ALL


@pytest.mark.slow
def test_a_call_that_runs_out_of_memory_fails_alone(project):
    _, failed, _ = run(project, "wants_too_much")
    assert failed["k=k2"] == "MemoryError"
    assert set(failed) == {"k=k2", "k=k6"}
    assert calls(project) == ALL


@pytest.mark.slow
def test_a_result_that_cannot_be_kept_ends_its_chunk_and_fails_alone(project):
    _, failed, _ = run(project, "leaves_something_odd")
    assert failed == {"k=k1": "OutputError", "k=k3": "WorkerDied"}
    assert calls(project) == ALL

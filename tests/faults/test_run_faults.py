"""Whole runs that are killed, interrupted or doubled: nothing wrong is served, nothing committed is lost."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from tests.conftest import hear_interrupts

SLOW_CHAIN = """
    import os, pathlib, time
    from barca import asset, collect, partitions, partitions_from

    HERE = pathlib.Path(__file__).parent

    def note(name, key):
        with open(HERE / f"{name}.txt", "a") as file:
            file.write(f"{key}\\n")

    @asset(partitions={"k": partitions([f"{n:03d}" for n in range(120)])})
    def a(k: str) -> dict:
        time.sleep(0.01)
        note("a", k)
        return {"k": k, "square": int(k) ** 2}

    @asset(partitions={"k": partitions_from(a)}, batch=10)
    def b(k: list[str], a: dict) -> dict:
        note("b", ",".join(k))
        return {x: a[x]["square"] + 1 for x in k}

    @asset(inputs={"every": collect(b)})
    def total(every: list) -> int:
        return sum(every)
"""

EXPECTED = sum(n * n + 1 for n in range(120))


def start(project, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "barca", "get", *arguments, "--json"],
        cwd=project.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )


def wait_for_calls(project, more, process):
    """Wait until so many more calls of either node have been made, or the run has ended."""

    def made():
        files = [project.root / f"{name}.txt" for name in "ab"]
        return sum(len(file.read_text().split()) for file in files if file.exists())

    enough = made() + more
    while made() < enough and process.poll() is None:
        time.sleep(0.01)


def committed(project, node):
    reader = project.open()._reader()
    return set(reader.materialized(f"pipeline.py:{node}")["key"])


def no_workers_left(session):
    """Whether every process of a killed run's session is gone soon."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        alive = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                alive.append(pid)
        if not alive:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_killed_runs_resume_and_keep_what_they_committed(project, executor):
    project.write("pipeline.py", SLOW_CHAIN)
    chance = random.Random(7)
    for calls in (0, 20, 40, 60):  # it is killed in the course of so many calls, the first time as it starts
        process = start(project, "total", "--executor", executor)
        wait_for_calls(project, calls and chance.randint(1, calls), process)
        time.sleep(chance.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        process.stdout.close(), process.stderr.close()
        kept = committed(project, "a")
        # what is committed stays, and its packs can be read
        values = project.open().plan("a").plan.nodes["pipeline.py:a"].decision
        assert kept == set(values.filter(pl.col("state") == "cached")["key"])
    assert no_workers_left(process.pid)
    before = {node: committed(project, node) for node in ("a", "b")}
    (project.root / "a.txt").unlink(missing_ok=True)
    (project.root / "b.txt").unlink(missing_ok=True)
    done = project.cli("get", "total", "--executor", executor, "--json", "-o", "value")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["final_output"] == EXPECTED
    again = (project.root / "a.txt").read_text().split() if (project.root / "a.txt").exists() else []
    assert not {f"k={key}" for key in again} & before["a"], "committed keys do not run again"
    runs = project.open().history()["runs"]
    assert {run["status"] for run in runs[1:]} <= {"interrupted", "success"}
    assert runs[0]["status"] == "success"


@pytest.mark.slow
def test_ctrl_c_exits_130_and_keeps_what_finished(project):
    project.write("pipeline.py", SLOW_CHAIN)
    process = start(project, "total")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (project.root / "b.txt").exists():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert no_workers_left(process.pid)
    assert committed(project, "a")
    assert project.open().history()["runs"][0]["status"] == "cancelled"
    error = json.loads(err.strip().splitlines()[-1])
    assert error["kind"] == "cancelled"
    assert project.cli_json("get", "total", "-o", "value")["final_output"] == EXPECTED


QUICK_CALLS = """
import time
from barca import asset, partitions

@asset(partitions={"k": partitions([str(number) for number in range(400)])})
def quick(k: str) -> str:
    time.sleep(0.02)
    with open("done.txt", "a") as done:
        done.write(k + "\\n")
    return k
"""


@pytest.mark.slow
def test_ctrl_c_keeps_the_calls_that_a_chunk_had_finished(project):
    project.write("pipeline.py", QUICK_CALLS)
    process = start(project, "quick")
    done = project.root / "done.txt"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (done.exists() and len(done.read_text().split()) > 40):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    finished = {f"k={key}" for key in done.read_text().split()}
    assert len(finished) < 400
    assert committed(project, "quick") == finished


@pytest.mark.slow
def test_two_runs_at_once_both_succeed(project):
    project.write("pipeline.py", SLOW_CHAIN)
    runs = [start(project, "total", "-o", "value") for _ in range(2)]
    for process in runs:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert json.loads(out)["final_output"] == EXPECTED
    assert [run["status"] for run in project.open().history()["runs"]] == ["success", "success"]
    assert project.ran("total") == {}


@pytest.mark.slow
def test_cut_and_empty_last_commit_is_refused_before_anything_is_written(project):
    project.write("pipeline.py", SLOW_CHAIN)
    project.ran("b")
    log = project.root / ".barca/ledger/materializations/_delta_log"
    last = max(log.glob("*.json"))
    good = last.read_bytes()
    for damage in (b"", good[: len(good) // 2]):
        last.write_bytes(damage)
        done = project.cli("get", "b", "--json")
        assert done.returncode == 3, done.stderr
        error = json.loads(done.stderr.strip().splitlines()[-1])
        assert (error["kind"], error["code"]) == ("infra", "ledger_damaged")
        assert last.name in error["error"]
        assert last.read_bytes() == damage
    last.write_bytes(good)
    assert project.ran("b") == {}


@pytest.mark.slow
def test_full_disk_fails_the_run_clearly_and_loses_nothing(project):
    """A limit on file size stands for the full disk: every larger write fails the same way."""
    project.write(
        "pipeline.py",
        """
        from barca import asset
        import os
        @asset
        def small() -> int: return 1
        @asset(inputs={"small": small})
        def large(small: int) -> bytes: return os.urandom(5_000_000)
        """,
    )
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"ulimit -f 2000; trap '' XFSZ; exec {sys.executable} -m barca get large --executor inline --json",
        ],
        cwd=project.root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (1, 3), done.stderr
    assert "small" not in project.ran("large")
    assert not list((project.root / ".barca").rglob("*staging*"))

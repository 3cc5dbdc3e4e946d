"""Batched calls that die: what they had yielded is kept, the others are tried again in smaller calls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

YIELDS = """
    import os, pathlib, time
    from barca import asset, partitions

    HERE = pathlib.Path(__file__).parent

    @asset(partitions={"k": partitions([f"c{n:02d}" for n in range(100)])}, batch="all")
    def slow(k: list[str]):
        with open(HERE / "calls.txt", "a") as file:
            file.write(f"{len(k)}\\n")
        for number, key in enumerate(k):
            if number == 60 and not (HERE / "go").exists():
                DIE
            yield key, {"key": key}
"""
WAIT = "time.sleep(600)"


def calls(project):
    return [int(line) for line in (project.root / "calls.txt").read_text().split()]


def kept(project):
    return set(project.open()._reader().materialized("pipeline.py:slow")["key"])


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_b8_what_was_yielded_survives_the_death_of_the_whole_run(project, executor):
    project.write("pipeline.py", YIELDS.replace("DIE", WAIT))
    process = subprocess.Popen(
        [sys.executable, "-m", "barca", "get", "slow", "--executor", executor],
        cwd=project.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(lambda: (project.root / "calls.txt").exists() and len(kept(project)) == 60)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    (project.root / "go").touch()
    result = project.get("slow")
    assert result.to_dict()["steps"][0]["partitions"]["will_run"] == 40
    assert calls(project) == [100, 40], "the keys that were kept do not run again"
    assert result.value == {f"k=c{n:02d}": {"key": f"c{n:02d}"} for n in range(100)}


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_b8_b9_what_was_yielded_survives_the_death_of_its_worker(project, end):
    dies_when_told = f"""
                while not (HERE / "die").exists():
                    time.sleep(0.01)
                {end}"""
    project.write("pipeline.py", YIELDS.replace("DIE", dies_when_told.lstrip()))

    def tell():
        wait_for(lambda: (project.root / ".barca/ledger").exists() and len(kept(project)) == 60)
        (project.root / "die").touch()

    telling = threading.Thread(target=tell)
    telling.start()
    result = project.open(executor="processes").get("slow")
    telling.join()
    assert result.status == "success"
    assert calls(project) == [100, 20, 20], "what was not kept is tried again in halves"
    record = project.open().history(result.run_id)
    assert sorted(call["keys"] for call in record["calls"]) == [20, 20, 100]
    assert {step["status"] for step in record["steps"]} == {"success"}
    attempts = [step["attempts"] for step in record["steps"]]
    assert (attempts.count(1), attempts.count(2)) == (60, 40)


@pytest.mark.slow
def test_a_call_that_times_out_late_keeps_what_it_yielded(project):
    text = YIELDS.replace("DIE", WAIT).replace('batch="all"', 'batch="all", timeout_seconds=2')
    project.write("pipeline.py", text)
    result = project.open(executor="processes").get("slow")
    assert result.status == "success", "the other keys come before the sixtieth of their call"
    assert calls(project) == [100, 20, 20]


@pytest.mark.slow
def test_b9_a_killed_worker_costs_its_key_only(project):
    project.write(
        "pipeline.py",
        """
        import os
        from barca import asset, partitions

        @asset(partitions={"k": partitions([f"k{n:02d}" for n in range(64)])}, batch="all")
        def node(k: list[str]) -> dict:
            if "k13" in k:
                print("about to go", flush=True)
                os._exit(1)
            return {key: int(key[1:]) for key in k}
        """,
    )
    result = project.open(executor="processes").get("node")
    out = result.to_dict()
    assert out["failed_node"] == "pipeline.py:node[k=k13]"
    assert "ended with exit code 1" in out["error"]
    assert len(out["final_output"]) == 63
    lines = project.open().logs(result.run_id, step="node[k=k13]")
    assert [line["line"] for line in lines] == ["about to go"] * 7, "of every call that the key was in"
    assert project.open().plan("node").to_dict()["steps"][0]["partitions"]["will_run_keys"] == ["k=k13"]

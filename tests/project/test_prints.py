"""What steps print, raise and end with, in whole runs of both executors."""

from __future__ import annotations

import json

import pytest

LOUD = """
    import logging, os, sys, threading
    from barca import asset, partitions, partitions_from

    KEYS = partitions(["1", "2", "3"])

    class Odd(Exception):
        def __init__(self, lock, text):
            super().__init__(text)
            self.lock = lock

    def fails(text):
        raise Odd(threading.Lock(), text)

    @asset(partitions={"k": KEYS})
    def prints(k: str) -> str:
        print("out", k)
        print("err", k, file=sys.stderr)
        logging.getLogger("shop").warning("log %s", k)
        return k

    @asset(partitions={"k": KEYS})
    def raises(k: str) -> str:
        return fails("odd thing") if k == "2" else k

    @asset(partitions={"k": KEYS})
    def exits(k: str) -> str:
        return sys.exit(3) if k == "2" else k

    @asset(partitions={"k": KEYS})
    def interrupts(k: str) -> str:
        if k == "2" and os.environ.get("INTERRUPT"):
            raise KeyboardInterrupt
        return k

    @asset(partitions={"k": KEYS})
    def leaves(k: str) -> str:
        if k == "2" and os.environ.get("LEAVE"):
            print("goodbye")
            os._exit(3)
        return k

    @asset(partitions={"k": partitions_from(leaves)})
    def after(k: str, leaves: str) -> str:
        return leaves
"""


@pytest.fixture
def loud(project):
    project.write("pipeline.py", LOUD)
    return project


def failures(project, result):
    """Step to error type and traceback."""
    steps = project.open().history(result.run_id)["steps"]
    return {
        step["node_id"].rpartition(":")[2]: (step["error_type"], step["error_traceback"] or "")
        for step in steps
        if step["status"] == "failed"
    }


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_f15_output_is_recorded_and_failures_spare_the_others(loud, executor, capfd):
    result = loud.open(executor=executor).get(["prints", "raises", "exits"])
    out = result.to_dict()
    assert out["status"] == "failed" and out["steps_executed"] == 9
    found = failures(loud, result)
    assert {step: kind for step, (kind, _) in found.items()} == {
        "raises[k=2]": "Odd",
        "exits[k=2]": "SystemExit",
    }
    trace = found["raises[k=2]"][1]
    assert "in fails" in trace and "in raises" in trace and "odd thing" in trace
    assert "barca/exec" not in trace and "concurrent" not in trace
    for key in "123":
        lines = {
            (line["stream"], line["line"])
            for line in loud.open().logs(result.run_id, step=f"prints[k={key}]")
        }
        assert lines == {
            ("stdout", f"out {key}"),
            ("stderr", f"err {key}"),
            ("stderr", f"WARNING shop: log {key}"),
        }
    printed = capfd.readouterr()
    assert printed.out == ""
    if executor == "inline":  # workers descend from a process that kept the stderr of an earlier test
        assert "out 1" in printed.err and "err 1" in printed.err
    again = loud.open(executor=executor).get(["prints", "raises", "exits"])
    assert again.steps_executed == 2, "only the keys that failed"


def test_f15_os_exit_costs_its_own_key_alone(loud, monkeypatch):
    monkeypatch.setenv("LEAVE", "1")
    result = loud.open(executor="processes").get("after")
    out = result.to_dict()
    assert out["failed_node"] == "pipeline.py:leaves[k=2]"
    assert "exit code 3" in out["error"]
    assert out["steps_executed"] == 3 + 2
    assert [line["line"] for line in loud.open().logs(result.run_id, step="leaves")] == ["goodbye"]
    monkeypatch.delenv("LEAVE")
    assert loud.ran("after") == {"leaves": 1, "after": 1}


def test_f15_an_interrupt_raised_by_a_step_in_a_worker_fails_its_key(loud, monkeypatch):
    monkeypatch.setenv("INTERRUPT", "1")
    result = loud.open(executor="processes").get("interrupts")
    assert failures(loud, result)["interrupts[k=2]"][0] == "KeyboardInterrupt"
    assert result.to_dict()["steps_executed"] == 3
    monkeypatch.delenv("INTERRUPT")
    assert loud.ran("interrupts") == {"interrupts": 1}


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_f15_a_hundred_thousand_lines_leave_stdout_to_the_result(project, executor):
    project.write(
        "pipeline.py",
        """
        from barca import asset

        @asset
        def chatty() -> int:
            for number in range(100_000):
                print("line", number)
            return 7
        """,
    )
    done = project.process("get", "chatty", "--executor", executor, "--json", "-o", "value")
    assert done.returncode == 0
    assert json.loads(done.stdout)["final_output"] == 7, "one line of JSON, and nothing else"
    assert done.stderr.count("line ") == 100_000
    lines = project.open().logs(step="chatty")
    assert len(lines) == 100_000 and lines[-1]["line"] == "line 99999"

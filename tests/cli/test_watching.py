"""`barca get --watch`: computes again when files change or time is up, shows what is wrong, and waits on."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from barca.cli import watching
from barca.discovery.files import stamps

PIPELINE = """
    import json, pathlib
    import helper
    from barca import asset, sensor

    @sensor()
    def number() -> int:
        return json.loads(pathlib.Path("number.json").read_text())

    @asset(inputs={"number": number})
    def doubled(number: int) -> int:
        return number * helper.FACTOR
"""


@pytest.fixture
def watched(commands, monkeypatch):
    """Watches while steps, each done instead of a pause, change things; the last pause is interrupted."""
    commands.write("pipeline.py", PIPELINE)
    commands.write("helper.py", "FACTOR = 2\n")
    commands.write("number.json", "1")

    def watch(*arguments, steps=()):
        left = [*steps]

        def sleep(seconds):
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr(watching.time, "sleep", sleep)
        return commands.cli("get", "doubled", "-o", "value", "--json", "--watch", *arguments)

    watch.write = commands.write
    watch.root = commands.root
    return watch


def values(done):
    return [json.loads(line)["final_output"] for line in done.stdout.splitlines()]


def nothing():
    pass


def test_a_file_that_changes_runs_what_it_must(watched):
    done = watched(
        steps=[
            nothing,
            lambda: watched.write("helper.py", "FACTOR = 30\n"),
            lambda: watched.write("notes.txt", "no code"),
            lambda: watched.write("unrelated.py", "x = 1\n"),
        ]
    )
    assert done.returncode == 130
    assert values(done) == [2, 30, 30]
    assert "watching 3 files; Ctrl-C ends it" in done.stderr
    assert "changed: helper.py" in done.stderr and "changed: unrelated.py" in done.stderr
    assert "notes.txt" not in done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["kind"] == "cancelled"


def test_what_is_wrong_is_shown_and_waited_on(watched):
    done = watched(
        steps=[
            lambda: watched.write("helper.py", "FACTOR = \n"),
            lambda: watched.write("helper.py", "FACTOR = 1 / 0\n"),
            lambda: watched.write("helper.py", "FACTOR = 5\n"),
        ]
    )
    assert (done.returncode, values(done)) == (130, [2, 5])
    assert "SyntaxError" in done.stderr and "ZeroDivisionError" in done.stderr


def test_a_step_that_fails_is_no_end(watched):
    done = watched(
        steps=[
            lambda: watched.write("pipeline.py", PIPELINE.replace("number * helper.FACTOR", "1 / 0")),
            lambda: watched.write("pipeline.py", PIPELINE),
        ]
    )
    assert done.returncode == 130
    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == [
        "success",
        "failed",
        "success",
    ]


def test_sensors_are_asked_when_their_time_is_up_and_told_of_only_if_something_ran(watched):
    done = watched(
        "--every", "0.000001", steps=[nothing, lambda: watched.write("number.json", "4"), nothing, nothing]
    )
    assert (done.returncode, values(done)) == (130, [2, 8])
    assert "every" in done.stderr and "changed" not in done.stderr


def test_without_every_sensors_are_left_alone(watched):
    done = watched(steps=[lambda: watched.write("number.json", "4"), nothing])
    assert values(done) == [2]


def test_a_refresh_is_asked_for_once(watched):
    done = watched("--refresh-all", steps=[lambda: watched.write("unrelated.py", "x = 1\n")])
    assert [json.loads(line)["steps_executed"] for line in done.stdout.splitlines()] == [2, 1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--every", "5"], "--watch --every"),
        (["--watch", "--dry-run"], "leave out"),
        (["--watch", "--every", "no"], "number of seconds"),
        (["--wach"], "did you mean `--watch`"),
    ],
)
def test_what_is_refused(commands, arguments, said):
    done = commands.cli("get", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_stamps_are_of_code_and_settings(commands):
    commands.write("pkg/mod.py", "")
    for skipped in (".hidden/x.py", "node_modules/x.py", "pkg/__pycache__/x.py", "notes.txt"):
        commands.write(skipped, "")
    found = {path.removeprefix(str(commands.root)) for path in stamps(commands.root)}
    assert found == {"/barca.toml", "/pkg/mod.py"}


@pytest.mark.slow
def test_a_closed_pipe_and_ctrl_c_end_it(project):
    project.write("pipeline.py", PIPELINE)
    project.write("helper.py", "FACTOR = 2\n")
    project.write("number.json", "1")
    command = [sys.executable, "-m", "barca", "get", "doubled", "--watch", "--executor", "inline"]
    with subprocess.Popen(
        command, cwd=project.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert '"success"' in process.stdout.readline()
        process.stdout.close()
        project.write("helper.py", "FACTOR = 3\n")
        assert process.wait(60) == 0
    with subprocess.Popen(
        command, cwd=project.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        while "Ctrl-C" not in process.stderr.readline():
            pass
        time.sleep(0.2)
        process.send_signal(2)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()

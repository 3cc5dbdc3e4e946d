"""The command line as a process of its own: start-up, pipes, signals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"polars", "deltalake", "pyarrow", "pandas", "duckdb", "rich", "pebble", "cloudpickle", "asyncio"}


def environment(**more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BARCA_")}
    return {**inherited, **more}


def test_asking_for_the_version_loads_no_parser():
    script = (
        "import sys\nfrom barca.__main__ import main\nmain(['version'])\nassert 'typer' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, check=True)


def test_what_needs_no_project_is_light():
    asked = [
        ["--help"],
        ["version"],
        ["--version"],
        ["get", "--help"],
        ["docs", "cache"],
        ["gett"],
        ["docs", "x"],
    ]
    script = (
        "import sys\nfrom barca.__main__ import main\n"
        f"for words in {asked!r}:\n"
        "    main(words)\n"
        f"    sys.stderr.write('heavy: ' + ','.join(sorted({HEAVY!r} & set(sys.modules))) + ';')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr.count("heavy: ;") == len(asked), done.stderr


def test_the_exit_code_is_the_process_s(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "barca", "get", "nothing.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stdout == "" and '"code": "no_such_file"' in done.stderr


def test_a_closed_pipe_is_quiet(tmp_path: Path):
    command = f"{sys.executable} -m barca docs cli | head -c 5; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1].endswith("0")
    assert done.stderr == ""


def test_a_pipe_that_is_closed_from_the_start(tmp_path: Path):
    script = (
        "import os, sys\nread, write = os.pipe()\nos.close(read)\nos.dup2(write, 1)\n"
        "from barca.__main__ import main\nsys.exit(main(['docs', 'cli']))"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_streams_that_are_closed_from_the_start(tmp_path: Path, closed: str):
    (tmp_path / "steps.py").write_text("from barca import asset\n\n@asset\ndef one():\n    return 1\n")
    command = f"{sys.executable} -m barca get one --executor inline {closed}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ('"status": "success"' in done.stdout) == (closed != ">&-")


def test_an_ascii_terminal_gets_what_it_can_show(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "barca", "docs", "é…", "--pretty"],
        cwd=tmp_path, env=environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0"), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and "there is no topic `\\xe9\\u2026`" in done.stderr


def test_the_topics_are_in_the_package():
    from importlib.resources import files

    assert (files("barca.cli") / "topics" / "cache.md").is_file()


@pytest.mark.parametrize(
    ("words", "started"),
    [
        (["get", "one"], True),
        (["run", "one", "--json"], True),
        (["get", "one", "--dry-run"], False),
        (["get", "one", "--executor=inline"], False),
        (["status"], False),
        ([], False),
    ],
)
def test_a_worker_starts_before_the_command_line_is_read(tmp_path: Path, words: list[str], started: bool):
    script = (
        "import sys\nfrom barca.cli import session\n"
        f"session.start_early({words!r})\n"
        "assert not {'typer', 'polars'} & set(sys.modules)\n"
        "print(len(session._early))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{started:d}\n"


def test_no_worker_starts_early_where_steps_run_in_this_process(tmp_path: Path):
    script = "from barca.cli import session\nsession.start_early(['get'])\nassert not session._early"
    for variables, setting in (({"BARCA_EXECUTOR": "inline"}, ""), ({}, '[execution]\nexecutor = "inline"')):
        (tmp_path / "barca.toml").write_text(setting)
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path, env=environment(**variables), check=True, capture_output=True,
        )  # fmt: skip


def test_a_worker_of_a_command_line_that_is_refused_ends_with_it(tmp_path: Path):
    script = (
        "import sys\nfrom barca import __main__\nfrom barca.cli import session\n"
        "start = session.start_early\n"
        "def told(words):\n"
        "    start(words)\n"
        "    [workers] = session._early\n"
        "    print(workers._idle[0].process_id)\n"
        "session.start_early = told\n"
        "sys.argv = ['barca', 'get', '--nope']\n"
        "__main__.command()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 2 and "no such option" in done.stderr.lower()
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_what_a_project_leaves_for_the_end_of_the_process_is_done(tmp_path: Path):
    (tmp_path / "steps.py").write_text(
        "import atexit, threading, time\n"
        "from pathlib import Path\n"
        "from barca import asset\n\n"
        "def later():\n"
        "    time.sleep(0.2)\n"
        "    Path('thread').touch()\n\n"
        "threading.Thread(target=later).start()\n"
        "atexit.register(Path('atexit').touch)\n"
        "atexit.register(print, 'the last line', end='')\n\n"
        "@asset\ndef one():\n    return 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "barca", "get", "one", "--executor", "inline", "--fields", "status"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == '{"status": "success"}\nthe last line'
    assert (tmp_path / "thread").exists() and (tmp_path / "atexit").exists()

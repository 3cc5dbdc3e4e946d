"""`barca new`: what it makes runs, passes its own tests and looks like code of a project; nothing is overwritten."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from barca.cli.starting import STARTER, starter_files

FILES = [
    ".gitignore", "README.md", "barca.toml", "data/bergen.csv", "data/oslo.csv", "data/tromso.csv", "pipeline.py",
    "test_pipeline.py",
]  # fmt: skip


@pytest.fixture
def weather(commands):
    """A new project, and its command line."""
    told = commands.cli_json("new", "weather")
    assert (told["path"], sorted(told["files"])) == (str((commands.root / "weather").resolve()), FILES)
    commands.root = commands.root / "weather"
    return commands


def get(weather):
    done = weather.cli("get", "summary", "-o", "value", "--executor", "inline")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_it_runs_and_only_what_changed_runs_again(weather):
    first, told = get(weather)
    assert "reading bergen, oslo, tromso" in told
    assert [row["station"] for row in first["final_output"]] == ["bergen", "oslo", "tromso"]
    assert first["final_output"][1] == {"station": "oslo", "coldest": -7.0, "mean": -4.3, "warmest": -1.5}
    again, told = get(weather)
    assert again["steps_executed"] == 1 and "reading" not in told
    (weather.root / "data" / "oslo.csv").write_text("day,celsius\n2024-01-01,10.0\n")
    changed, told = get(weather)
    assert "reading oslo\n" in told
    assert changed["final_output"][1]["coldest"] == 10.0


def test_what_its_readme_names_works(weather):
    get(weather)
    readme = (weather.root / "README.md").read_text()
    for arguments in (["head", "summary"], ["status"], ["graph"]):
        assert f"barca {' '.join(arguments)}" in readme
        assert weather.cli(*arguments).returncode == 0
    query = "SELECT * FROM readings WHERE celsius < :limit"
    assert query in readme
    assert len(weather.cli_json("sql", query, "--param", "limit=0")["rows"]) == 5


def test_its_own_tests_pass(weather):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "."],
        cwd=weather.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_nothing_is_overwritten(weather):
    before = {path: path.read_bytes() for path in weather.root.rglob("*") if path.is_file()}
    weather.root = weather.root.parent
    done = weather.cli("new", "weather")
    assert done.returncode == 2 and "nothing is overwritten" in done.stderr and "README.md" in done.stderr
    assert {path: path.read_bytes() for path in before} == before
    weather.write("half/README.md", "mine")
    assert weather.cli("new", "half").returncode == 2
    assert [path.name for path in (weather.root / "half").iterdir()] == ["README.md"]
    weather.write("file", "mine")
    assert "is a file" in weather.cli("new", "file").stderr
    assert "takes a directory" in weather.cli("new").stderr


def test_beside_other_files_in_a_directory_that_is_there(commands):
    commands.write("mine/notes.txt", "mine")
    done = commands.cli("new", "mine", "--pretty", env={"COLUMNS": "60"})
    assert max(map(len, done.stdout.splitlines())) <= 60
    assert (done.returncode, done.stdout.splitlines()[-2:]) == (0, ["  cd mine", "  barca get summary"])
    assert (commands.root / "mine" / "notes.txt").read_text() == "mine"


def test_the_files_are_ones_that_are_shipped():
    assert sorted(starter_files()) == FILES
    for name, path in starter_files().items():
        assert path.suffix == ".txt" and path.is_relative_to(STARTER)
        if name.endswith(".py"):
            ast.parse(path.read_text())
            assert max(map(len, path.read_text().splitlines())) <= 120

"""What the type checkers of users see: the signatures of decorated functions, and what barca's verbs return."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

PROGRAM = """
import polars as pl

import barca
from barca import Project, asset, partitions, sink, task
from barca.model import Definition


@asset
def plain(x: int = 1) -> str:
    return str(x)


@asset(partitions={"k": partitions(["a"])}, retries=2)
@sink("a.json")
def keyed(k: str) -> int:
    return len(k)


@task(weight=2)
def done() -> None: ...


text: str = plain(2)
number: int = keyed("a")
kept: Definition[[], None] = done
frame: pl.LazyFrame = barca.scan(keyed)
found: pl.LazyFrame = barca.sql("SELECT 1")
summary: dict[str, int] = barca.plan(plain).to_dict()["summary"]
status: str = barca.status(plain)._repr_html_()
run: str = Project(".", executor="inline", listener=print).get(plain).run_id

plain("x")  # refused
keyed(1)  # refused
asset(retrys=1)  # refused
asset(retries="1")  # refused
wrong: int = barca.scan(keyed)  # refused
Project().get(plain, refres="x")  # refused
"""

CHECKERS = {
    "mypy": [
        *("mypy", "--strict", "--config-file="),
        # with what the project's own check says, the two share what they found out of other packages
        *("--warn-unreachable", "--cache-dir", str(ROOT / ".mypy_cache")),
    ],
    "pyrefly": [
        *("pyrefly", "check", "--preset", "strict", "--output-format", "min-text"),
        *("--python-interpreter-path", sys.executable),
    ],
    "basedpyright": [
        "basedpyright",
        "--level",
        "error",
        "--pythonpath",
        sys.executable,
    ],  # pyright, with what it needs in one package
}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers_see_what_was_declared(tmp_path: Path, checker: str):
    source = tmp_path / "typed.py"
    source.write_text(PROGRAM)
    command, *options = CHECKERS[checker]
    done = subprocess.run(
        [BIN / command, *options, source.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    refused = {int(number) for number in re.findall(r"typed\.py:(\d+)", done.stdout)}
    lines = PROGRAM.splitlines()
    assert refused == {number for number, line in enumerate(lines, 1) if "# refused" in line}, done.stdout

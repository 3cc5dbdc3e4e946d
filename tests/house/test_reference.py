"""The reference says what the docstrings say."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import barca
from barca import ports
from barca.schemas import LEDGER_TABLES

ROOT = Path(__file__).parents[2]


def test_the_reference_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "docs/generate_reference.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_public_name_has_an_entry():
    pages = "".join((ROOT / "docs/reference" / page).read_text() for page in ("python.md", "errors.md"))
    assert [name for name in barca.__all__ if not re.search(rf"^#+ `{name}`$", pages, re.MULTILINE)] == []


def test_every_member_of_a_port_is_described():
    page = (ROOT / "docs/reference/extending.md").read_text()
    for port in (ports.Executor, ports.Pending, ports.PackStore, ports.Ledger):
        [told] = re.findall(rf"^### `{port.__name__}`\n(.*?)^### ", page, re.DOTALL | re.MULTILINE)
        members = [name for name in {**port.__annotations__, **vars(port)} if not name.startswith("_")]
        assert [name for name in members if f"`{name}`" not in told and f".{name}`" not in told] == []


def test_the_layers_are_those_that_are_checked():
    [layers, *_] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [block] = re.findall(
        r"```text\n(__main__\n.*?)```", (ROOT / "docs/contributing.md").read_text(), re.DOTALL
    )
    assert [line.split("  ")[0] for line in block.splitlines()] == layers["layers"]


@pytest.mark.parametrize("table", LEDGER_TABLES)
def test_every_column_of_the_ledger_is_described(table):
    page = (ROOT / "docs/concepts/ledger.md").read_text()
    [told] = re.findall(rf"^### `{table}`\n(.*?)^##", page, re.DOTALL | re.MULTILINE)
    assert [name for name in LEDGER_TABLES[table] if f"`{name}`" not in told] == []

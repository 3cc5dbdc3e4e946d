"""What is installed is what is imported: the project's declared dependencies against its imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

OPTIONAL = {
    "pyarrow": ("arrow", "pyarrow"),
    "duckdb": ("duckdb", "duckdb"),
    "pandas": ("pandas", "pandas"),
    "botocore": ("s3", "s3fs"),
}
"""Libraries that pipelines may use; for each the extra, and what of it installs the library."""


def installed_by(requirements: list[str]) -> set[str]:
    """Names that requirements are imported under."""
    return {re.split(r"[<>=!~\[ ]", one)[0].replace("-", "_") for one in requirements}


def imported(tree: ast.AST) -> Iterator[str]:
    """First names of what is imported when the code runs; what only type checkers see is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        yield from imported(node)


def test_what_is_imported_is_declared():
    found = {
        name
        for path in (ROOT / "barca").rglob("*.py")
        for name in imported(ast.parse(path.read_text()))
        if name not in sys.stdlib_module_names and name != "barca"
    }
    required = installed_by(PROJECT["dependencies"])
    assert found - required - set(OPTIONAL) == set()
    assert required - found == set(), "nothing is installed that nothing imports"
    extras = PROJECT["optional-dependencies"]
    for extra, library in OPTIONAL.values():
        assert library in installed_by(extras[extra]), extra


def test_the_command_and_the_pythons():
    assert PROJECT["scripts"] == {"barca": "barca.__main__:command"}
    assert PROJECT["requires-python"] == ">=3.11"
    assert {"duckdb", "pandas", "arrow", "examples", "test", "all"} <= PROJECT["optional-dependencies"].keys()


def test_the_readme_sets_up_with_one_line_for_the_main_job_and_one_for_the_tests():
    lines = [line for line in (ROOT / "README.md").read_text().splitlines() if "-m venv" in line]
    assert len(lines) == 2
    for line in lines:
        commands = [command.strip() for command in line.split("&&")]
        assert commands[0].startswith("python3 -m venv "), "an environment of its own"
        environment = commands[0].rpartition(" ")[2]
        assert all(command.startswith(f"{environment}/bin/") for command in commands[1:])
        assert "pip install" in commands[1]
    assert lines[0].endswith("barca get departments examples/grocery/pipeline.py")
    assert "pytest" in lines[1].rpartition("&&")[2]

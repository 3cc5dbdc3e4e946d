"""Starting is cheap: importing barca, and asking for help, load nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = "polars deltalake pyarrow pandas duckdb fsspec typer rich pebble cloudpickle asyncio".split()


def loaded(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has after running the code."""
    script = f"{code}\nimport sys as _s\n_s.stderr.write('\\n'.join(sorted(_s.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines())


def test_import_barca_is_light():
    modules = loaded("import barca")
    assert modules.isdisjoint(HEAVY)
    assert modules.isdisjoint(
        {"dataclasses", "inspect", "difflib", "ast", "datetime", "pathlib"} - loaded("")
    )
    assert len(modules - loaded("")) < 45


def test_decorating_is_light():
    code = (
        "from barca import asset, partitions, partitions_from\n"
        "@asset(partitions={'k': partitions(['a'])})\ndef a(k: str) -> dict: ...\n"
        "@asset(partitions={'k': partitions_from(a)})\ndef b(k: str, a: dict) -> dict: ..."
    )
    assert loaded(code).isdisjoint(HEAVY)


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["get", "--help"]])
def test_help_loads_neither_polars_nor_delta(arguments: list[str]):
    code = (
        "import sys, contextlib, io\n"
        f"sys.argv = ['barca', *{arguments!r}]\n"
        "from barca.__main__ import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main()"
    )
    assert loaded(code).isdisjoint({"polars", "deltalake", "pyarrow", "pandas", "duckdb", "pydantic", "rich"})


def test_a_run_in_a_pipe_loads_neither_what_draws_nor_what_validates(tmp_path: Path):
    (tmp_path / "barca.toml").write_text("\n")  # it marks the root, and says nothing
    (tmp_path / "steps.py").write_text("from barca import asset\n\n@asset\ndef one() -> int:\n    return 1\n")
    code = (
        f"import os, contextlib, io\nos.chdir({str(tmp_path)!r})\n"
        "from barca.__main__ import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    assert main(['get', 'one', '--executor', 'inline']) == 0"
    )
    modules = loaded(code)
    assert "deltalake" in modules
    assert modules.isdisjoint({"rich", "pydantic", "pebble", "pyarrow", "pandas", "duckdb", "tomllib"})

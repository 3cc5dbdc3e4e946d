"""What stands in the files: nothing that is true on one machine only."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


ROOT = Path(__file__).parents[2]
TEXT = {".py", ".md", ".toml", ".ipynb", ".yml", ".yaml", ".txt", ".sh", ""}


def tracked() -> list[Path]:
    """Text files of the checkout that git would keep; where there is no git, those below its directories."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        paths = [ROOT / name for name in listed.splitlines()]
    except (OSError, subprocess.CalledProcessError):
        places = ("barca", "tests", "docs", "examples", "benchmarks")
        paths = [*ROOT.glob("*.*"), *(path for name in places for path in (ROOT / name).rglob("*"))]
        paths = [path for path in paths if "__pycache__" not in path.parts]
    return [path for path in paths if path.suffix in TEXT and path.is_file()]


MACHINE = re.compile(r"(?<![\w.])/(?:home|root|Users|work|tmp/[a-z])(?:/|\b)")


def test_no_machine_paths():
    found = {
        f"{path.relative_to(ROOT)}:{number}": line.strip()
        for path in tracked()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if MACHINE.search(line)
    }
    assert found == {}


def test_it_is_installed_from_the_checkout():
    # the name on the package index belongs to another edition of the tool
    pattern = re.compile(r"(?:pip|uv|pipx)\b[^\n`]*\binstall[^\n`]*\s['\"]?barca\b")
    found = [path.name for path in tracked() if path != Path(__file__) and pattern.search(path.read_text())]
    assert found == []


def test_nothing_is_left_for_later():
    pattern = re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b")
    found = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.is_relative_to(ROOT / "barca") and pattern.search(path.read_text())
    ]
    assert found == []

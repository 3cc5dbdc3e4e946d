"""Every example of the README and the docs runs, in order, and prints what the page says it prints.

A fenced block is
    python or toml with `title="FILE"`   written to that file
    python                               run as a script
    console                              each line after `$ ` run in a shell, what follows compared with its stdout
and anything else is only to be read. In output that is shown, `...` stands for any text; runs of blanks, times and
run ids are equal.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
VARIES = {
    re.compile(r"\b(?:\d+ m )?\d[\d.]* (?:ms|s)\b"): "TIME",
    re.compile(r"\bRun [0-9a-f]{10,}\b"): "Run ID",
}
SLOW = {"README.md", "tutorial.md"}
GENERATED = ROOT / "docs" / "reference"


class Block(NamedTuple):
    """A fenced block: where it stands, its language, the file it is for, its text."""

    line: int
    language: str
    title: str | None
    body: str


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        language, _, rest = match["info"].partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        yield Block(text[: match.start()].count("\n") + 1, language, title and title[1], match["body"])


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BARCA_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{inherited['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**inherited, "PATH": path, "BARCA_OUTPUT": "pretty", "COLUMNS": "100", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
    )


def sessions(body: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, each with the output that is shown for it."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def settled(text: str) -> str:
    """Output without what is another each time."""
    for pattern, name in VARIES.items():
        text = pattern.sub(name, text)
    return text.strip()


def check_output(where: str, command: str, shown: str, done: subprocess.CompletedProcess[str]) -> None:
    printed = done.stdout
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    wanted, found = (settled(text) for text in (shown, printed))
    if shown and not doctest.OutputChecker().check_output(wanted, found, flags):
        pytest.fail(f"{where}: `{command}`\n--- shown\n{shown}\n--- printed\n{printed}{done.stderr}")


def run_page(page: Path, directory: Path) -> None:
    """Everything on a page, in order.

    Files are written with the time going on, so that an interpreter never takes an edited one for the old.
    """
    for block in blocks(page.read_text()):
        where = f"{page.name}:{block.line}"
        if block.title:
            target = directory / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.body)
        elif block.language == "python":
            (directory / "snippet.py").write_text(block.body)
            done = shell("python snippet.py", directory)
            assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"
            (directory / "snippet.py").unlink()
        elif block.language == "console":
            for command, shown in sessions(block.body):
                check_output(where, command, shown, shell(command, directory))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] if page.name in SLOW else []
        )
        for page in PAGES
        if GENERATED not in page.parents  # signatures, to be read only
    ],
)
def test_the_page_is_true(page: Path, tmp_path: Path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns(".barca"))
    run_page(page, tmp_path)


LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []

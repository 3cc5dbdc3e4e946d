"""Every example of the README, the docs and the manual runs, in order, and prints what the page says it prints.

A fenced block is
    any with `title="FILE"`   written to that file
    python                    run as a script
    console                   each line after `$ ` run in a shell, what follows compared with its stdout; where nothing
                              follows it must succeed
    toml, json                parsed
    bash, text                only to be read: but a line that begins with `barca` names a command and options there are
In output that is shown, `...` stands for any text; runs of blanks, times and run ids are equal.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.quick import QuickProject

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
MANUAL = ROOT / "barca" / "cli" / "topics"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(MANUAL.glob("*.md"))]
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


Run = Callable[[str, Path], subprocess.CompletedProcess[str]]

SHOWN = {"BARCA_OUTPUT": "pretty", "COLUMNS": "100", "NO_COLOR": "1"}


def shell(command: str, directory: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BARCA_")}
    path = f"{BIN}{os.pathsep}{inherited['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**inherited, "PATH": path, **SHOWN},
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
    )


PLAIN = re.compile(
    r"(?P<variables>(?:[A-Z_]+=\S+ )*)barca (?P<arguments>[^|&;<>$`]*)(?P<nowhere>> /dev/null)?(?:\| (?P<rest>.*))?"
)
"""A command of barca, what is set for it, whether its output is thrown away or goes on to other commands."""


def command(line: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """What a line of a console does. A command of barca runs in this process, which saves the start of another."""
    match = PLAIN.fullmatch(line)
    if match is None:
        return shell(line, directory)
    here = object.__new__(QuickProject)
    here.root = directory
    variables = dict(each.split("=", 1) for each in match["variables"].split())
    done = here.cli(*shlex.split(match["arguments"]), env={**SHOWN, **variables})
    if match["nowhere"]:
        return subprocess.CompletedProcess(done.args, done.returncode, "", done.stderr)
    if match["rest"] is None:
        return done
    after = shell(match["rest"], directory, done.stdout)
    return subprocess.CompletedProcess(line, after.returncode, after.stdout, done.stderr + after.stderr)


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
    if not shown:
        assert done.returncode == 0, f"{where}: `{command}`\n{printed}{done.stderr}"
    elif not doctest.OutputChecker().check_output(wanted, found, flags):
        pytest.fail(f"{where}: `{command}`\n--- shown\n{shown}\n--- printed\n{printed}{done.stderr}")


def run_page(page: Path, directory: Path, run: Run) -> None:
    """Everything on a page, in order, each line of a console by `run`.

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
            for line, shown in sessions(block.body):
                check_output(where, line, shown, run(line, directory))
        elif block.language in PARSED:
            PARSED[block.language](block.body)
        elif block.language in ("bash", "text"):
            for line in block.body.splitlines():
                if line.startswith("barca "):
                    check_usage(where, line)


PARSED = {"toml": tomllib.loads, "json": json.loads}


def check_usage(where: str, line: str) -> None:
    """That the command line takes a command as it stands; it is not carried out."""
    from typer.main import get_command

    from barca.cli.app import make_app

    name, *arguments = shlex.split(line, comments=True)[1:]
    group = get_command(make_app())
    assert name in group.commands, f"{where}: {line}"
    group.commands[name].make_context(
        name, arguments, parent=group.make_context("barca", [], resilient_parsing=True)
    )


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
    run_page(page, tmp_path, shell if page.name == "README.md" else command)


LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_site_has_every_page():
    def pages(entries):
        for entry in entries:
            for target in entry.values():
                yield from pages(target) if isinstance(target, list) else [target]

    listed = list(pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    docs = ROOT / "docs"
    assert sorted(listed) == sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))


ANCHOR = re.compile(r"\[[^\]]*\]\(([^)#\s]*)#([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings_that_are_there(page: Path):
    for target, anchor in ANCHOR.findall(page.read_text()):
        if "://" in target:
            continue
        text = (page.parent / target if target else page).read_text()
        headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
        slugs = [re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings]
        assert anchor in slugs, f"{target}#{anchor}"

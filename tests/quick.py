"""Projects whose command line runs in this process, where what takes a process its time is loaded already."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.conftest import WIDTH, TemporaryProject


class QuickProject(TemporaryProject):
    """A project whose commands run in this process, and so do their steps, unless `--executor` says otherwise."""

    process = TemporaryProject.cli

    def cli(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """`barca ARGUMENTS` in this process; `process` where the process is what is tested."""
        from barca.__main__ import main
        from barca.cli import session

        with _written() as written, pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.root)
            for name in [name for name in os.environ if name.startswith("BARCA_")]:
                patch.delenv(name)
            for name, value in {"BARCA_EXECUTOR": "inline", **WIDTH, **(env or {})}.items():
                patch.setenv(name, value)
            code = main(arguments)
        while session._early:  # of a command that was refused
            session._early.pop().stop()
        return subprocess.CompletedProcess(arguments, code, *written)


@contextmanager
def _written() -> Iterator[list[str]]:
    """What is written to stdout and to stderr meanwhile, also past Python."""
    texts: list[str] = []
    kept = [os.dup(descriptor) for descriptor in (1, 2)]
    files = [tempfile.TemporaryFile("w+", encoding="utf-8", newline="") for _ in kept]
    try:
        for descriptor, file in zip((1, 2), files, strict=True):
            os.dup2(file.fileno(), descriptor)
        with (
            open(1, "w", encoding="utf-8", closefd=False) as out,
            open(2, "w", encoding="utf-8", closefd=False) as err,
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            yield texts
    finally:
        for descriptor, file, before in zip((1, 2), files, kept, strict=True):
            os.dup2(before, descriptor)
            os.close(before)
            file.seek(0)
            texts.append(file.read())
            file.close()

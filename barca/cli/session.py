"""Opening the project of a command, and listening to what it does."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from barca.config import find_root, read_config
from barca.errors import BarcaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from barca.config import Config
    from barca.exec.pool import Workers
    from barca.project import Project
    from barca.render.progress import ProgressListener

_END = "\0end of the run\0"


def open_project(
    files: Sequence[Path] = (), *, env: str | None = None, listener: ProgressListener | None = None
) -> Project:
    """The project around the working directory; its files are read when it is first asked something."""
    from barca.project import Project

    return Project(files=files, env=env, listener=listener)


@contextmanager
def workers_starting(executor: str | None) -> Iterator[str | Workers | None]:
    """The executor that was asked for; if steps run in processes, the first of them gets ready meanwhile.

    What takes a worker its time is importing Polars, and so it does this process: they do it side by side.

    Raises:
        UsageError: A setting of the project is wrong.
    """
    config = read_config(find_root(Path.cwd()))
    if (executor or config.executor or "processes") != "processes":
        yield executor
        return
    workers = _early.pop() if _early else _workers(config)
    try:
        yield workers
    finally:
        workers.stop()


_early: list[Workers] = []


def start_early(words: list[str]) -> None:
    """Start the first worker of a command that will need one, before the command line is understood.

    In a terminal it is not done: there, what steps print has to go past the bars of `listening`.

    Args:
        words: What follows `barca`.
    """
    told = any(word.startswith(("--executor", "--dry-run", "--as-of", "--help", "-h")) for word in words)
    if words[:1] not in (["get"], ["run"]) or told or sys.stderr.isatty():
        return
    with suppress(BarcaError, OSError):  # whatever is wrong is told when the command is carried out
        config = read_config(find_root(Path.cwd()))
        if config.executor in (None, "processes"):
            _early.append(_workers(config))


def _workers(config: Config) -> Workers:
    from barca.exec.pool import Workers

    workers = Workers(config.pool_size)
    workers.start()
    return workers


@contextmanager
def listening() -> Iterator[ProgressListener]:
    """A listener that shows progress, warnings and what steps print on stderr.

    In a terminal, bars are drawn there while steps print to the same place, from other processes too. So
    for that time the process's stderr is a pipe, and what comes through it is shown above the bars.
    """
    from barca.cli.output import console
    from barca.render.progress import ProgressListener

    if not sys.stderr.isatty() or os.name != "posix":
        with (
            ProgressListener(lambda: console(sys.stderr), live=sys.stderr.isatty()) as listener,
            stdout_kept(),
        ):
            yield listener
        return
    from barca.cli.debugging import debugger_at

    sys.stderr.flush()
    descriptor = sys.stderr.fileno()
    with (
        os.fdopen(os.dup(descriptor), "w", encoding="utf-8", errors="backslashreplace") as terminal,
        ProgressListener(lambda: console(terminal), live=True) as listener,
        _diverted(descriptor, listener.line),
        debugger_at(terminal, listener.close),
        stdout_kept(),
    ):
        yield listener


@contextmanager
def stdout_kept() -> Iterator[None]:
    """Keep stdout for the result: what the project's code writes there meanwhile goes to stderr.

    Files print when they are imported, and programs that steps start write to the descriptor, so that is
    diverted too.
    """
    try:
        kept = os.dup(1)
    except OSError:  # closed: nothing that is written there can be seen
        yield
        return
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def _diverted(descriptor: int, show: Callable[[str], None]) -> Iterator[None]:
    """Show what is written to a descriptor, in this process and those it starts, as lines."""
    before = os.dup(descriptor)
    reading, writing = os.pipe()
    os.dup2(writing, descriptor)
    os.close(writing)
    pump = threading.Thread(target=_pump, args=(reading, show), name="barca-stderr", daemon=True)
    pump.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        # A marker, because processes that outlive the run keep the pipe open.
        os.write(descriptor, f"{_END}\n".encode())
        pump.join()
        os.dup2(before, descriptor)
        os.close(before)


def _pump(reading: int, show: Callable[[str], None]) -> None:
    with open(reading, encoding="utf-8", errors="backslashreplace") as lines:
        for line in lines:
            text, end, _ = line.rstrip("\n").partition(_END)
            if text or not end:
                show(text)
            if end:
                return

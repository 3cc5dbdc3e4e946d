"""What runs in a worker process: getting ready, then works one after the other.

No Polars at module level: the variables that Polars reads when it is imported are set in `prepare`.
"""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barca.model import Definition, FunctionRef
    from barca.ports import PackStore


@dataclass(frozen=True, slots=True)
class Setup:
    """What every work of a pool needs.

    Attributes:
        environment: Environment variables, whole.
        directory: Working directory.
        path: `sys.path`.
        tools: Pickle of `Tools`; apart, because loading it imports Polars.
    """

    environment: Mapping[str, str]
    directory: str
    path: Sequence[str]
    tools: bytes


@dataclass(frozen=True, slots=True)
class Tools:
    """The parts of `execute` that are the same for every work.

    Attributes:
        store: Where packs are.
        load: Loads a function.
        log_dir: Directory of logs, or `None`.
        quiet: Whether printed lines are only recorded.
    """

    store: PackStore
    load: Callable[[FunctionRef], Definition[..., Any]]
    log_dir: Path | None
    quiet: bool


_tools: list[Tools | BaseException] = []
_progress_directories: set[Path] = set()


def prepare(setup: Setup) -> None:
    """Make this process a worker. Errors are kept and told by the first work, not lost with the process."""
    os.environ.clear()
    os.environ.update(setup.environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # native code must not delay the end
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # so that what a step starts can be ended with it
    threading.Thread(target=_end_with_parent, name="barca-parent", daemon=True).start()
    try:
        os.chdir(setup.directory)
        sys.path[:] = setup.path
        from barca.exec import call, capture  # noqa: F401  # warm up

        capture.install()
        _tools.append(pickle.loads(setup.tools))
    except BaseException as error:
        _tools.append(error)


def _end_with_parent() -> None:
    """End this process, and what its step started, when the coordinator has died: nobody else would."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        for directory in _progress_directories:
            shutil.rmtree(directory, ignore_errors=True)
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


def run(payload: bytes, progress_path: str, spill_path: str) -> bytes:
    """Run a pickled `Work`; returns its pickled `WorkResult`."""
    from barca.exec.call import execute
    from barca.exec.parts import PartWriter
    from barca.exec.progress import Progress
    from barca.exec.spill import Spill
    from barca.exec.wire import from_bytes, to_bytes

    _progress_directories.add(Path(progress_path).parent)
    progress = Progress(Path(progress_path))
    try:
        tools = _ready_tools()
        with Spill(Path(spill_path)) as spill:
            result = execute(
                from_bytes(payload),
                tools.store,
                tools.load,
                tools.log_dir,
                quiet=tools.quiet,
                progress=progress,
                spill=spill,
                keep=PartWriter(Path(progress_path)),
            )
        return to_bytes(result)
    finally:
        progress.close()


def recover(payload: bytes, spill_path: str, count: int) -> bytes:
    """Store what the first `count` calls of a pickled `Work` came to; returns its pickled `WorkResult`."""
    from barca.exec.call import recover
    from barca.exec.spill import read_spill
    from barca.exec.wire import from_bytes, to_bytes

    tools = _ready_tools()
    finished = itertools.islice(read_spill(Path(spill_path)), count)
    return to_bytes(recover(from_bytes(payload), tools.store, tools.load, finished))


def _ready_tools() -> Tools:
    tools = _tools[0]
    if isinstance(tools, BaseException):
        raise tools
    return tools

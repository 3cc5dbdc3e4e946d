"""Starting worker processes: fresh interpreters, never forks, that know nothing of the user's script.

A script without an `if __name__ == "__main__"` guard would start its own run in every worker, so workers
have a main module of their own; functions of scripts and notebooks travel as pickles.

No Polars here: the first worker is started before this process imports it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection

MAIN: Final = """
import gc
gc.disable()  # what is imported stays: collections would only look at it again and again
import sys
sys.path[:] = [place for place in sys.path if place]  # a file in the working directory may be a `random.py`
from multiprocessing.connection import Connection
pipe = Connection(int(sys.argv[1]))
sys.path[:], sys.argv[:] = pipe.recv()
from barca.exec.worker import serve
serve(pipe)
"""


class Setup(NamedTuple):
    """The surroundings of a worker: those of the process that started it, at one moment.

    Attributes:
        environment: Environment variables, whole.
        directory: Working directory.
        path: `sys.path`.
    """

    environment: Mapping[str, str]
    directory: str
    path: Sequence[str]


def start(setup: Setup) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a worker without waiting for it; gives the process and a pipe to it.

    It leads a process group of its own, so that what its steps start can be ended with it, and the
    terminal's Ctrl-C does not reach it. Nothing that it writes can reach this process's stdout.

    Raises:
        OSError: The machine does not let a process start.
    """
    pipe, other_end = Pipe()
    with other_end:
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
        process = subprocess.Popen(  # noqa: S603  # this interpreter, and code of ours
            [sys.executable, *flags, "-c", MAIN, str(other_end.fileno())],
            pass_fds=[other_end.fileno()],
            env=setup.environment,
            cwd=setup.directory,
            stdin=subprocess.DEVNULL,
            stdout=(shown := _stderr()),
            stderr=shown,
            process_group=0,
        )
    pipe.send((list(setup.path), sys.argv))
    return process, pipe


def _stderr() -> int:
    """Descriptor of this process's stderr, or what stands for one that is closed."""
    with suppress(OSError):
        os.fstat(2)
        return 2
    return subprocess.DEVNULL

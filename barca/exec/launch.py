"""Starting worker processes: never by fork, never running the user's script again, deaf to Ctrl-C.

No Polars here: workers import this module before the variables that Polars reads are set.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from contextlib import contextmanager
from multiprocessing import context, spawn
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.context import BaseContext
    from multiprocessing.synchronize import RLock as _Lock

_PATCH = threading.Lock()


@contextmanager
def _main_left_out() -> Iterator[None]:
    """Processes that this thread starts inside do not import the parent's `__main__` again.

    A script without an `if __name__ == "__main__"` guard would start its own run in every worker. Nothing
    of barca lives in `__main__`; functions of notebooks and scripts travel as pickles.
    """
    owner = threading.get_ident()
    with _PATCH:
        original = spawn.get_preparation_data

        def prepare(name: str) -> dict[str, Any]:
            data: dict[str, Any] = original(name)
            if threading.get_ident() == owner:
                data.pop("init_main_from_name", None)
                data.pop("init_main_from_path", None)
            return data

        spawn.get_preparation_data = prepare
        try:
            yield
        finally:
            spawn.get_preparation_data = original


class _KeepsLocks(context.BaseContext):
    """Keeps the locks that it makes for as long as it lives.

    A pool that is stopped drops its locks before it has ended its workers, and a worker that is just
    starting and does not find them any more writes a traceback to stderr.
    """

    def __init__(self) -> None:
        super().__init__()
        self._locks: list[_Lock] = []

    def RLock(self) -> _Lock:  # noqa: N802  # multiprocessing's name
        lock = super().RLock()
        self._locks.append(lock)
        return lock


class _SpawnProcess(context.SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # multiprocessing's name
        with _main_left_out():
            return context.SpawnProcess._Popen(process_obj)  # noqa: SLF001


class _SpawnContext(_KeepsLocks, context.SpawnContext):
    Process = _SpawnProcess


if "forkserver" in multiprocessing.get_all_start_methods():

    class _ForkServerProcess(context.ForkServerProcess):
        @staticmethod
        def _Popen(process_obj: Any) -> Any:  # noqa: N802  # multiprocessing's name
            with _main_left_out():
                return context.ForkServerProcess._Popen(process_obj)  # noqa: SLF001

    class _ForkServerContext(_KeepsLocks, context.ForkServerContext):
        Process = _ForkServerProcess


def worker_context() -> BaseContext:
    """The multiprocessing context of workers: forkserver where the platform has it, else spawn."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return _SpawnContext()
    forkserver = _ForkServerContext()
    forkserver.set_forkserver_preload([])  # the default is to preload __main__
    return forkserver


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Processes and threads started inside do not receive Ctrl-C; this thread gets it at the end."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

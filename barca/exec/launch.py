"""Starting worker processes: never by fork, never running the user's script again, deaf to Ctrl-C.

No Polars here: workers import this module before the variables that Polars reads are set.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from multiprocessing import context, spawn
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class _Process(context.SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # multiprocessing's name
        with _main_left_out():
            return context.SpawnProcess._Popen(process_obj)  # noqa: SLF001


class WorkerContext(context.SpawnContext):
    """The multiprocessing context of workers: each is a fresh interpreter.

    A server that forks them would have to be started first, and could not import anything that starts
    threads, which is what takes the time.
    """

    Process = _Process


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

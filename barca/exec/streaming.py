"""A batched function that yields: its answers are stored while it goes on.

What came in is stored at the next answer, or by a thread that watches when none comes for long, so that a
call that dies late loses no more than what came in last. Storing takes up about a tenth of the time, however
fast answers come, and happens less often the longer a call goes on.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barca.exec.boundary import Alarm
    from barca.exec.output import Answer, Sorter

FIRST_SECONDS: Final = 0.1
"""Nothing is stored sooner than this after the time before."""

LONGEST_SECONDS: Final = 5.0
"""What came in waits no longer than this, unless storing is slow."""

_COSTS: Final = 10
_PARTS: Final = 50


class Stream:
    """One generator on its way.

    Args:
        sorter: Takes the pieces.
        store: Stores what came in.
        alarm: Stands still while something is stored.
    """

    def __init__(self, sorter: Sorter, store: Callable[[Answer], None], alarm: Alarm) -> None:
        self._sorter = sorter
        self._store = store
        self._alarm = alarm
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._begun = self._last = time.perf_counter()
        self._interval = FIRST_SECONDS

    def run(self, pieces: Iterator[Any]) -> None:
        """Take every piece; what was not stored on the way is left to the sorter's answer.

        Raises:
            OutputError: A piece does not fit, or what came in cannot be stored.
            BaseException: What the generator raised.
        """
        watch = threading.Thread(target=self._watch, name="barca-stream", daemon=True)
        watch.start()
        try:
            with closing(_Closable(pieces)):
                for piece in pieces:
                    with self._lock:
                        self._raise_error()
                        self._sorter.take_piece(piece)
                        if self._due():
                            with self._alarm.stopped():
                                self._store_waiting()
        finally:
            self._over.set()
            watch.join()
        self._raise_error()

    def _watch(self) -> None:
        while not self._over.wait(self._interval):
            with self._lock:
                if self._sorter.waiting and self._due() and not self._over.is_set():
                    try:
                        self._store_waiting()
                    except BaseException as error:
                        self._error = error
                        return

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _due(self) -> bool:
        return time.perf_counter() - self._last >= self._interval

    def _store_waiting(self) -> None:
        began = time.perf_counter()
        self._store(self._sorter.drain())
        self._last = time.perf_counter()
        calm = min((self._last - self._begun) / _PARTS, LONGEST_SECONDS)
        self._interval = max(FIRST_SECONDS, calm, _COSTS * (self._last - began))


class _Closable:
    """Closes an iterator that can be closed, as generators can."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces = pieces

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()

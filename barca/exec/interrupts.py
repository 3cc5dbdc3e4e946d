"""Ctrl-C at a moment when it leaves nothing half done."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def put_off() -> Iterator[None]:
    """Put Ctrl-C off until the block has ended; a second one ends it at once.

    Off the main thread, where none arrives, and where a program has a handler of its own, nothing is done.

    Raises:
        KeyboardInterrupt: At the end of the block, if Ctrl-C came during it.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = False

    def note(*_: object) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt

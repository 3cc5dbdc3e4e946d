"""`breakpoint()` in a step that runs in the command's own process, in a terminal."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def debugger_at(terminal: TextIO, clear: Callable[[], None]) -> Iterator[None]:
    """Have Python's debugger talk to the terminal itself.

    What steps print is shown line by line above the bars. A prompt is no line, and bars would be drawn over
    what is typed. Another debugger, which `PYTHONBREAKPOINT` or the project has chosen, is left alone.

    Args:
        terminal: Where its prompt goes.
        clear: Takes the bars away.
    """
    if sys.breakpointhook is not sys.__breakpointhook__ or os.environ.get("PYTHONBREAKPOINT"):
        yield
        return

    def stop(*_arguments: object, header: str | None = None, **_more: object) -> None:
        from pdb import Pdb

        clear()
        if header is not None:
            terminal.write(f"{header}\n")
        Pdb(stdout=terminal).set_trace(sys._getframe(1))  # noqa: SLF001 -- as `pdb.set_trace` does

    sys.breakpointhook = stop
    try:
        yield
    finally:
        sys.breakpointhook = sys.__breakpointhook__

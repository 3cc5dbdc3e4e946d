"""`python -m barca`, and the `barca` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW_COLLECTIONS: Final = 100_000
"""Allocations between two garbage collections: importing makes many objects, and none of them is garbage."""


def command() -> NoReturn:
    """Be the `barca` process, from its start to its end."""
    gc.set_threshold(FEW_COLLECTIONS)
    _end(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: What follows `barca`; the process's own when left out.
    """
    _open_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["version"]:  # asked by scripts, over and over; Typer alone takes longer than the rest
        from barca.cli.output import mode_of, show_version

        show_version(mode_of(words))
        return 0
    from barca.cli.session import start_early

    start_early(words)
    from barca.cli.app import run

    return run(words)


def _open_streams() -> None:
    """Open streams that the caller closed (`>&-`) on nothing, before a file of ours gets their descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115, PTH123  # for as long as the process lives
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _end(code: int) -> NoReturn:
    """End the process, once what others want done at its end is done.

    The interpreter would take apart every module first, and with Polars that takes longer than many commands.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    command()

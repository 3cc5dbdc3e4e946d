"""`python -m barca`, and the `barca` command."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    from barca.cli.app import run

    return run(words)


def _open_streams() -> None:
    """Open streams that the caller closed (`>&-`) on nothing, before a file of ours gets their descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115, PTH123  # for as long as the process lives
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    sys.exit(main())

"""Telling barca's files in a prefix from those of others, which it never deletes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barca.decorators.places import MARKER
from barca.io.sinks.hive import PART
from barca.io.sinks.targets import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAMED: Final = 4
"""So many strangers are named."""


def is_hidden(name: str) -> bool:
    """Whether a path has a part that begins with a dot."""
    return name.startswith(".") or "/." in name


def refuse_strangers(names: Iterable[str], place: str) -> None:
    """Refuse to replace or remove a directory in which others have put files.

    Args:
        names: Of what is in it that is not hidden, relative to it, with `/` separators.
        place: The directory, for the message.

    Raises:
        Refused: Some are not barca's.
    """
    strange = sorted(name for name in names if not is_ours(name))
    if strange:
        more = f" and {len(strange) - _NAMED} more" if len(strange) > _NAMED else ""
        raise Refused(
            f"{place} holds files barca did not write: {', '.join(strange[:_NAMED])}{more}; move them "
            "elsewhere, or have their names begin with a dot"
        )


def is_ours(name: str) -> bool:
    """Whether a file of a prefix is called as barca calls its own."""
    *above, own = name.split("/")
    return all("=" in part for part in above) and (
        PART.fullmatch(own) is not None or (own == MARKER and not above)
    )


def entries(place: Path) -> Iterator[str]:
    """The files below a directory, relative to it, with `/` separators; links are files."""
    for directory, below, names in os.walk(place):
        above = directory[len(str(place)) + 1 :]
        links = [name for name in below if Path(directory, name).is_symlink()]
        yield from (f"{above}/{name}" if above else name for name in (*names, *links))


def keep_hidden(place: Path, other: Path) -> None:
    """Have the hidden files below a directory stand below another one too, on the same file system.

    Raises:
        Refused: There are files of others that are not hidden.
        OSError: The file system refused.
    """
    if not place.is_dir() or place.is_symlink():
        if place.is_file() and not place.is_symlink():
            raise Refused(f"{place} is a file barca did not write; move it elsewhere")
        return
    found = list(entries(place))
    refuse_strangers((name for name in found if not is_hidden(name)), str(place))
    for name in found:
        if is_hidden(name):
            copy = other / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(place / name, copy, follow_symlinks=False)
            except OSError:  # no hard links there
                shutil.copy2(place / name, copy, follow_symlinks=False)

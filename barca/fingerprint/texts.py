"""What files held when they were imported, which is what their functions are made of.

A file may be edited while a process goes on with what it imported. Its text is then that of other functions:
taken for theirs, results of the old ones would be kept as those of the new. barca's own importer keeps what
it ran. Of a module that Python imported, the text counts that was there when it was first looked at.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


class _Held(Record):
    """A file's text; it stands until the module is imported anew or reloaded, which gives it another spec."""

    module: ModuleType
    spec: object
    stamp: tuple[int, int]
    text: bytes

    @property
    def stands(self) -> bool:
        same = sys.modules.get(self.module.__name__) is self.module
        return same and vars(self.module).get("__spec__") is self.spec


_held: dict[str, _Held] = {}


def imported_texts() -> dict[str, bytes]:
    """File, links resolved, to what it held when it was imported, as far as that is known."""
    found = {file: held.text for file, held in _held.items() if held.stands}
    for _, space in _modules():
        text = getattr(space.get("__loader__"), "imported_text", None)
        if isinstance(text, bytes):
            found[str(Path(space["__file__"]).resolve())] = text
    return found


def hold(file: str) -> bytes | None:
    """The text of a file, links resolved, if a module was imported from it; it is what counts from now on."""
    name = Path(file).name
    for module, space in _modules():
        own = space.get("__file__")
        if isinstance(own, str) and own.endswith(name) and str(Path(own).resolve()) == file:
            try:
                held = _Held(module, space.get("__spec__"), _stamp(file), Path(file).read_bytes())
            except OSError:
                return None
            _held[file] = held
            return held.text
    return None


def edited() -> bool:
    """Whether a file of a module that Python imported may hold something else by now."""
    for file, held in _held.items():
        try:
            if held.stands and _stamp(file) != held.stamp:
                return True
        except OSError:
            return True
    return False


def _modules() -> Iterator[tuple[ModuleType, dict[str, Any]]]:
    for module in list(sys.modules.values()):
        if space := getattr(module, "__dict__", None):
            yield module, space


def _stamp(file: str) -> tuple[int, int]:
    status = Path(file).stat()
    return status.st_mtime_ns, status.st_size

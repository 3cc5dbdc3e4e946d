"""Functions that stand in no file, such as those of notebook cells, on their way to a worker.

Their code keeps the name of its cell and takes the cell's text along, so that a traceback shows the lines
that raised, as it does where the cell was run.
"""

from __future__ import annotations

import io
import linecache
from collections import ChainMap
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Callable

_TABLE: Final[Any] = cloudpickle.CloudPickler.dispatch_table


def dumps(value: object) -> bytes:
    """A value pickled with the functions it consists of.

    Raises:
        Exception: Whatever the reducers of its objects raise.
    """
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def _reduced(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
    make, arguments = _TABLE[CodeType](code)
    name = code.co_filename
    # one list for all of the cell's functions: a pickle holds it once
    lines: list[str] = [] if Path(name).exists() else linecache.getlines(name)
    return _restored, (make, arguments, name, lines)


def _restored(
    make: Callable[..., CodeType], arguments: tuple[Any, ...], name: str, lines: list[str]
) -> CodeType:
    if lines:
        linecache.cache[name] = sum(map(len, lines)), None, lines, name  # without a time of change it stays
    return make(*arguments).replace(co_filename=name)


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]  # cloudpickle has no types
    dispatch_table: Any = ChainMap({CodeType: _reduced}, _TABLE)  # noqa: RUF012  # pickle looks for it here

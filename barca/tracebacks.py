"""How an error looks where nobody catches it: frames of the user's code only, of the call and of the step."""

from __future__ import annotations

import functools
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

PACKAGE: Final = __file__.removesuffix("tracebacks.py")
"""Prefix of the file names of our own frames."""

_PYTHON: Final = functools.__file__.removesuffix("functools.py")
"""Prefix of the file names of Python's own modules."""

_PLACE: Final = re.compile(
    r'^(?P<indent> *)File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>.*))?$'
)
_RED: Final = "\x1b[31m{}\x1b[39m"


def in_step(step: str | None, inner: str) -> str:
    """The traceback of a step under a heading.

    Args:
        step: `node`, or `node[key]`, or `None` where it is not known.
        inner: The traceback as text.
    """
    return f"\nIn {step}:\n{inner.rstrip()}" if step else f"\n{inner.rstrip()}"


def of_user(frames: Iterable[traceback.FrameSummary], *machinery: str) -> list[traceback.FrameSummary]:
    """The frames of a traceback that are neither machinery nor, like `functools`, called by it.

    Args:
        frames: Outermost first.
        machinery: Prefixes of file names; ours are among them.
    """
    kept: list[traceback.FrameSummary] = []
    inside = False
    for frame in frames:
        if frame.filename.startswith((PACKAGE, *machinery)):
            inside = True
        elif not inside or not _is_python(frame.filename):
            inside = False
            kept.append(frame)
    return kept


def _is_python(file: str) -> bool:
    """Whether a file is one of Python's modules; packages, and what is installed below, are not looked at."""
    return file.startswith(_PYTHON) and file.removeprefix(_PYTHON).removesuffix(".py").isidentifier()


def notebook_lines(error: BaseException, step: str | None, inner: str | None) -> list[str]:
    """An error as a notebook shows it: where it was called, what the step did, the message last.

    Args:
        error: The error, raised.
        step: As for `in_step`.
        inner: The traceback of the step, or `None` where no step failed.
    """
    shell = notebook()
    frames = of_user(traceback.extract_tb(error.__traceback__), *_package_of(shell), "<frozen ")
    parts = "".join(traceback.format_list(frames)).rstrip("\n").split("\n")
    if inner is not None:
        parts += in_step(step, inner).split("\n")
    title, *rest = f"{type(error).__name__}: {error}".split("\n")
    cause = error.__cause__
    if cause is not None:
        rest.append(f"caused by {type(cause).__name__}: {cause}")
    return [*(_placed(line, shell) for line in parts), "", _RED.format(title), *rest]


def _placed(line: str, shell: Any) -> str:
    """A line of a traceback; a cell is called by its number, not by the file it is not."""
    match = _PLACE.match(line)
    cell = match and shell and shell.compile.format_code_name(match["file"])
    if not match or not cell:
        return line
    inside = f", in {match['name']}" if match["name"] not in (None, "<module>") else ""
    return f"{match['indent']}{' '.join(cell)}, line {match['line']}{inside}"


def notebook() -> Any:
    """The IPython session that is going on, or `None`; one with a `kernel` belongs to a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython and ipython.get_ipython()


def _package_of(shell: Any) -> list[str]:
    file = shell and sys.modules["IPython"].__file__
    return [file.removesuffix("__init__.py")] if file else []

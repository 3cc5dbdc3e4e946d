"""Where output goes and in which form: JSON or tables on stdout, everything else on stderr, exit codes.

Rich is imported only when a table, a bar or a human error is written.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Literal, TextIO

from barca import __version__
from barca.errors import BarcaError, StoreError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console, RenderableType

Mode = Literal["json", "pretty"]

EXIT_CODES = {"usage": 2, "step_failed": 1, "infra": 3, "cancelled": 130}
"""Exit code of each error kind; 0 is success."""


# --- the mode ---------------------------------------------------------------------------------------


def choose_mode(*, as_json: bool, pretty: bool) -> Mode:
    """JSON or tables: what the options say, else `BARCA_OUTPUT`, else tables in a terminal.

    Raises:
        UsageError: Both options, or an unknown `BARCA_OUTPUT`.
    """
    if as_json and pretty:
        raise UsageError("--json and --pretty exclude each other", remediation="give one of them")
    wanted = os.environ.get("BARCA_OUTPUT", "")
    if as_json or pretty:
        return "json" if as_json else "pretty"
    if wanted in ("json", "pretty"):
        return "json" if wanted == "json" else "pretty"
    if wanted:
        raise UsageError(f"BARCA_OUTPUT is `{wanted}`", remediation=did_you_mean(wanted, ("json", "pretty")))
    return "pretty" if sys.stdout.isatty() else "json"


def mode_of(arguments: Sequence[str]) -> Mode:
    """The mode of a command line that may not parse, for reporting what is wrong with it."""
    try:
        return choose_mode(as_json="--json" in arguments, pretty="--pretty" in arguments)
    except UsageError:
        return "pretty" if sys.stderr.isatty() else "json"


# --- writing ----------------------------------------------------------------------------------------


def write(stream: TextIO, text: str) -> None:
    """Write and flush; a reader that has gone away, as `head` does, is no error.

    Raises:
        StoreError: The result cannot be written, as on a full disk.
    """
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        _silence(stream)
    except OSError as error:
        _silence(stream)
        if stream is not sys.stderr:
            raise _unwritable(error) from error


def emit_bytes(content: bytes) -> None:
    """The result as it is on stdout.

    Raises:
        StoreError: It cannot be written.
    """
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> StoreError:
    return StoreError(
        f"the output cannot be written: {error}",
        code="output",
        remediation="what was computed is kept; run again with the output sent elsewhere",
    )


_gone: weakref.WeakSet[TextIO] = weakref.WeakSet()


def is_gone(stream: TextIO) -> bool:
    """Whether something could not be written to a stream, because its reader has gone away."""
    return stream in _gone


def _silence(stream: TextIO) -> None:
    """Send what is still to be written to nowhere, so that the interpreter's last flush is quiet too."""
    _gone.add(stream)
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def emit_json(document: Any) -> None:
    """The result as one line of JSON on stdout."""
    write(sys.stdout, to_json(document) + "\n")


def emit_lines(lines: Iterable[str]) -> None:
    """The result as plain lines on stdout."""
    write(sys.stdout, "".join(f"{line}\n" for line in lines))


def emit_view(view: Iterable[RenderableType]) -> None:
    """The result as tables on stdout."""
    write(sys.stdout, drawn(view, console(sys.stdout)))


def terminal_width() -> int:
    """Characters of a line of the terminal: what `COLUMNS` says, else its own, else 100."""
    import shutil

    return shutil.get_terminal_size((100, 24)).columns


def console(stream: TextIO) -> Console:
    """A rich console that takes text literally."""
    from rich.console import Console

    return Console(file=stream, width=terminal_width(), markup=False, emoji=False, highlight=False)


def drawn(view: Iterable[RenderableType], on: Console) -> str:
    """What a console would write, as text."""
    with on.capture() as capture:
        for part in view:
            on.print(part)
    return capture.get()


def show_version(mode: Mode) -> None:
    """The installed version, as JSON or as people read it."""
    if mode == "json":
        emit_json({"version": __version__})
    else:
        emit_lines([f"barca {__version__}"])


# --- JSON -------------------------------------------------------------------------------------------


def to_json(document: Any) -> str:
    """One line of ASCII JSON.

    Numbers that JSON does not have (NaN, infinities) become null; dates and times ISO texts, other values
    their text.
    """
    try:
        return json.dumps(document, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(document), default=lambda value: _finite(_plain(value)))


_ROWS: tuple[tuple[str, dict[str, str]], ...] = (
    ("to_dicts", {}),  # Polars
    ("to_pylist", {}),  # Arrow
    ("to_dict", {"orient": "records"}),  # pandas
    ("pl", {}),  # DuckDB relations, as Polars
)
"""Methods by which tables of each library give their rows."""


def _plain(value: Any) -> Any:
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    for method, options in _ROWS:
        if hasattr(value, method):
            return getattr(value, method)(**options)
    return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


# --- errors -----------------------------------------------------------------------------------------


def exit_code(error: BarcaError) -> int:
    """The exit code of an error's kind."""
    return EXIT_CODES[error.kind]


def error_document(error: BarcaError) -> dict[str, Any]:
    """An error as the JSON object that scripts read; fields that are not set are left out, but the first."""
    return {
        "error": error.message,
        "code": error.code,
        "kind": error.kind,
        "remediation": error.remediation,
        **{name: value for name, value in error.fields().items() if name not in ("code", "remediation")},
    }


def report(error: BarcaError, mode: Mode) -> int:
    """Write an error to stderr in the mode's form. Returns its exit code."""
    if mode == "json":
        write(sys.stderr, to_json(error_document(error)) + "\n")
    else:
        write(sys.stderr, drawn(error_view(error_document(error)), console(sys.stderr)))
    return exit_code(error)


def error_view(error: Mapping[str, Any]) -> list[RenderableType]:
    """An error for people: what happened and where, the user's traceback, what to do."""
    from rich.text import Text

    from barca.render.text import safe, safe_lines

    node, key = error.get("node"), error.get("key")
    step = f"{node}[{key}]" if node and key else node or ""
    place = ":".join(str(error[name]) for name in ("file", "line") if error.get(name) is not None)
    where = [part for part in (place, step) if part and part not in error["error"]]
    message = ": ".join([*map(safe, where), safe_lines(error["error"])])
    view: list[RenderableType] = [Text("error: ", style="bold red").append(message, style="not bold default")]
    if error.get("traceback"):
        view.append(Text(safe_lines(error["traceback"].rstrip()), style="dim"))
    if error.get("remediation"):
        view.append(Text(f"hint: {safe_lines(error['remediation'])}"))
    return view

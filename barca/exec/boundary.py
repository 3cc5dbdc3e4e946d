"""The line between barca and the code of a project: what crosses it is caught, described, limited in time."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from typing import TYPE_CHECKING, Any, Final, Self, cast

import polars as pl

from barca.errors import BarcaError
from barca.records import Record
from barca.tracebacks import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType, TracebackType

    from polars._typing import EngineType

    from barca._typing import Engine

LONGEST_MESSAGE: Final = 4_000
"""Characters of an error message that are kept."""

LONGEST_TRACEBACK: Final = 40_000
"""Characters of a traceback that are kept, the last ones."""

AFFINITY: Final = "POLARS_ENGINE_AFFINITY"


class CallTimedOut(BaseException):
    """A call ran past its timeout in this process; not an `Exception`, so that steps don't swallow it."""


class Failure(Record):
    """Why a key has no result, as text: exceptions themselves may not travel between processes.

    Attributes:
        error_type: Name of the exception's class.
        message: Its message.
        traceback: The user's frames, or `None` when no user code was involved.
    """

    error_type: str
    message: str
    traceback: str | None = None

    def __post_init__(self) -> None:
        # names of files that are not UTF-8 come as half surrogate pairs, which no frame can hold
        object.__setattr__(self, "message", _storable(self.message))
        if self.traceback is not None:
            object.__setattr__(self, "traceback", _storable(self.traceback))


def describe(error: BaseException) -> Failure:
    """The failure that an exception means, its traceback without barca's frames."""
    if isinstance(error, CallTimedOut):
        return Failure("TimeoutError", str(error))
    if isinstance(error, BarcaError) and not _raised_by_user(error.__traceback__):
        hint = f" ({error.remediation})" if error.remediation else ""
        where = f" [{error.file}]" if error.file and error.file not in error.message else ""
        return Failure(type(error).__name__, f"{error.message}{hint}{where}", error.traceback)
    return Failure(type(error).__name__, _message(error), user_traceback(error))


def user_traceback(error: BaseException) -> str:
    """The traceback as text, of the exception and its causes, without barca's frames."""
    try:
        described = traceback.TracebackException.from_exception(error, compact=True)
        _strip(described)
        text = "".join(described.format())
    except Exception as broken:  # exceptions with broken attributes
        text = f"{type(error).__name__} (its traceback cannot be shown: {broken!r})\n"
    return text[-LONGEST_TRACEBACK:]


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        return "(the exception's own text cannot be shown)"
    if len(text) > LONGEST_MESSAGE:
        return text[:LONGEST_MESSAGE] + f"... ({len(text)} characters)"
    return text


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _strip(described: traceback.TracebackException) -> None:
    seen: set[int] = set()
    queue: list[traceback.TracebackException | None] = [described]
    while queue:
        part = queue.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        kept = [frame for frame in part.stack if not frame.filename.startswith(PACKAGE)]
        part.stack = traceback.StackSummary.from_list(kept)
        queue += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]


def _raised_by_user(trace: TracebackType | None) -> bool:
    """Whether a frame outside barca is on the way to where it was raised."""
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
            return True
        trace = trace.tb_next
    return False


@contextlib.contextmanager
def surroundings(env: Mapping[str, str], engine: Engine) -> Iterator[None]:
    """The environment variables of a work, set around it.

    The user's own `collect` gives the same bits from run to run with the in-memory engine only, so that is
    what Polars is told to prefer, unless the node asks for streaming.
    """
    before = {name: os.environ.get(name) for name in env}
    affinity = os.environ.get(AFFINITY)
    os.environ.update(env)
    if engine == "in-memory" and AFFINITY not in env:
        pl.Config.set_engine_affinity(engine)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if os.environ.get(AFFINITY) != affinity:
            pl.Config.set_engine_affinity(cast("EngineType | None", affinity))


class Alarm:
    """A timeout for calls in this process, by best effort.

    Works in the main thread of POSIX systems, through `setitimer`; the call ends at the next Python
    instruction after its time, so a long call into native code is not cut short. Elsewhere it does nothing.
    """

    def __init__(self, seconds: float | None) -> None:
        main = threading.current_thread() is threading.main_thread()
        self.active = bool(seconds) and main and hasattr(signal, "setitimer")
        self._seconds = seconds or 0.0
        self._before: Any = None

    def __enter__(self) -> Self:
        if self.active:
            self._before = signal.signal(signal.SIGALRM, self._ring)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.active:
            self.stop()
            signal.signal(signal.SIGALRM, self._before)

    def start(self) -> None:
        """A call begins."""
        if self.active:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def stop(self) -> None:
        """The call ended."""
        if self.active:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """What happens inside does not count."""
        if not self.active:
            yield
            return
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6))

    def _ring(self, _signum: int, _frame: FrameType | None) -> None:
        raise CallTimedOut(timed_out_text(self._seconds))


def timed_out_text(seconds: float) -> str:
    """`timed out after 300 s`."""
    return f"timed out after {seconds:g} s"

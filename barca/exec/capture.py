"""Recording what steps print, and showing it on stderr, in a notebook on stdout.

While a work runs, `sys.stdout` and `sys.stderr` are `StepStream`s: they split what is written into lines
and give each line to the recorder of the work, which knows the call and key that are on. A stream that
outlives its work (a log handler made in a step keeps one) passes what it gets on to the stream it replaced.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from barca.io.logs import LogFile
from barca.tracebacks import notebook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TextIO

    from barca._typing import NodeId

LONGEST_LINE: Final = 1 << 16
"""Characters after which a line without an end is recorded as it stands."""


class Recorder:
    """Where the lines of one work go.

    Attributes:
        call: Call that is on.
        key: Key that is on, for one-key calls.
        open_line: Whether a line without an end may be waiting.
    """

    def __init__(self, node: NodeId, log: LogFile | None, echo: Callable[[str], object] | None) -> None:
        self.call = ""
        self.key: str | None = None
        self.open_line = False
        self._node = node
        self._log = log
        self._echo = echo

    def line(self, stream: str, line: str) -> None:
        """Record one line, and show it."""
        if self._log is not None:
            self._log.append(self._node, self.call, self.key, stream, line)
        self.show(line)

    def show(self, line: str) -> None:
        """Show a line on the process's stderr; a reader that went away is no reason to fail a step."""
        if self._echo is not None:
            with suppress(OSError, ValueError):
                self._echo(line + "\n")

    def record(self, stream: str, line: str) -> None:
        """Record one line without showing it."""
        if self._log is not None:
            self._log.append(self._node, self.call, self.key, stream, line)


class StepStream(io.TextIOBase):
    """A text stream that hands whole lines to the recorder of the work that is on."""

    def __init__(self, name: str, replaced: TextIO | None) -> None:
        super().__init__()
        self.name = name
        self.recorder: Recorder | None = None
        self.replaced = replaced
        self._partial: list[str] = []
        self._size = 0
        self._lock = threading.RLock()
        self.buffer = _Bytes(self)

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute
        """UTF-8, always."""
        return "utf-8"

    def writable(self) -> bool:
        """Yes."""
        return True

    def isatty(self) -> bool:
        """No: what is written is recorded."""
        return False

    def fileno(self) -> int:
        """Descriptor that a child process may write to: this process's stderr."""
        return 2

    def write(self, text: str) -> int:
        """Take text; lines are recorded when they end."""
        if self.recorder is None:
            return self.replaced.write(text) if self.replaced is not None else len(text)
        with self._lock:
            if "\n" not in text:
                self._hold(text)
            else:
                *lines, rest = text.split("\n")
                lines[0] = "".join([*self._partial, lines[0]])
                self._partial, self._size = ([rest], len(rest)) if rest else ([], 0)
                self.recorder.open_line = bool(rest)
                for line in lines:
                    self.recorder.line(self.name, _shown(line))
        return len(text)

    def flush(self) -> None:
        """Lines are written as they end; there is nothing to flush but the stream this one replaced."""
        if self.recorder is None and self.replaced is not None:
            self.replaced.flush()

    def close(self) -> None:
        """Stay open: the stream this one replaced is not its own to flush, when it is collected above all."""

    def end_line(self) -> None:
        """Record a line that has no end yet."""
        with self._lock:
            if self._partial and self.recorder is not None:
                line = "".join(self._partial)
                self._partial.clear()
                self._size = 0
                self.recorder.line(self.name, _shown(line))

    def _hold(self, text: str) -> None:
        if "\r" in text:  # progress bars rewrite one line for hours: the last state is the line
            self._partial.clear()
            self._size = 0
        if self.recorder is not None:
            self.recorder.open_line = True
        self._partial.append(text)
        self._size += len(text)
        if self._size > LONGEST_LINE:
            self.end_line()


class _Bytes(io.RawIOBase):
    """The `buffer` of a `StepStream`, for code that writes bytes to it."""

    def __init__(self, stream: StepStream) -> None:
        super().__init__()
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raw = bytes(data)  # type: ignore[call-overload]  # any object with the buffer protocol
        self._stream.write(raw.decode("utf-8", "replace"))
        return len(raw)


class _LogHandler(logging.Handler):
    """Records log lines that no handler writes to a `StepStream`, where the application set up its own."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        others = [handler for handler in logging.getLogger().handlers if handler is not self]
        if any(isinstance(getattr(other, "stream", None), StepStream) for other in others):
            return
        try:
            lines = self.format(record).split("\n")
        except Exception:
            self.handleError(record)
            return
        for line in lines:
            if others:
                self._recorder.record("stderr", line)
            else:
                self._recorder.line("stderr", line)


def _shown(line: str) -> str:
    line = line.removesuffix("\r")
    return line.rpartition("\r")[2] if "\r" in line else line


def echo_to_stderr(text: str) -> None:
    """Write to descriptor 2, past any Python stream."""
    os.write(2, text.encode("utf-8", "backslashreplace"))


def install() -> None:
    """Put `StepStream`s in place of this process's streams for good; stdout becomes stderr.

    For worker processes: nothing that a step writes, not even by a C library, may reach the stdout of
    the command that started the run.
    """
    os.dup2(2, 1)
    sys.stdout = StepStream("stdout", sys.__stderr__)
    sys.stderr = StepStream("stderr", sys.__stderr__)


@contextmanager
def recording(node: NodeId, run_id: str, log_dir: Path | None, *, quiet: bool) -> Iterator[Recorder]:
    """Record and show what is printed inside.

    Args:
        node: Node that runs.
        run_id: The run.
        log_dir: Directory of logs, or `None` to record nothing.
        quiet: Whether lines are not shown.
    """
    before = sys.stdout, sys.stderr
    streams = _streams()
    log = None if log_dir is None else LogFile(log_dir, run_id)
    # a notebook shows stderr as an alarm
    shown = streams[0 if getattr(notebook(), "kernel", None) else 1].replaced
    installed = before[1] is streams[1] or shown is None
    echo = None if quiet else echo_to_stderr if installed or shown is None else shown.write
    recorder = Recorder(node, log, echo)
    handler = _LogHandler(recorder)
    sys.stdout, sys.stderr = streams
    for stream in streams:
        stream.recorder = recorder
    logging.getLogger().addHandler(handler)
    try:
        yield recorder
    finally:
        logging.getLogger().removeHandler(handler)
        for stream in streams:
            stream.end_line()
            stream.recorder = None
        sys.stdout, sys.stderr = before
        if log is not None:
            log.close()


def _streams() -> tuple[StepStream, StepStream]:
    """The process's own step streams where installed, else new ones over the present streams."""
    out, err = sys.stdout, sys.stderr
    return (
        out if isinstance(out, StepStream) else StepStream("stdout", out),
        err if isinstance(err, StepStream) else StepStream("stderr", err),
    )


def end_lines() -> None:
    """A call has ended: a line without an end belongs to it, not to the next call."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, StepStream):
            stream.end_line()

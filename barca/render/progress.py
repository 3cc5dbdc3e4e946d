"""Live progress of a run: bars in a terminal, a line now and then elsewhere.

Both write to the console they are given, stderr for the command line, and leave stdout to the result.
"""

from __future__ import annotations

import contextlib
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from barca.errors import error_text, plural
from barca.events import (
    KeyFailed,
    KeysDone,
    NodePlanned,
    Noted,
    RunFinished,
    RunStarted,
    Warned,
    WorkStarted,
)
from barca.render.text import duration, safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.progress import Progress, TaskID

    from barca.events import Event

QUIET_SECONDS = 10.0
"""A run shorter than this writes no progress lines where there is no terminal."""

LINE_SECONDS = 30.0
"""Seconds between progress lines where there is no terminal."""


SHOWN_SECONDS = 0.5
"""Less than that is not told to be left: it is over before it is read."""


class Tally:
    """Keys that a node, or a run, has done of those that will run.

    Attributes:
        will_run: Keys planned to run.
        done: Keys that ended, in whatever way.
        failed: Those of them that failed.
        began: When the first of them began, by the listener's clock; `None` before that.
    """

    __slots__ = ("began", "done", "failed", "will_run")

    def __init__(self) -> None:
        self.will_run = 0
        self.done = 0
        self.failed = 0
        self.began: float | None = None


def pace(done: int, will_run: int, elapsed: float) -> str:
    """`120 keys/s, about 40 s left`, or `120 keys/s` near the end; empty before there is something to go by.

    Args:
        done: Keys that ended.
        will_run: Keys planned.
        elapsed: Seconds since the first of them began.
    """
    if done <= 0 or elapsed <= 0:
        return ""
    speed = done / elapsed
    shown = f"{speed:,.0f} keys/s" if speed >= 10 else f"{speed:.1f} keys/s"
    left = max(0, will_run - done) / speed
    return f"{shown}, about {duration(left)} left" if left >= SHOWN_SECONDS else shown


class ProgressListener:
    """Shows what happens in a run as its events arrive; a context manager, and callable as a listener.

    In a terminal it draws one bar per node that is at work. Elsewhere it writes one line each
    half minute, once a run has taken ten seconds. Failed keys, warnings and what steps print are always
    written, each as a line.

    Args:
        console: Makes the console to write to; called when there is something to show.
        live: Whether it is a terminal, where bars can be drawn.
        clock: Seconds that never go backwards.

    Attributes:
        warnings: Warnings shown so far.
    """

    def __init__(
        self, console: Callable[[], Console], *, live: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.warnings: list[str] = []
        self._make_console = console
        self._clock = clock
        self._live = live
        self._nodes: dict[str, Tally] = {}
        self._tasks: dict[str, TaskID] = {}
        self._progress: Progress | None = None
        self._began: float | None = None
        self._spoke = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __call__(self, event: Event, /) -> None:
        """Show an event; what cannot be shown, on a closed stream for one, is left out."""
        with contextlib.suppress(OSError, ValueError):
            self._show(event)

    def close(self) -> None:
        """Take the bars away."""
        if self._progress is not None:
            with contextlib.suppress(OSError, ValueError):
                self._progress.stop()
            self._progress = None

    def _show(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._began = self._spoke = self._clock()
            case NodePlanned():
                self._planned(event)
            case WorkStarted():
                tally = self._nodes.setdefault(event.node, Tally())
                tally.began = self._clock() if tally.began is None else tally.began
            case KeysDone():
                self._done(event)
            case KeyFailed():
                step = f"{event.node}[{event.key}]" if event.key else event.node
                self._line(f"failed {step}: {error_text(event.error_type, event.message)}", "red")
            case Warned():
                self.warn(event.message)
            case Noted():
                self._line(f"[barca] {event.message}", "")
            case RunFinished():
                self.close()

    def warn(self, message: str) -> None:
        """Show a warning once."""
        if message not in self.warnings:
            self.warnings.append(message)
            self._line(f"warning: {message}", "yellow")

    def line(self, text: str) -> None:
        """Show a line that a step printed, above the bars; may be called from any thread."""
        with contextlib.suppress(OSError, ValueError):
            self._line(text, "")

    @cached_property
    def _console(self) -> Console:
        return self._make_console()

    def _line(self, message: str, style: str) -> None:
        from rich.text import Text

        self._console.print(Text(safe(message), style=style), soft_wrap=True, highlight=False)

    def _planned(self, event: NodePlanned) -> None:
        if self._began is None:
            self._began = self._spoke = self._clock()
        tally = self._nodes.setdefault(event.node, Tally())
        tally.will_run = event.will_run
        if not self._live or not event.will_run:
            return
        bars = self._bars()
        if event.node in self._tasks:
            bars.update(self._tasks[event.node], total=event.will_run)
        else:
            name = safe(event.node)
            self._tasks[event.node] = bars.add_task(name, total=event.will_run, start=False, pace="")

    def _done(self, event: KeysDone) -> None:
        tally = self._nodes.setdefault(event.node, Tally())
        ended = event.succeeded + event.failed
        tally.done += ended
        tally.failed += event.failed
        if self._live:
            self._advance(event.node, tally)
        else:
            self._speak()

    def _advance(self, node: str, tally: Tally) -> None:
        task = self._tasks.get(node)
        if task is None or self._progress is None:
            return
        self._progress.start_task(task)
        failed = f", {tally.failed:,} failed" if tally.failed else ""
        began = self._began if tally.began is None else tally.began
        shown = pace(tally.done, tally.will_run, self._clock() - (began or 0.0)) + failed
        ended = tally.done >= tally.will_run and not tally.failed
        self._progress.update(task, completed=tally.done, pace=shown, visible=not ended)

    def _speak(self) -> None:
        now = self._clock()
        began = now if self._began is None else self._began
        if now - began < QUIET_SECONDS or now - self._spoke < (LINE_SECONDS if self._spoke > began else 0):
            return
        self._spoke = now
        done = sum(tally.done for tally in self._nodes.values())
        will_run = sum(tally.will_run for tally in self._nodes.values())
        failed = sum(tally.failed for tally in self._nodes.values())
        parts = [f"{done:,} of {plural(will_run, 'key')}", pace(done, will_run, now - began)]
        if failed:
            parts.append(f"{failed:,} failed")
        self._line(", ".join(part for part in parts if part), "")

    def _bars(self) -> Progress:
        if self._progress is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

            columns: list[Any] = [
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[pace]}", markup=False),
            ]
            self._progress = Progress(
                *columns,
                console=self._console,
                transient=True,
                redirect_stdout=False,  # what is printed meanwhile comes as lines, see `line`
                redirect_stderr=False,
            )
            self._progress.start()
        return self._progress

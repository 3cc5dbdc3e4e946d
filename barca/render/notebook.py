"""Live progress of a run in a notebook: one table that is drawn again as keys end."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

from barca.errors import plural
from barca.events import KeysDone, NodePlanned, RunFinished, RunStarted, WorkStarted
from barca.render.html import progress_html
from barca.render.progress import Tally, pace
from barca.render.text import duration, safe
from barca.tracebacks import notebook

if TYPE_CHECKING:
    from collections.abc import Callable

    from barca.events import Event
    from barca.ports import Listener

QUIET_SECONDS = 1.0
"""A run shorter than this shows no progress."""

STEP_SECONDS = 0.25
"""Seconds between two drawings at least."""


def notebook_progress() -> Listener | None:
    """A listener that shows progress below the cell that runs; `None` where there is no notebook."""
    if getattr(notebook(), "kernel", None) is None:
        return None
    display = importlib.import_module("IPython.display").display
    return NotebookProgress(lambda shown: display(shown, display_id=True))


class Drawn:
    """Progress at one moment, as HTML for those who can show it, and as text for others."""

    def __init__(self, rows: list[tuple[str, int, int, str]], ended: str | None) -> None:
        self._rows = rows
        self._ended = ended

    def __repr__(self) -> str:
        lines = [
            f"{safe(node)}: {done:,} of {plural(of, 'key')} {told}" for node, done, of, told in self._rows
        ]
        return self._ended or "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return progress_html(self._rows, self._ended)


class NotebookProgress:
    """Shows events as they arrive, once a run has taken a second; a single line is left at its end.

    Args:
        show: Shows a value below the cell, and returns what can `update` it.
        clock: Seconds that never go backwards.
    """

    def __init__(self, show: Callable[[Drawn], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self._nodes: dict[str, Tally] = {}
        self._began = self._drew = clock()
        self._shown: Any = None

    def __call__(self, event: Event, /) -> None:
        """Take an event, and draw when it is time."""
        match event:
            case RunStarted():
                self._began = self._drew = self._clock()
            case NodePlanned():
                self._tally(event.node).will_run = event.will_run
            case WorkStarted():
                tally = self._tally(event.node)
                tally.began = self._clock() if tally.began is None else tally.began
            case KeysDone():
                tally = self._tally(event.node)
                tally.done += event.succeeded + event.failed
                tally.failed += event.failed
                self._draw()
            case RunFinished() if self._shown is not None:
                self._shown.update(Drawn([], _summary(event)))

    def _tally(self, node: str) -> Tally:
        return self._nodes.setdefault(node, Tally())

    def _draw(self) -> None:
        now = self._clock()
        if now - self._began < QUIET_SECONDS or now - self._drew < STEP_SECONDS:
            return
        self._drew = now
        drawn = Drawn(
            [self._row(node, tally, now) for node, tally in self._nodes.items() if tally.will_run], None
        )
        if self._shown is None:
            self._shown = self._show(drawn)
        else:
            self._shown.update(drawn)

    def _row(self, node: str, tally: Tally, now: float) -> tuple[str, int, int, str]:
        began = self._began if tally.began is None else tally.began
        told = pace(tally.done, tally.will_run, now - began) if tally.done < tally.will_run else ""
        failed = f"{tally.failed:,} failed" if tally.failed else ""
        return node, tally.done, tally.will_run, ", ".join(filter(None, (told, failed)))


def _summary(event: RunFinished) -> str:
    counts = ", ".join(f"{number:,} {name}" for name, number in event.counts.items() if number)
    return f"{event.status} in {duration(event.elapsed_seconds)}: {counts or 'nothing to do'}"

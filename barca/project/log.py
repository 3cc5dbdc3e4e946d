"""What runs and garbage collection do, as records of the logger `barca`; silent unless somebody listens."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from barca.errors import error_text, one_line, plural
from barca.events import (
    KeyFailed,
    KeysDone,
    NodePlanned,
    Noted,
    Retried,
    RunFinished,
    RunStarted,
    Warned,
    WorkStarted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca.events import Event

LOGGER: Final = logging.getLogger("barca")
"""Its records carry, where they are of one, `run_id`, `node` and `key` as attributes; else `None`."""

LOGGER.addHandler(logging.NullHandler())

_LEVELS: Final[Mapping[type, int]] = {
    RunStarted: logging.INFO,
    NodePlanned: logging.INFO,
    WorkStarted: logging.DEBUG,
    KeysDone: logging.DEBUG,
    Retried: logging.WARNING,
    KeyFailed: logging.ERROR,
    Warned: logging.WARNING,
    Noted: logging.INFO,
}
"""Of each event, the level of its record; that of a run's end depends on how it ended."""

_ENDS: Final = {"success": logging.INFO, "cancelled": logging.WARNING, "failed": logging.ERROR}


class LogListener:
    """Logs the events of one run, each as one line: line ends in keys and messages are made visible.

    Args:
        run_id: The run.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def __call__(self, event: Event, /) -> None:
        """Log an event, if somebody listens."""
        level = _ENDS[event.status] if isinstance(event, RunFinished) else _LEVELS[type(event)]
        if not LOGGER.isEnabledFor(level):
            return
        message, *values = _said(event)
        extra = {
            "run_id": self._run_id,
            "node": getattr(event, "node", None),
            "key": getattr(event, "key", None),
        }
        told = (one_line(value) if isinstance(value, str) else value for value in values)
        LOGGER.log(level, message, *told, extra=extra)


def log(message: str, *values: Any) -> None:
    """Log what was done outside of runs, at the level INFO."""
    LOGGER.info(message, *values, extra={"run_id": None, "node": None, "key": None})


def _said(event: Event) -> tuple[Any, ...]:
    """The message of an event, and the values of its placeholders."""
    said: tuple[Any, ...]
    match event:
        case RunStarted(run_id, target):
            said = ("run %s of %s started", run_id, target)
        case NodePlanned(node, total, will_run, calls):
            planned = f"{plural(will_run, 'key')} of {total:,}"
            said = ("%s: %s to run in %s", node, planned, plural(calls, "call"))
        case WorkStarted(node, work, keys):
            said = ("%s: call %s of %s started", node, work, plural(keys, "key"))
        case KeysDone(node, succeeded, failed):
            said = ("%s: %s succeeded, %d failed", node, plural(succeeded, "key"), failed)
        case Retried(node, keys, attempt, delay_seconds, message):
            again = f"attempt {attempt} of {plural(keys, 'key')} in {delay_seconds:g} s"
            said = ("%s: %s, after %s", node, again, message)
        case KeyFailed(node, key, error_type, message):
            said = ("%s failed: %s", f"{node}[{key}]" if key else node, error_text(error_type, message))
        case RunFinished(run_id, status, elapsed_seconds, counts):
            counted = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
            said = (
                "run %s ended: %s in %.2f s; keys: %s",
                run_id,
                status,
                elapsed_seconds,
                counted or "none",
            )
        case Warned(message) | Noted(message):
            said = ("%s", message)
    return said

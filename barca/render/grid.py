"""The one look of every table: plain columns, quiet headings, states in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.render.text import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table
    from rich.text import Text

STYLES = {
    "ran": "green",
    "run": "yellow",
    "success": "green",
    "cached": "dim",
    "partial": "yellow",
    "stale": "yellow",
    "never_run": "yellow",
    "running": "yellow",
    "failed": "bold red",
    "blocked": "red",
    "skipped": "magenta",
    "cancelled": "magenta",
    "interrupted": "magenta",
    "unknown": "cyan",
    "always_runs": "blue",
}
"""Colour of each state, action and status; rich leaves colours out where `NO_COLOR` is set."""

LABELS = {"run": "will run", "never_run": "never run", "always_runs": "always runs"}


def text(value: object, style: str = "") -> Text:
    """Text that is taken literally: no markup, no control characters."""
    from rich.text import Text

    return Text(safe(value), style=style)


def state(value: str | None) -> Text:
    """A state, action or status in its colour."""
    return text(LABELS.get(value or "", value or ""), STYLES.get(value or "", ""))


def count(value: int | None) -> str:
    """A count with thousands separators; an empty text for `None`."""
    return "" if value is None else f"{value:,}"


def grid(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = ()) -> Table:
    """A table without lines.

    Args:
        columns: Headings. The last one takes what room is left.
        rows: Cells: strings, taken literally, or rich texts.
        right: Headings whose cells stand to the right, e.g. counts; they never wrap.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        numeric = column in right
        table.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for row in rows:
        table.add_row(*(text(cell) if isinstance(cell, str) else cell for cell in row))
    return table

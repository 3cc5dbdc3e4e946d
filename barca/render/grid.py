"""The one look of every table: plain columns, quiet headings, states in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from barca.render.text import safe, safe_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

GAP = 2
WRAPPED_WIDTH = 24
"""Characters that a column of sentences needs at least."""

LABELS = {"run": "will run", "never_run": "never run", "always_runs": "always runs"}


def text(value: object, style: str = "") -> Text:
    """Text that is taken literally: no markup, no control characters."""
    from rich.text import Text

    return Text(safe(value), style=style)


def lines(value: object, style: str = "") -> Text:
    """As `text`, of several lines."""
    from rich.text import Text

    return Text(safe_lines(value), style=style)


def state(value: str | None) -> Text:
    """A state, action or status in its colour."""
    return text(LABELS.get(value or "", value or ""), STYLES.get(value or "", ""))


def count(value: int | None) -> str:
    """A count with thousands separators; an empty text for `None`."""
    return "" if value is None else f"{value:,}"


def grid(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int,
    *,
    right: Sequence[str] = (),
    wrap: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> Table:
    """A table without lines.

    Args:
        columns: Headings.
        rows: Cells: strings, taken literally, or rich texts.
        width: Characters there are.
        right: Headings whose cells stand to the right, e.g. counts.
        wrap: Headings whose cells may wrap; the others do only when nothing else helps.
        spare: Headings that can be missed: left out, one after the other, when there is no room. A column
            without a filled cell is always left out.
    """
    from rich.table import Table

    cells = [[text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    needs = {
        column: max([len(column), *(row[place].cell_len for row in cells)])
        for place, column in enumerate(columns)
    }
    filled = {name for place, name in enumerate(columns) if any(row[place].cell_len for row in cells)}
    shown = [name for name in columns if name in filled or not rows]
    least = {name: min(need, WRAPPED_WIDTH) if name in wrap else need for name, need in needs.items()}
    for name in spare:
        if _room(least, shown) > width and name in shown:
            shown.remove(name)
    widths = _widened(least, needs, width - _room(least, shown), [name for name in shown if name in wrap])
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for name in shown:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=justify, overflow="fold", width=widths.get(name))
    places = [columns.index(name) for name in shown]
    for row in cells:
        table.add_row(*(row[place] for place in places))
    return table


def _widened(
    least: Mapping[str, int], needs: Mapping[str, int], left: int, wrapped: Sequence[str]
) -> Mapping[str, int]:
    """The width of each column, with what is left shared out in order; none where there is too little."""
    if left < 0:
        return {}
    widths = dict(least)
    for name in wrapped:
        more = min(needs[name] - least[name], left)
        widths[name] += more
        left -= more
    return widths


def _room(widths: Mapping[str, int], shown: Sequence[str]) -> int:
    return sum(widths[name] for name in shown) + GAP * (len(shown) - 1)

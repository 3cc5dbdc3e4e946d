"""A look at values: the first rows of a table, or the beginning of anything else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.text import Text

from barca.errors import plural
from barca.render.grid import count, text
from barca.render.text import safe, safe_lines, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

SHOWN_ROWS = 10
CELL_WIDTH = 60
_LINES = 30


def table_preview(
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Any]],
    height: int | None,
    width: int,
    *,
    most_rows: int = SHOWN_ROWS,
) -> list[RenderableType]:
    """The first rows of a table as a rich table.

    Args:
        columns: Name and dtype of each column.
        rows: Cells of the first rows.
        height: Rows of the whole table, or `None` when nobody counted.
        width: Characters to fill; columns that do not fit are counted instead.
        most_rows: At most so many rows are shown.
    """
    from rich import box
    from rich.table import Table

    alone = len(columns) == 1
    most = max(10, width - 2) if alone else min(CELL_WIDTH, max(10, width // 2))
    cells = [[shorten(_cell(value), most) for value in row] for row in rows[:most_rows]]
    fitting = _fitting([name for name, _ in columns], [dtype for _, dtype in columns], cells, width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name, dtype in columns[:fitting]:
        table.add_column(text(name, "bold").append_text(text(f" {dtype}", "dim not bold")), no_wrap=True)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row[:fitting]))
    shape = plural(height, "row") if height is not None else f"the first {plural(len(cells), 'row')}"
    shape += f", {plural(len(columns), 'column')}"
    if fitting < len(columns):
        shape += f", {count(len(columns) - fitting)} of them not shown"
    return [table, text(shape, "dim")] if fitting else [text(shape, "dim")]


def _cell(value: Any) -> str:
    return "null" if value is None else safe(value)


def _fitting(names: Sequence[str], dtypes: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> int:
    """How many columns fit in the width; at least one when there are any."""
    used = 0
    for place, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        used += max([len(safe(name)) + len(dtype) + 1, *(len(row[place]) for row in cells)]) + 3
        if used > width:
            return max(1, place)
    return len(names)


def value_preview(value: Any) -> list[RenderableType]:
    """The beginning of a value that is no table: as JSON where that works, else its `repr`."""
    try:
        whole = json.dumps(value, indent=2, ensure_ascii=False)
    except (TypeError, ValueError):
        whole = repr(value)
    lines = safe_lines(whole).split("\n")
    view: list[RenderableType] = [Text("\n".join(shorten(line, 200) for line in lines[:_LINES]))]
    if len(lines) > _LINES:
        view.append(text(f"{plural(len(lines) - _LINES, 'line')} more", "dim"))
    return view


def head_view(head: Mapping[str, Any], rows: int, width: int) -> list[RenderableType]:
    """`barca head`: the first rows of a table, or the first values.

    Args:
        head: The JSON form.
        rows: How many were asked for.
        width: Characters of the terminal.
    """
    of = f"{head['target']}, {plural(head['keys'], 'key')} with a result"
    if "values" in head:
        view: list[RenderableType] = []
        for key, value in head["values"].items():
            view += [*([text(key, "bold")] if key else []), *value_preview(value)]
        return [*view, text(of, "dim")]
    columns = [(column["name"], column["dtype"].lower()) for column in head["columns"]]
    cells = [list(row.values()) for row in head["rows"]]
    height = len(cells) if len(cells) < rows else None
    return [*table_preview(columns, cells, height, width, most_rows=rows), text(of, "dim")]

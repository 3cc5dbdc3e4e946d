"""A result as tables: its steps, then its value or where its keys are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.cli.output import terminal_width
from barca.cli.paths import outputs
from barca.errors import plural
from barca.render.grid import text
from barca.render.preview import SHOWN_ROWS, table_preview, value_preview
from barca.render.tables import SHOWN_OUTPUTS, outputs_view, result_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl
    from rich.console import RenderableType

    from barca.project.lookback import Lookback
    from barca.project.results import Result


def result_parts(
    document: Mapping[str, Any], result: Result | Lookback, title: str, valued: Mapping[str, Any] | None
) -> list[RenderableType]:
    """The steps of a run, then each target: a preview of its value, or the path of each key.

    Args:
        document: The result's JSON form, with pointers.
        result: The result, asked for a value where one is previewed.
        title: The targets as people read them.
        valued: The JSON form with values, if keys are to show them and not their paths.
    """
    width = terminal_width()
    view = result_view(document, title, width)
    several = "targets" in document
    for node_id, (name, output) in zip(result.targets, outputs(document).items(), strict=False):
        if output is None:
            continue
        if several:
            view.append(text(name, "bold"))
        if "_barca_artifact" in output:
            view += _value(result.value_of(node_id), width)
        elif valued is not None:
            view += _values(outputs(valued)[name])
        else:
            view += outputs_view(output, width)
    return view


def _value(value: Any, width: int) -> list[RenderableType]:
    table = as_table(value)
    return value_preview(value) if table is None else table_preview(*table, width)


def _values(output: Mapping[str, Any]) -> list[RenderableType]:
    listed = output.get("_barca_partitions")
    keys = listed["outputs"] if listed else output
    view: list[RenderableType] = []
    for key, value in list(keys.items())[:SHOWN_OUTPUTS]:
        view += [text(key, "bold"), *value_preview(value)]
    total = listed["keys"] if listed else len(keys)
    if total > SHOWN_OUTPUTS:
        view.append(text(f"{plural(total, 'key')} in all, {SHOWN_OUTPUTS} shown", "dim"))
    return view


def as_table(value: Any) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]], int | None] | None:
    """Columns (name, dtype), first rows and height of a table of any library; `None` for other values."""
    import polars as pl

    height: int | None
    if isinstance(value, pl.LazyFrame):
        frame = value.head(SHOWN_ROWS).collect(engine="in-memory")
        height = _whole(frame)
    elif isinstance(value, pl.DataFrame):
        frame, height = value.head(SHOWN_ROWS), value.height
    elif _library(value) == "pandas" and hasattr(value, "columns"):
        frame, height = pl.from_pandas(value.head(SHOWN_ROWS)), len(value)
    elif _library(value) == "pyarrow" and hasattr(value, "slice"):
        frame, height = pl.DataFrame(pl.from_arrow(value.slice(0, SHOWN_ROWS))), len(value)
    elif _library(value) == "pyarrow" and hasattr(value, "head"):
        frame, height = pl.DataFrame(pl.from_arrow(value.head(SHOWN_ROWS))), value.count_rows()
    elif hasattr(value, "limit") and hasattr(value, "pl"):
        frame = value.limit(SHOWN_ROWS).pl()
        height = _whole(frame)
    else:
        return None
    columns = [(name, str(dtype).lower()) for name, dtype in frame.schema.items()]
    return columns, frame.rows(), height


def _whole(frame: pl.DataFrame) -> int | None:
    """The height of a table, told from its first rows; `None` where there may be more."""
    return frame.height if frame.height < SHOWN_ROWS else None


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0].removeprefix("_")

"""A result as tables: its steps, then its value or where its keys are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.cli.output import terminal_width
from barca.render.grid import text
from barca.render.preview import SHOWN_ROWS, table_preview, value_preview
from barca.render.tables import SHOWN_OUTPUTS, outputs_view, result_view
from barca.render.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType


def result_parts(
    document: Mapping[str, Any], result: Any, title: str, *, values: bool
) -> list[RenderableType]:
    """The steps of a run, then each target: a preview of its value, or the path of each key.

    Args:
        document: The result's JSON form.
        result: The result, asked for its value where one is previewed.
        title: The targets as people read them.
        values: Whether keys show their values too, not only their paths.
    """
    width = terminal_width()
    view = result_view(document, title, width)
    if document["status"] != "success" and not document.get("final_output") and not document.get("targets"):
        return view
    several = document.get("targets")
    for name, output in (several or {"": document.get("final_output")}).items():
        if output is None:
            continue
        if several:
            view.append(text(name, "bold"))
        partitioned = isinstance(output, dict) and "_barca_artifact" not in output
        if values:
            view += _values(output) if partitioned else _value(_target_value(result, name), output)
        elif partitioned:
            view += outputs_view(output, width)
        else:
            view += _value(_target_value(result, name), output)
    return view


def _target_value(result: Any, name: str) -> Any:
    return result.value[name] if name else result.value


def _value(value: Any, output: Any) -> list[RenderableType]:
    width = terminal_width()
    if (table := as_table(value)) is not None:
        return table_preview(*table, width)
    shown = value_preview(value)
    return (
        [*shown, *outputs_view(output, width)]
        if isinstance(output, dict) and "_barca_artifact" in output
        else shown
    )


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
        frame, height = value.head(SHOWN_ROWS).collect(engine="in-memory"), None
    elif isinstance(value, pl.DataFrame):
        frame, height = value.head(SHOWN_ROWS), value.height
    elif _library(value) == "pandas" and hasattr(value, "columns"):
        frame, height = pl.from_pandas(value.head(SHOWN_ROWS)), len(value)
    elif _library(value) == "pyarrow" and hasattr(value, "slice"):
        frame, height = pl.DataFrame(pl.from_arrow(value.slice(0, SHOWN_ROWS))), len(value)
    elif _library(value) == "pyarrow" and hasattr(value, "head"):
        frame, height = pl.DataFrame(pl.from_arrow(value.head(SHOWN_ROWS))), value.count_rows()
    elif hasattr(value, "limit") and hasattr(value, "pl"):
        frame, height = value.limit(SHOWN_ROWS).pl(), None
    else:
        return None
    columns = [(name, str(dtype).lower()) for name, dtype in frame.schema.items()]
    return columns, frame.rows(), height


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0].removeprefix("_")

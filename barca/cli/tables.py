"""A computed table in the form that was asked for: on stdout, or as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from barca.cli.output import Mode, emit_bytes, emit_json, emit_view, terminal_width, write
from barca.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import polars as pl

FORMS = ("table", "json", "csv", "parquet")
"""What may be written to stdout."""

SHOWN_ROWS = 100


def check_form(output: str) -> None:
    """Make sure that `-o` names a form, or a file with an extension that tells one, before anything is read.

    Raises:
        UsageError: It does not; or a terminal would be sent Parquet.
    """
    from barca.io.sinks.targets import EXTENSIONS

    if output == "parquet" and sys.stdout.isatty():
        raise UsageError(
            "Parquet is not for a terminal", code="output", remediation="write e.g. -o result.parquet"
        )
    suffix = Path(output).suffix.lower()
    if output in FORMS or EXTENSIONS.get(suffix, "pickle") != "pickle":
        return
    extensions = [known for known, form in EXTENSIONS.items() if form != "pickle"]
    raise UsageError(
        f"-o `{output}` is neither a form nor a file of a known kind",
        code="output",
        remediation=f"{did_you_mean(output, FORMS)}; or a file that ends in {', '.join(extensions)}",
    )


def emit_table(frame: pl.DataFrame, output: str | None, mode: Mode) -> None:
    """The table on stdout, or in a file.

    Args:
        frame: The table.
        output: A form, a file, or `None` for what the mode says.
        mode: `json` or `pretty`.

    Raises:
        StoreError: The file cannot be written.
        UsageError: The format cannot hold the table.
    """
    form = output or ("table" if mode == "pretty" else "json")
    if form == "table":
        from barca.render.preview import table_preview

        columns = [(name, str(dtype).lower()) for name, dtype in frame.schema.items()]
        shown = frame.head(SHOWN_ROWS).rows()
        emit_view(table_preview(columns, shown, frame.height, terminal_width(), most_rows=SHOWN_ROWS))
        if frame.height > SHOWN_ROWS:
            write(sys.stderr, f"note: the first {SHOWN_ROWS} of {frame.height:,} rows are shown\n")
    elif form == "json":
        columns_json = [{"name": name, "dtype": str(dtype)} for name, dtype in frame.schema.items()]
        emit_json({"columns": columns_json, "rows": frame.to_dicts()})
    elif form in FORMS:
        emit_bytes(_content(frame, form))
    else:
        _write_file(frame, Path(form))


def _content(frame: pl.DataFrame, form: str) -> bytes:
    from io import BytesIO

    from barca.io.sinks.writing import PARQUET
    from barca.project.queries import computed

    content = BytesIO()
    if form == "csv":
        computed(lambda: frame.write_csv(content))
    else:
        frame.write_parquet(content, **PARQUET)
    return content.getvalue()


def _write_file(frame: pl.DataFrame, path: Path) -> None:
    """Replace a file in one step."""
    from barca.io.sinks.targets import EXTENSIONS, described
    from barca.io.sinks.writing import TableFile, write_tables
    from barca.io.storage import staged

    with staged(path) as staging:
        failures = write_tables([TableFile(frame, str(staging), EXTENSIONS[path.suffix.lower()])])
        if failures:
            raise UsageError(f"{path} cannot be written: {described(failures[0])}", code="output")
    rows, columns = frame.shape
    write(sys.stderr, f"note: {rows:,} rows, {columns} columns written to {path}\n")

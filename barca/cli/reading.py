"""`barca head`, `barca sql` and `barca export`: what nodes hold, or held, without running anything."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from barca.cli import options as opt
from barca.cli.arguments import files, one_of, one_target, parse_params, parse_partition, whole_number
from barca.cli.notes import moment_of, note_moment
from barca.cli.output import choose_mode, emit_json, emit_lines, emit_view, terminal_width
from barca.cli.session import open_project, stdout_kept
from barca.cli.tables import FORMS, check_form, emit_table
from barca.errors import UsageError, plural

HEAD_ROWS = 10
EXPORT_FORMATS = ("parquet", "csv", "ndjson", "ipc")

ExportFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(EXPORT_FORMATS),
        help="Of the files (default: parquet).",
        show_default=False,
        autocompletion=opt.choices(*EXPORT_FORMATS),
    ),
]


Query = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="QUERY FILES",
        help="A query in the SQL of Polars, then project files or directories. Each node is a view: its "
        "name, or its id in double quotes.",
        show_default=False,
    ),
]


def head(
    words: opt.OneTarget = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "-n", "--rows", metavar="N", help=f"So many rows (default {HEAD_ROWS}).", show_default=False
        ),
    ] = None,
    partition: opt.Partition = None,
    as_of: opt.AsOf = None,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Show the first rows of what a node holds now, or held; nothing is run."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    target, paths = one_target("head", words or ())
    number = whole_number("-n", rows) if rows else HEAD_ROWS
    selection = parse_partition(partition or ())
    with stdout_kept():
        project = open_project(paths, env=env)
        moment = moment_of(project, as_of)
        found = project.head(target, number, partition=selection, as_of=moment).to_dict()
    note_moment(moment)
    if mode == "json":
        emit_json(found)
        return
    from barca.render.preview import head_view

    emit_view(head_view(found, number, terminal_width()))


def sql(
    words: Query = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=VALUE",
            help="What :NAME is in the query (repeatable): a number, true, null, a JSON list, or text.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar=f"{'|'.join(FORMS)}|FILE",
            help="Form on stdout, or a file: .parquet, .csv, .json, .ndjson, .arrow.",
            show_default=False,
            autocompletion=opt.choices(*FORMS),
        ),
    ] = None,
    as_of: opt.AsOf = None,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Query what nodes hold now, or held, each a view; nothing is run."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    query, *paths = words or ("",)
    if not query.strip():
        raise UsageError(
            "sql takes a query", code="missing_query", remediation='write `barca sql "SELECT ..."`'
        )
    if output:
        check_form(output)
    params = parse_params(param or ())
    with stdout_kept():
        from barca.project.queries import computed

        project = open_project(files(paths), env=env)
        moment = moment_of(project, as_of)
        lazy = project.sql(query, params, as_of=moment)
        frame = computed(lambda: lazy.collect(engine="in-memory"))
    note_moment(moment)
    emit_table(frame, output, mode)


def export(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET DIR FILES",
            help="A node's name or id, a directory or a file like out.parquet to write, then project files.",
            show_default=False,
            autocompletion=opt.completed("words"),
        ),
    ] = None,
    form: ExportFormat = None,
    partition: opt.Partition = None,
    as_of: opt.AsOf = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a single file that is there.")
    ] = False,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Write what a node holds now, or held, to files; nothing is run."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    named = words or ()
    if len(named) < 2:
        raise UsageError(
            "export takes a target and a directory",
            code="missing_target",
            remediation="write `barca export TARGET DIR [FILES...]`; `barca list` shows the nodes",
        )
    target, paths = one_target("export", [named[0], *named[2:]])
    options: dict[str, Any] = {
        "format": form and one_of("--format", form, EXPORT_FORMATS),
        "partition": parse_partition(partition or ()),
        "overwrite": overwrite,
    }
    with stdout_kept():
        project = open_project(paths, env=env)
        moment = moment_of(project, as_of)
        done = project.export(target, named[1], as_of=moment, **options)
    note_moment(moment)
    if mode == "json":
        emit_json(done)
        return
    from barca.render.text import safe, size

    written = f"{plural(done['files'], 'file')} ({done['format']}, {size(done['bytes'])})"
    emit_lines([f"{plural(done['keys'], 'key')} of {safe(target)} written to {safe(named[1])}: {written}"])

"""`barca head`: what current results hold, without running anything."""

from __future__ import annotations

from typing import Annotated

import typer

from barca.cli import options as opt
from barca.cli.arguments import one_target, parse_partition, whole_number
from barca.cli.output import choose_mode, emit_json, emit_view, terminal_width
from barca.cli.session import open_project, stdout_kept

HEAD_ROWS = 10


def head(
    words: opt.OneTarget = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "-n", "--rows", metavar="N", help=f"So many rows (default {HEAD_ROWS}).", show_default=False
        ),
    ] = None,
    partition: opt.Partition = None,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Show the first rows of what a node holds now; nothing is run."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    target, paths = one_target("head", words or ())
    number = whole_number("-n", rows) if rows else HEAD_ROWS
    selection = parse_partition(partition or ())
    with stdout_kept():
        found = open_project(paths, env=env).head(target, number, partition=selection).to_dict()
    if mode == "json":
        emit_json(found)
        return
    from barca.render.preview import head_view

    emit_view(head_view(found, number, terminal_width()))

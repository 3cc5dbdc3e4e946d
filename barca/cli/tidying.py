"""`barca gc`: making the store small."""

from __future__ import annotations

from typing import Annotated

import typer

from barca.cli import options as opt
from barca.cli.output import choose_mode, emit_json, emit_view
from barca.cli.session import open_project


def gc(
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size", metavar="SIZE", help="Results take no more, e.g. 2GB.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how many results would be given up; change nothing.")
    ] = False,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Delete what nothing asks for any more, and make results fit into a size.

    Results that a newer one of the same computation replaces go first, then those of earlier computations,
    then current ones, older before newer. What a run in progress may read stays until the next time.
    """
    mode = choose_mode(as_json=as_json, pretty=pretty)
    told = open_project().gc(max_size, dry_run=dry_run)
    if mode == "json":
        emit_json(told)
        return
    from barca.render.tidying import gc_view

    emit_view(gc_view(told))

"""`barca tag` and `barca gc`: what stays in the store, and making it small."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from barca.cli import options as opt
from barca.cli.output import choose_mode, emit_json, emit_view, terminal_width
from barca.cli.session import open_project
from barca.errors import UsageError


def tag(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Of the tag.", show_default=False, autocompletion=opt.completed("moments")
        ),
    ] = None,
    when: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|TIME]",
            help="What it pins: what was held then; without it, what is held now.",
            show_default=False,
            autocompletion=opt.completed("moments"),
        ),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the tag.")] = False,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Pin what is held at a moment under a name, so that gc keeps it; without a name, list the tags."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    if delete and (name is None or when is not None):
        raise UsageError("--delete takes the name of one tag", remediation="write `barca tag NAME --delete`")
    project = open_project()
    if delete:
        project.untag(name or "")
        told: dict[str, Any] = {"tag": name, "deleted": True}
    elif name is not None:
        told = project.tag(name, when)
    else:
        told = {"tags": project.tags()}
    if mode == "json":
        emit_json(told)
        return
    from barca.render.tidying import tag_view

    emit_view(tag_view(told, terminal_width()))


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

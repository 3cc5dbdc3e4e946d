"""`barca explain`, `barca diff` and `barca doctor`: why keys run, what changed in a result, what is wrong."""

from __future__ import annotations

from typing import Annotated

import typer

from barca.cli import options as opt
from barca.cli.arguments import files, names, one_target, parse_partition
from barca.cli.notes import note_selection
from barca.cli.output import EXIT_CODES, choose_mode, emit_json, emit_view, terminal_width
from barca.cli.session import listening, open_project, stdout_kept


def explain(
    words: opt.OneTarget = None,
    partition: opt.Partition = None,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Show why the keys of a target run or not, and how its code changed since the last success."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    target, paths = one_target("explain", words or ())
    with listening() as listener:
        project = open_project(paths, env=env, listener=listener)
        explained = project.explain(target, partition=parse_partition(partition or ())).to_dict()
        for warning in explained["warnings"]:
            listener.warn(warning)
    note_selection(explained)
    if mode == "json":
        emit_json(explained)
        return
    from barca.render.inspections import explanation_view

    emit_view(explanation_view(explained, terminal_width()))


def diff(
    words: opt.OneTarget = None,
    partition: opt.Partition = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="A,B", help="Columns that tell rows apart.", show_default=False),
    ] = None,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Compare the current result of a key with the one before it: rows added, removed, changed."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    target, paths = one_target("diff", words or ())
    with stdout_kept():
        project = open_project(paths, env=env)
        found = project.diff(target, partition=parse_partition(partition or ()), on=names(on))
    compared = found.to_dict()
    if mode == "json":
        emit_json(compared)
        return
    from barca.render.inspections import comparison_view

    emit_view(comparison_view(compared, terminal_width()))


def doctor(
    words: opt.Files = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Mend the ledger first, and remove what killed writers left; then check."
        ),
    ] = False,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> int:
    """Check Python and its libraries, the store, the disk, that files load and results can be read."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    with stdout_kept():
        project = open_project(files(words or ()), env=env)
        repaired = project.repair() if repair else []
        found = project.diagnose()
    if repair:
        found["repaired"] = repaired
    if mode == "json":
        emit_json(found)
    else:
        from barca.render.inspections import diagnosis_view

        emit_view(diagnosis_view(found, terminal_width()))
    return max((EXIT_CODES[check["kind"]] for check in found["checks"] if not check["ok"]), default=0)

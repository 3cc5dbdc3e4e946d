"""`barca history`, `barca logs` and `barca stats`: what was run, what steps printed, what calls took."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from barca.cli import options as opt
from barca.cli.arguments import one_of, seconds, split_positionals, whole_number
from barca.cli.notes import moment_of, note_moment
from barca.cli.output import choose_mode, emit_json, emit_lines, emit_view, terminal_width, write
from barca.cli.session import open_project, stdout_kept
from barca.errors import UsageError, did_you_mean

STREAMS = ("stdout", "stderr")
RUN_STATUSES = ("running", "success", "failed", "cancelled", "interrupted")

RunId = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN_ID]", help="A run, as history lists it.", autocompletion=opt.completed("runs")
    ),
]
RunStatus = Annotated[
    str | None,
    typer.Option(
        "--status",
        metavar="S",
        help=f"Only runs that are {', '.join(RUN_STATUSES)}.",
        autocompletion=opt.choices(*RUN_STATUSES),
    ),
]


def history(
    run_id: RunId = None,
    limit: opt.Limit = None,
    everything: opt.All = False,
    status: RunStatus = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="T", help="Only runs of this target.", autocompletion=opt.completed("targets")
        ),
    ] = None,
    as_of: opt.AsOf = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """List runs, or show the steps and calls of one."""
    from barca.render.text import safe

    mode = choose_mode(as_json=as_json, pretty=pretty)
    if run_id and (status or target or as_of):
        raise UsageError(
            "--status, --target and --as-of choose among runs; a run is named already",
            remediation="leave out the run id or the options",
        )
    narrowing: dict[str, Any] = {
        "target": target,
        "status": one_of("--status", status, RUN_STATUSES) if status else None,
    }
    if limit or everything:
        narrowing["limit"] = None if everything else whole_number("--limit", limit or "")
    project = open_project()
    if moment := moment_of(project, as_of):
        narrowing["as_of"] = moment
    found = project.history(run_id, **narrowing)
    note_moment(moment)
    if target and not found["runs"]:
        named = (run["target"] or "" for run in project.history(limit=None)["runs"])
        others = sorted({name for names in named for name in names.split(",") if name})
        if target not in others:
            write(sys.stderr, f"note: no run is of `{safe(target)}`; {safe(did_you_mean(target, others))}\n")
    if mode == "json":
        emit_json(found)
        return
    from barca.render.records import history_view, run_view

    emit_view(run_view(found, terminal_width()) if run_id else history_view(found, terminal_width()))


def logs(
    run_id: RunId = None,
    step: Annotated[
        str | None,
        typer.Option(
            "--step",
            metavar="NODE|NODE[KEY]",
            help="Only this node, or this key of it.",
            autocompletion=opt.completed("targets"),
        ),
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option(
            "--stream",
            metavar="|".join(STREAMS),
            help="Only this stream.",
            autocompletion=opt.choices(*STREAMS),
        ),
    ] = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Show what steps printed, in the last run (with --step, the last that ran it) or the one named."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    stream = stream and one_of("--stream", stream, STREAMS)
    with stdout_kept():
        project = open_project()
        lines = project.logs(run_id, step=step, stream=stream)
        newest = project.history(limit=1)["runs"][0]["run_id"] if lines and step and not run_id else None
    if mode == "json":
        emit_json(lines)
        return
    from barca.render.records import log_lines
    from barca.render.text import safe

    emit_lines(log_lines(lines))
    if not lines:
        write(sys.stderr, "no lines\n")
    elif newest and lines[0]["run_id"] != newest:
        write(sys.stderr, f"from run {lines[0]['run_id']}, the newest that ran {safe(step)}\n")


def stats(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NODE FILES",
            help="A node's name or id, then project files or directories.",
            autocompletion=opt.completed("words"),
        ),
    ],
    target_seconds: Annotated[
        str | None,
        typer.Option(
            "--target-seconds",
            metavar="S",
            help="At most so much a call (default: the node's, or 30).",
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory", metavar="SIZE", help="What its worker may take up, e.g. 2GB (default: its share)."
        ),
    ] = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Show what a node's calls took by size, and the batch= that they suggest."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    targets, paths = split_positionals(words)
    if targets is None or len(targets) != 1:
        raise UsageError("stats takes one node", code="target", remediation="write e.g. `barca stats scored`")
    limits: dict[str, Any] = {"max_memory": max_memory} if max_memory else {}
    if target_seconds:
        limits["target_seconds"] = seconds("--target-seconds", target_seconds)
    with stdout_kept():
        found = open_project(paths).stats(targets[0], **limits)
    if mode == "json":
        emit_json(found)
        return
    from barca.render.records import stats_view

    emit_view(stats_view(found, terminal_width()))

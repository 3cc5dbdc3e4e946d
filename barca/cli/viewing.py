"""`barca plan`, `barca list`, `barca graph` and `barca status`: what there is, and what would happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from barca.cli import options as opt
from barca.cli.arguments import (
    files,
    one_of,
    parse_batch,
    parse_partition,
    pick,
    several_of,
    split_positionals,
    whole_number,
)
from barca.cli.notes import note_selection
from barca.cli.output import choose_mode, emit_json, emit_lines, emit_view, terminal_width
from barca.cli.session import listening, open_project, stdout_kept

if TYPE_CHECKING:
    from collections.abc import Mapping

STATES = ("cached", "stale", "never_run", "partial", "unknown", "always_runs", "blocked")
QUIET_STATES = ("cached", "always_runs")
STATUS_FIELDS = (
    "id", "name", "kind", "partitioned", "cache", "partitions", "last_materialization", "shape", "inputs",
    "env",
)  # fmt: skip
STATUS_LIMIT = 100
GRAPH_FORMATS = ("text", "mermaid", "svg")


def plan(
    words: opt.Words = None,
    partition: opt.Partition = None,
    batch: opt.Batch = None,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Show the phases and steps of a run, cached or not."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    targets, paths = split_positionals(words or ())
    with listening() as listener:
        project = open_project(paths, env=env, listener=listener)
        selection = parse_partition(partition or ())
        phases = project.plan(targets, partition=selection, batch=parse_batch(batch or ())).phases()
        for warning in phases.get("warnings") or ():
            listener.warn(warning)
    note_selection(phases)
    if mode == "json":
        emit_json(phases)
        return
    from barca.render.tables import phases_view

    emit_view(phases_view(phases, terminal_width()))


def list_nodes(
    words: opt.Files = None, env: opt.Env = None, as_json: opt.Json = False, pretty: opt.Pretty = False
) -> None:
    """List the nodes, and the files that cannot be loaded."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    with stdout_kept():
        listed = open_project(files(words or ()), env=env).list_nodes()
    if mode == "json":
        emit_json(listed)
        return
    from barca.render.tables import list_view

    emit_view(list_view(listed, terminal_width()))


def graph(
    words: opt.Words = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="|".join(GRAPH_FORMATS),
            help="A tree of lines, Mermaid, or an SVG image.",
            show_default=False,
            autocompletion=opt.choices(*GRAPH_FORMATS),
        ),
    ] = None,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Draw which node reads which, as a tree, Mermaid or SVG."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    form = form and one_of("--format", form, GRAPH_FORMATS)
    targets, paths = split_positionals(words or ())
    with stdout_kept():
        drawn = open_project(paths, env=env).outline(targets)
    if form is None and mode == "json":
        emit_json(drawn)
        return
    from barca.render.drawing import mermaid, svg, tree

    if form in {"mermaid", "svg"}:
        emit_lines([mermaid(drawn).rstrip("\n") if form == "mermaid" else svg(drawn)])
    else:
        emit_lines(tree(drawn, terminal_width()))


def status(
    words: opt.Words = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="S[,S]",
            help=f"Only these states: {', '.join(STATES)}.",
            autocompletion=opt.choices(*STATES),
        ),
    ] = None,
    problems: Annotated[bool, typer.Option("--problems", help="Only nodes that are not up to date.")] = False,
    limit: opt.Limit = None,
    everything: opt.All = False,
    fields: opt.Fields = None,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Show whether each node is up to date, and why not."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    states = several_of("--state", state, STATES)
    chosen = several_of("--fields", fields, STATUS_FIELDS)
    most = whole_number("--limit", limit) if limit else STATUS_LIMIT
    targets, paths = split_positionals(words or ())
    with listening() as listener:
        found = open_project(paths, env=env, listener=listener).status(targets).to_dict()
    narrowed = narrow(found, states=states, problems=problems, limit=None if everything else most)
    if mode == "json":
        emit_json(
            {**narrowed, "nodes": [pick(node, chosen) for node in narrowed["nodes"]]} if chosen else narrowed
        )
        return
    from barca.render.tables import status_view

    emit_view(status_view(narrowed, terminal_width(), chosen))


def narrow(
    found: Mapping[str, Any], *, states: list[str] | None, problems: bool, limit: int | None
) -> dict[str, Any]:
    """The nodes of a status that were asked for; its summary keeps counting every node.

    `total` counts the nodes asked for, `truncated` tells whether the limit left some of them out.
    """
    wanted = [
        node
        for node in found["nodes"]
        if (states is None or node["cache"]["state"] in states) and not (problems and _quiet(node))
    ]
    nodes = wanted if limit is None else wanted[:limit]
    return {**found, "nodes": nodes, "total": len(wanted), "truncated": len(nodes) < len(wanted)}


def _quiet(node: Mapping[str, Any]) -> bool:
    return node["cache"]["state"] in QUIET_STATES and not node["cache"]["failed"]

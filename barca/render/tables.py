"""Rich tables of plans, results, states and nodes, from the dicts of the JSON contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.errors import plural
from barca.render.explain import merge_blocked, ran_why, status_why, step_why
from barca.render.grid import count, grid, lines, state, text
from barca.render.text import as_of_text, duration, listing, size, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

STATE_ORDER = ("failed", "blocked", "stale", "partial", "never_run", "unknown", "always_runs", "cached")
SHOWN_OUTPUTS = 20


# --- dry run ----------------------------------------------------------------------------------------


def plan_view(plan: Mapping[str, Any], title: str, width: int) -> list[RenderableType]:
    """The dry run: what each step would do and why, and the counts in one line."""
    rows = [(state(step.get("action")), str(step["id"]), step_why(step)) for step in plan["steps"]]
    return [
        text(f"Dry run of {title}: nothing executed, nothing written", "bold"),
        grid(("action", "step", "why"), rows, width, wrap=("why",)),
        *selection_view(plan.get("partition_selection")),
        text(summary_line(plan["summary"])),
    ]


def summary_line(summary: Mapping[str, int]) -> str:
    """`3 will run, 19,998 cached, 0 unknown`."""
    return ", ".join(f"{count(summary.get(name) or 0)} {name.replace('_', ' ')}" for name in summary)


def selection_view(selection: Mapping[str, Any] | None) -> list[RenderableType]:
    """What `--partition` selected, in a line or two; nothing without it."""
    if not selection:
        return []
    named = "; ".join(f"{name}={listing(values)}" for name, values in (selection["selection"] or {}).items())
    lines = [text(f"partition selection: {named}")]
    skipped = selection.get("skipped_nodes") or ()
    if skipped:
        names = [node["id"] for node in skipped]
        lines.append(text(f"skipped, they read every key: {listing(names)}"))
    return [*lines]


# --- plan -------------------------------------------------------------------------------------------


def phases_view(plan: Mapping[str, Any], width: int) -> list[RenderableType]:
    """`barca plan`: phases, their streams, and the nodes of each with the number of their keys."""
    rows = []
    for number, phase in enumerate(plan["phases"], 1):
        for place, stream in enumerate(phase["streams"]):
            steps = [
                f"{node['id']} ({count(node['steps'])})" if node["steps"] != 1 else str(node["id"])
                for node in stream["nodes"]
            ]
            first = place == 0
            rows.append(
                (
                    str(number) if first else "",
                    str(phase["reason"]) if first else "",
                    listing(steps, limit=12),
                )
            )
    total, capacity = plan.get("total_steps") or 0, plan.get("capacity")
    room = f", capacity {capacity}" if capacity is not None else ""
    return [
        grid(("phase", "reason", "steps"), rows, width, right=("phase",), wrap=("reason", "steps")),
        *selection_view(plan.get("partition_selection")),
        text(f"{plural(total, 'step')}, pool of {plural(plan.get('pool_size') or 0, 'worker')}{room}"),
    ]


# --- results ----------------------------------------------------------------------------------------


def result_view(result: Mapping[str, Any], title: str, width: int) -> list[RenderableType]:
    """The steps of a run and how it ended; the outputs are `outputs_view`'s."""
    rows = []
    for step in merge_blocked(result["steps"]):
        partitions, batch = step.get("partitions") or {}, step.get("batch") or {}
        rows.append(
            (
                state(step.get("status")),
                str(step["id"]),
                count(_keys_run(step)),
                count(_keys_cached(step)),
                count(batch.get("calls") or None),
                duration(step.get("elapsed_seconds")),
                str(step.get("detail") or result_why(step, partitions)),
            )
        )
    counts = ("run", "cached", "calls", "time")
    headings = ("status", "step", *counts, "why")
    return [
        grid(headings, rows, width, right=counts, wrap=("why",), spare=("time", "calls", "cached", "run")),
        *selection_view(result.get("partition_selection")),
        lookback_line(result, title) if "as_of" in result else run_line(result, title),
    ]


def result_why(step: Mapping[str, Any], partitions: Mapping[str, Any]) -> str:
    """How a step of a run failed, or why it ran."""
    if failed := partitions.get("failed"):
        keys = listing(partitions.get("failed_keys") or (), total=failed)
        return f"{failed:,} of {plural(partitions['will_run'], 'key')} failed: {keys}"
    return ran_why(step)


def lookback_line(result: Mapping[str, Any], title: str) -> RenderableType:
    """`scored as of 2026-11-30 04:12:00 UTC (tag audit): 20,000 keys, nothing ran`."""
    return text(
        f"{title} {as_of_text(result['as_of'])}: {plural(result['steps_cached'], 'key')}, nothing ran"
    )


def run_line(result: Mapping[str, Any], title: str) -> RenderableType:
    """`Run 7a0c4e7b7357 of scored: success in 0.25 s: 3 steps ran, 19,998 cached, 2 phases`."""
    status = result["status"]
    others = {name: result.get(f"steps_{name}") or 0 for name in ("cached", "skipped")}
    counts = [
        f"{plural(result.get('steps_executed') or 0, 'step')} ran",
        *(f"{number:,} {name}" for name, number in others.items() if number),
    ]
    phases = plural(result.get("phases") or 0, "phase")
    line = text(f"Run {result.get('run_id')} of {title}: ")
    line.append_text(state(status))
    took = duration(result.get("elapsed_seconds") or 0.0)
    return line.append_text(text(f" in {took}: {', '.join(counts)}, {phases}"))


def _keys_run(step: Mapping[str, Any]) -> int | None:
    if step.get("status") == "skipped":
        return None
    if step.get("partitions"):
        run: int | None = step["partitions"].get("will_run")
        return run
    return int(step.get("status") in ("ran", "failed"))


def _keys_cached(step: Mapping[str, Any]) -> int | None:
    if step.get("status") == "skipped":
        return None
    if step.get("partitions"):
        cached: int | None = step["partitions"].get("cached")
        return cached
    return int(step.get("status") == "cached")


def outputs_view(output: Mapping[str, Any], width: int) -> list[RenderableType]:
    """Where the results are: one path per key, the first of them, and how many more there are."""
    if "_barca_artifact" in output:
        return [text(output["_barca_artifact"]["path"])]
    listed = output.get("_barca_partitions")
    keys = listed["outputs"] if listed else output
    rows = [
        (str(key), str(pointer["_barca_artifact"]["path"]), count(pointer["_barca_artifact"].get("rows")))
        for key, pointer in list(keys.items())[:SHOWN_OUTPUTS]
        if isinstance(pointer, dict) and "_barca_artifact" in pointer
    ]
    total = listed["keys"] if listed else len(keys)
    view: list[RenderableType] = (
        [grid(("key", "path", "rows"), rows, width, right=("rows",), wrap=("key", "path"), spare=("rows",))]
        if rows
        else []
    )
    if total > len(rows):
        more = "; `-o path` lists paths" if len(keys) > len(rows) else ""
        view.append(text(f"{plural(total, 'key')} in all, {len(rows)} shown{more}", "dim"))
    return view


# --- status and list --------------------------------------------------------------------------------


def status_view(
    status: Mapping[str, Any], width: int, fields: Sequence[str] | None = None
) -> list[RenderableType]:
    """`barca status`: the state of each node, and the counts.

    Args:
        status: The JSON form, narrowed to the nodes to show.
        width: Characters of the terminal.
        fields: Fields of a node to show instead of the usual columns.
    """
    rows = [_status_row(node) for node in status["nodes"]]
    counts = ("keys", "time", "size")
    view: list[RenderableType] = []
    if fields:
        cells = [[_field(node.get(name)) for name in fields] for node in status["nodes"]]
        view.append(grid(fields, cells, width, wrap=fields))
    elif rows:
        headings = ("state", "node", *counts, "last run (UTC)", "why")
        spare = ("size", "time", "last run (UTC)", "keys")
        view.append(grid(headings, rows, width, right=counts, wrap=("why",), spare=spare))
    if status.get("truncated"):
        view.append(text(f"{len(rows)} of {plural(status['total'], 'node')} shown; --all shows each", "dim"))
    return [*view, *errors_view(status.get("load_errors") or ()), state_line(status["summary"])]


def _status_row(node: Mapping[str, Any]) -> Sequence[Any]:
    last = node.get("last_materialization") or {}
    return (
        state((node.get("cache") or {}).get("state")),
        str(node["id"]),
        status_keys(node),
        duration(last.get("elapsed_seconds")),
        size(last.get("size_bytes")),
        timestamp(last.get("created_at")),
        status_why(node),
    )


def _field(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {part}" for name, part in value.items() if part not in (None, [], {}))
    return "" if value is None else str(value)


def status_keys(node: Mapping[str, Any]) -> str:
    """`9,999/10,000`: stored and wanted keys; empty for an unpartitioned node."""
    partitions = node.get("partitions") or {}
    unknown = (node.get("cache") or {}).get("state") == "unknown"
    if not partitions or unknown or partitions.get("total") is None:
        return "?" if node.get("partitioned") else ""
    return f"{count(partitions.get('cached') or 0)}/{count(partitions['total'])}"


def state_line(summary: Mapping[str, int]) -> RenderableType:
    """`2 stale, 5 cached`: nodes by state, what needs attention first, states of no node left out."""
    names = [*STATE_ORDER, *(name for name in summary if name not in STATE_ORDER)]
    parts = [(name, summary[name]) for name in names if summary.get(name)]
    line = text("")
    for place, (name, number) in enumerate(parts):
        line.append_text(text(f"{', ' if place else ''}{count(number)} "))
        line.append_text(state(name))
    return line if parts else text("no nodes")


def list_view(listed: Mapping[str, Any], width: int) -> list[RenderableType]:
    """`barca list`: the nodes, and the files that could not be loaded."""
    rows = [
        (str(node["kind"]), str(node["id"]), node["freshness"] or "", listing(node["inputs"], limit=8))
        for node in listed["nodes"]
    ]
    view: list[RenderableType] = (
        [grid(("kind", "node", "freshness", "inputs"), rows, width, wrap=("inputs",), spare=("freshness",))]
        if rows
        else []
    )
    return [*view, *errors_view(listed.get("load_errors") or ()), text(plural(listed["total"], "node"))]


def errors_view(errors: Sequence[Mapping[str, Any]] | Iterable[Mapping[str, Any]]) -> list[RenderableType]:
    """Files that could not be loaded, with the nodes that are lost, and each traceback once."""
    view: list[RenderableType] = []
    told: set[str] = set()
    for error in errors:
        view.append(lines(f"cannot load {error['file']}: {error['error']}", "red"))
        if error.get("nodes"):
            view.append(text(f"  without it: {listing(error['nodes'], limit=8)}", "red"))
        if (traceback := error.get("traceback")) and traceback not in told:
            told.add(traceback)
            view.append(lines(traceback.rstrip(), "dim"))
    return view

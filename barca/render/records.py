"""Rich tables of what was: runs, the steps and calls of one run, and the lines that steps printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from barca.errors import plural
from barca.render.grid import count, grid, state, text
from barca.render.text import duration, safe, safe_lines, timestamp
from barca.render.text import size as bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType


def history_view(history: Mapping[str, Any], width: int) -> list[RenderableType]:
    """`barca history`: runs, newest first as given."""
    rows = [
        (
            str(run["run_id"]),
            str(run.get("command") or ""),
            str(run.get("target") or ""),
            state(run.get("status")),
            count(run.get("steps_executed")),
            count(run.get("steps_cached")),
            duration(run.get("elapsed_seconds")),
            timestamp(run.get("started_at")),
            str(run.get("failed_node") or ""),
        )
        for run in history["runs"]
    ]
    if not rows:
        return [text("no runs")]
    counts = ("ran", "cached", "time")
    headings = ("run", "command", "target", "status", *counts, "started (UTC)", "failed")
    view: list[RenderableType] = [
        grid(
            headings,
            rows,
            width,
            right=counts,
            wrap=("target", "failed"),
            spare=("failed", "time", "cached", "ran", "command"),
        )
    ]
    if history.get("truncated"):
        view.append(text(f"{len(rows)} of {plural(history['total'], 'run')} shown; --all shows each", "dim"))
    return view


def run_view(record: Mapping[str, Any], width: int) -> list[RenderableType]:
    """`barca history RUN_ID`: the run, its calls, its steps, and the errors of those that failed."""
    return [
        *_run_header(record["run"]),
        *_calls(record.get("calls") or (), width),
        *_steps(record.get("steps") or (), record.get("steps_page") or {}, width),
        *_failures(record.get("steps") or ()),
    ]


def _run_header(run: Mapping[str, Any]) -> list[RenderableType]:
    line = text(f"Run {run['run_id']}: {run.get('command') or ''} {run.get('target') or ''}: ", "bold")
    line.append_text(state(run.get("status")))
    counts = f"{count(run.get('steps_executed') or 0)} ran, {count(run.get('steps_cached') or 0)} cached"
    took = duration(run.get("elapsed_seconds"))
    header: list[RenderableType] = [
        line,
        text(f"started {timestamp(run.get('started_at'))} UTC, {took}, {counts}"),
    ]
    if run.get("error"):
        where = f"{run['failed_node']}: " if run.get("failed_node") else ""
        header.append(text(f"{where}{run['error']}", "red"))
    return header


def _calls(calls: Sequence[Mapping[str, Any]], width: int) -> list[RenderableType]:
    rows = [
        (
            str(call.get("batch") or ""),
            str(call.get("step") or call["node_id"]),
            count(call.get("keys")),
            state(call.get("status")),
            count(call.get("attempts")),
            duration(call.get("elapsed_seconds")),
            bytes_text(call.get("max_rss_bytes")),
        )
        for call in calls
    ]
    counts = ("keys", "attempts", "time", "memory")
    return (
        [
            grid(
                ("call", "node", "keys", "status", *counts[1:]),
                rows,
                width,
                right=counts,
                spare=("memory", "attempts", "time"),
            )
        ]
        if rows
        else []
    )


def _steps(steps: Sequence[Mapping[str, Any]], page: Mapping[str, Any], width: int) -> list[RenderableType]:
    rows = [
        (
            str(step["node_id"]),
            str(step.get("batch") or ""),
            state(step.get("status")),
            count(step.get("attempts")),
            duration(step.get("elapsed_seconds")),
            str(step.get("error_type") or ""),
        )
        for step in steps
    ]
    counts = ("attempts", "time")
    headings = ("step", "call", "status", *counts, "error")
    view: list[RenderableType] = (
        [grid(headings, rows, width, right=counts, spare=("attempts", "call", "time", "error"))]
        if rows
        else []
    )
    if page.get("truncated"):
        view.append(
            text(f"{len(rows):,} of {plural(page['total'], 'step')} shown, failed ones before others", "dim")
        )
    return view


def _failures(steps: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Each different error once, with its traceback and the steps that it ended."""
    seen: dict[str, list[str]] = {}
    for step in steps:
        if step.get("status") == "failed":
            seen.setdefault(str(step.get("error_traceback") or step.get("error") or ""), []).append(
                str(step["node_id"])
            )
    view: list[RenderableType] = []
    for trace, nodes in seen.items():
        more = f" and {plural(len(nodes) - 1, 'other step')}" if len(nodes) > 1 else ""
        view += [text(f"{nodes[0]}{more}:", "red"), Text(safe_lines(trace.rstrip()))]
    return view


def stats_view(stats: Mapping[str, Any], width: int) -> list[RenderableType]:
    """`barca stats NODE`: its calls by size, and the grouping that they suggest."""
    failed = f", {stats['failed']:,} failed" if stats["failed"] else ""
    for size in stats["exhausted"]:
        failed += f"; {_range(size['keys'])} keys: {plural(size['calls'], 'call')} ran out of memory or time"
    grouping = f" ({stats['batch']})" if stats.get("batch") else ""
    title = text(f"{stats['node_id']}{grouping}: {plural(stats['calls'], 'call')}{failed}", "bold")
    rows = [
        (
            _range(size["keys"]),
            count(size["calls"]),
            duration(size["seconds"]["median"]),
            duration(size["seconds"]["max"]),
            duration(size["seconds_per_key"]),
            bytes_text(size["memory_bytes"]["max"]),
        )
        for size in stats["sizes"]
    ]
    headings = ("keys", "calls", "time", "longest", "per key", "most memory")
    view: list[RenderableType] = [title]
    if rows:
        view.append(grid(headings, rows, width, right=headings, spare=("longest", "per key")))
    if (suggested := stats.get("suggested")) is not None:
        view.append(text(f"suggested: batch={suggested['batch']} ({suggested['why']})"))
    return view


def _range(keys: Mapping[str, int]) -> str:
    return f"{keys['from']:,}" if keys["from"] == keys["to"] else f"{keys['from']:,} to {keys['to']:,}"


def log_lines(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """`barca logs`: one line of text each: time, step, the stream where it is stderr, what was printed."""
    for line in lines:
        stream = " stderr" if line.get("stream") == "stderr" else ""
        yield f"{timestamp(line.get('ts'))} {safe(line['node_id'])}{stream} | {safe(line['line'])}"

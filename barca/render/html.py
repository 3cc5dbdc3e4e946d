"""HTML of plans, results and states for notebooks: escaped, counted, keys behind a click."""

from __future__ import annotations

import html
from collections import Counter
from typing import TYPE_CHECKING, Any

from barca.errors import plural
from barca.render.drawing import svg
from barca.render.explain import (
    because,
    key_groups,
    key_why,
    keys_by_reason,
    keys_told,
    merge_blocked,
    node_why,
    status_why,
    step_why,
)
from barca.render.grid import LABELS
from barca.render.text import as_of_text, duration, safe, safe_lines, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_COLOURS = {
    "ran": "#1a7f37",
    "success": "#1a7f37",
    "cached": "#6e7781",
    "run": "#9a6700",
    "partial": "#9a6700",
    "stale": "#9a6700",
    "never_run": "#9a6700",
    "failed": "#cf222e",
    "blocked": "#cf222e",
    "skipped": "#8250df",
    "unknown": "#0969da",
    "always_runs": "#0969da",
}
_SHOWN_OUTPUTS = 100
_SHOWN_NODES = 40


def plan_html(plan: Mapping[str, Any], outline: Mapping[str, Any]) -> str:
    """A dry run, from its JSON form and that of the graph."""
    rows = [
        (_state(step.get("action")), _text(step["id"]), _text(step_why(step)) + _keys(step))
        for step in plan["steps"]
    ]
    running = [step for step in plan["steps"] if step.get("action") in ("run", "partial")]
    return _block(
        "Plan",
        _counts(plan["summary"]),
        _tally("keys by reason", keys_by_reason(running)),
        _graph(outline, {step["id"]: step.get("action") for step in plan["steps"]}),
        _table(("action", "step", "why"), rows),
    )


def result_html(result: Mapping[str, Any], outline: Mapping[str, Any]) -> str:
    """A run, from its JSON form with pointers and that of the graph."""
    rows = [
        (_state(step.get("status")), _text(step["id"]), _text(step_why(step, "ran")) + _keys(step))
        for step in merge_blocked(result["steps"])
    ]
    title = f"Run {result.get('run_id')}: {result['status']}"
    ran = plural(result.get("steps_executed") or 0, "step")
    line = f"{ran} ran in {duration(result.get('elapsed_seconds') or 0.0)}"
    statuses = Counter(str(step.get("status")) for step in result["steps"])
    running = [step for step in result["steps"] if step.get("status") in ("ran", "partial", "failed")]
    return _block(
        title,
        _text(line),
        _counts(statuses, "steps: "),
        _tally("keys by reason", keys_by_reason(running)),
        _error(result),
        _graph(outline, {step["id"]: step.get("status") for step in result["steps"]}),
        _table(("status", "step", "why"), rows),
        _outputs(result),
        _warnings(result.get("warnings") or ()),
    )


def lookback_html(lookback: Mapping[str, Any]) -> str:
    """What targets held at a moment, from its JSON form with pointers."""
    rows = [
        (_text(step["id"]), _text(plural((step.get("partitions") or {}).get("total", 1), "key")))
        for step in lookback["steps"]
    ]
    return _block(as_of_text(lookback["as_of"]), _table(("node", "held"), rows), _outputs(lookback))


def status_html(status: Mapping[str, Any], outline: Mapping[str, Any]) -> str:
    """The state of every node, from its JSON form and that of the graph."""
    rows = []
    for node in status["nodes"]:
        cache, partitions = node.get("cache") or {}, node.get("partitions") or {}
        missing = partitions.get("missing_keys") or ()
        why = _text(status_why(node)) + _details(
            plural(partitions.get("missing") or 0, "missing key"), missing
        )
        keys = (
            f"{partitions.get('cached') or 0:,} of {partitions['total']:,}" if partitions.get("total") else ""
        )
        last = timestamp((node.get("last_materialization") or {}).get("created_at"))
        rows.append((_state(cache.get("state")), _text(node["id"]), _text(keys), _text(last), why))
    reasons = Counter(
        because((), (node.get("cache") or {}).get("reason"))
        for node in status["nodes"]
        if (node.get("cache") or {}).get("reason")
    )
    return _block(
        plural(len(rows), "node"),
        _counts(status["summary"]),
        _tally("nodes by reason", reasons),
        _graph(outline, {node["id"]: (node.get("cache") or {}).get("state") for node in status["nodes"]}),
        _table(("state", "node", "keys", "last run (UTC)", "why"), rows),
    )


def progress_html(rows: Sequence[tuple[str, int, int, str]], ended: str | None) -> str:
    """How far the nodes of a run are (name, keys done, keys that run, pace), or how it ended."""
    if ended is not None:
        return f'<div class="barca">{_text(ended)}</div>'
    cells = [
        (_text(node), f'<progress value="{done}" max="{of}"></progress>', f"{done:,} of {of:,}", _text(told))
        for node, done, of, told in rows
    ]
    return f'<div class="barca">{_table(("step", "", "keys", ""), cells)}</div>'


def project_html(listed: Mapping[str, Any], outline: Mapping[str, Any]) -> str:
    """The nodes of a project, from the JSON form of `barca list` and that of the graph."""
    errors = [f"{error['file']}: {error['error']}" for error in listed["load_errors"]]
    return _block(
        plural(listed["total"], "node"),
        _details(_broken(len(errors)), errors),
        _graph(outline, {}),
    )


def _broken(number: int) -> str:
    return "1 file that does not load" if number == 1 else f"{number:,} files that do not load"


def _graph(outline: Mapping[str, Any], states: Mapping[str, str | None]) -> str:
    """The graph, borders in the colour of each node's state; a large one behind a click."""
    if not outline["nodes"]:
        return ""
    colours = {node_id: _COLOURS[state] for node_id, state in states.items() if state in _COLOURS}
    shown = " open" if len(outline["nodes"]) <= _SHOWN_NODES else ""
    return f"<details{shown}><summary>graph</summary>{svg(outline, colours)}</details>"


def explanation_html(explained: Mapping[str, Any]) -> str:
    """Why the keys of a target run or not, from its JSON form."""
    rows = [
        (_state(node.get("action")), _text(node["id"]), _text(node_why(node)) + _keys(node))
        for node in explained["nodes"]
    ]
    keys = [f"{key['key']}: {key_why(key)}" for key in explained["keys"] if key["key"]]
    diffs = [(node.get("definition") or {}).get("diff") for node in explained["nodes"]]
    return _block(
        f"Why {explained['target']} runs, or not",
        _table(("action", "step", "why"), rows),
        _details(keys_told(explained) or plural(len(keys), "key"), keys),
        *(f"<pre>{html.escape(safe_lines(diff))}</pre>" for diff in diffs if diff),
    )


def comparison_html(compared: Mapping[str, Any]) -> str:
    """What changed in the result of a key, from its JSON form."""
    kinds = ("added", "removed", "changed")
    name = f"{compared['target']}[{compared['key']}]" if compared["key"] else compared["target"]
    tables = []
    for kind in kinds:
        rows = compared["rows"][kind]
        if rows:
            cells = [[_text(value) for value in row.values()] for row in rows]
            tables.append(_text(kind) + _table(list(rows[0]), cells))
    return _block(name, _counts({kind: compared[kind] for kind in (*kinds, "unchanged")}), *tables)


def values_html(values: Mapping[str, Any]) -> str:
    """Values by display key, each as its `repr`."""
    rows = [(_text(key), _text(repr(value))) for key, value in values.items()]
    return _block(plural(len(rows), "value"), _table(("key", "value"), rows))


def _text(value: object) -> str:
    return html.escape(safe(value))


def _state(value: str | None) -> str:
    colour = _COLOURS.get(value or "", "inherit")
    return (
        f'<span style="color:{colour};font-weight:600">{_text(LABELS.get(value or "", value or ""))}</span>'
    )


def _block(title: str, *parts: str) -> str:
    body = "".join(f"<div>{part}</div>" for part in parts if part)
    return f'<div class="barca"><strong>{_text(title)}</strong>{body}</div>'


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    left = 'style="text-align:left;vertical-align:top"'
    head = "".join(f"<th {left}>{_text(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td {left}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _counts(counts: Mapping[str, int], label: str = "") -> str:
    parts = [f"{number:,} {_text(name.replace('_', ' '))}" for name, number in counts.items() if number]
    return _text(label) + ", ".join(parts) if parts else ""


def _tally(label: str, counts: Mapping[str, int]) -> str:
    parts = [f"{name} ({number:,})" for name, number in counts.items()]
    return _text(f"{label}: {', '.join(parts)}") if parts else ""


def _details(title: str, items: Iterable[object]) -> str:
    listed = "".join(f"<li>{_text(item)}</li>" for item in items)
    return f"<details><summary>{_text(title)}</summary><ul>{listed}</ul></details>" if listed else ""


def _keys(step: Mapping[str, Any]) -> str:
    partitions = step.get("partitions") or {}
    groups = key_groups(partitions, step.get("reason"))
    items = [f"{key} ({why})" if why else key for why, keys in groups for key in keys]
    total = partitions.get("will_run") or 0
    title = (
        plural(total, "key") if total <= len(items) else f"the first {len(items)} of {plural(total, 'key')}"
    )
    return _details(title, items)


def _outputs(result: Mapping[str, Any]) -> str:
    outputs = result.get("targets") or {"result": result.get("final_output")}
    return "".join(_output(name, output) for name, output in outputs.items() if isinstance(output, dict))


def _output(name: str, output: Mapping[str, Any]) -> str:
    if "_barca_artifact" in output:
        return f"{_text(name)}: {_text(_place(output))}"
    listed = output.get("_barca_partitions")
    keys = listed["outputs"] if listed else output
    total = listed["keys"] if listed else len(keys)
    shown = [f"{key}: {_place(pointer)}" for key, pointer in list(keys.items())[:_SHOWN_OUTPUTS]]
    return _details(f"{name}: {plural(total, 'key')}", shown)


def _place(pointer: Any) -> str:
    artifact = pointer.get("_barca_artifact") if isinstance(pointer, dict) else None
    return str(artifact["path"]) if artifact else ""


def _error(result: Mapping[str, Any]) -> str:
    if not result.get("error"):
        return ""
    where = f"{result['failed_node']}: " if result.get("failed_node") else ""
    message = _text(where + result["error"])
    return f'<span style="color:{_COLOURS["failed"]}">{message}</span>'


def _warnings(warnings: Sequence[str]) -> str:
    return _details(plural(len(warnings), "warning"), warnings)

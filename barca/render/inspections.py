"""Rich tables of explanations, comparisons and diagnoses, from their JSON forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.errors import plural
from barca.render.explain import key_why, keys_told, node_why
from barca.render.grid import grid, state, text
from barca.render.tables import errors_view
from barca.render.text import safe, safe_lines, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def explanation_view(explained: Mapping[str, Any], width: int) -> list[RenderableType]:
    """`barca explain`: why each node runs or not, the keys of the target, and what changed in the code."""
    nodes = explained["nodes"]
    view: list[RenderableType] = [
        grid(
            ("action", "step", "why"),
            [(state(node["action"]), node["id"], node_why(node)) for node in nodes],
            width,
            wrap=("why",),
        )
    ]
    keys = [key for key in explained["keys"] if key["key"]]
    if keys:
        rows = [(key["key"], state(key["state"]), key_why(key), _last(key["last_success"])) for key in keys]
        view.append(grid(("key", "state", "why", "last success (UTC)"), rows, width, wrap=("key", "why")))
        if rest := keys_told(explained):
            view.append(text(rest, "dim"))
    for node in nodes:
        view += _definition(node)
    return view


def _last(success: Mapping[str, Any] | None) -> str:
    return timestamp(success["created_at"]) if success else ""


def _definition(node: Mapping[str, Any]) -> list[RenderableType]:
    """The code's difference, coloured."""
    definition = node.get("definition") or {}
    if not definition.get("diff"):
        return []
    return [text(safe(line), _DIFF_STYLES.get(line[:1], "")) for line in definition["diff"].splitlines()]


def comparison_view(compared: Mapping[str, Any], width: int) -> list[RenderableType]:
    """`barca diff`: the counts, then the first rows of each kind."""
    name = f"{compared['target']}[{compared['key']}]" if compared["key"] else compared["target"]
    sides = [f"{timestamp(compared[side]['created_at'])} (run {compared[side]['run_id']})" for side in _SIDES]
    counts = ", ".join(f"{compared[kind]:,} {kind}" for kind in (*_KINDS, "unchanged"))
    by = f", rows told apart by {', '.join(map(safe, compared['on']))}" if compared["on"] else ""
    view: list[RenderableType] = [text(f"{name}: {sides[0]} to {sides[1]}", "bold"), text(counts + by)]
    view += [text(f"column {safe(column)} {how}") for column, how in compared["columns"].items()]
    for kind, sign in _KINDS.items():
        rows = compared["rows"][kind]
        if rows:
            columns = list(rows[0])
            cells = [[sign, *(_cell(row[column]) for column in columns)] for row in rows]
            view.append(grid(("", *columns), cells, width, wrap=columns))
        if compared[kind] > len(rows):
            view.append(text(f"{plural(compared[kind], 'row')} {kind}, {len(rows)} shown", "dim"))
    return view


_SIDES = ("previous", "current")
_KINDS = {"added": "+", "removed": "-", "changed": "~"}


def _cell(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"before", "after"}:
        return f"{value['before']} -> {value['after']}"
    return "" if value is None else str(value)


def diagnosis_view(found: Mapping[str, Any], width: int) -> list[RenderableType]:
    """`barca doctor`: what was repaired, each check, then what could not be loaded, with its traceback."""
    repaired = [text(f"repaired: {line}", "yellow") for line in found.get("repaired", ())]
    if "repaired" in found and not repaired:
        repaired = [text("nothing was there to repair", "dim")]
    rows: list[Sequence[Any]] = [
        (state("success" if check["ok"] else "failed"), check["check"], safe_lines(check["detail"]))
        for check in found["checks"]
    ]
    checks = grid(("", "check", "detail"), rows, width, wrap=("detail",))
    return [*repaired, checks, *errors_view(found["load_errors"])]

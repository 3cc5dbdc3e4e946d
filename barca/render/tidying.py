"""Rich lines of what `barca gc` did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.errors import plural
from barca.render.grid import text
from barca.render.text import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType


def gc_view(told: Mapping[str, Any]) -> list[RenderableType]:
    """`barca gc`: results that were given up by standing, packs that were deleted, what is left."""
    by_standing = [f"{number:,} {standing}" for standing, number in told["given_up"].items() if number]
    given_up = ", ".join(by_standing) or "none"
    if told["dry_run"]:
        return [text(f"results that would be given up: {given_up}; nothing was changed")]
    view: list[RenderableType] = [
        text(f"results given up: {given_up}"),
        text(f"deleted: {_packs(told, 'deleted')}; {plural(told['repacked'], 'pack')} merged into others"),
        text(f"kept: {_packs(told, 'kept')}"),
    ]
    if told["waiting"]:
        view.append(text(f"runs in progress may still read {_packs(told, 'waiting')}, so they stay", "dim"))
    return view


def _packs(told: Mapping[str, Any], which: str) -> str:
    return f"{plural(told[which], 'pack')} ({size(told[f'{which}_bytes'])})"

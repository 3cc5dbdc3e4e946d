"""What `barca tag` and `barca gc` tell: tables and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.errors import plural
from barca.render.grid import count, grid, text
from barca.render.text import as_of_text, size, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType


def gc_view(told: Mapping[str, Any]) -> list[RenderableType]:
    """`barca gc`: results that were given up by standing, packs that were deleted, what is left."""
    by_standing = [f"{number:,} {standing}" for standing, number in told["given_up"].items() if number]
    given_up = ", ".join(by_standing) or "none"
    if told["dry_run"]:
        return [text(f"results that would be given up: {given_up}; nothing was changed"), *_tagged(told)]
    view: list[RenderableType] = [
        text(f"results given up: {given_up}"),
        text(f"deleted: {_packs(told, 'deleted')}; {plural(told['repacked'], 'pack')} merged into others"),
        text(f"kept: {_packs(told, 'kept')}"),
    ]
    if told["waiting"]:
        view.append(text(f"runs in progress may still read {_packs(told, 'waiting')}, so they stay", "dim"))
    return [*view, *_tagged(told)]


def _tagged(told: Mapping[str, Any]) -> list[RenderableType]:
    """What tags keep, and that it leaves no room where it does."""
    if not told["tagged"]:
        return []
    line = f"tags keep {plural(told['tagged'], 'result')} ({size(told['tagged_bytes'])})"
    limit = told["limit_bytes"]
    full = limit is not None and told["tagged_bytes"] > limit
    return [text(f"{line}, more than the size: `barca tag` lists them" if full else line, "dim")]


def tag_view(told: Mapping[str, Any], width: int) -> list[RenderableType]:
    """`barca tag`: the tags there are, or what became of one."""
    if told.get("deleted"):
        return [text(f"tag {told['tag']} deleted; what it kept goes as other results do")]
    if "tags" not in told:
        gone = f"; {told['gone']:,} of them had been collected before" if told["gone"] else ""
        kept = f"{plural(told['keys'], 'key')} {as_of_text({**told, 'tag': None})}, {size(told['bytes'])}"
        return [text(f"tag {told['tag']}: {kept}{gone}")]
    if not told["tags"]:
        return [text("no tags; `barca tag NAME` pins what is held now")]
    rows = [
        (
            tag["tag"],
            timestamp(tag["at"]),
            tag["run_id"] or "",
            count(tag["keys"]),
            count(tag["gone"] or None),
            size(tag["bytes"]),
        )
        for tag in told["tags"]
    ]
    headings = ("tag", "as of (UTC)", "run", "keys", "gone", "size")
    return [grid(headings, rows, width, right=headings[3:], wrap=("tag",), spare=("run", "size"))]


def _packs(told: Mapping[str, Any], which: str) -> str:
    return f"{plural(told[which], 'pack')} ({size(told[f'{which}_bytes'])})"

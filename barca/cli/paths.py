"""`-o path`: where the result of each key lies, one line per key."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def outputs(document: Mapping[str, Any]) -> dict[str, Any]:
    """Target to its output; one entry named `""` when the run had a single target."""
    return document.get("targets") or {"": document.get("final_output")}


def path_lines(document: Mapping[str, Any], root: Path) -> Iterator[str]:
    """One line per key: the path, and `#<display key>` where the file holds more than that key.

    Args:
        document: A result's JSON form, with pointers.
        root: Directory that paths are relative to.
    """
    for output in outputs(document).values():
        if isinstance(output, dict):
            keyed = listed["outputs"] if (listed := output.get("_barca_partitions")) else output
            yield from _lines({"": keyed} if "_barca_artifact" in keyed else keyed, root)


def _lines(pointers: Mapping[str, Any], root: Path) -> Iterator[str]:
    from barca.render.text import safe

    artifacts = {
        key: pointer["_barca_artifact"]
        for key, pointer in pointers.items()
        if isinstance(pointer, dict) and "_barca_artifact" in pointer
    }
    named = Counter(artifact["path"] for artifact in artifacts.values())
    for key, artifact in artifacts.items():
        path = artifact["path"]
        shared = bool(key) and (named[path] > 1 or artifact["row_offset"] > 0 or _goes_on(artifact, root))
        yield safe(f"{path}#{key}" if shared else path)


def _goes_on(artifact: Mapping[str, Any], root: Path) -> bool:
    """Whether the file has rows after these, as its footer says; a file that is gone has none."""
    import polars as pl

    try:
        rows = pl.scan_parquet(root / artifact["path"]).select(pl.len()).collect(engine="in-memory").item()
    except (OSError, pl.exceptions.PolarsError):
        return False
    return bool(rows > artifact["rows"])

"""Having a dataset hold the keys of its asset and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barca.io.sinks.dataset import key_directory
from barca.io.sinks.depots import depot_of
from barca.io.sinks.hive import Unnameable
from barca.io.sinks.marker import MARKER, Marker, claim
from barca.partitions import parse_key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from barca.io.sinks.depots import Depot
    from barca.io.sinks.targets import Target


def remove_departed(target: Target, departed: Sequence[str], keys: Sequence[str]) -> int:
    """Delete the directories of keys that an asset no longer has.

    Nothing is listed but where the directories may be those of other dimensions, or of keys that this
    machine's ledger knows nothing of.

    Args:
        target: The dataset.
        departed: Keys whose directories are known to be there.
        keys: The keys that the asset has now.

    Returns:
        How many directories were deleted.

    Raises:
        Exception: Whatever the file system or store raises.
    """
    depot = depot_of(target)
    marker = claim(target, depot)
    own = Marker.of(target)
    removed = 0
    with depot.staging() as staging:
        if target.dimensions and (not departed or marker is None or marker.dimensions != own.dimensions):
            removed = _remove_others(target, depot, keys, staging)
        for number, key in enumerate(departed):
            if set(parse_key(key)) == set(target.dimensions) and target.dimensions:
                removed += depot.remove(key_directory(target, key), staging / f"gone-{number}")
    if marker != own:
        depot.write(MARKER, own.content())
    return removed


def _remove_others(target: Target, depot: Depot, keys: Sequence[str], staging: Path) -> int:
    """Delete every directory that is not on the way to a key, and the files above those of keys."""
    wanted: set[tuple[str, ...]] = set()
    for key in keys:
        try:
            parts = key_directory(target, key).split("/")
        except Unnameable:  # it has no directory
            continue
        wanted |= {tuple(parts[: depth + 1]) for depth in range(len(parts))}
    removed = 0
    level: list[tuple[str, ...]] = [()]
    for _ in target.dimensions:
        below: list[tuple[str, ...]] = []
        for above in level:
            depot.remove_parts("/".join(above))
            for name in depot.directories("/".join(above)):
                path = (*above, name)
                if path in wanted:
                    below.append(path)
                else:
                    removed += depot.remove("/".join(path), staging / f"other-{removed}")
        level = below
    return removed

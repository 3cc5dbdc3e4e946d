"""Having a dataset hold the keys of its asset and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barca.decorators.places import MARKER
from barca.io.sinks.dataset import key_directory
from barca.io.sinks.depots import depot_of
from barca.io.sinks.hive import Unnameable
from barca.io.sinks.marker import Marker, claim
from barca.partitions import parse_key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from barca.io.sinks.depots import Depot
    from barca.io.sinks.targets import Target


def remove_departed(target: Target, departed: Sequence[str], keys: Sequence[str], *, complete: bool) -> int:
    """Delete the directories of keys that an asset no longer has.

    Nothing is listed but where the directories may be those of another layout, or of keys that this
    machine's ledger knows nothing of.

    Args:
        target: The dataset.
        departed: Keys whose directories are known to be there.
        keys: The keys that the asset has now.
        complete: Whether each of those is there as the sink is declared now.

    Returns:
        How many directories were deleted.

    Raises:
        Exception: Whatever the file system or store raises; what could be deleted was.
    """
    depot = depot_of(target)
    marker = claim(target, depot)
    removal = _Removal(depot)
    with depot.staging() as staging:
        if target.dimensions and (not departed or marker is None or marker.unfinished):
            _remove_others(target, keys, removal, staging)
        for key in departed:
            if set(parse_key(key)) == set(target.dimensions) and target.dimensions:
                removal.remove(key_directory(target, key), staging)
    if removal.error is not None:
        raise removal.error
    if marker is not None and marker.unfinished and complete:
        depot.write(MARKER, Marker.of(target).content())
    return removal.removed


@dataclass(slots=True)
class _Removal:
    """Directories that are removed, each whatever became of the others."""

    depot: Depot
    removed: int = 0
    tried: int = 0
    error: Exception | None = None

    def remove(self, name: str, staging: Path) -> None:
        """Remove a directory."""
        self.tried += 1
        try:
            self.removed += self.depot.remove(name, staging / f"gone-{self.tried}")
        except Exception as error:
            self.error = self.error or error


def _remove_others(target: Target, keys: Sequence[str], removal: _Removal, staging: Path) -> None:
    """Delete every directory that is not on the way to a key, and the files above those of keys."""
    wanted: set[tuple[str, ...]] = set()
    for key in keys:
        try:
            parts = key_directory(target, key).split("/")
        except Unnameable:  # it has no directory
            continue
        wanted |= {tuple(parts[: depth + 1]) for depth in range(len(parts))}
    depot = removal.depot
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
                    removal.remove("/".join(path), staging)
        level = below

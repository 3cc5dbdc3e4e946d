"""Keeping the store small: a little at the end of runs, as much as is asked for by `barca gc`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import LedgerError, plural
from barca.io.runs import read_markers
from barca.io.storage import node_directory
from barca.partitions import parse_size
from barca.project.announcing import new_run_id
from barca.project.log import log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from barca._typing import NodeId
    from barca.graph import Node
    from barca.io.garbage.collect import Collected
    from barca.ports import Ledger, PackStore

GRACE: Final = dt.timedelta(minutes=10)
"""The end of a run deletes packs that nothing named for so long: scans that somebody holds still work."""

LOOKS: Final = dt.timedelta(minutes=1)
"""What reads the ledger without being a run, as `barca status` does, is done with it after so long."""

MANY_NEW: Final = 64
"""Packs of a node, since its small ones were last merged, that make looking at it worth its while."""


def tidy(
    ledger: Ledger,
    store: PackStore,
    markers: Path,
    run_id: str,
    nodes: Iterable[Node],
    *,
    budget_seconds: float,
) -> None:
    """Merge small packs of nodes that got many, and delete those that were merged a while ago.

    Args:
        ledger: The ledger.
        store: The packs.
        markers: Directory of the markers of runs.
        run_id: The run that has ended.
        nodes: Nodes of that run.
        budget_seconds: No further node is begun after so long.

    Raises:
        LedgerError: The ledger is damaged, or cannot be written to.
        StoreError: The file system refused.
    """
    if crowded := _crowded(store, nodes):
        from barca.io.garbage.collect import collect

        try:
            collected = collect(
                ledger,
                store,
                run_id,
                before=lambda: _oldest_reader(markers) - GRACE,
                nodes=crowded,
                budget_seconds=budget_seconds,
                wait_seconds=0,
            )
        except LedgerError as error:
            if error.code != "claimed":  # who does the same, or makes a tag: the next run will do
                raise
        else:
            _log(collected)


def _crowded(store: PackStore, nodes: Iterable[Node]) -> list[NodeId]:
    """Nodes with many packs that are newer than the last of merged ones.

    The packs of a keyed source are not merged, but deleted, once they are old enough.
    """
    old = dt.datetime.now(dt.UTC) - GRACE
    return [node.id for node in nodes if _is_crowded(store, node, old)]


def _is_crowded(store: PackStore, node: Node, old: dt.datetime) -> bool:
    """Whether it is worth looking at a node; every run asks that, so that names, by age, have to do."""
    directory = node_directory(node.id)
    names = store.names(directory)
    merged = max((name for name in names if "-g-" in name), default="")
    newer = [name for name in names if name > merged]
    if len(newer) <= MANY_NEW:
        return False
    since = store.modified_at(f"{directory}/{newer[MANY_NEW]}") if node.keyed else None
    return not node.keyed or (since is not None and since < old)


def collect_garbage(
    ledger: Ledger, store: PackStore, markers: Path, max_size: int | str | None, *, dry_run: bool
) -> dict[str, Any]:
    """What `barca gc` does, and tells.

    Args:
        ledger: The ledger.
        store: The packs.
        markers: Directory of the markers of runs.
        max_size: What results may take on the disk: bytes, or a text such as `"2GB"`; `None` is no limit.
        dry_run: Whether only to tell which results would be given up.

    Returns:
        `dry_run: bool`; `given_up`, the number of results by standing (`repeated`, `superseded`, `current`);
        `tagged`, the number of results that tags keep, and `tagged_bytes`; `limit_bytes`; without `dry_run`
        also the fields of `garbage.collect.Collected`.

    Raises:
        DefinitionError: The size is none.
        LedgerError: The ledger is damaged, or cannot be written to.
        StoreError: The file system refused.
    """
    from barca.io.garbage.collect import collect, foreseen, tagged

    limit = None if max_size is None else parse_size(max_size)
    results, size = tagged(ledger)
    told = {
        "dry_run": dry_run,
        "given_up": foreseen(ledger, limit),
        "tagged": results,
        "tagged_bytes": size,
        "limit_bytes": limit,
    }
    if dry_run:
        return told
    store.sweep()
    collected = collect(
        ledger,
        store,
        new_run_id(dt.datetime.now(dt.UTC)),
        before=lambda: _oldest_reader(markers),
        limit_bytes=limit,
    )
    ledger.maintain(float("inf"))
    ledger.vacuum(_oldest_reader(markers) - LOOKS)
    _log(collected)
    return {**told, **collected._asdict()}


def _log(collected: Collected) -> None:
    log(
        "garbage collected: %s given up, %s deleted, %s merged",
        plural(collected.results, "result"),
        plural(collected.deleted, "pack"),
        plural(collected.repacked, "pack"),
    )


def _oldest_reader(markers: Path) -> dt.datetime:
    """When the oldest run began that goes on, or may do so on another machine; now without any."""
    going = read_markers(markers).filter(pl.col("alive") | pl.col("alive").is_null())
    oldest = going.get_column("started_at").min()
    return oldest if isinstance(oldest, dt.datetime) else dt.datetime.now(dt.UTC)

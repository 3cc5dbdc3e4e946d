"""Collecting the garbage of a store, while runs go on beside it."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from barca.errors import FragmentError
from barca.io.garbage.choice import GOING, RESULTS, STANDING, TAGGED, given_up, standing, to_repack
from barca.io.garbage.repack import repack
from barca.io.held import COLLECTED
from barca.io.rows import successes
from barca.io.storage import MODIFIED_AT, node_directory
from barca.io.tags import read_tags
from barca.schemas import (
    AT,
    CREATED_AT,
    EVENT,
    FRAGMENTS,
    KEY,
    MOVED,
    NODE,
    PATH,
    RESULT_AT,
    ROW_OFFSET,
    RUN_HASH,
    RUN_ID,
    SIZE_BYTES,
    TIMESTAMP,
    WAS,
    empty,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from barca._typing import NodeId
    from barca.ports import Ledger, PackStore

MOST_BYTES: Final = 256 << 20
"""At most so many bytes of packs of a node are packed anew at a time, or one pack."""


class Collected(NamedTuple):
    """What a collection did.

    Attributes:
        results: Results that were given up.
        repacked: Packs whose fragments were put into others.
        deleted: Packs that were deleted.
        deleted_bytes: Their bytes.
        waiting: Packs that nothing names any more, and that some run may still read.
        waiting_bytes: Their bytes.
        kept: Packs that stay.
        kept_bytes: Their bytes.
    """

    results: int
    repacked: int
    deleted: int
    deleted_bytes: int
    waiting: int
    waiting_bytes: int
    kept: int
    kept_bytes: int


def collect(
    ledger: Ledger,
    store: PackStore,
    run_id: str,
    *,
    before: Callable[[], dt.datetime],
    limit_bytes: int | None = None,
    nodes: Collection[NodeId] | None = None,
    budget_seconds: float = float("inf"),
    wait_seconds: float = 60.0,
) -> Collected:
    """Give up results, pack anew what is left of their packs, delete packs that nothing names.

    A pack that no row names any more is stamped with the time, and deleted once that lies long enough back:
    whoever reads it has begun before. Each step is whole in itself, and may be the last.

    Args:
        ledger: Names the packs.
        store: Holds them.
        run_id: Tells new packs from others; 15 hexadecimal digits.
        before: Asked once results were given up, and before the ledger is looked at for the last time: packs
            that were written, or stopped being named, before then are deleted.
        limit_bytes: Bytes that results may take; `None` is no limit.
        nodes: Nodes to look at; `None` is all.
        budget_seconds: No further node is begun after so long.
        wait_seconds: How long to wait for another process that does the same, or makes a tag.

    Raises:
        LedgerError: The ledger is damaged, claimed by another process, or cannot be written to.
        StoreError: The file system refused.
    """
    with ledger.claim(wait_seconds):
        given, repacked = _give_up(ledger, store, run_id, limit_bytes, nodes, budget_seconds)
    return _delete(ledger, store, nodes, before, given, repacked)


def _give_up(
    ledger: Ledger,
    store: PackStore,
    run_id: str,
    limit_bytes: int | None,
    nodes: Collection[NodeId] | None,
    budget_seconds: float,
) -> tuple[int, int]:
    """Give up results and pack anew what is left of their packs: how many results, how many packs."""
    deadline = time.monotonic() + budget_seconds
    results = _results(ledger, nodes)
    gone = given_up(results, limit_bytes)
    kept = results.filter(~gone)
    packs = to_repack(kept, store.listing())
    dropped = results.filter(gone).select(NODE, KEY, RUN_HASH, RUN_ID, CREATED_AT)
    given, repacked = 0, 0
    concerned = pl.concat([dropped.select(NODE), packs.select(NODE)]).unique().get_column(NODE).sort()
    for number, node in enumerate(concerned):
        if time.monotonic() >= deadline:
            break
        traced = dropped.filter(pl.col(NODE) == node)
        own = traced.select(KEY, RUN_HASH, RUN_ID)
        moved = _repacked(ledger, store, packs.filter(pl.col(NODE) == node), own, f"{run_id}-g")
        store.touch(moved.get_column(WAS).unique())  # and below; in case it never comes to that
        _trace(ledger, f"{run_id}-{number}", traced)
        if (own.height or moved.height) and ledger.revise(node, moved, own):
            given += own.height
            repacked += moved.get_column(WAS).n_unique()
            store.touch(_unnamed(ledger, store, node).get_column(PATH))
    return given, repacked


def foreseen(ledger: Ledger, limit_bytes: int | None) -> dict[str, int]:
    """How many results of each standing `collect` would give up, all of them named.

    Args:
        ledger: Names the results.
        limit_bytes: Bytes that results may take; `None` is no limit.

    Raises:
        LedgerError: The ledger is damaged.
    """
    results = _results(ledger, None)
    gone = results.filter(given_up(results, limit_bytes)).get_column(STANDING)
    return {name: int((gone == name).sum()) for name in GOING}


def tagged(ledger: Ledger) -> tuple[int, int]:
    """How many results tags hold, and their bytes.

    Raises:
        LedgerError: The ledger is damaged.
    """
    held = _results(ledger, None).filter(pl.col(STANDING) == TAGGED)
    return held.height, _bytes(held.unique([PATH, ROW_OFFSET, KEY], maintain_order=False))


def _results(ledger: Ledger, nodes: Collection[NodeId] | None) -> pl.DataFrame:
    """`choice.RESULTS` with their standing; the tags are read along."""
    reader = ledger.reader()
    rows, events = reader.scan("materializations").filter(successes()), reader.scan("holdings")
    if nodes is not None:
        rows, events = (frame.filter(pl.col(NODE).is_in(list(nodes))) for frame in (rows, events))
    moments = read_tags(reader).get_column(AT).unique()
    results = rows.select(list(RESULTS)).collect(engine="in-memory")
    return standing(results, events.collect(engine="in-memory"), moments)


def _trace(ledger: Ledger, batch: str, dropped: pl.DataFrame) -> None:
    """Leave a trace of results that are about to go, for who asks what a key held; of none, nothing."""
    if dropped.is_empty():
        return
    now = pl.lit(dt.datetime.now(dt.UTC), TIMESTAMP)
    events = dropped.select(
        NODE,
        KEY,
        pl.lit(COLLECTED).alias(EVENT),
        RUN_HASH,
        RUN_ID,
        pl.col(CREATED_AT).alias(RESULT_AT),
        now.alias(CREATED_AT),
    )
    writer = ledger.writer(batch)
    writer.append("holdings", events)
    writer.flush()


def _repacked(
    ledger: Ledger, store: PackStore, packs: pl.DataFrame, dropped: pl.DataFrame, name: str
) -> pl.DataFrame:
    """Fragments of a node, packed anew; none where a pack cannot be read, which is for runs to notice."""
    if packs.is_empty():
        return empty(MOVED)
    first = pl.col(PATH) == packs.item(0, PATH)  # alone where it is large, else it stayed for ever
    packs = packs.filter(first | (pl.col(SIZE_BYTES).cum_sum() <= MOST_BYTES))
    node: str = packs.item(0, NODE)
    rows = ledger.reader().scan("materializations").filter(successes() & (pl.col(NODE) == node))
    fragments = (
        rows.filter(pl.col(PATH).is_in(packs.get_column(PATH).implode()))
        .join(dropped.lazy(), on=[KEY, RUN_HASH, RUN_ID], how="anti", maintain_order="none")
        .select(list(FRAGMENTS))
        .unique()
        .collect(engine="in-memory")
    )
    try:
        return repack(store, fragments, f"{node_directory(node)}/{name}")
    except FragmentError:
        return empty(MOVED)


def _unnamed(ledger: Ledger, store: PackStore, node: NodeId | None = None) -> pl.DataFrame:
    """Packs that no row of the ledger names, as the store lists them."""
    listing = store.listing()
    if node is not None:
        listing = listing.filter(pl.col(PATH).str.starts_with(f"{node_directory(node)}/"))
    named = ledger.reader().scan("materializations").select(PATH).unique().collect(engine="in-memory")
    return listing.join(named, on=PATH, how="anti", maintain_order="left")


def _delete(
    ledger: Ledger,
    store: PackStore,
    nodes: Collection[NodeId] | None,
    before: Callable[[], dt.datetime],
    given: int,
    repacked: int,
) -> Collected:
    moment = before()  # a run that ends later counts as going on; what others have named is looked for now
    unnamed = _unnamed(ledger, store)
    if nodes is not None:
        directories = [f"{node_directory(node)}/" for node in nodes]
        unnamed = unnamed.filter(pl.any_horizontal(pl.col(PATH).str.starts_with(d) for d in directories))
    old = pl.col(MODIFIED_AT) < moment
    going, waiting = unnamed.filter(old), unnamed.filter(~old)
    store.remove(going.get_column(PATH).to_list())
    kept = store.listing()
    return Collected(
        results=given,
        repacked=repacked,
        deleted=going.height,
        deleted_bytes=_bytes(going),
        waiting=waiting.height,
        waiting_bytes=_bytes(waiting),
        kept=kept.height - waiting.height,
        kept_bytes=_bytes(kept) - _bytes(waiting),
    )


def _bytes(packs: pl.DataFrame) -> int:
    return int(packs.get_column(SIZE_BYTES).sum())

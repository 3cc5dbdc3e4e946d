"""What goes and what is packed anew, decided over frames.

A result is *tagged* while a tag names a moment at which its key held it: then it stays. Else it is *repeated*
once the same computation of its key has run again (of a sensor, which is the same computation each time, all
but the newest), *superseded* once its key holds another one, or is no key any more, and *current* otherwise.
Superseded results are what makes a return to earlier values a cache hit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from barca.io.held import held_at
from barca.schemas import (
    CREATED_AT,
    FORMAT,
    HOLDINGS,
    KEY,
    NODE,
    PATH,
    ROW_OFFSET,
    RUN_HASH,
    RUN_ID,
    SIZE_BYTES,
    empty,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

REPEATED_KEPT: Final = 10
"""So many repeated results of a computation are kept, the newest: what it returned before can be seen."""

SMALL_BYTES: Final = 1 << 20
"""Packs below this size are small."""

MANY_PACKS: Final = 64
"""Small packs of a node are merged once there are more."""

RESULTS: Final = (NODE, KEY, RUN_HASH, RUN_ID, FORMAT, PATH, ROW_OFFSET, SIZE_BYTES, CREATED_AT)
"""What is asked of each stored result: columns of `schemas.MATERIALIZATIONS`, of successes, by age."""

STANDING: Final = "standing"
"""Column: what a result is to others of its key."""

GOING: Final = ("repeated", "superseded", "current")
"""Its values for results that may go, in the order in which they do."""

TAGGED: Final = "tagged"
"""Its value for results that stay."""

_STANDING: Final = pl.Enum([*GOING, TAGGED])
_NEWER: Final = "newer"
_RESULT: Final = (NODE, KEY, RUN_HASH, RUN_ID)


def standing(
    results: pl.DataFrame, events: pl.DataFrame | None = None, moments: Iterable[datetime] = ()
) -> pl.DataFrame:
    """`results` with `standing: Enum`, and `newer: Int64`, how many of the same computation are newer.

    Args:
        results: `RESULTS`, in order of age.
        events: `schemas.HOLDINGS`, in order of age; without any, the newest result of a key is current.
        moments: Those of tags.
    """
    told = empty(HOLDINGS) if events is None else events
    again = _newer_of(NODE, KEY, RUN_HASH)
    tagged = _among(results, [held_at(results, told, moment) for moment in moments])
    current = _among(results, [held_at(results, told)])
    kinds = (
        pl.when(tagged)
        .then(pl.lit(TAGGED))
        .when(again > 0)
        .then(pl.lit("repeated"))
        .when(~current)
        .then(pl.lit("superseded"))
        .otherwise(pl.lit("current"))
    )
    return results.with_columns(kinds.cast(_STANDING).alias(STANDING), again.cast(pl.Int64).alias(_NEWER))


def _among(results: pl.DataFrame, held: list[pl.DataFrame]) -> pl.Series:
    """Which results are among those that were held; a value per row."""
    if not held:
        return pl.repeat(value=False, n=results.height, dtype=pl.Boolean, eager=True)
    found = pl.concat([frame.select(_RESULT) for frame in held]).unique(maintain_order=False)
    rows = results.select(_RESULT).with_row_index("row")
    there = rows.join(found, on=_RESULT, how="semi", maintain_order="none").get_column("row")
    return rows.get_column("row").is_in(there.implode())


def _newer_of(*columns: str) -> pl.Expr:
    return pl.col(KEY).cum_count(reverse=True).over(columns) - 1


def given_up(results: pl.DataFrame, limit_bytes: int | None = None) -> pl.Series:
    """Which results go: those repeated often, and what does not fit into the limit.

    Repeated results go before superseded ones, those before current ones, older before newer; those that are
    tagged stay, and take of the limit.

    Args:
        results: `RESULTS` with `standing`, in order of age.
        limit_bytes: Bytes of fragments that may stay; `None` is no limit.

    Returns:
        Boolean, a value per row.
    """
    stays = results.get_column(STANDING) == TAGGED
    gone = (results.get_column(_NEWER) > REPEATED_KEPT) & ~stays
    if limit_bytes is None:
        return gone
    place = [PATH, ROW_OFFSET, KEY]
    rows = results.select(*place, STANDING, SIZE_BYTES).with_columns(gone.alias("gone")).with_row_index("row")
    kept = rows.filter(~pl.col("gone")).sort(STANDING, "row", descending=True)
    # results that share a fragment take its bytes once
    bytes_so_far = pl.when(pl.struct(place).is_first_distinct()).then(SIZE_BYTES).otherwise(0).cum_sum()
    excess = kept.filter(bytes_so_far > limit_bytes).get_column("row")
    return gone | (rows.get_column("row").is_in(excess.implode()) & ~stays)


def to_repack(kept: pl.DataFrame, listing: pl.DataFrame) -> pl.DataFrame:
    """Packs whose fragments should move: those less than half alive, and small ones where there are many.

    What a keyed source returned is a pack of its own, and stays one.

    Args:
        kept: `RESULTS` that stay.
        listing: Every pack: `path: String, size_bytes: Int64`.

    Returns:
        `node: String, path: String, size_bytes: Int64` of each, by node and path.
    """
    live = (
        kept.filter(pl.col(FORMAT) != "keyed")
        .unique([NODE, PATH, ROW_OFFSET, KEY])
        .group_by(NODE, PATH)
        .agg(pl.col(SIZE_BYTES).sum().alias("live"))
        .join(listing.select(PATH, SIZE_BYTES), on=PATH, how="inner", maintain_order="none")
    )
    small = pl.col(SIZE_BYTES) < SMALL_BYTES
    many = small & (small.sum().over(NODE) > MANY_PACKS)
    half_dead = pl.col("live") * 2 < pl.col(SIZE_BYTES)
    return live.filter(half_dead | many).select(NODE, PATH, SIZE_BYTES).sort(NODE, PATH)

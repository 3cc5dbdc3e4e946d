"""What keys held at a moment, told from the rows of a ledger.

A key holds its newest result, unless something happened since that no result tells, see `schemas.HOLDINGS`:
an earlier result is up to date again, or it is no key any more. Where garbage collection gave up what a key
held, that is told in the result's place: the one before it was not what the key held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from barca.schemas import CREATED_AT, EVENT, HOLDING_EVENTS, KEY, NODE, RESULT_AT, RUN_HASH, RUN_ID

if TYPE_CHECKING:
    from datetime import datetime

RETURNED, LEFT, COLLECTED = HOLDING_EVENTS

COLLECTED_AT: Final = "collected_at"
"""Column: when garbage collection gave up a result; null where it is still there."""

_PLACE: Final = (NODE, KEY)
_RESULT: Final = (NODE, KEY, RUN_HASH, RUN_ID)


def held_at(results: pl.DataFrame, events: pl.DataFrame, moment: datetime | None = None) -> pl.DataFrame:
    """What each key held at a moment.

    Args:
        results: Rows of `schemas.MATERIALIZATIONS` of successes that are still there, by age; of its columns
            at least those used here.
        events: Rows of `schemas.HOLDINGS` of the same nodes, by age.
        moment: What happened later is left out; `None` is now.

    Returns:
        A row of `results` for each node and key that held one, with `collected_at`, in order of age. Of what
        was given up, the columns are null but for node, key, run hash, run, and when it was made; of what the
        ledger has lost, but for node, key and run hash.
    """
    known = _with_collected(results, events)
    if moment is not None:
        known = known.filter(pl.col(CREATED_AT) <= moment)
        events = events.filter(pl.col(CREATED_AT) <= moment)
    newest = known.unique(_PLACE, keep="last", maintain_order=True)
    moves = events.filter(pl.col(EVENT) != COLLECTED).unique(_PLACE, keep="last", maintain_order=True)
    if moves.is_empty():
        return newest
    moves = moves.select(*_PLACE, EVENT, RUN_HASH, pl.col(CREATED_AT).alias("moved")).join(
        newest.select(*_PLACE, CREATED_AT), on=_PLACE, how="inner", maintain_order="left"
    )
    moves = moves.filter(pl.col("moved") >= pl.col(CREATED_AT))
    back = known.join(
        moves.filter(pl.col(EVENT) == RETURNED), on=[*_PLACE, RUN_HASH], how="semi", maintain_order="left"
    ).unique(_PLACE, keep="last", maintain_order=True)
    stays = newest.join(moves, on=_PLACE, how="anti", maintain_order="left")
    lost = moves.filter(pl.col(EVENT) == RETURNED).join(back, on=_PLACE, how="anti", maintain_order="left")
    held = pl.concat([stays, back, lost.select(*_PLACE, RUN_HASH)], how="diagonal")
    return held.sort(CREATED_AT, maintain_order=True)


def _with_collected(results: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Results with `collected_at`, and those that were given up, in order of age."""
    gone = events.filter(pl.col(EVENT) == COLLECTED)
    known = results.with_columns(pl.lit(None, events.schema[CREATED_AT]).alias(COLLECTED_AT))
    if gone.is_empty():
        return known
    traces = gone.select(
        *_RESULT, pl.col(RESULT_AT).alias(CREATED_AT), pl.col(CREATED_AT).alias(COLLECTED_AT)
    ).join(results, on=_RESULT, how="anti", maintain_order="left")  # of a collection that got no further
    traces = traces.select(name for name in traces.columns if name in known.columns)
    both = pl.concat([known, traces], how="diagonal")
    return both.sort(CREATED_AT, maintain_order=True)

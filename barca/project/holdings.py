"""What a run finds out of what keys hold, where no result tells it: for who asks for it later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.io.held import COLLECTED, LEFT, RETURNED, held_at
from barca.schemas import (
    CREATED_AT,
    EVENT,
    HOLDINGS,
    KEY,
    NODE,
    RESULT_AT,
    RUN_HASH,
    RUN_ID,
    STATE,
    TIMESTAMP,
    empty,
)

if TYPE_CHECKING:
    from datetime import datetime

    from barca.plan.inputs import NodePlan, Plan
    from barca.ports import LedgerReader


def holdings(plan: Plan, reader: LedgerReader, run_id: str, now: datetime) -> pl.DataFrame:
    """Rows of `schemas.HOLDINGS`: keys that are served an earlier result again, and those that are none now.

    Args:
        plan: The last plan of the run. Of a narrowed one, keys that it leaves out are as they were.
        reader: The ledger at the version of the run.
        run_id: The run.
        now: Its end.
    """
    decided = [each for each in plan.nodes.values() if each.state == "decided"]
    rows = plan.inputs.materialized
    known = reader.scan("holdings").filter(pl.col(EVENT) != COLLECTED).collect(engine="in-memory")
    found = [
        _moves(each, rows[each.node.id], known.filter(pl.col(NODE) == each.node.id))
        for each in decided
        if each.node.id in rows and rows[each.node.id].height
    ]
    return pl.concat([empty(HOLDINGS).select(NODE, KEY, EVENT, RUN_HASH), *found]).select(
        NODE,
        KEY,
        EVENT,
        RUN_HASH,
        pl.lit(run_id).alias(RUN_ID),
        pl.lit(None, TIMESTAMP).alias(RESULT_AT),
        pl.lit(now, TIMESTAMP).alias(CREATED_AT),
    )


def _moves(plan: NodePlan, rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """`node, key, event, run_hash` of a node.

    Args:
        plan: Of the node.
        rows: Its rows of `schemas.MATERIALIZATIONS`, by age, of the keys that were looked at.
        known: Its rows of `schemas.HOLDINGS`.
    """
    served = plan.decision.filter(pl.col(STATE) == "cached").select(KEY, RUN_HASH)
    if known.is_empty() and served.height == rows.height:
        # each was found among the rows, of which no two have the same run hash: they are all of them
        return _named(plan, served.clear(), RETURNED)
    if known.is_empty():  # as mostly; of many keys it has to be quick
        held = rows.select(KEY, RUN_HASH).filter(pl.col(KEY).is_last_distinct())
    else:
        held = held_at(rows, known).select(KEY, RUN_HASH)
    # a run hash is made of its key, among others, so that it is enough to look for
    returned = served.filter(~pl.col(RUN_HASH).is_in(held.get_column(RUN_HASH).implode()))
    left = held.clear()
    if plan.narrowed is None:
        left = held.filter(~pl.col(KEY).is_in(plan.decision.get_column(KEY).implode()))
    gone = left.with_columns(pl.lit(None, pl.String).alias(RUN_HASH))
    return pl.concat([_named(plan, returned, RETURNED), _named(plan, gone, LEFT)])


def _named(plan: NodePlan, keys: pl.DataFrame, event: str) -> pl.DataFrame:
    return keys.select(pl.lit(plan.node.id).alias(NODE), KEY, pl.lit(event).alias(EVENT), RUN_HASH)

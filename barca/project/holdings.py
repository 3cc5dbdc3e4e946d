"""What a run finds out of what keys hold, where no result tells it: for who asks for it later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.frames import same_value, where
from barca.io.held import COLLECTED, LEFT, RETURNED, held_at
from barca.lookup import absent
from barca.schemas import (
    CREATED_AT,
    EVENT,
    HOLDINGS,
    KEY,
    NODE,
    RESULT_AT,
    RUN_HASH,
    RUN_ID,
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
    found = [empty(HOLDINGS)]
    for each in decided:
        if each.node.id not in rows or rows[each.node.id].is_empty():
            continue
        own = where(known, known.get_column(NODE) == each.node.id)
        for event, keys in _moves(each, rows[each.node.id], own).items():
            if keys.is_empty():
                continue
            values = {NODE: each.node.id, EVENT: event, RUN_ID: run_id, RESULT_AT: None, CREATED_AT: now}
            columns = [same_value(name, value, HOLDINGS[name], keys.height) for name, value in values.items()]
            found.append(keys.hstack(columns)[list(HOLDINGS)])
    return pl.concat(found)


def _moves(plan: NodePlan, rows: pl.DataFrame, known: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """By event, `key, run_hash` of the keys of a node that it happened to.

    Args:
        plan: Of the node.
        rows: Its rows of `schemas.MATERIALIZATIONS`, by age, of the keys that were looked at.
        known: Its rows of `schemas.HOLDINGS`.
    """
    served = plan.cached[[KEY, RUN_HASH]]
    if known.is_empty() and served.height == rows.height:
        # each was found among the rows, of which no two have the same run hash: they are all of them
        return {}
    if known.is_empty():  # as mostly; of many keys it has to be quick
        held = where(rows[[KEY, RUN_HASH]], rows.get_column(KEY).is_last_distinct())
    else:
        held = held_at(rows, known)[[KEY, RUN_HASH]]
    # a run hash is made of its key, among others, so that it is enough to look for
    moves = {RETURNED: absent(served, held, RUN_HASH)}
    if plan.narrowed is None:
        left = absent(held[[KEY]], plan.decision)
        moves[LEFT] = left.hstack([same_value(RUN_HASH, None, pl.String, left.height)])
    return moves

"""Ledger rows of what a run did."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.exec.sizes import status_of
from barca.frames import same_value
from barca.lookup import lookup, same_keys
from barca.model import WorkResult
from barca.plan.changed import env_marks
from barca.records import Record
from barca.schemas import (
    ATTEMPTS,
    CALL,
    CREATED_AT,
    DEFINITION_HASH,
    DEFINITIONS,
    ELAPSED_SECONDS,
    ENV_HASH,
    FRAGMENTS,
    INPUT_HASHES,
    KEY,
    MATERIALIZATIONS,
    MAX_RSS_BYTES,
    NODE,
    PARENT,
    RUN_HASH,
    RUN_ID,
    STATUS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from barca._typing import NodeId
    from barca.model import Fingerprint, Work, WorkerDied
    from barca.plan.inputs import NodePlan


class Ended(Record):
    """Keys of one work that ended together.

    Attributes:
        work: What ran.
        outcomes: Rows of `schemas.OUTCOMES` of the keys that ended.
        fragments: Rows of `schemas.FRAGMENTS` of those that succeeded.
    """

    work: Work
    outcomes: pl.DataFrame
    fragments: pl.DataFrame


def materialization_rows(
    node: NodeId,
    fingerprint: Fingerprint,
    env: Mapping[str, str | None],
    ended: Sequence[Ended],
    now: datetime,
) -> pl.DataFrame:
    """Rows of `schemas.MATERIALIZATIONS` for keys that ended, of many works at once.

    Args:
        node: The node.
        fingerprint: Its fingerprint.
        env: Its environment variables.
        ended: What ended; each key once.
        now: Time of the rows.
    """
    works = list({id(one.work): one.work for one in ended}.values())
    identity = pl.concat([work.keys[[KEY, RUN_HASH, INPUT_HASHES]] for work in works])
    stored = pl.concat([one.fragments for one in ended])
    outcomes = pl.concat([one.outcomes for one in ended])
    if len(works) > 1 and not same_keys(outcomes, identity):
        identity = identity.unique(KEY, keep="any")  # a key of several works has the same in each
    sizes = [call for one in ended for call in one.work.calls or ((one.work.id, one.outcomes.height),)]
    calls = pl.DataFrame(sizes, schema={CALL: pl.String, KEY: pl.Int64}, orient="row")
    each = pl.col(CALL).repeat_by(KEY).explode(empty_as_null=False)
    rows = outcomes.hstack(calls.select(each))
    rows = lookup(rows, identity, [RUN_HASH, INPUT_HASHES])
    rows = lookup(rows, stored, [name for name in FRAGMENTS if name not in {KEY, RUN_HASH}])
    constants = {
        NODE: node,
        DEFINITION_HASH: fingerprint.hash,
        ENV_HASH: env_marks(env),
        RUN_ID: ended[0].work.run_id,
        CREATED_AT: now,
    }
    columns = [
        same_value(name, value, MATERIALIZATIONS[name], rows.height) for name, value in constants.items()
    ]
    return rows.hstack(columns)[list(MATERIALIZATIONS)]


def call_rows(work: Work, result: WorkResult | WorkerDied, now: datetime) -> list[dict[str, Any]]:
    """The rows of `schemas.CALL_RECORDS` of a work that ended now, one for each of its calls."""
    calls = work.calls or ((work.id, work.keys.height),)
    rss = result.max_rss_bytes if isinstance(result, WorkResult) else None
    took = (isinstance(result, WorkResult) and result.took) or ((result.elapsed_seconds, rss),)
    constants = {
        RUN_ID: work.run_id,
        PARENT: work.parent,
        NODE: work.node,
        STATUS: status_of(result),
        ATTEMPTS: work.attempt,
        "engine": work.engine,
        "polars_version": pl.__version__,
    }
    rows = []
    left = sum(elapsed for elapsed, _ in took)
    for (call, keys), (elapsed, peak) in zip(calls, took, strict=True):
        rows.append(
            constants
            | {
                CALL: call,
                "keys": keys,
                ELAPSED_SECONDS: elapsed,
                MAX_RSS_BYTES: peak,
                "started_at": now - timedelta(seconds=left),
            }
        )
        left -= elapsed
    return rows


def definition_row(plan: NodePlan, fingerprint: Fingerprint, now: datetime) -> pl.DataFrame:
    """The row of `schemas.DEFINITIONS` of a definition that ran."""
    return pl.DataFrame(
        {
            NODE: [plan.node.id],
            DEFINITION_HASH: [fingerprint.hash],
            "components": [json.dumps(dict(fingerprint.components), sort_keys=True)],
            "inputs": [json.dumps(plan.input_labels)],
            "source": [fingerprint.source],
            CREATED_AT: [now],
        },
        schema=DEFINITIONS,
    )

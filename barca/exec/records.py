"""Ledger rows of what a run did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from barca.plan.changed import env_marks
from barca.schemas import (
    ATTEMPTS,
    CALL,
    CALL_RECORDS,
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
    RUN_HASH,
    RUN_ID,
    STATUS,
    TIMESTAMP,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from barca.model import Fingerprint, Work, WorkResult
    from barca.plan.inputs import NodePlan


def materialization_rows(
    plan: NodePlan,
    fingerprint: Fingerprint,
    env: Mapping[str, str | None],
    work: Work,
    outcomes: pl.DataFrame,
    fragments: pl.DataFrame,
    now: datetime,
) -> pl.DataFrame:
    """Rows of `schemas.MATERIALIZATIONS` for keys that ended.

    Args:
        plan: The node's plan.
        fingerprint: Its fingerprint.
        env: Its environment variables.
        work: What ran.
        outcomes: Rows of `schemas.OUTCOMES` of the keys that ended.
        fragments: Rows of `schemas.FRAGMENTS` of those that succeeded.
        now: Time of the rows.
    """
    identity = work.keys.select(KEY, RUN_HASH, INPUT_HASHES)
    stored = fragments.select([name for name in FRAGMENTS if name != RUN_HASH])
    rows = outcomes.join(identity, on=KEY, how="left", maintain_order="left").join(
        stored, on=KEY, how="left", maintain_order="left"
    )
    constants = {
        NODE: plan.node.id,
        DEFINITION_HASH: fingerprint.hash,
        ENV_HASH: env_marks(env),
        RUN_ID: work.run_id,
        CALL: work.id,
    }
    return rows.with_columns(
        *(pl.lit(value, pl.String).alias(name) for name, value in constants.items()),
        pl.lit(now, TIMESTAMP).alias(CREATED_AT),
    ).select(list(MATERIALIZATIONS))


def call_row(
    work: Work, result: WorkResult | None, status: str, elapsed: float, now: datetime
) -> pl.DataFrame:
    """The row of `schemas.CALL_RECORDS` of a work that ended."""
    return pl.DataFrame(
        {
            RUN_ID: [work.run_id],
            CALL: [work.id],
            NODE: [work.node],
            "keys": [work.keys.height],
            STATUS: [status],
            ATTEMPTS: [work.attempt],
            ELAPSED_SECONDS: [elapsed],
            MAX_RSS_BYTES: [result.max_rss_bytes if result else None],
            "engine": [work.engine],
            "polars_version": [pl.__version__],
            "started_at": [now],
        },
        schema=CALL_RECORDS,
    )


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

"""Tags: names for moments, whose results garbage collection leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.schemas import AT, TAG, TAGS

if TYPE_CHECKING:
    from datetime import datetime

    from barca.ports import Ledger, LedgerReader


def read_tags(reader: LedgerReader) -> pl.DataFrame:
    """The tags there are, by name: `schemas.TAGS`."""
    rows = reader.scan("tags").collect(engine="in-memory")
    last = rows.unique(TAG, keep="last", maintain_order=True)
    return last.filter(pl.col(AT).is_not_null()).sort(TAG)


def write_tag(
    ledger: Ledger, batch: str, name: str, moment: datetime | None, run_id: str | None, now: datetime
) -> None:
    """Make a tag, durably, or delete one; `Ledger.claim` is held by who calls this.

    Args:
        ledger: The ledger.
        batch: An id that no other append has.
        name: Of the tag.
        moment: The moment; `None` deletes the tag.
        run_id: The run after which it is, if it was named by one.
        now: When that is.

    Raises:
        LedgerError: The ledger is damaged, or cannot be written to.
    """
    row = pl.DataFrame([(name, moment, run_id, now)], schema=TAGS, orient="row")
    writer = ledger.writer(batch)
    writer.append("tags", row)
    writer.flush()

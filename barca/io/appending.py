"""The half of a ledger writer that is the same on disk and in memory: queueing and grouping rows."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final

import polars as pl

from barca.io.rows import TABLE_ORDER, conform

if TYPE_CHECKING:
    from collections.abc import Callable

    from barca.ports import TableName

GROUP_SECONDS: Final = 0.5
"""Rows are committed at the first append, even of no rows, this long after the oldest of them was queued."""

GROUP_ROWS: Final = 150_000
"""Rows are committed once so many wait."""


class Batch:
    """Rows of one table that are committed together, exactly once.

    Attributes:
        table: The table.
        rows: Frame of `schemas.LEDGER_TABLES[table]`.
        id: Names the batch in the log, so that a commit whose outcome is unclear can be looked up.
    """

    __slots__ = ("id", "rows", "table")

    def __init__(self, table: TableName, rows: pl.DataFrame, identity: str) -> None:
        self.table = table
        self.rows = rows
        self.id = identity


class GroupedWriter(ABC):
    """A `LedgerWriter` that leaves to its subclass how one batch is committed."""

    def __init__(self, run_id: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.run_id = run_id
        self._monotonic = monotonic
        self._token = uuid.uuid4().hex[:12]
        self._sealed: deque[Batch] = deque()
        self._sequence = 0
        self._queued: dict[TableName, list[pl.DataFrame]] = {}
        self._waiting = 0
        self._since: float | None = None

    def append(self, table: TableName, rows: pl.DataFrame) -> None:
        """Queue rows of `schemas.LEDGER_TABLES[table]`; commit all that waits once it is much, or old.

        Raises:
            LedgerError: The rows do not fit the table; or a commit failed, and the rows stay queued.
            UsageError: A node id that no ledger can hold.
        """
        exact = conform(table, rows)
        if exact.height:
            self._queued.setdefault(table, []).append(exact)
            self._waiting += exact.height
            if self._since is None:
                self._since = self._monotonic()
        if self._since is not None and (
            self._waiting >= GROUP_ROWS or self._monotonic() - self._since >= GROUP_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Commit what is queued, durably, before returning; one commit per table.

        Raises:
            LedgerError: A commit failed; its rows, and those behind them, stay queued.
        """
        for table in TABLE_ORDER:
            frames = self._queued.pop(table, None)
            if frames:
                self._sequence += 1
                identity = f"{self.run_id}:{self._token}:{self._sequence}"
                self._sealed.append(Batch(table, pl.concat(frames), identity))
        if self._sealed:
            self._since = self._monotonic()  # where the commit fails, the next try is half a second away
        while self._sealed:
            self.commit(self._sealed[0])
            self._waiting -= self._sealed.popleft().rows.height
        self._since = None

    @abstractmethod
    def commit(self, batch: Batch) -> None:
        """Make a batch part of the ledger, durably and once, however often this is called with it.

        Raises:
            LedgerError: It could not be made so.
        """

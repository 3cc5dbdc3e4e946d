"""What of a node still has to run, what of it may start, and what it waits for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from barca.plan.lookup import lookup
from barca.schemas import (
    CALL,
    FRAGMENTS,
    INPUT_HASHES,
    KEY,
    ORDINAL,
    PATH,
    RUN_HASH,
    STATE,
    dimensions,
    empty,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan

_WAITS: Final = "waits"

_STEPS: Final = 32
"""Keys that inputs release are looked at in about so many steps, not at every call of the input: each step
goes over all that waits."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Keys that may start: one batched call, or any number of one-key calls.

    Attributes:
        keys: Frame of `schemas.WORK_KEYS` plus `dim:` columns and `input_hashes`.
        attempt: Which attempt it is, from 1.
    """

    keys: pl.DataFrame
    attempt: int = 1


class NodeQueue:
    """One node of a run.

    Attributes:
        plan: Its plan.
        gates: Nodes that must be finished whole before any key starts.
        ready: What may start.
        remaining: Keys that run and have not ended.
        succeeded, failed, blocked: Keys that ended so, in this run.
        in_flight: Works that run now.
        elapsed_seconds: Of the works that ended, summed.
        seconds_per_key: Of the function in the last chunk of one-key calls, or `None` before the first.
    """

    def __init__(self, plan: NodePlan) -> None:
        self.plan = plan
        running = plan.decision.join(plan.calls.select(KEY, CALL), on=KEY, how="inner", maintain_order="left")
        columns = [KEY, ORDINAL, RUN_HASH, CALL, INPUT_HASHES, *dimensions(plan.node.dimensions)]
        self.waiting = running.select(*columns, pl.lit(0, pl.Int64).alias(_WAITS))
        self.gates: set[NodeId] = set()
        self.ready: deque[Ready] = deque()
        self.remaining = running.height
        self.total = running.height
        self.succeeded = 0
        self.failed = empty(pl.Schema({KEY: pl.String}))
        self.blocked = plan.decision.filter(pl.col(STATE) == "blocked").select(KEY)
        self._released: list[pl.DataFrame] = []
        self._unseen = 0
        self.in_flight = 0
        self.elapsed_seconds = 0.0
        self.seconds_per_key: float | None = None
        self._fragments = [
            plan.decision.filter((pl.col(STATE) == "cached") & pl.col(PATH).is_not_null()).select(
                list(FRAGMENTS)
            )
        ]

    @property
    def batched(self) -> bool:
        """Whether the function takes lists of keys."""
        return self.plan.node.definition.batch is not None

    @property
    def finished(self) -> bool:
        """Whether every key that runs has ended."""
        return self.remaining == 0

    @property
    def incomplete(self) -> bool:
        """Whether some key has no result, so that nothing may read the node whole."""
        return bool(self.failed.height or self.blocked.height)

    def without_result(self) -> pl.DataFrame:
        """`key` of the keys that failed or are blocked."""
        return pl.concat([self.failed.select(KEY), self.blocked.select(KEY)])

    def unfinished(self) -> pl.DataFrame:
        """`key` of the keys that have not ended."""
        ended = pl.concat([self.without_result(), *(part.select(KEY) for part in self._fragments)])
        return self.plan.calls.select(KEY).join(ended, on=KEY, how="anti", maintain_order="left")

    def fragments(self) -> pl.DataFrame:
        """`schemas.FRAGMENTS` of every key that has a result by now."""
        if len(self._fragments) > 1:
            self._fragments = [pl.concat(self._fragments)]
        return self._fragments[0]

    @property
    def lost(self) -> bool:
        """Whether the node has ended, and nothing may read it whole."""
        return self.finished and self.incomplete

    def follow(self, source: NodeQueue) -> None:
        """Read an input key for key: wait for its keys that run, give up those without a result."""
        if (without := source.without_result()).height:
            self.block(without)
        if source.finished:
            return
        keys = source.unfinished()
        marked = lookup(self.waiting, keys.select(KEY, pl.lit(1, pl.Int64).alias("more")), ["more"])
        self.waiting = marked.with_columns((pl.col(_WAITS) + pl.col("more").fill_null(0)).alias(_WAITS)).drop(
            "more"
        )

    def release(self, keys: pl.DataFrame) -> None:
        """Keys of an input got their results: the same keys here wait for one input less."""
        self._released.append(keys.select(KEY))
        self._unseen += keys.height

    def _settle_released(self) -> None:
        # a key that several inputs release stands in it as often
        counts = pl.concat(self._released).group_by(KEY).agg(pl.len().cast(pl.Int64).alias("less"))
        self._released.clear()
        self._unseen = 0
        marked = lookup(self.waiting, counts, ["less"])
        left = pl.col(_WAITS) - pl.col("less").fill_null(0)
        self.waiting = marked.with_columns(left.alias(_WAITS)).drop("less")

    def block(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Keys of an input have no result: the same keys here will not run. Returns those (`key`)."""
        hit = self.waiting.join(keys.select(KEY), on=KEY, how="semi", maintain_order="left").select(KEY)
        if hit.height:
            self.waiting = self.waiting.join(hit, on=KEY, how="anti", maintain_order="left")
            self.blocked = pl.concat([self.blocked, hit])
            self.remaining -= hit.height
        return hit

    def promote(self, *, at_once: bool = True) -> None:
        """Move what waits for nothing any more to `ready`.

        Args:
            at_once: Otherwise not before a good part of the keys was released.
        """
        if self.gates or self.waiting.is_empty():
            return
        if self._released:
            if not at_once and self._unseen * _STEPS < self.total:
                return
            self._settle_released()
        if not self.batched:
            free = self.waiting.filter(pl.col(_WAITS) <= 0)
            if free.height:
                self.waiting = self.waiting.filter(pl.col(_WAITS) > 0)
                self.ready.append(Ready(free.drop(_WAITS)))
            return
        open_calls = self.waiting.group_by(CALL).agg(pl.col(_WAITS).max()).filter(pl.col(_WAITS) <= 0)
        if open_calls.height:
            free = self.waiting.join(open_calls.select(CALL), on=CALL, how="semi", maintain_order="left")
            self.waiting = self.waiting.join(
                open_calls.select(CALL), on=CALL, how="anti", maintain_order="left"
            )
            calls = free.drop(_WAITS).partition_by(CALL, maintain_order=True)
            self.ready.extend(Ready(call) for call in calls)

    def take(self, size: int) -> Ready:
        """The next keys to start: a batched call, or at most `size` one-key calls."""
        head = self.ready.popleft()
        if self.batched or head.keys.height <= size:
            return head
        self.ready.appendleft(Ready(head.keys.slice(size), head.attempt))
        return Ready(head.keys.head(size), head.attempt)

    def add(self, keys: Iterable[Ready], *, first: bool = False) -> None:
        """Queue keys again."""
        entries = [entry for entry in keys if entry.keys.height]
        if first:
            self.ready.extendleft(reversed(entries))
        else:
            self.ready.extend(entries)

    def succeed(self, fragments: pl.DataFrame) -> None:
        """Note results."""
        self._fragments.append(fragments.select(list(FRAGMENTS)))
        self.succeeded += fragments.height
        self.remaining -= fragments.height

    def fail(self, keys: pl.DataFrame) -> None:
        """Note keys that will not be tried again."""
        self.failed = pl.concat([self.failed, keys.select(KEY)])
        self.remaining -= keys.height

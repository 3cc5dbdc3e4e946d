"""What of a node still has to run, what of it may start, and what it waits for."""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import polars as pl

from barca.frames import filled, same_value, where, without
from barca.lookup import absent, among, lookup
from barca.records import EMPTY, Record, replace
from barca.schemas import (
    CALL,
    DIGEST,
    FRAGMENTS,
    INPUT_HASHES,
    KEY,
    ORDINAL,
    RUN_HASH,
    STATE,
    dimensions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan

_WAITS: Final = "waits"

CHUNK_KEYS: Final = 25_000
"""Of so many keys at most calls travel together."""

_STEPS: Final = 32
"""Keys that inputs release are looked at in about so many steps, not at every call of the input: each step
goes over all that waits."""


def own_fragments(keys: pl.DataFrame, held: pl.DataFrame, dimensions_read: Sequence[str]) -> pl.DataFrame:
    """What a node holds for keys, in their order, without hashes: a worker reads where they lie.

    Args:
        keys: Frame with `key` and the `dim:` columns.
        held: `schemas.FRAGMENTS` of the node.
        dimensions_read: Its dimensions.
    """
    columns = keys[[KEY, *dimensions(dimensions_read)]]
    return lookup(columns, without_hashes(held), [name for name in FRAGMENTS if name != KEY])


def without_hashes(held: pl.DataFrame) -> pl.DataFrame:
    """`schemas.FRAGMENTS` with `run_hash` and `digest` null: 64 bytes a key need not travel."""
    hashes = [same_value(name, None, pl.String, held.height) for name in (RUN_HASH, DIGEST)]
    return without(held, RUN_HASH, DIGEST).hstack(hashes)[held.columns]


def _each_once(keys: pl.DataFrame) -> pl.DataFrame:
    return keys[[KEY]].hstack([same_value(_WAITS, 1, pl.Int64, keys.height)])


class Ready(Record):
    """Keys that may start, as batched calls or as any number of one-key calls.

    Attributes:
        keys: Frame of `schemas.WORK_KEYS` plus `dim:` columns and `input_hashes`.
        attempt: Which attempt it is, from 1.
        parent: The work that failed before.
        inputs: Per node read key for key, its `schemas.FRAGMENTS` of these keys, in their order, with the
            `dim:` columns; nothing for keys that are tried again.
        sizes: Of several batched calls, how many keys each has; else empty: one call.
    """

    keys: pl.DataFrame
    attempt: int = 1
    parent: str | None = None
    inputs: Mapping[NodeId, pl.DataFrame] = EMPTY
    sizes: tuple[int, ...] = ()

    def split(self, calls: int) -> tuple[Ready, Ready | None]:
        """The first calls, at most so many and, of several, with at most `CHUNK_KEYS` keys; and the rest."""
        fitting = sum(1 for keys in accumulate(self.sizes) if keys <= CHUNK_KEYS)
        count = max(1, min(calls, fitting))
        if count >= len(self.sizes):
            return self, None
        sizes, rest = self.sizes[:count], self.sizes[count:]
        keys = sum(sizes)
        return replace(self.slice(0, keys), sizes=sizes), replace(self.slice(keys), sizes=rest)

    def slice(self, offset: int, length: int | None = None) -> Ready:
        """Some of the keys."""
        return replace(
            self,
            keys=self.keys.slice(offset, length),
            inputs={name: frame.slice(offset, length) for name, frame in self.inputs.items()},
        )

    def joined(self, other: Ready) -> Ready:
        """Both in one, of the same attempt."""
        return replace(
            self,
            keys=pl.concat([self.keys, other.keys]),
            inputs={name: pl.concat([frame, other.inputs[name]]) for name, frame in self.inputs.items()},
        )


class NodeQueue:
    """One node of a run.

    Attributes:
        plan: Its plan.
        reads_by_key: Nodes of whose keys it reads the same key.
        gates: Nodes that must be finished whole before any key starts.
        ready: What may start.
        remaining: Keys that run and have not ended.
        succeeded, failed, blocked: Keys that ended so, in this run.
        in_flight: Works that run now.
        calls: Works that ended.
        elapsed_seconds: Of the works that ended, summed.
        seconds_per_call: Of the last batched calls that went well and may travel together with others; `None`
            where there are none.
        sizing: What sizes of batched calls follow from; `None` where they are planned.
        seconds_per_key: Of the function in the last chunk of one-key calls, before the first in earlier runs;
            `None` where neither was.
    """

    def __init__(self, plan: NodePlan) -> None:
        self.plan = plan
        self.reads_by_key = {edge.source for edge in plan.node.edges if edge.mode == "same_key"}
        running = lookup(plan.running, plan.calls, [CALL])
        columns = [KEY, ORDINAL, RUN_HASH, CALL, INPUT_HASHES, *dimensions(plan.node.dimensions)]
        self.waiting = running[columns].hstack([same_value(_WAITS, 0, pl.Int64, running.height)])
        self.gates: set[NodeId] = set()
        self.ready: deque[Ready] = deque()
        self.remaining = running.height
        self.total = running.height
        self.succeeded = 0
        self.failed = running[[KEY]].clear()
        self.blocked = where(plan.decision[[KEY]], plan.decision.get_column(STATE) == "blocked")
        self.sizing = plan.sizing
        self._sources: dict[NodeId, NodeQueue] = {}
        self._released: list[pl.DataFrame] = []
        self._unseen = 0
        self.in_flight = 0
        self.calls = 0
        self.elapsed_seconds = 0.0
        self.seconds_per_key: float | None = None
        self.seconds_per_call: float | None = None
        self._fragments = [plan.cached[list(FRAGMENTS)]]

    @property
    def batched(self) -> bool:
        """Whether the function takes lists of keys."""
        return self.plan.node.definition.batch is not None

    @property
    def _cut_here(self) -> bool:
        """Whether keys are released one by one, and cut into works when these start."""
        return not self.batched or self.sizing is not None

    @property
    def finished(self) -> bool:
        """Whether every key that runs has ended."""
        return self.remaining == 0

    @property
    def incomplete(self) -> bool:
        """Whether some key has no result, so that nothing may read the node whole."""
        return bool(self.failed.height or self.blocked.height)

    def without_result(self) -> pl.DataFrame:
        """`key: String` of the keys that failed or are blocked."""
        return pl.concat([self.failed, self.blocked])

    def unfinished(self) -> pl.DataFrame:
        """`key: String` of the keys that have not ended."""
        ended = pl.concat([self.without_result(), *(part[[KEY]] for part in self._fragments)])
        return absent(self.plan.calls[[KEY]], ended)

    def fragments(self) -> pl.DataFrame:
        """`schemas.FRAGMENTS` of every key that has a result by now."""
        if len(self._fragments) > 1:
            self._fragments = [pl.concat(self._fragments)]
        return self._fragments[0]

    @property
    def lost(self) -> bool:
        """Whether the node has ended, and nothing may read it whole."""
        return self.finished and self.incomplete

    def reads(self, node_id: NodeId) -> bool:
        """Whether a node is an input of it, in any way."""
        return any(edge.source == node_id for edge in self.plan.node.edges)

    def follow(self, source: NodeQueue) -> None:
        """Read an input key for key: wait for its keys that run, give up those without a result."""
        self._sources[source.plan.node.id] = source
        if (without := source.without_result()).height:
            self.block(without)
        if source.finished:
            return
        self._wait(_each_once(source.unfinished()), 1)

    def _wait(self, counts: pl.DataFrame, sign: int) -> None:
        """Wait for more inputs, or for fewer: `key`, and `waits` by how many."""
        change = lookup(self.waiting[[KEY]], counts, [_WAITS]).get_column(_WAITS)
        waits = self.waiting.get_column(_WAITS) + sign * filled(change, 0)
        self.waiting = without(self.waiting, _WAITS).hstack([waits])

    def release(self, keys: pl.DataFrame) -> None:
        """Keys of an input (`key: String`) got their results: the same keys here wait for one input less."""
        self._released.append(keys)
        self._unseen += keys.height

    def _settle_released(self) -> None:
        # a key that several inputs release stands in it as often
        if len(self._released) == 1:
            counts = _each_once(self._released[0])
        else:
            keys = pl.concat([released[[KEY]] for released in self._released])
            counts = keys.group_by(KEY).agg(pl.len().cast(pl.Int64).alias(_WAITS))
        self._released.clear()
        self._unseen = 0
        self._wait(counts, -1)

    def block(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Keys of an input have no result: the same keys here will not run.

        Args:
            keys: Frame with `key: String`.

        Returns:
            `key: String` of those that would have run here.
        """
        hit = among(self.waiting[[KEY]], keys)
        if hit.height:
            self.waiting = absent(self.waiting, hit)
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
        free, self.waiting = self._split_free()
        if free.is_empty():
            return
        sizes: tuple[int, ...] = ()
        if not self._cut_here:
            free = free.sort(pl.col(ORDINAL).min().over(CALL), ORDINAL)
            runs = free.select(pl.col(CALL).rle_id().rle().struct.field("len"))
            sizes = tuple(runs.to_series().to_list())
        self.ready.append(Ready(without(free, _WAITS), inputs=self._inputs(free), sizes=sizes))

    def _split_free(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What waits for nothing any more, and the rest; a call that is planned starts whole."""
        waits = self.waiting.get_column(_WAITS) > 0
        held = where(self.waiting, waits)
        if self._cut_here:
            return where(self.waiting, ~waits), held
        return absent(self.waiting, held, CALL), among(self.waiting, held, CALL)

    def _inputs(self, keys: pl.DataFrame) -> dict[NodeId, pl.DataFrame]:
        """What keys read key for key, looked up together."""
        return {
            node_id: own_fragments(keys, source.fragments(), source.plan.node.dimensions)
            for node_id, source in self._sources.items()
        }

    def take(self, size: int, calls: int) -> Ready:
        """The next to start: at most so many batched calls as they were planned, or at most `size` keys."""
        head = self.ready.popleft()
        if not self._cut_here or (self.batched and head.parent is not None):
            head, rest = head.split(calls)
            if rest is not None:
                self.ready.appendleft(rest)
            return head
        while self.batched and head.keys.height < size and self.ready and self.ready[0].parent is None:
            head = head.joined(self.ready.popleft())
        if head.keys.height <= size:
            return head
        self.ready.appendleft(head.slice(size))
        return head.slice(0, size)

    def add(self, keys: Iterable[Ready], *, first: bool = False) -> None:
        """Queue keys again."""
        entries = [entry for entry in keys if entry.keys.height]
        if first:
            self.ready.extendleft(reversed(entries))
        else:
            self.ready.extend(entries)

    def succeed(self, fragments: pl.DataFrame) -> None:
        """Note results, `schemas.FRAGMENTS`."""
        self._fragments.append(fragments)
        self.succeeded += fragments.height
        self.remaining -= fragments.height

    def lose(self, keys: Iterable[str]) -> None:
        """Note keys with a result that failed after all."""
        lost = self.plan.decision.filter(pl.col(KEY).is_in(list(keys))).select(KEY)
        self._fragments = [absent(self.fragments(), lost)]
        self.failed = pl.concat([self.failed, lost])
        if self.succeeded:
            self.succeeded -= among(lost, self.plan.calls).height

    def fail(self, keys: pl.DataFrame) -> None:
        """Note keys (`key: String`) that will not be tried again."""
        self.failed = pl.concat([self.failed, keys[[KEY]]])
        self.remaining -= keys.height

"""Keeping sinks in step with what a run decides: what each holds, what is written again, what leaves.

The ledger says which run hash each sink holds of each key. Before a key is written the ledger forgets what
the sink holds, so that a run that is killed in between leaves no wrong record.
"""

from __future__ import annotations

import platform
from functools import cached_property
from typing import TYPE_CHECKING, Final

import polars as pl

from barca import events
from barca.exec.publishing import value_annotation
from barca.graph import short_name
from barca.io.sinks import Publication, Target, publish, targets_of
from barca.io.sinks.delta.publishing import Change, Gone, publish_delta
from barca.io.sinks.depots import depot_of
from barca.io.sinks.marker import renew
from barca.io.sinks.mirror import remove_departed
from barca.io.sinks.targets import described
from barca.records import Record
from barca.schemas import (
    CREATED_AT,
    KEY,
    MACHINE,
    NODE,
    PUBLICATIONS,
    PUBLISHED,
    RUN_HASH,
    RUN_ID,
    SINK,
    TIMESTAMP,
    dimensions,
    empty,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan
    from barca.ports import Clock, LedgerReader, LedgerWriter, Listener, PackStore

DEPARTED: Final = ""
"""Run hash in the ledger of a key that a sink holds no more."""


class SinkPorts(Record, kw_only=True):
    """What publishing needs from outside.

    Attributes:
        run_id: The run.
        root: Of the project.
        store: Holds the packs.
        reader: The ledger when the run began.
        writer: Its writing side.
        clock: The time.
        listener: Receives events.
    """

    run_id: str
    root: Path
    store: PackStore
    reader: LedgerReader
    writer: LedgerWriter
    clock: Clock
    listener: Listener


class Publications:
    """What the sinks of a run's nodes hold.

    Args:
        ports: What is needed from outside.

    Attributes:
        warnings: For people.
    """

    def __init__(self, ports: SinkPorts) -> None:
        self._ports = ports
        self._machine = platform.node()
        self._unfinished: set[tuple[NodeId, str]] = set()
        self._news: dict[NodeId, list[pl.DataFrame]] = {}
        self.warnings: list[str] = []

    def admit(self, plan: NodePlan, cached: pl.DataFrame, *, every_key: bool) -> dict[str, list[str]]:
        """A node was decided: write the cached keys of which its sinks hold something else.

        Args:
            plan: The node's plan.
            cached: `schemas.FRAGMENTS` of its cached keys.
            every_key: Whether the plan knows all keys, so that a dataset may be laid out anew.

        Returns:
            By key, one message for each sink that could not be written.
        """
        node = plan.node
        if not node.definition.sinks:
            return {}
        targets = self._targets(plan)
        outdated = {target.path: self._outdated(target, cached) for target in targets}
        self._forget(plan, outdated)
        if every_key:
            self._renew(targets, plan, outdated)
        failures: dict[str, list[str]] = {}
        for target in targets:
            keys = outdated[target.path]
            if target.kind == "delta" or keys.is_empty():
                continue
            done = Publication()
            publish([target], self._ports.store, keys, value_annotation(node.definition), done)
            self.record(node.id, done.published)
            self._warn(done.warnings)
            self._tell_republished(target, done.published.height, partitioned=node.partitioned)
            for key, messages in done.failures.items():
                failures.setdefault(key, []).extend(messages)
        return failures

    def _renew(self, targets: Sequence[Target], plan: NodePlan, outdated: dict[str, pl.DataFrame]) -> None:
        """Have the markers of datasets that will be written say how.

        Remembered are those that may hold keys of another layout, or that the ledger does not tell of.
        """
        for target in targets:
            written = plan.calls.height or outdated[target.path].height
            if target.kind == "dataset" and target.dimensions and written:
                try:
                    unfinished = renew(target, depot_of(target))
                    if unfinished or (unfinished is not None and self._held(target).is_empty()):
                        self._unfinished.add((target.node, target.path))
                except Exception:  # noqa: S112 - those who write the keys meet it again, and tell
                    continue

    def record(self, node: NodeId, published: pl.DataFrame | None) -> None:
        """Note what was written (`schemas.PUBLISHED`)."""
        if published is None or published.is_empty():
            return
        self._news.setdefault(node, []).append(published)
        constants = {NODE: node, RUN_ID: self._ports.run_id, MACHINE: self._machine}
        rows = published.with_columns(
            *(pl.lit(value, pl.String).alias(name) for name, value in constants.items()),
            pl.lit(self._ports.clock.now(), TIMESTAMP).alias(CREATED_AT),
        ).select(list(PUBLICATIONS))
        self._ports.writer.append("publications", rows)

    def finish(self, plan: NodePlan, fragments: pl.DataFrame, *, every_key: bool) -> dict[str, list[str]]:
        """The steps have ended: commit to Delta tables, delete from datasets what the asset no longer has.

        Args:
            plan: The node's plan.
            fragments: `schemas.FRAGMENTS` of every key that has a result.
            every_key: Whether the plan knows all keys; otherwise nothing is deleted.

        Returns:
            By key, one message for each Delta table that could not be written.
        """
        failures: dict[str, list[str]] = {}
        for target in self._targets(plan):
            departed = self._departed(target, plan) if every_key else empty(PUBLISHED)
            if target.kind == "delta":
                for key, message in self._commit(target, plan, fragments, departed, whole=every_key).items():
                    failures.setdefault(key, []).append(message)
            elif target.kind == "dataset" and every_key:
                self._mirror(target, plan, fragments, departed)
        return failures

    def _mirror(
        self, target: Target, plan: NodePlan, fragments: pl.DataFrame, departed: pl.DataFrame
    ) -> None:
        """Have a dataset hold the keys of its asset and no others."""
        if departed.is_empty() and (target.node, target.path) not in self._unfinished:
            return
        try:
            gone, keys = departed.get_column(KEY).to_list(), plan.decision.get_column(KEY).to_list()
            complete = len(keys) == fragments.height and self._outdated(target, fragments).is_empty()
            removed = remove_departed(target, gone, keys, complete=complete)
        except Exception as error:
            why = f"dataset sink {target.path}: keys that left could not be deleted: {described(error)}"
            self._warn([why])
            return
        self._record_departed(target, departed)
        if removed:
            self._note(f"dataset sink {target.path}: deleted {_keys(removed)} its asset no longer has")

    def _commit(
        self,
        target: Target,
        plan: NodePlan,
        fragments: pl.DataFrame,
        departed: pl.DataFrame,
        *,
        whole: bool,
    ) -> dict[str, str]:
        """Have a Delta table hold the keys that it does not hold, and no more those that left."""
        outdated = self._outdated(target, fragments)
        if outdated.is_empty() and departed.is_empty():
            return {}
        try:
            try:
                notes = self._publish_delta(target, plan, outdated, departed, whole=whole)
            except Gone:
                if not whole:
                    raise
                outdated, held = fragments, self._held(target)
                departed = held.join(fragments, on=KEY, how="anti", maintain_order="left")
                notes = self._publish_delta(target, plan, outdated, departed, whole=True)
                self._note(f"sink {target.path}: the table was gone, and is written again with every key")
        except Exception as error:
            keys = outdated.get_column(KEY).to_list() or plan.decision.get_column(KEY).to_list()
            return dict.fromkeys(keys, f"sink {target.path}: {described(error)}")
        self._warn([f"sink {target.path}: {note}" for note in notes])
        self.record(target.node, outdated.select(pl.lit(target.path).alias(SINK), KEY, RUN_HASH))
        self._record_departed(target, departed)
        again = outdated.join(plan.calls.select(KEY), on=KEY, how="anti", maintain_order="left").height
        self._tell_republished(target, again, partitioned=plan.node.partitioned)
        return {}

    def _publish_delta(
        self, target: Target, plan: NodePlan, outdated: pl.DataFrame, departed: pl.DataFrame, *, whole: bool
    ) -> Sequence[str]:
        held = self._present(target)
        leaving = pl.concat([outdated.select(KEY), departed.select(KEY)])
        stays = held.join(leaving, on=KEY, how="anti", maintain_order="left")
        dims = plan.decision.select(KEY, *dimensions(target.dimensions))
        change = Change(
            fragments=outdated.join(dims, on=KEY, how="inner", maintain_order="left"),
            departed=departed.get_column(KEY).to_list(),
            whole=not target.dimensions or (whole and stays.is_empty()),
            stays=not stays.is_empty(),
        )
        return publish_delta(target, self._ports.store, change)

    def _departed(self, target: Target, plan: NodePlan) -> pl.DataFrame:
        """`schemas.PUBLISHED` of keys that a sink holds and the asset no longer has."""
        held = self._present(target)
        return held.join(plan.decision.select(KEY), on=KEY, how="anti", maintain_order="left")

    def _record_departed(self, target: Target, departed: pl.DataFrame) -> None:
        self.record(target.node, departed.select(SINK, KEY, pl.lit(DEPARTED).alias(RUN_HASH)))

    # --- what sinks hold ----------------------------------------------------------------------------

    def _targets(self, plan: NodePlan) -> list[Target]:
        node = plan.node
        return targets_of(node.definition.sinks, node.id, node.dimensions, self._ports.root)

    @cached_property
    def _records(self) -> pl.DataFrame:
        """`node, sink, key, run_hash`: the last record of each on this machine, when the run began."""
        rows = self._ports.reader.scan("publications").filter(pl.col(MACHINE) == self._machine)
        read = rows.select(NODE, SINK, KEY, RUN_HASH).collect(engine="in-memory")
        return read.unique([NODE, SINK, KEY], keep="last", maintain_order=True)

    def _held(self, target: Target) -> pl.DataFrame:
        """`schemas.PUBLISHED`: what a sink holds by now, as far as this machine knows."""
        before = self._records.filter((pl.col(NODE) == target.node) & (pl.col(SINK) == target.path))
        news = [frame.filter(pl.col(SINK) == target.path) for frame in self._news.get(target.node, [])]
        every = pl.concat([before.select(list(PUBLISHED)), *news])
        return every.unique(KEY, keep="last", maintain_order=True) if news else every

    def _present(self, target: Target) -> pl.DataFrame:
        """`schemas.PUBLISHED`: the keys of which a sink holds something."""
        return self._held(target).filter(pl.col(RUN_HASH).ne_missing(DEPARTED))

    def _outdated(self, target: Target, fragments: pl.DataFrame) -> pl.DataFrame:
        """The fragments of keys of which a sink does not hold them."""
        held = self._held(target).select(KEY, RUN_HASH)
        return fragments.join(held, on=[KEY, RUN_HASH], how="anti", maintain_order="left")

    def _forget(self, plan: NodePlan, outdated: dict[str, pl.DataFrame]) -> None:
        """Have the ledger say of keys that will be written that it does not know what sinks hold."""
        forgotten = []
        for target in self._targets(plan):
            touched = pl.concat([plan.calls.select(KEY), outdated[target.path].select(KEY)])
            held = self._held(target).filter(pl.col(RUN_HASH).is_not_null())
            forgotten.append(held.join(touched, on=KEY, how="semi", maintain_order="left"))
        rows = pl.concat(forgotten).with_columns(pl.lit(None, pl.String).alias(RUN_HASH))
        if rows.height:
            self.record(plan.node.id, rows)
            self._ports.writer.flush()

    # --- telling ------------------------------------------------------------------------------------

    def _tell_republished(self, target: Target, keys: int, *, partitioned: bool) -> None:
        if keys:
            what = f"{keys} cached {'key' if keys == 1 else 'keys'}" if partitioned else "the cached result"
            self._note(f"sink {target.path}: republished {what} of {short_name(target.node)}")

    def _note(self, message: str) -> None:
        self._ports.listener(events.Noted(message))

    def _warn(self, messages: Sequence[str]) -> None:
        for message in messages:
            if message not in self.warnings:
                self.warnings.append(message)
                self._ports.listener(events.Warned(message))


def _keys(count: int) -> str:
    return f"{count} {'key' if count == 1 else 'keys'}"

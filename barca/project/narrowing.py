"""Planning only what may have changed: when that is sound, and what a run leaves for the next one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import polars as pl

from barca.errors import FragmentError, StoreError, plural
from barca.frames import where
from barca.lookup import absent
from barca.plan.baseline import (
    FEW_KEYS,
    LARGE_SHARE,
    Baseline,
    changed_keys,
    keyed_groups,
    read_whole,
    signatures,
)
from barca.plan.build import build_plan
from barca.plan.inputs import Unchanged
from barca.plan.keys import keyed_keys
from barca.plan.parts import Unknown, whole_identity
from barca.project.ahead import Ahead
from barca.records import fields_of, replace
from barca.schemas import DIGEST, FORMAT, FRAGMENTS, KEY, KEYED, PATH, ROWS, dimension, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barca._typing import NodeId
    from barca.exec.report import NodeReport, RunReport
    from barca.graph import Graph, Node
    from barca.plan.inputs import NodePlan, Plan, PlanInputs
    from barca.ports import LedgerReader, PackStore

MANY_UNFINISHED: Final = 10_000
"""A node with more keys without a result is planned whole the next time."""


class NodeNotes(Protocol):
    """Where baselines are kept."""

    def read(self, node: NodeId) -> dict[str, Any] | None:
        """The note on a node, or `None`."""
        ...

    def pinned(self) -> Self:
        """The same, of this moment."""
        ...

    def write(self, node: NodeId, note: Mapping[str, Any] | None) -> None:
        """Replace the note on a node; `None` removes it."""
        ...


class Narrowing:
    """Baselines of a project, and the groups of nodes that one run may plan by them.

    Attributes:
        notes: Where baselines are kept.
        store: The packs.
        reader: The ledger at the version of the run.
        read_keyed: Reads what a keyed source returned.
        groups: Keyed source to the nodes whose rows are not read before its result is known.
        baselines: Their baselines.
        observed: Row of `schemas.FRAGMENTS` of each keyed source whose group was narrowed.
        former: What keyed sources returned the last time.
    """

    def __init__(
        self,
        notes: NodeNotes,
        store: PackStore,
        reader: LedgerReader,
        read_keyed: Callable[[PackStore, pl.DataFrame], pl.DataFrame],
    ) -> None:
        self.notes = notes
        self.store = store
        self.reader = reader
        self.read_keyed = read_keyed
        self.groups: dict[NodeId, list[Node]] = {}
        self.baselines: dict[NodeId, Baseline] = {}
        self.observed: dict[NodeId, pl.DataFrame] = {}
        self.former = Ahead[pl.DataFrame]()

    def look(self, graph: Graph, cone: Sequence[NodeId]) -> set[NodeId]:
        """Find the groups that have baselines.

        Args:
            graph: The nodes.
            cone: Those of the plan.

        Returns:
            The nodes of the groups.
        """
        for source, nodes in keyed_groups(graph, cone).items():
            found = {node.id: baseline for node in nodes if (baseline := self._baseline(node.id))}
            observed = {baseline.observation[PATH] for baseline in found.values()}
            if len(found) == len(nodes) and len(observed) == 1:
                self.groups[source] = nodes
                self.baselines.update(found)
        self.former.add({source: partial(self._read_former, source) for source in self.groups})
        return {node.id for nodes in self.groups.values() for node in nodes}

    def _baseline(self, node_id: NodeId) -> Baseline | None:
        note = self.notes.read(node_id)
        try:
            return None if note is None else Baseline(**note)
        except TypeError:  # another version's
            return None

    def narrow(self, source: NodeId, row: pl.DataFrame, plan: Plan) -> PlanInputs | None:
        """The inputs of a plan that looks at what may have changed of a group; `None` where it must be whole.

        Args:
            source: A keyed source of `groups`.
            row: Row of `schemas.FRAGMENTS`: what it returned now.
            plan: The plan in which its result has just become known.
        """
        nodes = self.groups[source]
        baselines = [self.baselines[node.id] for node in nodes]
        unfinished = sorted({key for baseline in baselines for key in baseline.unfinished})
        same = baselines[0].observation[DIGEST] == row.item(0, DIGEST)
        if plan.inputs.predict and not same:
            return None  # a forecast tells of every key what it holds
        if any(
            unfinished or not same or self.baselines[node_id].collected is None
            for node_id in read_whole(nodes, plan.inputs.graph)
        ):
            return None
        if not self._stands(nodes, plan):
            return None
        moved, gone, keys = empty(KEYED), empty(KEYED), baselines[0].keys
        if unfinished or not same:
            try:
                now = self.read_keyed(self.store, row)
                was = now if same else self._was(source)
            except FragmentError:
                return None
            (moved, gone), keys = changed_keys(was, now, unfinished), now.height
        if moved.height * LARGE_SHARE > keys:
            return None
        self.observed[source] = row
        return self._inputs(nodes, source, moved, gone, keys - moved.height, plan)

    def _was(self, source: NodeId) -> pl.DataFrame:
        """What a keyed source returned the last time."""
        read = self.former.take(source)
        return self._read_former(source) if read is None else read

    def _read_former(self, source: NodeId) -> pl.DataFrame:
        return self.read_keyed(self.store, _row(self.baselines[self.groups[source][0].id]))

    def _inputs(
        self,
        nodes: Sequence[Node],
        source: NodeId,
        moved: pl.DataFrame,
        gone: pl.DataFrame,
        left: int,
        plan: Plan,
    ) -> PlanInputs:
        """Inputs over the keys `moved`; `gone` are those that left or changed, with their former values."""
        looked_at = pl.concat([moved, gone]).unique(KEY)
        keys = {node.id: keyed_keys(node.dimensions[0], looked_at, {})[0].get_column(KEY) for node in nodes}
        former = replace(
            plan.inputs,
            keyed={**plan.inputs.keyed, source: gone},
            materialized={**plan.inputs.materialized, **self.reader.materialized_many(keys, keys)},
        )
        # what these keys held is no longer among what stays
        held = build_plan(former, plan).nodes if gone.height else {}
        return replace(
            former,
            keyed={**plan.inputs.keyed, source: moved},
            unchanged={
                **plan.inputs.unchanged,
                **{node.id: _unchanged(self.baselines[node.id], left, held.get(node.id)) for node in nodes},
            },
        )

    def rest(self, plan: Plan) -> PlanInputs:
        """The inputs of a narrowed plan with every key."""
        sources = [
            source
            for source, nodes in self.groups.items()
            if any(node.id in plan.inputs.unchanged for node in nodes)
        ]
        nodes = [node.id for source in sources for node in self.groups[source]]
        return replace(
            plan.inputs,
            keyed={
                **plan.inputs.keyed,
                **{source: self.read_keyed(self.store, self.observed[source]) for source in sources},
            },
            materialized={**plan.inputs.materialized, **self.reader.materialized_many(nodes)},
            unchanged={},
        )

    def _stands(self, nodes: Sequence[Node], plan: Plan) -> bool:
        """Whether all that the keys' results were made of, and the packs they lie in, are as they were."""
        try:
            now = signatures(nodes, plan)
        except Unknown:
            return False
        packs: dict[str, str] = {}
        for node in nodes:
            if self.baselines[node.id].signature != now[node.id]:
                return False
            packs.update(self.baselines[node.id].packs)
        return self.store.stamps(packs) == packs

    # --- what a run leaves ----------------------------------------------------------------------------

    def note(self, report: RunReport) -> None:
        """Leave baselines of the nodes that a run planned whole or by their baselines.

        A run of some keys leaves none; where these hold something else now than the baselines say, they go.
        """
        plan = report.plan
        for source, nodes in keyed_groups(plan.inputs.graph, list(plan.nodes)).items():
            row = report.nodes[source].fragments
            if row.height != 1 or any(plan.nodes[node.id].state != "decided" for node in nodes):
                continue
            try:
                now = signatures(nodes, plan)
            except Unknown:
                continue
            observation = row[list(FRAGMENTS)].row(0, named=True)
            for node in nodes:
                if plan.inputs.selection:
                    self._forget(node.id, now[node.id], row.item(0, DIGEST))
                    continue
                baseline = self._new(node, report, now[node.id], observation)
                if baseline != self.baselines.get(node.id):
                    self.notes.write(node.id, None if baseline is None else fields_of(baseline))

    def _forget(self, node_id: NodeId, signature: str, observed: str) -> None:
        """Remove a baseline under another signature, or with other values of the source."""
        before = self._baseline(node_id)
        if before is not None and (before.signature, before.observation[DIGEST]) != (signature, observed):
            self.notes.write(node_id, None)

    def _new(
        self, node: Node, report: RunReport, signature: str, observation: Mapping[str, str | int]
    ) -> Baseline | None:
        """The baseline of a node after a run; `None` where it would not be worth it."""
        plan = report.plan
        ended = report.nodes[node.id]
        decision = ended.plan.decision
        keys = decision.height + ended.plan.unchanged
        complete = ended.fragments.height == decision.height
        lacking = decision.clear() if complete else absent(decision, ended.fragments)
        if keys <= FEW_KEYS or lacking.height > MANY_UNFINISHED:
            return None
        before = self.baselines[node.id] if node.id in plan.inputs.unchanged else None
        paths = ended.fragments.get_column(PATH).unique().to_list()
        packs = self.store.stamps(paths)
        if len(packs) < len(paths):
            return None  # a pack is gone that this run did not need
        tables = _tables(ended.fragments, plan.inputs.unchanged.get(node.id))
        whole = lacking.is_empty() and read_whole([node], plan.inputs.graph)
        return Baseline(
            signature=signature,
            observation=observation,
            keys=keys,
            unfinished=lacking.get_column(dimension(node.dimensions[0])).sort().to_list(),
            packs={**(before.packs if before else {}), **packs},
            collected=_collected(ended, plan) if whole else None,
            table_keys=tables[0],
            table_rows=tables[1],
        )


def require_results(node_id: NodeId, unchanged: int, found: int) -> None:
    """Refuse to go on with fewer results than the keys that were left out have by their baseline.

    Raises:
        StoreError: There are.
    """
    if found != unchanged:
        raise StoreError(
            f"of {plural(unchanged, 'key')} of `{node_id}` that need not be looked at, {found} have a result",
            code="notes",
            node=node_id,
            remediation="delete `.barca/ledger/materializations/_notes`, and run again",
        )


def _row(baseline: Baseline) -> pl.DataFrame:
    return pl.DataFrame([baseline.observation], schema=FRAGMENTS)


def _unchanged(baseline: Baseline, left: int, former: NodePlan | None) -> Unchanged:
    """What stays of a node: `left` keys, and their tables: all but those that the looked-at keys held."""
    keys, rows = (0, 0) if former is None else _tables(former.cached)
    return Unchanged(
        keys=left,
        collected=baseline.collected,
        table_keys=baseline.table_keys - keys,
        table_rows=baseline.table_rows - rows,
    )


def _tables(fragments: pl.DataFrame, unchanged: Unchanged | None = None) -> tuple[int, int]:
    """Number of tables among fragments and unchanged keys, and of their rows."""
    tables = where(fragments[[ROWS]], fragments.get_column(FORMAT) == "table")
    stay = (unchanged.table_keys, unchanged.table_rows) if unchanged else (0, 0)
    return tables.height + stay[0], int(tables.get_column(ROWS).sum()) + stay[1]


def _collected(ended: NodeReport, plan: Plan) -> str | None:
    """`combined_identity` of a node whose every key has a result."""
    if ended.plan.unchanged and ended.plan.decision.height:
        return None  # it takes every key's run hash, which this run did not need
    return whole_identity(ended.plan, plan.inputs)

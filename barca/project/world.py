"""Freezing the world for the planner, and thawing what it asks for: user expressions, results of sources."""

from __future__ import annotations

import os
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.discovery.broken import user_traceback
from barca.errors import DefinitionError
from barca.frames import where
from barca.io.keyed import keyed_as
from barca.lookup import absent
from barca.model import BatchesAuto, BatchesBy
from barca.plan.baseline import taking_keys
from barca.plan.batching import effective_batch
from barca.plan.build import build_plan, sources_to_load
from barca.plan.inputs import PlanInputs
from barca.plan.keys import explicit_keys
from barca.plan.needs import packs_read
from barca.plan.parts import rows_of
from barca.project.statistics import measured_of
from barca.records import Record, replace
from barca.schemas import FORMAT, KEY, MATERIALIZATIONS, PATH, RUN_HASH, dimension, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from barca._typing import NodeId
    from barca.graph import Graph, Node
    from barca.model import Definition, Fingerprint
    from barca.plan.inputs import BatchOverride, NodePlan, Plan
    from barca.ports import LedgerReader, PackStore
    from barca.project.ahead import Ahead
    from barca.project.narrowing import Narrowing

MANY_SELECTED: Final = 10_000
"""A selection of more keys is looked up among all of a node's results."""

UNGROUPED: Final = frozenset({"batch_label", "batch_strict"})
"""Codes of the errors for keys that a node's grouping fails for: a label that is none, a key in no group."""


class Request(Record, kw_only=True):
    """What somebody asked for.

    Attributes:
        targets: Node ids.
        selection: Dimension to values.
        batch: Grouping by node id, or under `None` for every batched node.
        refresh: Nodes to run again.
        refresh_all: Everything again.
        cascade: Whether readers of refreshed keys run again.
        named: Nodes asked for by name, as targets or to be refreshed.
    """

    targets: tuple[NodeId, ...]
    selection: Mapping[str, tuple[str, ...]]
    batch: Mapping[NodeId | None, BatchOverride]
    refresh: frozenset[NodeId] = frozenset()
    refresh_all: bool = False
    cascade: bool = True
    named: frozenset[NodeId] = frozenset()


class World(Record, kw_only=True):
    """What planning reads besides the request.

    Attributes:
        graph: The nodes.
        reader: The ledger at one version.
        store: The packs.
        fingerprint: Fingerprint of a definition.
        explicit: Declared keys per (node, dimension).
        groups: Groups per node with `batches`.
        variables: Environment variables set for this run, over the process's own.
        memory_limit: Bytes that a call of `batch="auto"` may take where it does not say; `None` is no limit.
        read_keyed: Reads a keyed fragment: store and its row, to a frame of `schemas.KEYED`.
        coming: Rows of nodes whose keys a source will tell, by that source.
        narrowing: What an earlier run found out, by which keys that stay need not be planned; `None` plans
            every key.
    """

    graph: Graph
    reader: LedgerReader
    store: PackStore
    fingerprint: Callable[[Definition[..., Any]], Fingerprint]
    explicit: Mapping[tuple[NodeId, str], tuple[str, ...]]
    groups: Mapping[NodeId, tuple[tuple[Any, ...], ...]]
    variables: Mapping[str, str]
    memory_limit: int | None
    read_keyed: Callable[[PackStore, pl.DataFrame], pl.DataFrame]
    coming: Ahead[dict[NodeId, pl.DataFrame]]
    narrowing: Narrowing | None = None

    def freeze(self, request: Request, *, predict: bool) -> PlanInputs:
        """The inputs of a plan for the request."""
        cone = self.graph.upstream(request.targets)
        nodes = [self.graph.nodes[node_id] for node_id in cone]
        forced = request.selection or request.refresh or request.refresh_all
        narrowing = None if forced else self.narrowing
        later: set[NodeId] = narrowing.look(self.graph, cone) if narrowing else set()
        if not predict:
            groups = taking_keys(self.graph, [node_id for node_id in cone if node_id not in later])
            self.coming.add({source: partial(self._rows, group, request) for source, group in groups.items()})
            later |= {node.id for group in groups.values() for node in group}
        return PlanInputs(
            graph=self.graph,
            targets=request.targets,
            fingerprints={node.id: self.fingerprint(node.definition) for node in nodes},
            env={node.id: self._env(node) for node in nodes},
            explicit={
                node.id: {name: self.explicit[node.id, name] for name in node.explicit} for node in nodes
            },
            materialized=self._rows([node for node in nodes if node.id not in later], request),
            definitions=self.reader.scan("definitions").collect(engine="in-memory"),
            predict=predict,
            selection=request.selection,
            refresh=request.refresh,
            refresh_all=request.refresh_all,
            cascade=request.cascade,
            batch=request.batch,
            groups=self.groups,
            measured=measured_of(
                self.reader,
                [node.id for node in nodes if isinstance(effective_batch(node, request.batch), BatchesAuto)],
            ),
            memory_limit=self.memory_limit,
        )

    def _rows(self, nodes: Sequence[Node], request: Request) -> dict[NodeId, pl.DataFrame]:
        """Rows of `schemas.MATERIALIZATIONS` of nodes, of the selected keys at least."""
        return self.reader.materialized_many([node.id for node in nodes], _selected(nodes, request.selection))

    def read_ahead(self) -> None:
        """Begin to read what plans will ask for once sources have run."""
        self.coming.begin()
        if self.narrowing is not None:
            self.narrowing.former.begin()

    def _env(self, node: Node) -> dict[str, str | None]:
        return {name: self.variables.get(name, os.environ.get(name)) for name in node.definition.env}

    def plan(self, inputs: PlanInputs, previous: Plan | None = None) -> Plan:
        """A plan with every stored source it awaits read, every pack it reads looked at.

        A pack that cannot be read makes its keys run.

        Args:
            inputs: The frozen inputs.
            previous: An earlier plan of the same run.
        """
        plan = build_plan(inputs, previous)
        while True:
            more = self._thaw(plan)
            if more is None:
                break
            plan = build_plan(more, plan)
        unread = [path for path in packs_read(plan) if path not in inputs.missing]
        bad = self.store.probe(unread) if unread else []
        bad += self._strays(plan)
        if not bad:
            return plan
        again = replace(plan.inputs, missing=plan.inputs.missing | frozenset(bad), labels={})
        lost_sources = {node_id for node_id in again.keyed if self._lies_in(node_id, plan, bad)}
        again = replace(
            again, keyed={name: frame for name, frame in again.keyed.items() if name not in lost_sources}
        )
        return self.plan(again, previous)

    def _strays(self, plan: Plan) -> list[str]:
        """Packs whose keys are not those that their readers would now take from them.

        A dimension may have got the name of another column of a table since, or the node its first reader.
        """
        stored = {
            node_id: plan.nodes[node_id].cached
            for node_id, node in self.graph.nodes.items()
            if node.keyed and node_id in plan.nodes
        }
        return [
            row.item(0, PATH)
            for node_id, row in stored.items()
            if row.height
            and (
                row.item(0, FORMAT) != "keyed"
                if node_id not in plan.inputs.keyed
                else not keyed_as(self.store, row.item(0, PATH), self.graph.nodes[node_id].gives)
            )
        ]

    def _lies_in(self, node_id: NodeId, plan: Plan, bad: Sequence[str]) -> bool:
        return bool(rows_of(node_id, plan.inputs).get_column(PATH).is_in(list(bad)).any())

    def _thaw(self, plan: Plan) -> PlanInputs | None:
        """The inputs with what the plan asks for, or `None` when it asks for nothing."""
        inputs = plan.inputs
        sources = sources_to_load(plan)
        if sources:
            bad = self._unreadable(pl.concat(sources.values()))
            if bad - inputs.missing:
                inputs = replace(inputs, missing=inputs.missing | bad)
            for node_id, row in sources.items():
                inputs = self._load(node_id, row, replace(plan, inputs=inputs), bad)
            if len(inputs.keyed) > len(plan.inputs.keyed):
                return inputs
        waiting = [node_plan for node_plan in plan.nodes.values() if node_plan.needs_labels]
        if waiting:
            labels = {
                node_plan.node.id: label_keys(
                    node_plan.node,
                    node_plan.running,
                    effective_batch(node_plan.node, inputs.batch),
                )
                for node_plan in waiting
            }
            return replace(inputs, labels={**inputs.labels, **labels})
        return None

    def _unreadable(self, rows: pl.DataFrame) -> set[str]:
        """Packs that hold no keys: those that are gone, and results from before the node gave others keys."""
        plain = where(rows, rows.get_column(FORMAT) != "keyed")
        return {*self.store.probe(rows.get_column(PATH).unique().sort().to_list()), *plain.get_column(PATH)}

    def _load(self, source: NodeId, row: pl.DataFrame, plan: Plan, bad: Collection[str]) -> PlanInputs:
        """The inputs with what a keyed source returned, or as much of it as may have changed."""
        inputs = plan.inputs
        if (rows := self.coming.take(source)) is not None:
            inputs = replace(inputs, materialized={**inputs.materialized, **rows})
        readable = row.item(0, PATH) not in bad
        if self.narrowing is not None and source in self.narrowing.groups:
            if readable and (narrowed := self.narrowing.narrow(source, row, plan)) is not None:
                return narrowed
            rows = self.reader.materialized_many(node.id for node in self.narrowing.groups.pop(source))
            inputs = replace(inputs, materialized={**inputs.materialized, **rows})
        if not readable:
            return inputs
        return replace(inputs, keyed={**inputs.keyed, source: self.read_keyed(self.store, row)})

    def whole(self, plan: Plan) -> Plan:
        """A narrowed plan with every key; what it ran since is not known to it."""
        if self.narrowing is None or not plan.inputs.unchanged:
            return plan
        return build_plan(self.narrowing.rest(plan))

    def replan(self, plan: Plan, settled: frozenset[NodeId], rows: Mapping[NodeId, pl.DataFrame]) -> Plan:
        """The plan again, with nodes that settled in this run.

        Args:
            plan: The plan before.
            settled: The nodes.
            rows: Per node the rows of `schemas.MATERIALIZATIONS` it got in this run.
        """
        merged = {
            node_id: _merged(_standing(plan.nodes[node_id], rows_of(node_id, plan.inputs), frame), frame)
            for node_id, frame in rows.items()
        }
        inputs = replace(plan.inputs, settled=settled, materialized={**plan.inputs.materialized, **merged})
        return self.plan(inputs, plan)


def _standing(node_plan: NodePlan, old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """The earlier rows of a node that ended, without those of keys that ran and got no result.

    What a sensor returned before is not what it returns now.
    """
    return absent(old, absent(node_plan.calls, new))


def _merged(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    both = pl.concat([empty(MATERIALIZATIONS), old[list(MATERIALIZATIONS)], new])
    return both.unique([KEY, RUN_HASH], keep="last", maintain_order=True)


def _selected(nodes: Sequence[Node], selection: Mapping[str, Sequence[str]]) -> dict[NodeId, pl.Series]:
    """Keys, in Hive form, that a selection leaves of a node at most, where it names them all and is small."""
    keys = {}
    for node in nodes:
        if node.partitioned and selection.keys() >= set(node.dimensions):
            values = {name: list(dict.fromkeys(selection[name])) for name in node.dimensions}
            if prod(map(len, values.values())) <= MANY_SELECTED:
                keys[node.id] = explicit_keys(values, {})[0].get_column(KEY)
    return keys


def label_keys(node: Node, keys: pl.DataFrame, batch: object) -> pl.DataFrame:
    """Labels that a `batches_by` function gives keys, as `key, label: String`.

    Args:
        node: The node.
        keys: Its `schemas.KEYS` with `dim:` columns.
        batch: Its `batches_by`.

    Raises:
        DefinitionError: The function raised, or returned something else than a string or an integer.
    """
    assert isinstance(batch, BatchesBy)
    names = sorted(node.dimensions)
    columns = [keys.get_column(dimension(name)).to_list() for name in names]
    single = len(names) == 1
    labels = []
    for values in zip(*columns, strict=True):
        value = values[0] if single else dict(zip(names, values, strict=True))
        try:
            label = batch.label(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # user code: also SystemExit, and panics of native extensions
            what = f"raised {type(error).__name__} for the key `{value}`: {error}"
            raise _bad_label(node, value, what, user_traceback(error)) from error
        if isinstance(label, bool) or not isinstance(label, str | int):
            what = f"returned the {type(label).__name__} `{label!r}` for the key `{value}`"
            raise _bad_label(node, value, what)
        labels.append(f"{type(label).__name__}:{label}")
    return keys.select(KEY).with_columns(pl.Series("label", labels, dtype=pl.String))


def _bad_label(node: Node, value: object, what: str, trace: str | None = None) -> DefinitionError:
    return DefinitionError(
        f"the function of batches_by(...) of `{node.id}` {what}",
        code="batch_label",
        node=node.id,
        key=str(value),
        file=node.definition.file,
        line=node.definition.line,
        traceback=trace,
        remediation="make it return a string or an integer for every key",
    )

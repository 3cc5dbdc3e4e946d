"""What nodes hold now: for each key the result that is up to date, else the newest there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.discovery import evaluate_partitions
from barca.errors import FragmentError, SelectionError, UsageError, did_you_mean
from barca.graph import short_name
from barca.io.canonical import free_name
from barca.io.fragments import read_keyed, scan_fragments
from barca.io.values import read_values
from barca.partitions import parse_key
from barca.plan.keys import empty_key, explicit_keys, keyed_keys, narrow
from barca.project.request import only_target
from barca.records import Record
from barca.schemas import FRAGMENTS, KEY, ORDINAL, PATH, ROWS, RUN_HASH, STATE, dimension, dimensions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barca._typing import NodeId
    from barca.graph import Graph, Node
    from barca.plan.inputs import NodePlan
    from barca.ports import LedgerReader, PackStore
    from barca.project.request import Target


class Current(Record):
    """The current results of a project; nothing is run to have them.

    Attributes:
        graph: The nodes.
        reader: The ledger.
        store: Holds the packs.
        planned: What a run would do with a node; `None` where that cannot be told.
    """

    graph: Graph
    reader: LedgerReader
    store: PackStore
    planned: Callable[[NodeId], NodePlan | None]

    def find(self, target: Target, verb: str) -> Node:
        """The only target of a verb.

        Raises:
            UsageError: There is no such node, it does not load, or several targets are named.
        """
        return self.graph.nodes[only_target(self.graph, target, verb)]

    def node(self, name: str) -> Node:
        """The node of a name or id.

        Raises:
            UsageError: There is none, or it does not load.
        """
        return self.graph.nodes[self.graph.find(name)]

    def held(self, node: Node, selection: Mapping[str, Sequence[str]] | None = None) -> pl.DataFrame:
        """For each key of a node the result that a run would serve, else the newest that can be read.

        Args:
            node: The node.
            selection: Dimension to values; only these keys.

        Returns:
            `schemas.FRAGMENTS` with the `dim:` columns and `ordinal`, in the declared order of the keys.
            Where the keys are not known before a source has run, every key that ever had a result.

        Raises:
            SelectionError: A dimension that the node does not have, or a value that no key with a result has.
            UsageError: There is no result, or the expression that declares the keys raised.
        """
        plan = self.planned(node.id)
        decided = plan.decision if plan is not None and plan.state == "decided" else None
        stored = self._stored(node, decided)
        keys = self._keys(node) if decided is None else decided
        if keys is None:
            keys = keys_of(node.dimensions, stored)
        keys = keys.select(KEY, *dimensions(node.dimensions), ORDINAL)
        found = keys.join(stored, on=KEY, how="inner", maintain_order="left")
        if found.is_empty():
            raise UsageError(
                f"`{short_name(node.id)}` has no result yet",
                code="no_result",
                node=node.id,
                remediation=f"run `barca {'run' if node.kind == 'task' else 'get'} {short_name(node.id)}`",
            )
        return selected(node, found, selection or {})

    def served(self, node: Node, key: str) -> str | None:
        """The run hash of the result that a run would serve for a key, `None` where it would compute one."""
        plan = self.planned(node.id)
        if plan is None or plan.state != "decided":
            return None
        cached = plan.decision.filter((pl.col(KEY) == key) & (pl.col(STATE) == "cached"))
        return str(cached.item(0, RUN_HASH)) if cached.height else None

    def table(self, node: Node, held: pl.DataFrame) -> pl.LazyFrame:
        """One lazy table over results: the dimensions as String columns, then the columns of the results.

        Raises:
            InputError: They are no tables, or no one table.
            FragmentError: A file of the store is missing or damaged.
        """
        return scan_fragments(self.store, held, node.dimensions)

    def first_rows(self, node: Node, held: pl.DataFrame, number: int) -> pl.DataFrame:
        """The first rows of results that are tables, key after key; no more packs are read than it takes.

        Raises:
            InputError: They are no tables, or no one table.
            FragmentError: A file of the store is missing or damaged.
        """
        before = pl.col(ROWS).cum_sum() - pl.col(ROWS)
        few = held.filter(before < number).head(number)
        table = self.table(node, few)
        if few.height > 1:
            order = few.select(pl.col(dimension(name)).alias(name) for name in node.dimensions)
            position = free_name(ORDINAL, table.collect_schema().names())
            places = order.with_row_index(position).lazy()
            table = (
                table.join(places, on=list(node.dimensions), maintain_order="left")
                .sort(position, maintain_order=True)
                .drop(position)
            )
        return table.head(number).collect(engine="in-memory")

    def values(self, node: Node, held: pl.DataFrame) -> dict[str, Any]:
        """The value of each key, tables as Polars frames.

        Raises:
            FragmentError: A file of the store is missing or damaged.
        """
        return read_values(self.store, held, None, node.dimensions)

    def _stored(self, node: Node, decided: pl.DataFrame | None) -> pl.DataFrame:
        """`schemas.FRAGMENTS`: of cached keys what is served, of others the newest that is there."""
        newest = self.reader.materialized(node.id).select(list(FRAGMENTS))
        if decided is None:
            served = newest.clear()
        else:
            served = decided.filter(pl.col(STATE) == "cached").select(list(FRAGMENTS))
        others = newest.join(served, on=KEY, how="anti", maintain_order="left")
        gone = self.store.probe(others.get_column(PATH).unique().sort().to_list())
        others = others.filter(~pl.col(PATH).is_in(gone)).unique(KEY, keep="last", maintain_order=True)
        return pl.concat([served, others])

    def _keys(self, node: Node) -> pl.DataFrame | None:
        """The keys of a node in declared order, as far as they are known without running anything."""
        if not node.partitioned:
            return empty_key()
        if node.keys_from is None:
            return explicit_keys(self._declared(node), {})[0]
        source = self.graph.nodes[node.keys_from]
        if source.partitioned:
            return self._keys(source)
        newest = self.reader.latest([source.id])[source.id]
        if newest.is_empty():
            return None
        try:
            returned = read_keyed(self.store, newest.select(list(FRAGMENTS)))
        except FragmentError:  # the source runs again before anything reads it
            return None
        return keyed_keys(node.dimensions[0], returned, {})[0]

    def _declared(self, node: Node) -> dict[str, tuple[str, ...]]:
        declared, broken = evaluate_partitions(self.graph, [node.id])
        if broken:
            self.graph.without(broken).find(node.id)  # says what is wrong with it
        return {name: declared[node.id, name] for name in node.dimensions}


def keys_of(names: Sequence[str], stored: pl.DataFrame) -> pl.DataFrame:
    """The keys of results that have these dimensions, as `schemas.KEYS` with `dim:` columns."""
    values = [parse_key(key) for key in stored.get_column(KEY)]
    columns = [pl.Series(dimension(name), [value.get(name) for value in values], pl.String) for name in names]
    keys = stored.select(KEY).with_columns(columns).drop_nulls()  # those of other dimensions are former ones
    return keys.sort(KEY).with_row_index(ORDINAL).select(KEY, *dimensions(names), ORDINAL)


def selected(node: Node, found: pl.DataFrame, selection: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Results of the selected keys, `dim:` columns among their columns.

    Raises:
        SelectionError: A dimension that the node does not have, or a value that no key with a result has.
    """
    for name, values in selection.items():
        if name not in node.dimensions:
            raise SelectionError(
                f"`{short_name(node.id)}` has no dimension `{name}`",
                code="unknown_dimension",
                node=node.id,
                remediation=did_you_mean(name, node.dimensions),
            )
        there = found.get_column(dimension(name)).unique(maintain_order=True)
        for value in values:
            if value not in there:
                raise SelectionError(
                    f"`{short_name(node.id)}` has no result for {name}={value}",
                    code="unknown_key",
                    node=node.id,
                    remediation=did_you_mean(value, there.to_list(), limit=8),
                )
    return narrow(found, selection)

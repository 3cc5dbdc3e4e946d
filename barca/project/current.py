"""What nodes hold now: the newest result of each key that a node has, whether or not it is up to date."""

from __future__ import annotations

from dataclasses import dataclass
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
from barca.schemas import FRAGMENTS, KEY, ORDINAL, ROWS, dimension, dimensions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca.graph import Graph, Node
    from barca.ports import LedgerReader, PackStore


@dataclass(frozen=True, slots=True)
class Current:
    """The current results of a project; nothing is run to have them.

    Attributes:
        graph: The nodes.
        reader: The ledger.
        store: Holds the packs.
    """

    graph: Graph
    reader: LedgerReader
    store: PackStore

    def node(self, name: str) -> Node:
        """The node of a name or id.

        Raises:
            UsageError: There is none, or it does not load.
        """
        return self.graph.nodes[self.graph.find(name)]

    def held(self, node: Node, selection: Mapping[str, Sequence[str]] | None = None) -> pl.DataFrame:
        """The newest result of each key of a node.

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
        newest = self.reader.materialized(node.id).unique(KEY, keep="last", maintain_order=True)
        stored = newest.select(list(FRAGMENTS))
        keys = self._keys(node)
        if keys is None:
            keys = _keys_of(node, stored)
        found = keys.join(stored, on=KEY, how="inner", maintain_order="left")
        if found.is_empty():
            raise UsageError(
                f"`{short_name(node.id)}` has no result yet",
                code="no_result",
                node=node.id,
                remediation=f"run `barca {'run' if node.kind == 'task' else 'get'} {short_name(node.id)}`",
            )
        return _selected(node, found, selection or {})

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


def _keys_of(node: Node, stored: pl.DataFrame) -> pl.DataFrame:
    """The keys of results as `schemas.KEYS` with `dim:` columns."""
    values = [parse_key(key) for key in stored.get_column(KEY)]
    columns = [
        pl.Series(dimension(name), [value.get(name) for value in values], pl.String)
        for name in node.dimensions
    ]
    keys = stored.select(KEY).with_columns(columns).drop_nulls()  # those of other dimensions are former ones
    return keys.sort(KEY).with_row_index(ORDINAL).select(KEY, *dimensions(node.dimensions), ORDINAL)


def _selected(node: Node, found: pl.DataFrame, selection: Mapping[str, Sequence[str]]) -> pl.DataFrame:
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

"""What stays as it was: keys that need not be looked at again.

A run leaves a baseline of each node: under a signature of everything but the keys' own values, and with the
values that its keyed source had returned, every key had a result, but for a few. While the signature is the
same, a key whose value is the same has the same run hash, so that its result stands; only the other keys
are planned. The plan of those is the full plan without the rows of the keys that stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barca.frames import sorted_by, where
from barca.hashing import FORMAT_VERSION, hash_fields
from barca.lookup import same_keys
from barca.plan.edges import folds_digest
from barca.plan.hashes import env_fields
from barca.plan.parts import keyed_identity, require_known, whole_identity
from barca.records import Record
from barca.schemas import KEY, ORDINAL, VALUE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from barca._typing import NodeId
    from barca.graph import Graph, Node
    from barca.plan.inputs import Plan

FEW_KEYS: Final = 1_000
"""Nodes of at most so many keys are always planned whole: it takes no time, and results list every key."""

LARGE_SHARE: Final = 4
"""Where more than one key in so many changed, planning every key costs no more."""


class Baseline(Record, kw_only=True):
    """What a run found out about a node that takes its keys from a keyed source.

    Attributes:
        signature: `signatures` of the node.
        observation: Row of `schemas.FRAGMENTS`: what the keyed source had returned.
        keys: Number of its keys.
        unfinished: Raw keys that had no result.
        packs: Path of each pack that holds results, with its stamp.
        collected: `combined_identity` of the node, if something reads it whole and every key had a result.
        table_keys: Keys whose result was a table.
        table_rows: Rows of those tables.
    """

    signature: str
    observation: Mapping[str, str | int]
    keys: int
    unfinished: list[str]
    packs: Mapping[str, str]
    collected: str | None
    table_keys: int
    table_rows: int


def keyed_groups(graph: Graph, cone: Sequence[NodeId]) -> dict[NodeId, list[Node]]:
    """Of `taking_keys`, the groups whose run hashes depend on the source's values and little else.

    Left out are groups with a node whose run hashes depend on more than the source's values, the code, and
    nodes outside that are read whole.
    """
    return {
        source: nodes
        for source, nodes in taking_keys(graph, cone).items()
        if all(_stays(node, source, {one.id for one in nodes}) for node in nodes)
    }


def taking_keys(graph: Graph, cone: Sequence[NodeId]) -> dict[NodeId, list[Node]]:
    """Keyed sources with the nodes of the cone that take their keys from them, directly or down a chain."""
    groups: dict[NodeId, list[Node]] = {}
    root: dict[NodeId, NodeId] = {}
    for node_id in cone:
        node = graph.nodes[node_id]
        if node.keys_from is None:
            continue
        above = graph.nodes[node.keys_from]
        found = root.get(above.id) if above.partitioned else above.id
        if found is not None:
            root[node_id] = found
            groups.setdefault(found, []).append(node)
    return groups


def _stays(node: Node, source: NodeId, group: set[NodeId]) -> bool:
    definition = node.definition
    if folds_digest(definition) or definition.sinks:
        return False
    return all(
        (edge.mode == "keyed" and edge.source == source)
        or (edge.mode == "same_key" and edge.source in group)
        or (edge.mode in {"whole", "collect"} and edge.source not in group)
        for edge in node.edges
    )


def read_whole(nodes: Sequence[Node], graph: Graph) -> list[NodeId]:
    """Of the nodes, those of which some node reads every key."""
    read = {edge.source for node in graph.nodes.values() for edge in node.edges if edge.mode == "collect"}
    return [node.id for node in nodes if node.id in read]


def signatures(nodes: Sequence[Node], plan: Plan) -> dict[NodeId, str]:
    """Of each node of a group, one hash of everything that its run hashes are made of but the keys' values.

    Args:
        nodes: The group, in topological order.
        plan: A plan in which what the group reads from outside is known.

    Raises:
        Unknown: Something is not known yet.
    """
    inputs = plan.inputs
    found: dict[NodeId, str] = {}
    for node in nodes:
        fields = [("b", FORMAT_VERSION), ("d", inputs.fingerprints[node.id].hash)]
        fields += env_fields(inputs.env.get(node.id, {}))
        for edge in node.edges:
            fields += [("p", edge.parameter), ("m", edge.mode), ("n", edge.source)]
            if edge.mode == "same_key":
                fields.append(("s", found[edge.source]))
                continue
            require_known(edge, inputs, plan.nodes)
            source = plan.nodes[edge.source]
            whole = edge.mode != "keyed"
            fields.append(("i", whole_identity(source, inputs) if whole else keyed_identity(source, inputs)))
        found[node.id] = hash_fields(fields)
    return found


def changed_keys(
    before: pl.DataFrame, now: pl.DataFrame, also: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What changed of what a keyed source returned, in declared order.

    Args:
        before: Frame of `schemas.KEYED`, sorted by key.
        now: Frame of `schemas.KEYED`, sorted by key.
        also: Raw keys.

    Returns:
        Rows of `now` whose key is new, has another value, or is among `also`; and rows of `before` whose key
        is gone or had another value, but for those.
    """
    if same_keys(before, now):
        moved = gone = ~now.get_column(VALUE).eq_missing(before.get_column(VALUE))
    else:
        moved, gone = _unlike(now, before), _unlike(before, now)
    if also:
        moved = moved | now.get_column(KEY).is_in(list(also))
        gone = gone & ~before.get_column(KEY).is_in(list(also))
    return sorted_by(where(now, moved), ORDINAL), sorted_by(where(before, gone), ORDINAL)


def _unlike(rows: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
    """Whether the others have no such key with such a value."""
    pairs = others[[KEY, VALUE]]
    found = rows.join(pairs, on=[KEY, VALUE], how="anti", nulls_equal=True, maintain_order="left")
    return rows.get_column(KEY).is_in(found.get_column(KEY).implode())

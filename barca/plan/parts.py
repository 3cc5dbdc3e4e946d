"""What each input contributes to a node's run hashes, told from a plan in the making."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barca.graph import short_name
from barca.lookup import lookup
from barca.plan.decide import newest, with_rows
from barca.plan.edges import combined_identity, constant_part, folds_digest, keyed_part, same_key_part
from barca.schemas import DIGEST, KEY, MATERIALIZATIONS, RUN_HASH, STATE, empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from barca._typing import NodeId
    from barca.graph import Edge, Node
    from barca.plan.edges import Part
    from barca.plan.inputs import NodePlan, PlanInputs


@dataclass(frozen=True, slots=True)
class Unknown(Exception):
    """Why a node cannot be decided yet."""

    reason: str
    detail: str
    awaits: frozenset[NodeId]


def rows_of(node_id: NodeId, inputs: PlanInputs) -> pl.DataFrame:
    """Rows of `schemas.MATERIALIZATIONS` of a node, none where it never ran."""
    rows = inputs.materialized.get(node_id)
    return empty(MATERIALIZATIONS) if rows is None else rows


def require_decided(source: NodePlan) -> None:
    """Raise `Unknown` for a source that is not decided yet."""
    if source.state == "unknown":
        raise Unknown(source.reason or "partitions_unknown", source.detail or "", source.awaits)


def require_known(edge: Edge, inputs: PlanInputs, decided: Mapping[NodeId, NodePlan]) -> None:
    """Raise `Unknown` unless the input's part of the run hash can be told."""
    source = decided[edge.source]
    require_decided(source)
    if edge.mode == "keyed" or not folds_digest(source.node.definition) or edge.source in inputs.settled:
        return
    sensor = source.node.kind == "sensor"
    if sensor and inputs.predict:
        if with_rows(source.decision, predicted(source, inputs)).height == source.decision.height:
            return
    elif not sensor and not (source.decision.get_column(STATE) != "cached").any():
        return
    name = short_name(edge.source)
    if sensor:
        raise Unknown("sensor_output_unknown", f"depends on what `{name}` returns", frozenset({edge.source}))
    raise Unknown("cutoff_pending", f"depends on whether `{name}` changes", frozenset({edge.source}))


def part(
    edge: Edge, node: Node, inputs: PlanInputs, decided: Mapping[NodeId, NodePlan], keys: pl.DataFrame
) -> Part:
    """An input's part of the run hash of each of a node's `keys`, `schemas.KEYS` with `dim:` columns.

    `require_known` has been asked before.
    """
    source = decided[edge.source]
    if edge.mode == "keyed":
        identity = keyed_identity(source, inputs)
        return keyed_part(edge, keys, source.node, identity, inputs.keyed[edge.source], node.dimensions[0])
    if edge.mode == "same_key":
        rows = _source_rows(source, inputs)
        return same_key_part(edge, keys, source.node, rows, inputs.fingerprints[edge.source].hash)
    return constant_part(edge, keys, whole_identity(source, inputs))


def keyed_identity(source: NodePlan, inputs: PlanInputs) -> str:
    """What of a keyed source is folded into the run hash of every key, besides the key's own value."""
    if source.node.kind == "sensor":
        return inputs.fingerprints[source.node.id].hash
    run_hash: str = source.decision.item(0, RUN_HASH)
    return run_hash


def whole_identity(source: NodePlan, inputs: PlanInputs) -> str:
    """What of a source is folded into the run hash of a node that reads every key of it."""
    unchanged = inputs.unchanged.get(source.node.id)
    if unchanged is not None:
        assert unchanged.collected is not None, "narrowed, though something reads it whole"
        return unchanged.collected
    definition_hash = inputs.fingerprints[source.node.id].hash
    return combined_identity(source.node, _source_rows(source, inputs), definition_hash)


def _source_rows(source: NodePlan, inputs: PlanInputs) -> pl.DataFrame:
    """`key, run_hash, digest` of what a source holds; digests are null where nothing folds them in."""
    if not folds_digest(source.node.definition):
        return source.decision[[KEY, RUN_HASH, DIGEST]]
    rows = predicted(source, inputs) if inputs.predict else rows_of(source.node.id, inputs)
    # a run hash is made of its key, among others, so that it is enough to look for
    return lookup(source.decision[[KEY, RUN_HASH]], rows, [DIGEST], on=RUN_HASH)


def predicted(source: NodePlan, inputs: PlanInputs) -> pl.DataFrame:
    """A source's rows of `schemas.MATERIALIZATIONS`.

    Of a sensor the newest of each key, with the run hash planned: taken for what it will return again.
    """
    rows = rows_of(source.node.id, inputs)
    if source.node.kind != "sensor":
        return rows
    last = newest(rows).drop(RUN_HASH)
    return last.join(source.decision.select(KEY, RUN_HASH), on=KEY, how="inner", maintain_order="left")

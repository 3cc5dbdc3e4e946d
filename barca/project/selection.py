"""A selection against the keys there are: what it may not ask for, and what it leaves nothing of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from barca.errors import SelectionError, did_you_mean
from barca.graph import short_name
from barca.schemas import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barca._typing import NodeId
    from barca.plan.inputs import Plan

SAMPLE = 8
"""At most so many valid values are named where one is wrong."""


def check_selection(plan: Plan, named: Iterable[NodeId]) -> None:
    """Check a selection against the keys that are known before the run.

    Args:
        plan: The plan with the selection.
        named: Nodes that were asked for by name, as targets or to be refreshed.

    Raises:
        SelectionError: A dimension no node of the cone has, a value that is a key of no node, or a node
            that was asked for and that the selection skips.
    """
    for node_id in named:
        if plan.nodes[node_id].state == "skipped":
            raise SelectionError(
                f"the selection skips `{short_name(node_id)}`: it {plan.nodes[node_id].detail}",
                code="selection_skips_target",
                node=node_id,
                remediation="leave the selection out, or ask for the nodes that it narrows",
            )
    for name, values in plan.inputs.selection.items():
        _check_dimension(plan, name, values)


def valid_values(dimension: str, wrong: str, valid: Sequence[str], dimensions: Iterable[str]) -> str:
    """What to select in place of a wrong value: a valid one, or what was written, in another form.

    Args:
        dimension: Of the value.
        wrong: The value.
        valid: Values there are.
        dimensions: Names that a selection may have.
    """
    name, assigned, value = wrong.partition("=")
    if assigned and name in set(dimensions) - {dimension}:
        return f"select each dimension by itself: --partition {name}={value}"
    if whole := next((key for key in valid if "," in key and wrong in key.split(",")), None):
        form = json.dumps({dimension: whole}, ensure_ascii=False)
        return f"a key that holds a comma is selected as JSON: --partition '{form}'"
    return did_you_mean(wrong, valid, limit=SAMPLE)


def selected_nothing(plan: Plan) -> list[str]:
    """Warnings about nodes whose keys become known in the run only, and are not among the selected ones."""
    return [
        f"`{node_id}` has none of the selected keys; it computes nothing ({_valid(plan, node_id)})"
        for node_id, node_plan in plan.nodes.items()
        if node_plan.state == "decided" and node_plan.narrowed and node_plan.decision.is_empty()
    ]


def _valid(plan: Plan, node_id: NodeId) -> str:
    """The closest key to what was selected, and some that there are."""
    origin = _origin(plan, node_id)
    node, inputs = plan.nodes[origin].node, plan.inputs
    for name, values in inputs.selection.items():
        if name in plan.nodes[node_id].node.dimensions:
            returned = inputs.keyed.get(origin)
            declared = inputs.explicit[origin].get(name, ()) if node.partitioned else ()
            keys = declared if returned is None else returned.get_column(KEY).to_list()
            return did_you_mean(values[0], keys, limit=SAMPLE)
    return did_you_mean("", ())


def _check_dimension(plan: Plan, name: str, values: Sequence[str]) -> None:
    nodes = [node_id for node_id, node_plan in plan.nodes.items() if name in node_plan.node.dimensions]
    if not nodes:
        valid = {dim for node_plan in plan.nodes.values() for dim in node_plan.node.dimensions}
        raise SelectionError(
            f"no node of this run has the dimension `{name}`",
            code="unknown_dimension",
            remediation=did_you_mean(name, sorted(valid)),
        )
    origins = dict.fromkeys(_origin(plan, node_id) for node_id in nodes)
    declared = [_keys_of(plan, origin, name) for origin in origins]
    wrong = set(values)
    for keys in declared:
        if keys is None:
            return  # known in the run only: what it does not have is a warning then
        wrong.difference_update(keys)
    if wrong:
        first = next(value for value in values if value in wrong)
        sample = list(dict.fromkeys(key for keys in declared if keys for key in keys))
        raise SelectionError(
            f"`{first}` is not a key of `{name}`",
            code="unknown_key",
            remediation=valid_values(
                name, first, sample, (dim for one in plan.nodes.values() for dim in one.node.dimensions)
            ),
        )


def _origin(plan: Plan, node_id: NodeId) -> NodeId:
    """The node that declares a node's keys, or that returns them."""
    source = plan.nodes[node_id].node.keys_from
    return node_id if source is None else _origin(plan, source)


def _keys_of(plan: Plan, origin: NodeId, name: str) -> Sequence[str] | None:
    """Values of a dimension, or `None` while they are not known: a sensor may return others in each run."""
    node = plan.nodes[origin].node
    if node.partitioned:
        return plan.inputs.explicit[origin][name]
    returned = plan.inputs.keyed.get(origin)
    return None if returned is None or node.kind == "sensor" else returned.get_column(KEY).to_list()

"""Describing works: which fragments each parameter of a call receives."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import polars as pl

from barca.exec.queues import own_fragments, without_hashes
from barca.model import InputBinding, Work
from barca.plan.parts import rows_of
from barca.project.narrowing import require_results
from barca.records import replace
from barca.schemas import FORMAT, FRAGMENTS, KEY, PATH, VALUE, dimensions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barca._typing import Engine, NodeId
    from barca.exec.queues import Ready
    from barca.graph import Edge, Node
    from barca.model import FunctionRef
    from barca.plan.inputs import NodePlan, Plan


class WorkMaker:
    """Makes the works of one run.

    Args:
        run_id: The run.
        function: Where a worker finds a node's function.
        variables: Environment variables set around calls.
        engine: Collects returned LazyFrames of nodes that do not choose.
        plan: Gives the current plan.
        whole: Gives it with every key.
    """

    def __init__(
        self,
        run_id: str,
        function: Callable[[NodeId], FunctionRef],
        variables: Mapping[str, str],
        engine: Engine,
        plan: Callable[[], Plan],
        whole: Callable[[], Plan],
    ) -> None:
        self._run_id = run_id
        self._function = function
        self._variables = variables
        self._engine = engine
        self._plan = plan
        self._whole = whole
        self._collected: dict[tuple[NodeId, str], pl.DataFrame] = {}

    def __call__(
        self,
        *,
        id: str,  # noqa: A002 - the field's name
        plan: NodePlan,
        ready: Ready,
        calls: tuple[tuple[str, int], ...],
        budget_seconds: float | None,
        held: Callable[[NodeId], pl.DataFrame],
    ) -> Work:
        """A work over the keys of `ready`, its inputs out of what each source holds."""
        node = plan.node
        definition = node.definition
        bindings = [self._bind(edge, plan, ready, held) for edge in node.edges if edge.passed]
        return Work(
            id=id,
            run_id=self._run_id,
            node=node.id,
            function=replace(
                self._function(node.id),
                definition_hash=self._plan().inputs.fingerprints[node.id].hash,
            ),
            batched=definition.batch is not None,
            keys=ready.keys,
            dimensions=node.dimensions,
            inputs=tuple(binding for binding in bindings if binding is not None),
            keyed=node.keyed,
            gives=node.gives,
            before=self._before(node.id) if node.keyed else None,
            serializer=definition.serializer,
            engine=definition.engine or self._engine,
            timeout_seconds=definition.timeout_seconds,
            calls=calls,
            budget_seconds=budget_seconds,
            attempt=ready.attempt,
            parent=ready.parent,
            env=self._variables,
        )

    def _before(self, node_id: NodeId) -> pl.DataFrame | None:
        """What a keyed source returned the last time, `None` if it never ran, or is to be stored anew.

        Of a pack that is taken for an equal one not everything is read: a refresh mends one that is damaged.
        """
        inputs = self._plan().inputs
        rows = rows_of(node_id, inputs).tail(1)[list(FRAGMENTS)]
        anew = inputs.refresh_all or node_id in inputs.refresh
        return None if anew or rows.is_empty() else rows

    def _bind(
        self, edge: Edge, plan: NodePlan, ready: Ready, held: Callable[[NodeId], pl.DataFrame]
    ) -> InputBinding | None:
        source = self._plan().nodes[edge.source]
        names = source.node.dimensions
        if edge.mode == "keyed":
            returned = self._plan().inputs.keyed[edge.source]
            valueless = returned.get_column(VALUE).null_count() == returned.height
            if valueless and not _is_required(plan.node, edge.parameter):
                return None  # a list source has keys, and no values to pass
            return InputBinding(edge.parameter, edge.source, "value", held(edge.source), plan.node.dimensions)
        if edge.mode == "same_key":
            fragments = ready.inputs.get(edge.source)
            if fragments is None:
                fragments = own_fragments(ready.keys, held(edge.source), names)
            return InputBinding(edge.parameter, edge.source, "same_key", fragments, names)
        if edge.mode == "collect":
            place = (plan.node.id, edge.parameter)
            if place not in self._collected:
                # in key order, not as declared: that order is no part of the run hash
                fragments = held(edge.source)
                if source.unchanged:
                    source = self._whole().nodes[edge.source]
                    fragments = source.decision.select(list(FRAGMENTS)).drop_nulls(PATH)
                    require_results(edge.source, source.decision.height, fragments.height)
                columns = source.decision.select(KEY, *dimensions(names))
                self._collected[place] = columns.join(
                    without_hashes(fragments), on=KEY, how="inner", maintain_order="left"
                ).sort(KEY)
            collected = self._collected[place]
            template = self._template(source) if collected.is_empty() else None
            return InputBinding(edge.parameter, edge.source, "collect", collected, names, template)
        return InputBinding(edge.parameter, edge.source, "whole", held(edge.source)[list(FRAGMENTS)])

    def _template(self, source: NodePlan) -> pl.DataFrame | None:
        """The newest table that the source ever stored, with its dimensions; `None` if there is none."""
        rows = rows_of(source.node.id, self._plan().inputs).filter(pl.col(FORMAT) == "table").tail(1)
        if rows.is_empty():
            return None
        names = source.node.dimensions
        return rows.select(
            *(pl.lit("").alias(column) for column in dimensions(names)), *(pl.col(name) for name in FRAGMENTS)
        )


def _is_required(node: Node, parameter: str) -> bool:
    """Whether a function cannot be called without a parameter."""
    declared = inspect.signature(node.definition.function).parameters.get(parameter)
    return declared is not None and declared.default is declared.empty

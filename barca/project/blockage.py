"""Which missing keys cannot be computed before something they read is: what a failure holds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.graph import short_name
from barca.lookup import lookup
from barca.records import Record
from barca.schemas import ERROR_MESSAGE, KEY, NODE, RUN_HASH

if TYPE_CHECKING:
    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan, Plan


class _Held(Record):
    """What of a node is held up.

    Attributes:
        failed: `key, error_message` of missing keys whose newest attempt failed.
        waiting: `key` of missing keys that read one of those, or one that waits itself.
        why: For people: on what they wait.
    """

    failed: pl.DataFrame
    waiting: pl.DataFrame
    why: str

    @property
    def lost(self) -> pl.DataFrame:
        """`key` of every key that has no result and will not get one by itself."""
        return pl.concat([self.failed.select(KEY), self.waiting])


class Blockage:
    """What failures hold up, node by node down the graph.

    Args:
        plan: A forecast over the nodes.
        failures: Ledger rows of attempts that failed and that nothing later replaced:
            `node, key, run_hash, error_message`.
    """

    def __init__(self, plan: Plan, failures: pl.DataFrame) -> None:
        self._plan = plan
        self._failures = failures
        self._held: dict[NodeId, _Held] = {}
        for node_id, node_plan in plan.nodes.items():
            if node_plan.state == "decided":
                self._held[node_id] = self._hold(node_plan)

    def failed(self, node_id: NodeId) -> pl.DataFrame:
        """`key, error_message: String` of the node's missing keys whose newest attempt failed."""
        return self._held[node_id].failed

    def why(self, node_id: NodeId) -> str | None:
        """Why every missing key of a node waits for another node's, or `None` when some do not."""
        held = self._held[node_id]
        missing = self._plan.nodes[node_id].running.height
        if not missing or held.waiting.height < missing:
            return None
        if not self._plan.nodes[node_id].node.partitioned:
            return f"waits on {held.why}"
        return f"{missing} of {missing} missing keys wait on {held.why}"

    def _hold(self, node_plan: NodePlan) -> _Held:
        missing = node_plan.running[[KEY]]
        if missing.is_empty():
            nothing = missing.with_columns(pl.lit(None, pl.String).alias(ERROR_MESSAGE))
            return _Held(nothing, missing, "")
        hashes = lookup(missing, node_plan.decision, [RUN_HASH])
        own = self._failures.filter(pl.col(NODE) == node_plan.node.id).select(KEY, RUN_HASH, ERROR_MESSAGE)
        failed = hashes.join(own, on=[KEY, RUN_HASH], maintain_order="left").drop(RUN_HASH)
        waits: dict[str, pl.DataFrame] = {}
        for edge in node_plan.node.edges:
            source = self._held.get(edge.source)
            if source is None or source.lost.is_empty():
                continue
            by_key = edge.mode == "same_key"
            here = missing.join(source.lost, on=KEY, how="semi", maintain_order="left") if by_key else missing
            if here.height:
                waits[self._cause(edge.source, by_key=by_key)] = here
        held_up = pl.concat([missing.clear(), *waits.values()]).unique()
        waiting = held_up.join(failed, on=KEY, how="anti", maintain_order="left")
        return _Held(failed.sort(KEY), waiting, " and ".join(waits))

    def _cause(self, source: NodeId, *, by_key: bool) -> str:
        """`'a': the same keys of it failed`, and so on."""
        failed = self._held[source].failed.height
        name = f"'{short_name(source)}'"
        if not self._plan.nodes[source].node.partitioned:
            return f"{name}, which {'failed' if failed else 'waits too'}"
        which = "the same" if by_key else "some"
        return f"{name}: {which} keys of it {'failed' if failed else 'wait too'}"

"""Why the keys of a target run, or don't: the plan, and what of the code changed since the last success."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.lookup import lookup
from barca.partitions import display_text
from barca.plan.decide import newest
from barca.plan.explain import changes
from barca.plan.parts import rows_of
from barca.project.phases import selection_report
from barca.schemas import (
    CHANGED,
    CREATED_AT,
    DEFINITION_HASH,
    ERROR_MESSAGE,
    KEY,
    NODE,
    REASON,
    RUN_HASH,
    RUN_ID,
    STATE,
)

if TYPE_CHECKING:
    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan
    from barca.project.blockage import Blockage
    from barca.project.forecast import Forecast

SHOWN_KEYS: Final = 20
"""At most so many keys of the target are told one by one, in lexical order."""

_LAST_RUN: Final = "last_run_id"
_LAST_AT: Final = "last_created_at"


class Explanation:
    """Why the keys of a target run, or don't; nothing was executed and nothing written.

    Attributes:
        target: Node id.
        forecast: What a run of the target would do.
        blockage: What failed before, and what that holds up.
    """

    def __init__(self, target: NodeId, forecast: Forecast, blockage: Blockage) -> None:
        self.target = target
        self.forecast = forecast
        self.blockage = blockage

    def __repr__(self) -> str:
        return f"<Explanation of {self.target}>"

    def _repr_html_(self) -> str:
        from barca.render.html import explanation_html

        return explanation_html(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The target, then what it reads, nearest first, as JSON-writable values."""
        plan = self.forecast.plan
        below = [self._node(node_plan) for node_plan in reversed(list(plan.nodes.values()))]
        below.sort(key=lambda node: node["id"] != self.target)
        told: dict[str, Any] = {
            "target": self.target,
            "nodes": below,
            "keys": self._keys(plan.nodes[self.target]),
            "warnings": self.forecast.warnings,
        }
        if (selection := selection_report(plan)) is not None:
            told["partition_selection"] = selection
        return told

    def _node(self, node_plan: NodePlan) -> dict[str, Any]:
        return {
            **self.forecast.step(node_plan),
            "inputs": [
                {"parameter": edge.parameter, "source": edge.source, "mode": edge.mode}
                for edge in node_plan.node.edges
            ],
            "definition": self._definition(node_plan),
            "blocked": self.blockage.why(node_plan.node.id) if node_plan.state == "decided" else None,
        }

    def _definition(self, node_plan: NodePlan) -> dict[str, Any] | None:
        """How the definition differs from that of the last success; `None` before the first.

        Of several keys, that of the newest one whose definition differs: others may be up to date already.
        """
        inputs = self.forecast.plan.inputs
        node_id = node_plan.node.id
        rows = rows_of(node_id, inputs)
        if node_plan.decision.height:
            own = rows.join(node_plan.decision.select(KEY), on=KEY, how="semi", maintain_order="left")
            rows = own if own.height else rows
        if rows.is_empty():
            return None
        now = inputs.fingerprints[node_id]
        running = node_plan.decision.filter(pl.col(STATE) == "stale").select(KEY)
        older = newest(rows).join(running, on=KEY, how="semi", maintain_order="left")
        older = older.filter(pl.col(DEFINITION_HASH) != now.hash)
        (last,) = (older if older.height else rows).tail(1).iter_rows(named=True)
        told = {
            "run_id": last[RUN_ID],
            "created_at": last[CREATED_AT].isoformat(),
            "changed": False,
            "diff": None,
        }
        if last[DEFINITION_HASH] == now.hash:
            return told
        stored = inputs.definitions.filter(
            (pl.col(NODE) == node_id) & (pl.col(DEFINITION_HASH) == last[DEFINITION_HASH])
        )
        if stored.is_empty():
            return {**told, "changed": True}
        lines = difflib.unified_diff(
            stored.item(-1, "source").splitlines(),
            now.source.splitlines(),
            f"{node_id} at the last success",
            f"{node_id} now",
            lineterm="",
        )
        return {**told, "changed": True, "diff": "\n".join(lines)}

    def _keys(self, node_plan: NodePlan) -> list[dict[str, Any]]:
        """State and reason of the first keys of the target; those that run before others."""
        if node_plan.state != "decided":
            return []
        plan = self.forecast.plan
        last = newest(rows_of(self.target, plan.inputs)).select(
            KEY, pl.col(RUN_ID).alias(_LAST_RUN), pl.col(CREATED_AT).alias(_LAST_AT)
        )
        shown = (
            node_plan.decision.sort(pl.col(STATE) == "cached", KEY)
            .head(SHOWN_KEYS)
            .select(KEY, STATE, REASON, RUN_HASH)
        )
        failed = self.blockage.failed(self.target)
        told = lookup(shown, failed, [ERROR_MESSAGE])
        told = lookup(told, changes(plan, self.target, shown.get_column(KEY)), [CHANGED])
        told = lookup(told, last, [_LAST_RUN, _LAST_AT])
        return [
            {
                "key": display_text(row[KEY]) or None,
                STATE: row[STATE],
                REASON: row[REASON],
                CHANGED: row[CHANGED] or [],
                RUN_HASH: row[RUN_HASH],
                "error": row[ERROR_MESSAGE],
                "last_success": row[_LAST_AT]
                and {RUN_ID: row[_LAST_RUN], CREATED_AT: row[_LAST_AT].isoformat()},
            }
            for row in told.sort(KEY).iter_rows(named=True)
        ]

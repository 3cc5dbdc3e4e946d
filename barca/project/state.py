"""The state of every node: what is cached, what is stale and why, what is blocked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.graph import short_name
from barca.partitions import display_keys
from barca.plan.explain import PREVIEW, changes, summarise
from barca.plan.parts import rows_of
from barca.project.blockage import Blockage
from barca.project.listing import outline
from barca.project.results import why_counts
from barca.schemas import (
    CHANGED,
    CREATED_AT,
    DIGEST,
    ELAPSED_SECONDS,
    ERROR_MESSAGE,
    ERROR_TYPE,
    FORMAT,
    KEY,
    NODE,
    ROWS,
    RUN_HASH,
    SIZE_BYTES,
    STATE,
    STATUS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca._typing import NodeId
    from barca.plan.inputs import NodePlan, Plan
    from barca.ports import LedgerReader

NODE_STATES = ("cached", "stale", "never_run", "partial", "unknown", "always_runs", "blocked")
"""States of a node; `summary` counts each."""


class Status:
    """The state of every node in scope; nothing was executed.

    Args:
        plan: A forecast over the nodes.
        failures: Ledger rows of attempts that failed and that nothing later replaced:
            `node, key, run_hash, error_message`.
        latest: Per node the row of `schemas.MATERIALIZATIONS` of its newest result.
    """

    def __init__(self, plan: Plan, failures: pl.DataFrame, latest: Mapping[NodeId, pl.DataFrame]) -> None:
        self.plan = plan
        self._blockage = Blockage(plan, failures)
        self._latest = latest

    def __repr__(self) -> str:
        counts = self.to_dict()["summary"]
        return "<Status: " + (", ".join(f"{n} {name}" for name, n in counts.items() if n) or "no nodes") + ">"

    def _repr_html_(self) -> str:
        from barca.render.html import status_html

        return status_html(self.to_dict(), outline(self.plan.inputs.graph, self.plan.nodes))

    @property
    def frame(self) -> pl.DataFrame:
        """One row per node: `id, kind, state, reason: String, total, cached, missing: Int64`."""
        schema = {
            "id": pl.String,
            "kind": pl.String,
            "state": pl.String,
            "reason": pl.String,
            "total": pl.Int64,
            "cached": pl.Int64,
            "missing": pl.Int64,
        }
        rows = []
        for node in self.to_dict()["nodes"]:
            counts = node["partitions"] or {}
            rows.append(
                {
                    "id": node["id"],
                    "kind": node["kind"],
                    "state": node["cache"]["state"],
                    "reason": node["cache"]["reason"],
                    **{name: counts.get(name) for name in ("total", "cached", "missing")},
                }
            )
        return pl.DataFrame(rows, schema=schema)

    def to_dict(self) -> dict[str, Any]:
        """Every node as JSON-writable values, with a summary that counts the states."""
        nodes = [self._node(node_plan) for node_plan in self.plan.nodes.values()]
        counts = Counter(node["cache"]["state"] for node in nodes)
        return {
            "nodes": nodes,
            "summary": {state: counts[state] for state in NODE_STATES},
            "total": len(nodes),
            "truncated": False,
            "load_errors": [error.to_dict() for error in self.plan.inputs.graph.load_errors],
        }

    def _node(self, node_plan: NodePlan) -> dict[str, Any]:
        node = node_plan.node
        rows = rows_of(node.id, self.plan.inputs)
        changed = changes(self.plan, node.id)
        return {
            "id": node.id,
            "name": short_name(node.id),
            "kind": node.kind,
            "partitioned": node.partitioned,
            "cache": self._cache(node_plan, rows, changed),
            "partitions": self._partitions(node_plan, changed) if node.partitioned else None,
            "last_materialization": _last(self._latest[node.id]),
            "shape": self._shape(node_plan),
            "inputs": [
                {"parameter": edge.parameter, "source": edge.source, "mode": edge.mode} for edge in node.edges
            ],
            "env": list(node.definition.env),
        }

    def _cache(self, node_plan: NodePlan, rows: pl.DataFrame, changed: pl.DataFrame) -> dict[str, Any]:
        summary = summarise(node_plan)
        cache: dict[str, Any] = {
            "reason": summary.reason,
            "detail": node_plan.detail,
            "changed": [],
            "failed": False,
        }
        if node_plan.node.kind in {"sensor", "task"} or summary.reason == "always":
            return {**cache, "state": "always_runs", **self._last_failure(node_plan)}
        if node_plan.state != "decided":
            return {**cache, "state": "unknown"}
        if summary.will_run == 0:
            return {**cache, "state": "cached"}
        return {**cache, **self._missing(node_plan, rows, changed, partly=summary.cached > 0)}

    def _last_failure(self, node_plan: NodePlan) -> dict[str, Any]:
        """What the newest attempt of a node that always runs failed with, if it did."""
        if node_plan.state != "decided":
            return {}
        failed = self._blockage.failed(node_plan.node.id)
        return _failure(node_plan, failed, "keys") if failed.height else {}

    def _missing(
        self, node_plan: NodePlan, rows: pl.DataFrame, changed: pl.DataFrame, *, partly: bool
    ) -> dict[str, Any]:
        """State, and what goes with it, of a node with keys that must run."""
        node = node_plan.node
        failed = self._blockage.failed(node.id)
        if failed.height:
            state = "partial" if partly else "stale"
            return {"state": state, **_failure(node_plan, failed, "missing keys")}
        if (blocked := self._blockage.why(node.id)) is not None:
            return {"state": "blocked", "reason": "upstream_failed", "detail": blocked}
        names = (
            changed.get_column(CHANGED).explode(empty_as_null=False).drop_nulls().unique().sort().to_list()
        )
        return {"state": "partial" if partly else "stale" if rows.height else "never_run", "changed": names}

    def _shape(self, node_plan: NodePlan) -> dict[str, Any] | None:
        """Rows that the cached keys hold, where they are tables."""
        if node_plan.state != "decided":
            return None
        tables = node_plan.decision.filter((pl.col(STATE) == "cached") & (pl.col(FORMAT) == "table"))
        keys, rows = tables.height, int(tables.get_column(ROWS).sum())
        if (unchanged := self.plan.inputs.unchanged.get(node_plan.node.id)) is not None:
            keys, rows = keys + unchanged.table_keys, rows + unchanged.table_rows
        return {"rows": rows, "keys": keys} if keys else None

    def _partitions(self, node_plan: NodePlan, changed: pl.DataFrame) -> dict[str, Any]:
        summary = summarise(node_plan)
        stale = node_plan.decision.filter(pl.col(STATE) == "stale") if summary.will_run else None
        missing = summary.will_run
        shown = display_keys(stale.get_column(KEY).bottom_k(PREVIEW).sort()) if stale is not None else []
        return {
            "total": None if node_plan.keys is None else summary.total,
            "cached": summary.cached,
            "missing": missing,
            "missing_keys": shown,
            **why_counts(node_plan, summary, changed),
        }


def _failure(node_plan: NodePlan, failed: pl.DataFrame, keys: str) -> dict[str, Any]:
    """What the newest attempts of a node failed with; of a partitioned one, how many of which keys did."""
    detail = str(failed.item(0, ERROR_MESSAGE))
    if node_plan.node.partitioned:
        first = ", the first" if failed.get_column(ERROR_MESSAGE).n_unique() > 1 else ""
        detail = f"{failed.height} of {node_plan.running.height} {keys} failed{first}: {detail}"
    return {"failed": True, "detail": detail}


def unresolved(reader: LedgerReader) -> pl.DataFrame:
    """Failures that no success of the same run hash followed, the last per (node, key, run_hash).

    Returns:
        `node, key, run_hash, status, error_message: String`; the message begins with the type of the error.
    """
    identity = [NODE, KEY, RUN_HASH]
    # some errors say nothing but their type
    told = pl.format("{}: {}", ERROR_TYPE, ERROR_MESSAGE).str.strip_suffix(": ")
    rows = reader.scan("materializations").select(
        *identity, STATUS, pl.coalesce(told, ERROR_MESSAGE).alias(ERROR_MESSAGE)
    )
    failed = pl.col(STATUS) == "failed"
    found = rows.filter(failed).collect(engine="in-memory")
    if found.is_empty():
        return found
    keys = found.get_column(KEY).unique()
    ended = rows.filter(pl.col(KEY).is_in(keys.implode())).collect(engine="in-memory")
    return ended.unique(identity, keep="last", maintain_order=True).filter(failed)


def _last(rows: pl.DataFrame) -> Mapping[str, Any] | None:
    if rows.is_empty():
        return None
    row = rows.row(0, named=True)
    return {
        "run_hash": row[RUN_HASH],
        "content_hash": row[DIGEST],
        "created_at": row[CREATED_AT].isoformat(),
        "elapsed_seconds": row[ELAPSED_SECONDS],
        "status": row[STATUS],
        "format": row[FORMAT],
        "size_bytes": row[SIZE_BYTES],
    }

"""Small worlds for the planner: definitions without bodies, ledgers without files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from barca import schemas as s
from barca.graph import Graph, build_graph
from barca.hashing import hash_text
from barca.model import Fingerprint
from barca.plan import Plan, PlanInputs, build_plan
from barca.plan.build import sources_to_load
from barca.records import replace


@dataclass
class Planner:
    """A graph with a ledger in Python: what ran is remembered as (node, key, run hash) rows.

    `declared` gives dimensions other keys than the definitions say.
    """

    graph: Graph
    keyed: dict[str, pl.DataFrame] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    env: dict[str, dict[str, str | None]] = field(default_factory=dict)
    digests: dict[tuple[str, str], str] = field(default_factory=dict)
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _frames: dict[str, tuple[int, pl.DataFrame]] = field(default_factory=dict)

    def returned(self, node: str, values: dict[str, str]) -> None:
        """What a keyed source returns from now on: key to canonical JSON."""
        self.keyed[node] = pl.DataFrame(
            {"key": list(values), "value": list(values.values()), "ordinal": range(len(values))},
            schema=s.KEYED,
        )

    def fingerprints(self) -> dict[str, Fingerprint]:
        return {
            node: Fingerprint(
                self.code.get(node, f"code of {node}"), {"function": self.code.get(node, "")}, ""
            )
            for node in self.graph.nodes
        }

    def materialized(self) -> dict[str, pl.DataFrame]:
        for node, rows in self.rows.items():
            known, frame = self._frames.get(node, (0, s.empty(s.MATERIALIZATIONS)))
            if known < len(rows):  # rows are only ever added
                both = pl.concat([frame, pl.DataFrame(rows[known:], schema=s.MATERIALIZATIONS)])
                frame = both.unique(["key", "run_hash"], keep="last", maintain_order=True)
                self._frames[node] = len(rows), frame
        return {node: self._frames[node][1] for node in self.rows}

    def inputs(self, *targets: str, **options: Any) -> PlanInputs:
        explicit = {
            node.id: {name: self.declared.get(name, one.values) for name, one in node.explicit.items()}
            for node in self.graph.nodes.values()
        }
        return PlanInputs(
            graph=self.graph,
            targets=targets,
            fingerprints=self.fingerprints(),
            env=self.env,
            explicit=explicit,
            materialized=self.materialized(),
            definitions=s.empty(s.DEFINITIONS),
            **options,
        )

    def plan(self, *targets: str, **options: Any) -> Plan:
        """A forecast, stored sources read."""
        plan = build_plan(self.inputs(*targets, predict=True, **options))
        while loads := sources_to_load(plan):
            keyed = {**plan.inputs.keyed, **{node: self.keyed[node] for node in loads}}
            plan = build_plan(replace(plan.inputs, keyed=keyed), plan)
        return plan

    def run(
        self, *targets: str, fail: dict[str, set[str]] | None = None, **options: Any
    ) -> dict[str, list[str]]:
        """Run a plan to its end in Python: node to the keys that ran.

        `fail`: node to keys that fail when they run; what reads them is held up as the runner does it.
        """
        lost: dict[str, set[str]] = {node: set(keys) for node, keys in (fail or {}).items()}
        whole: set[str] = set()
        plan = build_plan(self.inputs(*targets, **options))
        ran: dict[str, list[str]] = {}
        settled: set[str] = set()
        while True:
            before = len(settled)
            for node_id, node_plan in plan.nodes.items():
                if node_plan.state != "decided" or node_id in settled:
                    continue
                running = node_plan.calls.join(
                    node_plan.decision, on="key", how="left", maintain_order="left"
                )
                held = self._held(node_id, set(running["key"]), lost, whole)
                if node_plan.decision["run_hash"].null_count():  # it reads the content of what failed
                    whole.add(node_id)
                for row in running.iter_rows(named=True):
                    if row["key"] in held:
                        continue
                    ran.setdefault(node_id, []).append(row["key"])
                    self.remember(node_id, row["key"], row["run_hash"], row["input_hashes"])
                settled.add(node_id)
            if len(settled) == before:
                return ran
            keyed = {n: self.keyed[n] for n in settled if self.graph.nodes[n].keyed}
            inputs = replace(
                plan.inputs, settled=frozenset(settled), keyed=keyed, materialized=self.materialized()
            )
            plan = build_plan(inputs, plan)

    def _held(self, node_id: str, running: set[str], lost: dict[str, set[str]], whole: set[str]) -> set[str]:
        """Keys of those that should run that do not get a result, because they fail or read what does not.

        `lost` and `whole` (nodes with such a key) are brought up to date.
        """
        held = running & lost.get(node_id, set())
        for edge in self.graph.nodes[node_id].edges:
            if edge.mode == "same_key":
                held |= running & lost.get(edge.source, set()) if edge.source in whole else set()
            elif edge.source in whole:
                held |= running
        lost[node_id] = held
        if held:
            whole.add(node_id)
        return held

    def remember(self, node: str, key: str, run_hash: str, input_hashes: list[int]) -> None:
        content = self.digests.get((node, key), f"content {run_hash}")
        if node in self.keyed:
            content = "keyed " + repr(sorted(self.keyed[node].select("key", "value").rows()))
        self.rows.setdefault(node, []).append(
            {
                "node": node,
                "key": key,
                "run_hash": run_hash,
                "format": "json",
                "path": f"{node}/{key}/{run_hash}.parquet",
                "row_offset": 0,
                "rows": 1,
                "size_bytes": 1,
                "digest": hash_text(content),
                "status": "success",
                "definition_hash": self.fingerprints()[node].hash,
                "env_hash": "{}",
                "input_hashes": input_hashes,
            }
        )


def graph_of(*definitions: Any) -> Graph:
    return build_graph([(d.function.__name__, d) for d in definitions])

"""What a run leaves behind as it goes: ledger rows, events, the first failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from barca import events
from barca.exec.records import call_row, definition_row, materialization_rows
from barca.exec.report import Failure
from barca.partitions import display_text
from barca.plan.edges import folds_digest
from barca.schemas import (
    CALL_RECORDS,
    DEFINITION_HASH,
    ERROR_MESSAGE,
    ERROR_TYPE,
    FRAGMENTS,
    KEY,
    MATERIALIZATIONS,
    NODE,
    TRACEBACK,
    empty,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barca._typing import NodeId
    from barca.model import Work, WorkResult
    from barca.plan.inputs import NodePlan, PlanInputs
    from barca.ports import Clock, LedgerWriter, Listener

SHOWN_FAILURES: Final = 5
"""At most so many failed keys of a node are told one by one."""


class Journal:
    """Records of one run.

    Args:
        writer: The ledger's writing side.
        clock: The time.
        listener: Receives events.

    Attributes:
        failure: The first failure, or `None`.
        warnings: What calls warned of, each once.
    """

    def __init__(self, writer: LedgerWriter, clock: Clock, listener: Listener) -> None:
        self._writer = writer
        self._clock = clock
        self.tell = listener
        self.failure: Failure | None = None
        self.warnings: list[str] = []
        self._rows: dict[NodeId, list[pl.DataFrame]] = {}
        self._shown: dict[NodeId, int] = {}
        self._defined: set[NodeId] = set()

    def rows(self, nodes: Iterable[NodeId]) -> dict[NodeId, pl.DataFrame]:
        """Rows of `schemas.MATERIALIZATIONS` that the nodes' successes got in this run."""
        return {node: pl.concat([empty(MATERIALIZATIONS), *self._rows.get(node, [])]) for node in nodes}

    def succeeded(
        self, plan: NodePlan, inputs: PlanInputs, work: Work, outcomes: pl.DataFrame, fragments: pl.DataFrame
    ) -> None:
        """Keys that have a result."""
        self._define(plan, inputs)
        rows = self._append(plan, inputs, work, outcomes, fragments)
        if plan.node.keyed or folds_digest(plan.node.definition):
            # other nodes are decided by what this one returned; of the rest nobody asks again
            self._rows.setdefault(plan.node.id, []).append(rows)
        self.tell(events.KeysDone(plan.node.id, rows.height, 0))

    def failed(self, plan: NodePlan, inputs: PlanInputs, work: Work, outcomes: pl.DataFrame) -> None:
        """Keys that are given up."""
        node_id = plan.node.id
        self._append(plan, inputs, work, outcomes, empty(FRAGMENTS))
        self.tell(events.KeysDone(node_id, 0, outcomes.height))
        for row in outcomes.head(SHOWN_FAILURES - self._shown.get(node_id, 0)).iter_rows(named=True):
            self._shown[node_id] = self._shown.get(node_id, 0) + 1
            error_type, message = row[ERROR_TYPE] or "", row[ERROR_MESSAGE] or ""
            self.tell(events.KeyFailed(node_id, display_text(row[KEY]), error_type, message))
            self.failure = self.failure or Failure(
                node=node_id,
                key=row[KEY],
                error_type=error_type,
                message=message,
                traceback=row[TRACEBACK],
            )

    def called(self, work: Work, result: WorkResult | None, status: str, elapsed_seconds: float) -> None:
        """A work that ended, with an answer or without."""
        if result is not None:
            self.warnings += [warning for warning in result.warnings if warning not in self.warnings]
        self._writer.append("calls", call_row(work, result, status, elapsed_seconds, self._clock.now()))

    def tick(self) -> None:
        """Commit what has waited long enough, though nothing new ended."""
        self._writer.append("calls", empty(CALL_RECORDS))

    def flush(self) -> None:
        """Commit everything."""
        self._writer.flush()

    def _append(
        self, plan: NodePlan, inputs: PlanInputs, work: Work, outcomes: pl.DataFrame, fragments: pl.DataFrame
    ) -> pl.DataFrame:
        node_id = plan.node.id
        rows = materialization_rows(
            plan,
            inputs.fingerprints[node_id],
            inputs.env.get(node_id, {}),
            work,
            outcomes,
            fragments,
            self._clock.now(),
        )
        self._writer.append("materializations", rows)
        return rows

    def _define(self, plan: NodePlan, inputs: PlanInputs) -> None:
        """Keep a definition's source and components the first time it runs."""
        node_id = plan.node.id
        if node_id in self._defined:
            return
        self._defined.add(node_id)
        fingerprint = inputs.fingerprints[node_id]
        known = inputs.definitions.filter(
            (pl.col(NODE) == node_id) & (pl.col(DEFINITION_HASH) == fingerprint.hash)
        )
        if known.is_empty():
            self._writer.append("definitions", definition_row(plan, fingerprint, self._clock.now()))

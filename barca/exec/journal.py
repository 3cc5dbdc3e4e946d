"""What a run leaves behind as it goes: ledger rows, events, the first failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca import events
from barca.errors import error_text
from barca.exec.records import Ended, call_rows, definition_row, materialization_rows
from barca.exec.report import Failure, NodeReport, RunReport
from barca.frames import where
from barca.model import WorkResult
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
    OUTCOME_STATUSES,
    STATUS,
    TRACEBACK,
    empty,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from barca._typing import NodeId
    from barca.model import Work, WorkerDied
    from barca.plan.inputs import NodePlan, Plan, PlanInputs
    from barca.ports import Clock, LedgerWriter, Listener

GROUP_SECONDS: Final = 0.5
"""What ended is committed this long after the oldest of it, or later where the disk is slow."""

LONGEST_SECONDS: Final = 5.0
"""What ended waits no longer than this in a run that has been going on for long, where the disk is quick."""

GROUP_ROWS: Final = 150_000
"""What ended is committed once it is so many rows."""

_PARTS: Final = 3
"""A run that is killed has lost about one part in so many of its time, at most."""

_COSTS: Final = 8
"""Committing takes about one part in so many of the time, at most."""

SHOWN_FAILURES: Final = 5
"""At most so many failed keys of a node are told one by one."""


class Journal:
    """Records of one run, brought to the ledger together: what a single call costs is putting it on a list.

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
        self._ended: dict[NodeId, tuple[NodePlan, PlanInputs, list[Ended]]] = {}
        self._calls: list[dict[str, Any]] = []
        self._waiting = 0
        self._since: float | None = None
        self._patience = GROUP_SECONDS
        self._begun = clock.monotonic()
        self._rows: dict[NodeId, list[pl.DataFrame]] = {}
        self._shown: dict[NodeId, int] = {}
        self._defined: set[NodeId] = set()

    def rows(self, nodes: Iterable[NodeId]) -> dict[NodeId, pl.DataFrame]:
        """Rows of `schemas.MATERIALIZATIONS` that the nodes' successes got in this run."""
        self._hand_over()
        return {node: pl.concat([empty(MATERIALIZATIONS), *self._rows.get(node, [])]) for node in nodes}

    def succeeded(
        self, plan: NodePlan, inputs: PlanInputs, work: Work, outcomes: pl.DataFrame, fragments: pl.DataFrame
    ) -> None:
        """Keys that have a result: their `schemas.OUTCOMES` and `schemas.FRAGMENTS`."""
        self._note(plan, inputs, Ended(work, outcomes, fragments))
        self.tell(events.KeysDone(plan.node.id, outcomes.height, 0))

    def failed(self, plan: NodePlan, inputs: PlanInputs, work: Work, outcomes: pl.DataFrame) -> None:
        """Keys that are given up: their `schemas.OUTCOMES`."""
        node_id = plan.node.id
        self._note(plan, inputs, Ended(work, outcomes, empty(FRAGMENTS)))
        self.tell(events.KeysDone(node_id, 0, outcomes.height))
        for row in outcomes.head(SHOWN_FAILURES - self._shown.get(node_id, 0)).iter_rows(named=True):
            message = row[ERROR_MESSAGE] or ""
            self._tell_failure(node_id, row[KEY], row[ERROR_TYPE] or "", message, row[TRACEBACK])

    def retried(self, work: Work, outcomes: pl.DataFrame, delay: float) -> None:
        """Keys that are tried again after so many seconds: their `schemas.OUTCOMES`."""
        error_type, message = outcomes.select(ERROR_TYPE, ERROR_MESSAGE).row(0)
        told = error_text(error_type, message)
        self.tell(events.Retried(work.node, outcomes.height, work.attempt + 1, delay, told))

    def refused(self, node_id: NodeId, refused: Mapping[str, Sequence[str]]) -> None:
        """Keys that have a result that sinks did not take: it stays in the ledger, the run has failed."""
        for key in list(refused)[: SHOWN_FAILURES - self._shown.get(node_id, 0)]:
            self._tell_failure(node_id, key, "SinkError", "; ".join(refused[key]), None)

    def _tell_failure(
        self, node_id: NodeId, key: str, error_type: str, message: str, traceback: str | None
    ) -> None:
        self._shown[node_id] = self._shown.get(node_id, 0) + 1
        self.tell(events.KeyFailed(node_id, display_text(key), error_type, message))
        self.failure = self.failure or Failure(
            node=node_id, key=key, error_type=error_type, message=message, traceback=traceback
        )

    def called(self, work: Work, result: WorkResult | WorkerDied) -> None:
        """Calls that ended, with an answer or without."""
        if isinstance(result, WorkResult):
            self.warnings += [warning for warning in result.warnings if warning not in self.warnings]
        self._calls += call_rows(work, result, self._clock.now())
        self._wait_from_now(1)

    def tick(self) -> None:
        """Commit what has waited long enough, or is much."""
        if self._since is not None and (
            self._waiting >= GROUP_ROWS or self._clock.monotonic() - self._since >= self._patience
        ):
            self.flush()

    def flush(self) -> None:
        """Commit everything."""
        began = self._clock.monotonic()
        self._hand_over()
        self._writer.flush()
        now = self._clock.monotonic()
        calm = min((now - self._begun) / _PARTS, LONGEST_SECONDS)
        self._patience = max(GROUP_SECONDS, calm, _COSTS * (now - began))

    def report(self, run_id: str, plan: Plan, nodes: Mapping[NodeId, NodeReport]) -> RunReport:
        """How the run stands, which is how it ended once it has."""
        return RunReport(
            run_id=run_id,
            status="failed" if self.failure else "success",
            plan=plan,
            nodes=nodes,
            failure=self.failure,
            warnings=self.warnings,
        )

    def _note(self, plan: NodePlan, inputs: PlanInputs, ended: Ended) -> None:
        self._ended.setdefault(plan.node.id, (plan, inputs, []))[2].append(ended)
        self._wait_from_now(ended.outcomes.height)

    def _wait_from_now(self, rows: int) -> None:
        self._waiting += rows
        if self._since is None:
            self._since = self._clock.monotonic()

    def _hand_over(self) -> None:
        """Give the writer, as rows, what ended since the last time."""
        now = self._clock.now()
        while self._ended:  # one at a time: where the writer fails, the others are still here
            node_id = next(iter(self._ended))
            plan, inputs, parts = self._ended.pop(node_id)
            self._define(plan, inputs, now)
            fingerprint, env = inputs.fingerprints[node_id], inputs.env.get(node_id, {})
            rows = materialization_rows(node_id, fingerprint, env, parts, now)
            if plan.node.keyed or folds_digest(plan.node.definition):
                # other nodes are decided by what this one returned; of the rest nobody asks again
                successes = where(rows, rows.get_column(STATUS) == OUTCOME_STATUSES[0])
                self._rows.setdefault(node_id, []).append(successes)
            self._writer.append("materializations", rows)
        if self._calls:
            calls = pl.DataFrame(self._calls, schema=CALL_RECORDS)
            self._calls.clear()
            self._writer.append("calls", calls)
        self._waiting, self._since = 0, None

    def _define(self, plan: NodePlan, inputs: PlanInputs, now: datetime) -> None:
        """Keep a definition's source and components the first time it runs."""
        node_id = plan.node.id
        if node_id in self._defined:
            return
        self._defined.add(node_id)
        fingerprint = inputs.fingerprints[node_id]
        of_node = inputs.definitions.get_column(NODE) == node_id
        if not (of_node & (inputs.definitions.get_column(DEFINITION_HASH) == fingerprint.hash)).any():
            self._writer.append("definitions", definition_row(plan, fingerprint, now))

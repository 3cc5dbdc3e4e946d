"""Several quick batched calls as one work: called one after the other, stored together.

To describe a call, to send it and to store its answer takes longer than many a call does. Calls that turned
out quick therefore travel together, as one-key calls do, and what they answer becomes one pack. Each stays a
call of its own, with its keys, timeout, lines and row in the ledger; the first that is anything but well
ends the work, and what was not begun is handed back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import OutputError
from barca.exec.batch import BatchCalling
from barca.exec.boundary import describe
from barca.exec.calling import Calling
from barca.exec.division import failed_result, part_of, result_of
from barca.exec.memory import read_peak, reset_peak
from barca.exec.outcomes import outcome_rows
from barca.exec.output import Answer
from barca.exec.storing import store_answer
from barca.io.apart import apart, frame_apart
from barca.model import WorkResult
from barca.records import Record, replace
from barca.schemas import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barca.exec.boundary import Alarm
    from barca.exec.capture import Recorder
    from barca.model import Definition


class Done(Record):
    """A call that went well, and is not stored yet.

    Attributes:
        answer: What it answered.
        elapsed_seconds: What it took.
        max_rss_bytes: Peak memory while it ran, if known.
    """

    answer: Answer
    elapsed_seconds: float
    max_rss_bytes: int | None = None


class Trip(Calling):
    """A work of several batched calls."""

    _parts: tuple[WorkResult, ...] = ()

    def _call(self, definition: Definition[..., Any], recorder: Recorder, alarm: Alarm) -> None:
        done: list[Done] = []
        stopped: WorkResult | None = None
        try:
            stopped = self._make(definition, recorder, alarm, done)
        except self._interruption:  # between two calls
            self.interrupted = True
        self._store_all(done)
        if stopped is not None and stopped.outcomes.height:
            self._parts = (*self._parts, stopped)

    def _make(
        self, definition: Definition[..., Any], recorder: Recorder, alarm: Alarm, done: list[Done]
    ) -> WorkResult | None:
        """Make one call after the other, noting those that went well; the result of the one that did not."""
        deadline = time.perf_counter() + (self._work.budget_seconds or float("inf"))
        for index in range(len(self._work.calls)):
            began = time.perf_counter()
            if began > deadline and index:
                break
            reset_peak()
            call = self._part(index)
            recorder.call = self._work.calls[index][0]
            answer = self._ask(call, definition, alarm)
            seconds = time.perf_counter() - began
            if answer is None:
                self.interrupted = call.interrupted
                return call.result(seconds)
            done.append(Done(answer, seconds, read_peak()))
            spill = self._means.spill
            if spill is not None and not spill.keep(done[-1], seconds):
                break
        return None

    def _part(self, index: int) -> BatchCalling:
        return BatchCalling(part_of(self._work, index), self._means._replace(keep=None), index)

    def _ask(self, call: BatchCalling, definition: Definition[..., Any], alarm: Alarm) -> Answer | None:
        """What a call answered, to be stored later; `None` where it was not all well, then it is settled."""
        with call.sorter() as sorter:
            try:
                problem = call.ask(definition, sorter, alarm)
                if problem is None and not call.interrupted and call.may_travel(sorter.answer):
                    return self._apart(sorter.answer)
                call.settle(sorter.answer, problem)
            except BaseException as error:
                call.give_up(error)
        return None

    def _apart(self, answer: Answer) -> Answer:
        """An answer that the calls after it do not change."""
        values = {key: apart(value, self._work.serializer) for key, value in answer.values.items()}
        return Answer(values, table=None if answer.table is None else frame_apart(answer.table))

    def _take(self, finished: Iterable[tuple[Any, float]]) -> None:
        self._store_all([done for done, _ in finished])

    def _store_all(self, done: Sequence[Done]) -> None:
        """Store what the first calls answered: together where that is possible, else one by one."""
        if not done:
            return
        together = self._store_together(done)
        if together is not None:
            self._parts = (together,)
            return
        for index, one in enumerate(done):
            call = self._part(index)
            call.settle(one.answer, None)
            result = replace(call.result(one.elapsed_seconds), max_rss_bytes=one.max_rss_bytes)
            self._parts = (*self._parts, result)

    def _store_together(self, done: Sequence[Done]) -> WorkResult | None:
        tables = [one.answer.table for one in done if one.answer.table is not None]
        if tables and (len(tables) < len(done) or any(table.schema != tables[0].schema for table in tables)):
            return None
        whole = part_of(self._work, 0, len(done))
        values = {key: value for one in done for key, value in one.answer.values.items()}
        try:
            answer = Answer(values=values, table=pl.concat(tables) if tables else None)
            stored = store_answer(whole, self._store, answer, "-c")
        except OutputError:
            return None
        if stored.failures:
            return None
        sizes = [keys for _, keys in self._work.calls]
        seconds = [one.elapsed_seconds for one, keys in zip(done, sizes, strict=False) for _ in range(keys)]
        return WorkResult(
            outcomes=outcome_rows(whole.keys.get_column(KEY).to_list(), {}, seconds, whole.attempt),
            fragments=stored.fragments,
            elapsed_seconds=sum(one.elapsed_seconds for one in done),
            took=tuple((one.elapsed_seconds, one.max_rss_bytes) for one in done),
        )

    def give_up(self, error: BaseException) -> None:
        """Every call has failed for this error, unless it is Ctrl-C."""
        super().give_up(error)
        if not self.interrupted:
            self._parts = failed_result(self._work, describe(error)).parts

    def result(self, elapsed_seconds: float) -> WorkResult:
        """What became of the calls, as far as they were begun."""
        return result_of(self._parts, elapsed_seconds)

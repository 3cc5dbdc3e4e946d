"""One batched call: its arguments, its answer, and which keys it failed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from barca.errors import FragmentError, InputError, OutputError
from barca.exec.binding import bind_batch
from barca.exec.boundary import Failure, describe
from barca.exec.calling import Calling
from barca.exec.capture import end_lines
from barca.exec.output import MALFORMED, Answer, Sorter
from barca.exec.storing import store_answer
from barca.exec.streaming import Stream
from barca.io.owners import row_owners
from barca.io.packing import Shelf
from barca.io.spool import Spool
from barca.io.tables import is_uncomputed, unstorable
from barca.partitions import display_text
from barca.schemas import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barca.exec.boundary import Alarm
    from barca.exec.calling import Means
    from barca.exec.capture import Recorder
    from barca.model import Definition, Work
    from barca.ports import Keep


class BatchCalling(Calling):
    """A work of one batched call.

    Args:
        work: The work.
        means: What it is made with.
        index: Its place among the calls of a work of several.
    """

    def __init__(self, work: Work, means: Means, index: int = 0) -> None:
        super().__init__(work, means)
        self._index = index
        self._pieces = 0
        self._yields = False

    def _call(self, definition: Definition[..., Any], recorder: Recorder, alarm: Alarm) -> None:  # noqa: ARG002  # its lines are the whole work's
        with self.sorter() as sorter:
            problem = self.ask(definition, sorter, alarm)
            alike = self._publisher is None and sorter.answer.plain
            self.settle(sorter.answer, problem)
            self._travels = alike and not self._yields

    @contextmanager
    def sorter(self) -> Iterator[Sorter]:
        """Takes the answer; what of it lies on the disk goes at the end."""
        with Spool(self._store.scratch, self._work.dimensions) as spool:
            yield Sorter(self._work, spool)

    def may_travel(self, answer: Answer) -> bool:
        """Whether an answer can be stored together with those of other calls: there is nothing wrong with it.

        A table may have rows of the call's own keys only, which could not be told any more among others. What
        yields is stored as it goes, by a work of its own.
        """
        if answer.failed or not answer.plain or self._yields:
            return False
        table, work = answer.table, self._work
        if table is None:
            own = len(answer.values) == work.keys.height
            return own and not any(map(is_uncomputed, answer.values.values()))
        if unstorable(table.schema):
            return False
        try:
            row_owners(Shelf.of(self._store, "", work.node, work.keys, work.dimensions, work.engine), table)
        except OutputError:
            return False
        return True

    def _take(self, finished: Iterable[tuple[Any, float]]) -> None:
        """Nothing: of a single call nothing has ended before its worker does."""

    def ask(self, definition: Definition[..., Any], sorter: Sorter, alarm: Alarm) -> Failure | None:
        """Call the function and take what it answers; what was wrong with the call as a whole, if anything.

        Raises:
            InputError: An input cannot be given as annotated.
            FragmentError: A pack of an input cannot be read.
        """
        if self._index:
            self._untimed(self._index)
        try:
            arguments = bind_batch(self._work, definition, self._store)
        except (InputError, FragmentError):
            self._raised = True  # smaller calls find the keys whose input is at fault
            raise
        problem: Failure | None = None
        if self._means.progress is not None:
            self._means.progress.begin(self._index)
        try:
            alarm.start()
            self._answer(definition.function(**arguments), sorter, alarm)
            alarm.stop()
        except self._interruption:
            self.interrupted = True
        except OutputError as error:  # the answer does not fit the call: none of it can be trusted
            sorter.answer = Answer()
            problem = self._refuse(error)
        except BaseException as error:
            problem = describe(error)
        finally:
            alarm.stop()
            end_lines()
        self._untimed(self._index)
        return problem

    def settle(self, answer: Answer, problem: Failure | None) -> None:
        """Store what was answered; keys without an answer have failed, for the problem where there is one."""
        try:
            self._keep(store_answer(self._work, self._store, answer))
        except OutputError as error:
            problem = self._refuse(error)
        self._raised = problem is not None
        self._failures |= {key: Failure("Failed", reason) for key, reason in answer.failed.items()}
        if self.interrupted:  # what it yielded is kept, the rest has not been begun
            self._begun = [*self._fragments.get_column(KEY), *self._failures]
            return
        self._fail_unanswered(problem)

    def _refuse(self, error: OutputError) -> Failure:
        self._malformed = error.code in MALFORMED
        return describe(error)

    def _answer(self, returned: Any, sorter: Sorter, alarm: Alarm) -> None:
        """Take what the function returned; runs a generator to its end, storing what it yields."""
        if not isinstance(returned, Iterator):
            sorter.take(returned)
            return
        self._yields = True
        if self._means.keep is None:
            for piece in returned:
                sorter.take_piece(piece)
        else:
            Stream(sorter, partial(self._store_early, self._means.keep), alarm).run(returned)
        sorter.finish()

    def _store_early(self, keep: Keep, answer: Answer) -> None:
        self._pieces += 1
        stored = store_answer(self._work, self._store, answer, f"-p{self._pieces}")
        self._failures |= {key: describe(error) for key, error in stored.failures}
        taken = self._publish(stored.fragments)
        self._early.update(taken.get_column(KEY))
        keep(taken, time.perf_counter() - self.began)

    def _fail_unanswered(self, problem: Failure | None) -> None:
        """Keys without a result or a failure of their own fail for the call's problem, or its silence."""
        if self._fragments.height == len(self._keys):
            return
        answered = {*self._fragments.get_column(KEY), *self._failures, *self._early}
        for key in self._keys:
            if key not in answered:
                self._failures[key] = problem or Failure("OutputError", f"no result for {display_text(key)}")

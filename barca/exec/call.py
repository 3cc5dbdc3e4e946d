"""What a worker does with a `Work`: load the function, bind its inputs, call it, check and store its answer.

`execute` never raises for what user code did; each key that was begun has an outcome.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import Failed, FragmentError, InputError, OutputError
from barca.exec.binding import bind_batch, bind_each
from barca.exec.boundary import Alarm, Failure, describe, surroundings
from barca.exec.capture import end_lines, recording
from barca.exec.memory import read_peak, reset_peak
from barca.exec.outcomes import outcome_rows
from barca.exec.output import MALFORMED, Sorter
from barca.exec.storing import Stored, store_answer, store_each, store_keyed
from barca.exec.streaming import Stream
from barca.io.spool import Spool
from barca.io.tables import is_uncomputed, to_frame
from barca.model import WorkResult
from barca.partitions import display_text
from barca.schemas import FRAGMENTS, KEY, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from barca.exec.capture import Recorder
    from barca.exec.output import Answer
    from barca.exec.progress import Progress
    from barca.exec.publishing import Publisher
    from barca.exec.spill import Spill
    from barca.model import Definition, FunctionRef, Work
    from barca.ports import Keep, PackStore


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a work of this process.

    Attributes:
        result: What had been computed.
    """

    def __init__(self, result: WorkResult) -> None:
        super().__init__()
        self.result = result


def execute(
    work: Work,
    store: PackStore,
    load: Callable[[FunctionRef], Definition[..., Any]],
    log_dir: Path | None = None,
    *,
    quiet: bool = False,
    progress: Progress | None = None,
    spill: Spill | None = None,
    keep: Keep | None = None,
    interruptible: bool = False,
) -> WorkResult:
    """Run a work and store what it computes.

    Args:
        work: What to run.
        store: Holds inputs, receives results.
        load: Loads the function.
        log_dir: Directory of logs; `None` records nothing.
        quiet: Whether printed lines are only recorded, not shown on stderr.
        progress: Told which key is begun. Whoever reads it enforces timeouts; without it they are
            enforced here, as far as `Alarm` can.
        spill: Keeps what one-key calls came to, for `recover`, until they are stored.
        keep: Takes what a batched call has stored while it goes on; without it everything is stored at its
            end.
        interruptible: Whether a `KeyboardInterrupt` is the user's Ctrl-C, rather than a step's failure.

    Raises:
        Interrupted: Ctrl-C, where interruptible; it carries the result of what was done before.
    """
    reset_peak()
    started = time.perf_counter()
    call = _Call(work, store, interruptible=interruptible, progress=progress, spill=spill, keep=keep)
    with (
        recording(work.node, work.run_id, log_dir, quiet=quiet) as recorder,
        surroundings(work.env, work.engine),
        Alarm(None if progress is not None else work.timeout_seconds) as alarm,
    ):
        recorder.call = work.id
        call.run(load, recorder, alarm)
    result = call.result(time.perf_counter() - started)
    if call.interrupted:
        raise Interrupted(result)
    return result


def recover(
    work: Work,
    store: PackStore,
    load: Callable[[FunctionRef], Definition[..., Any]],
    finished: Iterable[tuple[Any, float]],
) -> WorkResult:
    """Store what one-key calls came to in a process that died, without calling anything.

    Args:
        work: What that process ran.
        store: Receives results.
        load: Loads the function, and with it the classes of what it returned.
        finished: What the first calls of the work came to, and their seconds; see `Spill.keep`.
    """
    started = time.perf_counter()
    call = _Call(work, store)
    call.recover(load, finished)
    return call.result(time.perf_counter() - started)


def failed_result(work: Work, failure: Failure, *, elapsed_seconds: float = 0.0) -> WorkResult:
    """The result of a work whose every key failed for one reason."""
    keys = work.keys.get_column(KEY).to_list()
    outcomes = outcome_rows(keys, dict.fromkeys(keys, failure), elapsed_seconds, work.attempt)
    return WorkResult(outcomes=outcomes, fragments=empty(FRAGMENTS), elapsed_seconds=elapsed_seconds)


class _Call:
    """One work on its way through a worker."""

    def __init__(
        self,
        work: Work,
        store: PackStore,
        *,
        interruptible: bool = False,
        progress: Progress | None = None,
        spill: Spill | None = None,
        keep: Keep | None = None,
    ) -> None:
        self._work = work
        self._store = store
        self._keep_early = keep
        self._early: set[str] = set()
        self._parts = 0
        self._started = time.perf_counter()
        self._progress = progress
        self._spill = spill
        self._interruption: tuple[type[BaseException], ...] = (KeyboardInterrupt,) if interruptible else ()
        self._keys: list[str] = work.keys.get_column(KEY).to_list()
        self._begun: list[str] = self._keys
        self._failures: dict[str, Failure] = {}
        self._elapsed: list[float] | float = 0.0
        self._fragments = _NOTHING
        self._publisher: Publisher | None = None
        self._raised = False
        self._malformed = False
        self.interrupted = False

    def run(
        self, load: Callable[[FunctionRef], Definition[..., Any]], recorder: Recorder, alarm: Alarm
    ) -> None:
        """Load, bind, call and store; whatever fails outside of a single key fails all that were begun."""
        try:
            definition = load(self._work.function)
            self._publisher = self._make_publisher(definition)
            if self._work.batched:
                self._run_batch(definition, alarm)
            else:
                self._run_each(definition, recorder, alarm)
        except self._interruption:
            self.interrupted = True
            self._begun = []
        except BaseException as error:
            self._fail_all(describe(error))

    def recover(
        self, load: Callable[[FunctionRef], Definition[..., Any]], finished: Iterable[tuple[Any, float]]
    ) -> None:
        """Store what was returned elsewhere; whatever fails leaves all of it to be called again."""
        self._begun = []
        self._elapsed = elapsed = list[float]()
        values: list[tuple[str, Any]] = []
        try:
            self._publisher = self._make_publisher(load(self._work.function))
            for key, (came, seconds) in zip(self._keys, finished, strict=False):
                self._came(key, came, values)
                self._begun.append(key)
                elapsed.append(seconds)
            self._store_values(values)
        except BaseException:
            self._begun, self._elapsed = list[str](), 0.0

    def result(self, elapsed_seconds: float) -> WorkResult:
        """The outcome of every key that was begun and was not told before."""
        elapsed = self._elapsed if isinstance(self._elapsed, list) else elapsed_seconds
        begun = [key for key in self._begun if key not in self._early] if self._early else self._begun
        done = self._publisher.done if self._publisher is not None else None
        return WorkResult(
            outcomes=outcome_rows(begun, self._failures, elapsed, self._work.attempt),
            fragments=self._fragments,
            elapsed_seconds=elapsed_seconds,
            raised=self._raised,
            malformed=self._malformed,
            max_rss_bytes=read_peak(),
            published=done.published if done is not None else None,
            warnings=tuple(done.warnings) if done is not None else (),
        )

    def _fail_all(self, failure: Failure) -> None:
        self._failures = {**dict.fromkeys(self._begun, failure), **self._failures}
        self._fragments = _NOTHING

    # --- one call for all keys ----------------------------------------------------------------------

    def _run_batch(self, definition: Definition[..., Any], alarm: Alarm) -> None:
        with Spool(self._store.scratch, self._work.dimensions) as spool:
            self._run_sorted(definition, Sorter(self._work, spool), alarm)

    def _run_sorted(self, definition: Definition[..., Any], sorter: Sorter, alarm: Alarm) -> None:
        try:
            arguments = bind_batch(self._work, definition, self._store)
        except (InputError, FragmentError):
            self._raised = True  # smaller calls find the keys whose input is at fault
            raise
        problem: Failure | None = None
        if self._progress is not None:
            self._progress.begin(0)
        try:
            alarm.start()
            self._answer(definition.function(**arguments), sorter, alarm)
            alarm.stop()
        except self._interruption:
            self.interrupted = True
        except OutputError as error:  # the answer does not fit the call: none of it can be trusted
            sorter.answer.clear()
            problem = self._refuse(error)
        except BaseException as error:
            problem = describe(error)
        finally:
            alarm.stop()
            end_lines()
        self._untimed(0)
        try:
            self._keep(store_answer(self._work, self._store, sorter.answer))
        except OutputError as error:
            problem = self._refuse(error)
        self._raised = problem is not None
        self._failures |= {key: Failure("Failed", reason) for key, reason in sorter.answer.failed.items()}
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
        if self._keep_early is None:
            for piece in returned:
                sorter.take_piece(piece)
        else:
            Stream(sorter, partial(self._store_early, self._keep_early), alarm).run(returned)
        sorter.finish()

    def _store_early(self, keep: Keep, answer: Answer) -> None:
        self._parts += 1
        stored = store_answer(self._work, self._store, answer, f"-p{self._parts}")
        self._failures |= {key: describe(error) for key, error in stored.failures}
        taken = self._publish(stored.fragments)
        self._early.update(taken.get_column(KEY))
        keep(taken, time.perf_counter() - self._started)

    def _fail_unanswered(self, problem: Failure | None) -> None:
        """Keys without a result or a failure of their own fail for the call's problem, or its silence."""
        if self._fragments.height == len(self._keys):
            return
        answered = {*self._fragments.get_column(KEY), *self._failures, *self._early}
        for key in self._keys:
            if key not in answered:
                self._failures[key] = problem or Failure("OutputError", f"no result for {display_text(key)}")

    # --- a call for each key ------------------------------------------------------------------------

    def _run_each(self, definition: Definition[..., Any], recorder: Recorder, alarm: Alarm) -> None:
        inputs = bind_each(self._work, definition, self._store)
        for key, error in inputs.failures.items():
            self._failures[key] = describe(error)
        function = partial(definition.function, **inputs.shared)
        names = tuple(inputs.columns)
        rows = zip(*inputs.columns.values(), strict=True) if names else iter([()] * len(self._keys))
        values: list[tuple[str, Any]] = []
        elapsed: list[float] = []
        self._elapsed = elapsed
        self._begun = []
        deadline = time.perf_counter() + (self._work.budget_seconds or float("inf"))
        begin = self._progress.begin if self._progress is not None else None
        came: Any = None
        try:
            for index, (key, row) in enumerate(zip(self._keys, rows, strict=True)):
                started = time.perf_counter()
                if index and (started > deadline or not self._kept(came, elapsed[-1])):
                    break
                if begin is not None:
                    begin(index)
                came = self._failures.get(key)
                if came is None:
                    recorder.key = key
                    came = self._call_one(function, dict(zip(names, row, strict=True)), alarm)
                    if recorder.open_line:
                        end_lines()
                    self._came(key, came, values)
                self._begun.append(key)
                elapsed.append(time.perf_counter() - started)
        except self._interruption:
            self.interrupted = True
        recorder.key = None
        self._untimed(len(self._begun) - 1)
        self._store_values(values)

    def _call_one(self, function: Callable[..., Any], arguments: dict[str, Any], alarm: Alarm) -> Any:
        """What one call returned, a table as a frame, or its `Failure`."""
        try:
            if alarm.active:
                alarm.start()
            value = function(**arguments)
            kind = type(value)
            if isinstance(value, Failed):
                return Failure("Failed", value.reason)
            if kind not in _SETTLED and is_uncomputed(value):
                value = to_frame(value, self._work.engine)
            if alarm.active:
                alarm.stop()
        except self._interruption:
            raise
        except BaseException as error:
            return describe(error)
        else:
            return value
        finally:
            if alarm.active:
                alarm.stop()

    def _kept(self, came: Any, elapsed_seconds: float) -> bool:
        return self._spill is None or self._spill.keep(came, elapsed_seconds)

    def _came(self, key: str, came: Any, values: list[tuple[str, Any]]) -> None:
        if type(came) is Failure:
            self._failures[key] = came
        else:
            values.append((key, came))

    def _store_values(self, values: list[tuple[str, Any]]) -> None:
        if not values:
            return
        if self._work.keyed:
            self._keep(store_keyed(self._work, self._store, values[0][1]))
        else:
            self._keep(store_each(self._work, self._store, values))

    # --- both ---------------------------------------------------------------------------------------

    def _make_publisher(self, definition: Definition[..., Any]) -> Publisher | None:
        if not definition.sinks:
            return None
        from barca.exec.publishing import Publisher

        return Publisher(self._work, definition, self._store)

    def _publish(self, fragments: pl.DataFrame) -> pl.DataFrame:
        """Write results to sinks; a key of which one could not be written has failed, and is not returned."""
        if self._publisher is None:
            return fragments
        taken = self._publisher.publish(fragments)
        self._failures |= self._publisher.failures()
        return taken

    def _untimed(self, index: int) -> None:
        if self._progress is not None:
            self._progress.untimed(index)

    def _keep(self, stored: Stored) -> None:
        self._fragments = self._publish(stored.fragments)
        for key, error in stored.failures:
            self._failures[key] = describe(error)


_NOTHING = empty(FRAGMENTS)

_SETTLED = frozenset((dict, list, str, int, float, bool, type(None), tuple, pl.DataFrame))
"""Types whose values need no computing before they are stored."""

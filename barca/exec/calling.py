"""What every work goes through in a worker, whatever its calls are: results kept, failures told."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from barca.exec.boundary import Failure, describe
from barca.exec.division import NOTHING
from barca.exec.memory import read_peak
from barca.exec.outcomes import outcome_rows
from barca.model import WorkResult
from barca.schemas import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import polars as pl

    from barca.exec.boundary import Alarm
    from barca.exec.capture import Recorder
    from barca.exec.progress import Progress
    from barca.exec.publishing import Publisher
    from barca.exec.spill import Spill
    from barca.exec.storing import Stored
    from barca.model import Definition, FunctionRef, Work
    from barca.ports import Keep, PackStore


class Means(NamedTuple):
    """What calls are made with.

    Attributes:
        store: Holds inputs, receives results.
        progress: Told which call is begun; `None` where nobody reads it.
        spill: Keeps what calls came to until they are stored.
        keep: Takes what a batched call has stored while it goes on.
        interruptible: Whether a `KeyboardInterrupt` is the user's Ctrl-C, rather than a step's failure.
    """

    store: PackStore
    progress: Progress | None = None
    spill: Spill | None = None
    keep: Keep | None = None
    interruptible: bool = False


class Calling(ABC):
    """A work on its way through a worker.

    Args:
        work: The work.
        means: What its calls are made with.

    Attributes:
        began: When it began, `perf_counter`: once the function is loaded, as the first of a worker loads the
            project, which says nothing about calls.
        interrupted: Whether Ctrl-C came; what had been computed is kept.
    """

    def __init__(self, work: Work, means: Means) -> None:
        self.began = time.perf_counter()
        self.interrupted = False
        self._work = work
        self._means = means
        self._store = means.store
        self._interruption: tuple[type[BaseException], ...] = (
            (KeyboardInterrupt,) if means.interruptible else ()
        )
        self._keys: list[str] = work.keys.get_column(KEY).to_list()
        self._begun: list[str] = self._keys
        self._early: set[str] = set()
        self._failures: dict[str, Failure] = {}
        self._elapsed: list[float] | None = None
        self._fragments = NOTHING
        self._publisher: Publisher | None = None
        self._raised = False
        self._malformed = False
        self._travels = False

    def run(
        self, load: Callable[[FunctionRef], Definition[..., Any]], recorder: Recorder, alarm: Alarm
    ) -> None:
        """Load, bind, call and store; whatever fails outside of a single key fails all that were begun."""
        try:
            definition = load(self._work.function)
            self.began = time.perf_counter()
            self._publisher = self._make_publisher(definition)
            self._call(definition, recorder, alarm)
        except BaseException as error:
            self.give_up(error)

    def recover(
        self, load: Callable[[FunctionRef], Definition[..., Any]], finished: Iterable[tuple[Any, float]]
    ) -> None:
        """Store what calls came to elsewhere; whatever fails leaves all of it to be called again."""
        self._begun = []
        try:
            self._publisher = self._make_publisher(load(self._work.function))
            self._take(finished)
        except BaseException:
            self._begun, self._elapsed = list[str](), list[float]()

    @abstractmethod
    def _call(self, definition: Definition[..., Any], recorder: Recorder, alarm: Alarm) -> None:
        """Make the calls and store what they come to."""

    @abstractmethod
    def _take(self, finished: Iterable[tuple[Any, float]]) -> None:
        """Store what calls came to, with their seconds, noting which they were."""

    def give_up(self, error: BaseException) -> None:
        """Ctrl-C: nothing was begun. Else every key that was begun has failed for this error."""
        if isinstance(error, self._interruption):
            self.interrupted = True
            self._begun = []
            return
        self._failures = {**dict.fromkeys(self._begun, describe(error)), **self._failures}
        self._fragments = NOTHING

    def result(self, elapsed_seconds: float) -> WorkResult:
        """The outcome of every key that was begun and was not told before."""
        begun = [key for key in self._begun if key not in self._early] if self._early else self._begun
        elapsed = elapsed_seconds if self._elapsed is None else self._elapsed
        done = self._publisher.done if self._publisher is not None else None
        peak = read_peak()
        return WorkResult(
            outcomes=outcome_rows(begun, self._failures, elapsed, self._work.attempt),
            fragments=self._fragments,
            elapsed_seconds=elapsed_seconds,
            raised=self._raised,
            malformed=self._malformed,
            max_rss_bytes=peak,
            published=done.published if done is not None else None,
            warnings=tuple(done.warnings) if done is not None else (),
            took=((elapsed_seconds, peak),) if self._travels and not self._failures else (),
        )

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
        if self._means.progress is not None:
            self._means.progress.untimed(index)

    def _keep(self, stored: Stored) -> None:
        self._fragments = self._publish(stored.fragments)
        for key, error in stored.failures:
            self._failures[key] = describe(error)

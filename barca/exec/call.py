"""What a worker does with a `Work`: load the function, bind its inputs, call it, check and store its answer.

`execute` never raises for what user code did; each key that was begun has an outcome.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from barca.exec.batch import BatchCalling
from barca.exec.boundary import Alarm, surroundings
from barca.exec.calling import Means
from barca.exec.capture import recording
from barca.exec.each import EachCalling
from barca.exec.memory import reset_peak
from barca.exec.trips import Trip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from barca.exec.calling import Calling
    from barca.exec.progress import Progress
    from barca.exec.spill import Spill
    from barca.model import Definition, FunctionRef, Work, WorkResult
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
        progress: Told which call is begun. Whoever reads it enforces timeouts; without it they are
            enforced here, as far as `Alarm` can.
        spill: Keeps what calls of a work of several came to, for `recover`, until they are stored.
        keep: Takes what a batched call has stored while it goes on; without it everything is stored at its
            end.
        interruptible: Whether a `KeyboardInterrupt` is the user's Ctrl-C, rather than a step's failure.

    Raises:
        Interrupted: Ctrl-C, where interruptible; it carries the result of what was done before.
    """
    reset_peak()
    call = _calling(work, Means(store, progress, spill, keep, interruptible))
    with (
        recording(work.node, work.run_id, log_dir, quiet=quiet) as recorder,
        surroundings(work.env, work.engine),
        Alarm(None if progress is not None else work.timeout_seconds) as alarm,
    ):
        recorder.call = work.id
        call.run(load, recorder, alarm)
    result = call.result(time.perf_counter() - call.began)
    if call.interrupted:
        raise Interrupted(result)
    return result


def recover(
    work: Work,
    store: PackStore,
    load: Callable[[FunctionRef], Definition[..., Any]],
    finished: Iterable[tuple[Any, float]],
) -> WorkResult:
    """Store what calls came to in a process that died, without calling anything.

    Args:
        work: What that process ran.
        store: Receives results.
        load: Loads the function, and with it the classes of what it returned.
        finished: What the first calls of the work came to, and their seconds; see `Spill.keep`.
    """
    call = _calling(work, Means(store))
    call.recover(load, finished)
    return call.result(time.perf_counter() - call.began)


def _calling(work: Work, means: Means) -> Calling:
    if work.calls:
        return Trip(work, means)
    return BatchCalling(work, means) if work.batched else EachCalling(work, means)

"""Running works in worker processes."""

from __future__ import annotations

import pickle
import signal
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barca.errors import StoreError
from barca.exec.boundary import Failure, timed_out_text
from barca.exec.division import failed_result
from barca.exec.interrupts import put_off
from barca.exec.parts import PartReader
from barca.exec.pool import WorkerEnded, Workers, wait_for_any
from barca.exec.progress import Seen, read_progress
from barca.exec.wire import from_parts, work_parts
from barca.exec.worker import Order, Tools
from barca.model import Work, WorkerDied, WorkResult
from barca.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barca._typing import Buffer
    from barca.exec.pool import Worker
    from barca.model import Definition, FunctionRef
    from barca.ports import Keep, PackStore

CHECK_SECONDS: Final = 0.1
"""How often timeouts and lost workers are looked for."""

IMPORT_SECONDS: Final = 300.0
"""What a worker may take before its first call, to import the project and to read inputs, if the timeout of
the call is not longer: a short timeout is about the function."""

MOST_WORKERS: Final = 3
"""A work that no worker ever began is given to so many, one after the other, at most."""

_OUT_OF_MEMORY: Final = frozenset((-9, -6))
"""How processes end that get no more memory: killed by the kernel, or by themselves."""


class ProcessPending:
    """A work that is queued for, or runs in, a worker process."""

    def __init__(
        self, work: Work, payload: Sequence[Buffer], progress: Path, keep: Keep | None = None
    ) -> None:
        self.work = work
        self.payload = payload
        self.progress = progress
        self._keep = keep
        self._parts = PartReader(progress)
        self.started = time.monotonic()
        self.worker: Worker | None = None
        self.spill = progress.with_suffix(".spill")
        self.cancelled = False
        self.sent = 0
        self.death: WorkerDied | None = None  # then another worker stores what its calls came to

    def cancel(self) -> None:
        """Stop it, even while it runs: its worker is ended."""
        self.cancelled = True
        if self.worker is not None:
            self.worker.kill()

    def died(
        self, reason: str, seen: Seen | None, *, timed_out: bool = False, exhausted: bool = False
    ) -> WorkerDied:
        """The end of it, when its worker ended or was ended."""
        return WorkerDied(
            reason=reason,
            timed_out=timed_out,
            exhausted=timed_out or exhausted,
            begun=self._begun(seen),
            elapsed_seconds=time.monotonic() - self.started,
        )

    def hand_on(self) -> None:
        """Tell what the call has stored so far, or before it ended."""
        if self._keep is not None and self.work.batched:
            for fragments, elapsed_seconds in self._parts.read():
                self._keep(fragments, elapsed_seconds)

    def _begun(self, seen: Seen | None) -> int | None:
        """How many calls were begun, see `WorkerDied`."""
        if self.work.batched and not self.work.calls:
            return None
        return 0 if seen is None else seen.index + 1


class ProcessExecutor:
    """Runs works in worker processes: the first is started by `start`, others when works are waiting.

    Workers are fresh interpreters, never forks, with the environment, working directory and `sys.path` of
    the moment of `start`. A worker that dies, or is ended for a timeout, takes its own work with it and
    nothing else; a new one takes its place. Workers end with this process, however it ends.

    Args:
        workers: Number of processes, at most; or those that are being started already.
        store: Where packs are; must pickle, and reach the same packs from another process.
        load: Loads a function in the worker; a top-level function.
        log_dir: Directory of logs; `None` records nothing.
        quiet: Whether printed lines are only recorded.
    """

    def __init__(
        self,
        workers: int | Workers,
        store: PackStore,
        load: Callable[[FunctionRef], Definition[..., Any]],
        log_dir: Path | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self.workers = workers.size if isinstance(workers, Workers) else max(1, workers)
        self._pool = workers if isinstance(workers, Workers) else None
        self._tools = Tools(store, load, log_dir, quiet)
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._queue: deque[ProcessPending] = deque()
        self._running: list[ProcessPending] = []
        self._ended: list[tuple[ProcessPending, WorkResult | WorkerDied]] = []

    def start(self) -> None:
        """Start a worker without waiting for it, so that it gets ready while a run is planned.

        Raises:
            StoreError: The machine does not let a process start.
        """
        worker = self._take()
        self._workers().give_back(worker)

    def submit(self, work: Work, keep: Keep | None = None) -> ProcessPending:
        """Give a work to a worker; works beyond `workers` wait here. See `ports.Executor`.

        Raises:
            StoreError: The machine does not let a process start.
        """
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="barca-", ignore_cleanup_errors=True)
        progress = Path(self._directory.name, f"{work.run_id}-{work.id}.progress")
        pending = ProcessPending(work, work_parts(work), progress, keep)
        self._queue.append(pending)
        self._fill()
        return pending

    def wait(self, timeout: float | None) -> list[tuple[ProcessPending, WorkResult | WorkerDied]]:
        """The works that ended since the last call; waits up to `timeout` seconds for the first.

        Ends works that run past their timeout. Never raises for what a work did.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with put_off():  # an answer is read whole, and given to somebody
                self._ended += self._collect()
                self._fill()
            if self._ended or not self._running:
                ended = self._ended.copy()
                self._ended.clear()
                return ended
            left = CHECK_SECONDS if deadline is None else min(CHECK_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return []
            wait_for_any((pending.worker for pending in self._running if pending.worker is not None), left)

    def withdraw(self) -> None:
        """Forget what is queued, but for works of which only results of a dead worker are to be stored."""
        self._queue = deque(pending for pending in self._queue if pending.death is not None)

    def release(self) -> None:
        """Have the idle workers end while others things are done; `shutdown` waits for them."""
        if self._pool is not None:
            self._pool.release()

    def shutdown(self, *, cancel: bool = False) -> None:
        """End the workers; without `cancel`, after what runs and is queued has ended."""
        while not cancel and (self._running or self._queue):
            self.wait(None)
        self._queue.clear()
        for pending in self._running:
            pending.cancel()
        self._running.clear()
        if self._pool is not None:
            self._pool.stop()
            self._pool = None
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    # --- giving works to workers --------------------------------------------------------------------

    def _workers(self) -> Workers:
        if self._pool is None:
            self._pool = Workers(self.workers)
        return self._pool

    def _take(self) -> Worker:
        """A worker that has its tools, and nothing to do."""
        try:
            worker = self._workers().take()
        except OSError as error:
            raise StoreError(f"a worker process could not be started: {error}") from error
        if not worker.equipped:
            worker.equip(pickle.dumps(self._tools))
        return worker

    def _fill(self) -> None:
        while self._queue and len(self._running) < self.workers:
            pending = self._queue.popleft()
            if not pending.cancelled:
                self._send(pending)
                self._running.append(pending)

    def _send(self, pending: ProcessPending) -> None:
        worker = self._take()
        pending.sent += 1
        pending.started = time.monotonic()
        pending.worker = worker
        finished = None if pending.death is None else (pending.death.begun or 0) - 1
        worker.order(Order(str(pending.progress), str(pending.spill), finished), pending.payload)

    # --- what ended ---------------------------------------------------------------------------------

    def _collect(self) -> list[tuple[ProcessPending, WorkResult | WorkerDied]]:
        ended: list[tuple[ProcessPending, WorkResult | WorkerDied]] = []
        running = self._running
        self._running = list[ProcessPending]()
        for pending in running:
            outcome = None if pending.cancelled else self._outcome(pending)
            if outcome is None and pending.worker is not None and not pending.cancelled:
                pending.hand_on()
                self._running.append(pending)
                continue
            settled = _settled(pending, outcome)
            if settled is None and not pending.cancelled:
                self._queue.appendleft(pending)
                continue
            pending.hand_on()
            pending.progress.unlink(missing_ok=True)
            pending.spill.unlink(missing_ok=True)
            if settled is not None:
                ended.append((pending, settled))
        return ended

    def _outcome(self, pending: ProcessPending) -> WorkResult | WorkerDied | None:
        """What a work came to. `None` while it runs, and, without a worker, when it needs another one."""
        worker = pending.worker
        assert worker is not None
        try:
            answer = worker.answer()
        except WorkerEnded as ended:
            pending.worker = None
            seen = read_progress(pending.progress)
            ending = _ending(ended.exit_code)
            if seen is not None:
                return pending.died(ending, seen, exhausted=ended.exit_code in _OUT_OF_MEMORY)
            if pending.sent < MOST_WORKERS:
                return None
            return pending.died(f"could not start: it {ending}", seen)
        if answer is None:
            return _overdue(pending, worker)
        pending.worker = None
        self._workers().give_back(worker)
        error, parts = answer
        if error:  # our own code failed in the worker
            return pending.death or failed_result(pending.work, Failure(*error))
        result: WorkResult = from_parts(parts, pending.work.keys)
        return result


def _overdue(pending: ProcessPending, worker: Worker) -> WorkerDied | None:
    """The end of a work that is past its timeout."""
    limit = pending.work.timeout_seconds
    if not limit or pending.death is not None:
        return None
    seen = read_progress(pending.progress)
    if seen is None or not seen.since:
        return None
    if seen.index < 0:
        limit = max(limit, IMPORT_SECONDS)
    if time.monotonic() - seen.since <= limit:
        return None
    worker.kill()
    pending.worker = None
    return pending.died(timed_out_text(limit), seen, timed_out=True)


def _settled(
    pending: ProcessPending, outcome: WorkResult | WorkerDied | None
) -> WorkResult | WorkerDied | None:
    """What a work came to; `None` to send it again, also to have stored what ended before its worker did."""
    if pending.death is not None:
        finished = outcome if isinstance(outcome, WorkResult) else None
        return outcome and replace(pending.death, finished=finished)
    if isinstance(outcome, WorkerDied) and (outcome.begun or 0) > 1:
        pending.death = outcome
        return None
    return outcome


def _ending(exit_code: int | None) -> str:
    """How a process ended, as people read it."""
    if not exit_code:
        return "ended without an answer"
    if exit_code > 0:
        return f"ended with exit code {exit_code}"
    try:
        name = f" ({signal.Signals(-exit_code).name})"
    except ValueError:
        name = ""
    return f"was killed by signal {-exit_code}{name}"

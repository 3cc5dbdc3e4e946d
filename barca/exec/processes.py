"""Running works in a pool of worker processes."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, CancelledError
from concurrent.futures import wait as wait_for_futures
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barca.exec.boundary import describe, timed_out_text
from barca.exec.call import failed_result
from barca.exec.parts import PartReader
from barca.exec.progress import Seen, read_progress
from barca.exec.wire import from_bytes, to_bytes
from barca.io.storage import process_exists
from barca.model import Work, WorkerDied, WorkResult
from barca.schemas import KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from barca.model import Definition, FunctionRef
    from barca.ports import Keep, PackStore

CHECK_SECONDS: Final = 0.1
"""How often timeouts and lost workers are looked for."""

LOST_SECONDS: Final = 1.0
"""A process that is gone without an answer is given up after so long."""

BROKEN_POOLS: Final = 3
"""A work that no worker ever took is sent to a new pool at most so many times."""


class ProcessPending:
    """A work that is queued for, or runs in, a worker process."""

    def __init__(self, work: Work, payload: bytes, progress: Path, keep: Keep | None = None) -> None:
        self.work = work
        self.payload = payload
        self.progress = progress
        self._keep = keep
        self._parts = PartReader(progress)
        self.started = time.monotonic()
        self.future: Future[bytes] | None = None
        self.spill = progress.with_suffix(".spill")
        self.cancelled = False
        self.sent = 0
        self.lost_since: float | None = None
        self.death: WorkerDied | None = None  # then another worker stores what its calls came to

    def cancel(self) -> None:
        """Stop it, even while it runs: its worker is ended."""
        self.cancelled = True
        self.stop()

    def stop(self) -> None:
        """End its worker."""
        if self.future is not None:
            self.future.cancel()

    def hand_on(self) -> None:
        """Tell what the call has stored so far, or before it ended."""
        if self._keep is not None and self.work.batched:
            for fragments, elapsed_seconds in self._parts.read():
                self._keep(fragments, elapsed_seconds)

    def begun(self, seen: Seen | None) -> tuple[str, ...] | None:
        """Keys of the one-key calls that were begun, see `WorkerDied`."""
        if self.work.batched:
            return None
        count = 0 if seen is None else seen.index + 1
        return tuple(self.work.keys.get_column(KEY).head(count).to_list())


class ProcessExecutor:
    """Runs works in a pool of worker processes, started on the first submit or by `start`.

    Workers are started by forkserver or spawn, never by fork, with the environment, working directory and
    `sys.path` of the moment. A worker that dies, or is ended for a timeout, takes its own work with it and
    nothing else; a new one takes its place. Workers end with this process, however it ends.

    Args:
        workers: Number of processes.
        store: Where packs are; must pickle, and reach the same packs from another process.
        load: Loads a function in the worker; a top-level function.
        log_dir: Directory of logs; `None` records nothing.
        quiet: Whether printed lines are only recorded.
    """

    def __init__(
        self,
        workers: int,
        store: PackStore,
        load: Callable[[FunctionRef], Definition[..., Any]],
        log_dir: Path | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self.workers = max(1, workers)
        self._tools = (store, load, log_dir, quiet)
        self._pool: Any = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._ended_groups: set[int] = set()
        self._queue: deque[ProcessPending] = deque()
        self._running: list[ProcessPending] = []

    def start(self) -> None:
        """Start the workers without waiting for them, so that they get ready while a run is planned."""
        if self._pool is None:
            self._pool = self._new_pool()

    def submit(self, work: Work, keep: Keep | None = None) -> ProcessPending:
        """Send a work to a worker; works beyond `workers` wait here. See `ports.Executor`."""
        self.start()
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="barca-", ignore_cleanup_errors=True)
        progress = Path(self._directory.name, f"{work.run_id}-{work.id}.progress")
        pending = ProcessPending(work, to_bytes(work), progress, keep)
        self._queue.append(pending)
        self._fill()
        return pending

    def wait(self, timeout: float | None) -> list[tuple[ProcessPending, WorkResult | WorkerDied]]:
        """The works that ended since the last call; waits up to `timeout` seconds for the first.

        Ends works that run past their timeout. Never raises for what a work did.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            ended = self._collect()
            self._fill()
            if ended or not self._running:
                return ended
            left = CHECK_SECONDS if deadline is None else min(CHECK_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return []
            futures = [pending.future for pending in self._running if pending.future is not None]
            wait_for_futures(futures, timeout=left, return_when=FIRST_COMPLETED)

    def shutdown(self, *, cancel: bool = False) -> None:
        """End the workers; without `cancel`, after what runs and is queued has ended."""
        while not cancel and (self._running or self._queue):
            self.wait(None)
        self._queue.clear()
        for pending in self._running:
            self._note_group(read_progress(pending.progress))
        self._running.clear()
        self._stop_pool()
        self._end_groups()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    # --- the pool -----------------------------------------------------------------------------------

    def _new_pool(self) -> Any:
        from pebble import ProcessPool

        from barca.exec.launch import interrupts_held, worker_context
        from barca.exec.worker import Setup, Tools, prepare

        threads = str(max(1, (os.cpu_count() or 1) // self.workers))
        setup = Setup(
            environment={"POLARS_MAX_THREADS": threads, **os.environ},
            directory=str(Path.cwd()),
            path=list(sys.path),
            tools=pickle.dumps(Tools(*self._tools)),
        )
        pool = ProcessPool(
            max_workers=self.workers, context=worker_context(), initializer=prepare, initargs=(setup,)
        )
        with interrupts_held():
            started = pool.active
        assert started  # asking is what starts a pebble pool
        return pool

    def _stop_pool(self) -> None:
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
            self._pool = None

    def _fill(self) -> None:
        while self._queue and len(self._running) < self.workers:
            pending = self._queue.popleft()
            if not pending.cancelled:
                self._send(pending)
                self._running.append(pending)

    def _send(self, pending: ProcessPending) -> None:
        from barca.exec.worker import recover, run

        pending.sent += 1
        pending.started = time.monotonic()
        if not self._pool.active:  # an idle worker that is killed takes a pebble pool with it
            self._stop_pool()
            self.start()
        spill = str(pending.spill)
        if pending.death is not None:
            finished = len(pending.death.begun or ()) - 1
            pending.future = self._pool.schedule(recover, args=(pending.payload, spill, finished))
        else:
            args = (pending.payload, str(pending.progress), spill)
            pending.future = self._pool.schedule(run, args=args)

    # --- what ended ---------------------------------------------------------------------------------

    def _collect(self) -> list[tuple[ProcessPending, WorkResult | WorkerDied]]:
        self._end_groups()
        ended: list[tuple[ProcessPending, WorkResult | WorkerDied]] = []
        running = self._running
        self._running = list[ProcessPending]()
        for pending in running:
            if pending.cancelled:
                answer = None
                self._note_group(read_progress(pending.progress))
            elif pending.future is not None and pending.future.done():
                answer = self._answer(pending)
            else:
                answer = self._overdue(pending)
                if answer is None:
                    pending.hand_on()
                    self._running.append(pending)
                    continue
                pending.stop()
            answer = _settled(pending, answer)
            if answer is None and not pending.cancelled:
                self._queue.appendleft(pending)
                continue
            pending.hand_on()
            pending.progress.unlink(missing_ok=True)
            pending.spill.unlink(missing_ok=True)
            if answer is not None:
                ended.append((pending, answer))
        return ended

    def _answer(self, pending: ProcessPending) -> WorkResult | WorkerDied | None:
        """What a future that is done means; `None` to send the work again."""
        from pebble import ProcessExpired

        assert pending.future is not None
        seen = read_progress(pending.progress)
        try:
            result: WorkResult = from_bytes(pending.future.result())
        except ProcessExpired as expired:
            return self._death(pending, _ending(expired.exitcode), seen)
        except (Exception, CancelledError) as error:
            if pending.death is not None:
                return pending.death
            if self._pool.active:  # our own code failed in the worker
                return failed_result(pending.work, describe(error))
            if seen is None and pending.sent < BROKEN_POOLS:
                return None
            return self._death(pending, "could not be started" if seen is None else "was lost", seen)
        return result

    def _overdue(self, pending: ProcessPending) -> WorkerDied | None:
        """The end of a work that is past its timeout, or whose process is gone without pebble noticing."""
        seen = read_progress(pending.progress)
        if seen is None or pending.death is not None:
            return None
        now = time.monotonic()
        limit = pending.work.timeout_seconds
        if limit and seen.since and now - seen.since > limit:
            return self._death(pending, timed_out_text(limit), seen, timed_out=True)
        if process_exists(seen.pid):
            return None
        pending.lost_since = pending.lost_since or now
        return (
            self._death(pending, "ended without an answer", seen)
            if now - pending.lost_since > LOST_SECONDS
            else None
        )

    def _death(
        self, pending: ProcessPending, reason: str, seen: Seen | None, *, timed_out: bool = False
    ) -> WorkerDied:
        self._note_group(seen)
        return WorkerDied(
            reason=reason,
            timed_out=timed_out,
            begun=pending.begun(seen),
            elapsed_seconds=time.monotonic() - pending.started,
        )

    # --- what a step started ------------------------------------------------------------------------

    def _note_group(self, seen: Seen | None) -> None:
        """A worker has died or will: what its step started in its process group ends after it."""
        if seen is not None:
            self._ended_groups.add(seen.pid)

    def _end_groups(self) -> None:
        for group in [pid for pid in self._ended_groups if not process_exists(pid)]:
            self._ended_groups.discard(group)
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)


def _settled(
    pending: ProcessPending, answer: WorkResult | WorkerDied | None
) -> WorkResult | WorkerDied | None:
    """What a work came to; `None` to send it again, also to have stored what ended before its worker did."""
    if pending.death is not None:
        return answer and replace(pending.death, finished=answer if isinstance(answer, WorkResult) else None)
    if isinstance(answer, WorkerDied) and len(answer.begun or ()) > 1:
        pending.death = answer
        return None
    return answer


def _ending(exit_code: int) -> str:
    """How a process ended, as people read it."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = f" ({signal.Signals(-exit_code).name})"
    except ValueError:
        name = ""
    return f"was killed by signal {-exit_code}{name}"

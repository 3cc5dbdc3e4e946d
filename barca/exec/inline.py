"""Running works in this process, one after the other."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from barca.exec.call import Interrupted, execute

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

    from barca.model import Definition, FunctionRef, Work, WorkResult
    from barca.ports import Keep, PackStore


class InlinePending:
    """A work that waits for its turn in this process."""

    def __init__(self, work: Work, keep: Keep | None = None) -> None:
        self.work = work
        self.keep = keep
        self.cancelled = False
        self.failure: BaseException | None = None

    def cancel(self) -> None:
        """Leave it out; a work that runs cannot be stopped from its own thread."""
        self.cancelled = True

    def kept(self, fragments: pl.DataFrame, elapsed_seconds: float, /, *, commit: bool = True) -> None:
        """Hand on what the call has stored; what that raises is no failure of the step, and raised later."""
        if self.keep is not None and self.failure is None:
            try:
                self.keep(fragments, elapsed_seconds, commit=commit)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self.failure = error


class InlineExecutor:
    """Runs works one after the other in this process, in the thread that waits for them.

    Timeouts need the main thread of a POSIX system, and end a call at the next Python instruction after
    its time; elsewhere calls run until they end. Ctrl-C ends the work that runs: what it had computed is
    returned, and the next `wait` raises `KeyboardInterrupt`.

    Args:
        store: Where packs are.
        load: Loads a function.
        log_dir: Directory of logs; `None` records nothing.
        quiet: Whether printed lines are only recorded.
    """

    workers = 1

    def __init__(
        self,
        store: PackStore,
        load: Callable[[FunctionRef], Definition[..., Any]],
        log_dir: Path | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self._store = store
        self._load = load
        self._log_dir = log_dir
        self._quiet = quiet
        self._queue: deque[InlinePending] = deque()
        self._interrupted = False

    def submit(self, work: Work, keep: Keep | None = None) -> InlinePending:
        """Queue a work; see `ports.Executor`."""
        pending = InlinePending(work, keep)
        self._queue.append(pending)
        return pending

    def wait(self, timeout: float | None) -> list[tuple[InlinePending, WorkResult]]:  # noqa: ARG002
        """Run the next work to its end and return it; `timeout` cannot cut a work short.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed, now or during the work returned last.
            BarcaError: What a call stored on its way could not be kept.
        """
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        while self._queue:
            pending = self._queue.popleft()
            if pending.cancelled:
                continue
            try:
                result = execute(
                    pending.work,
                    self._store,
                    self._load,
                    self._log_dir,
                    quiet=self._quiet,
                    keep=pending.kept if pending.keep is not None else None,
                    interruptible=True,
                )
            except Interrupted as interrupted:
                self._interrupted = True
                result = interrupted.result
            if pending.failure is not None:
                raise pending.failure
            return [(pending, result)]
        return []

    def withdraw(self) -> None:
        """Forget what is queued."""
        self._queue.clear()

    def shutdown(self, *, cancel: bool = False) -> None:
        """Forget what is queued; without `cancel`, run it first."""
        while self._queue and not cancel:
            self.wait(None)
        self.withdraw()

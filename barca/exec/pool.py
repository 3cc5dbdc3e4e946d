"""Worker processes and the pipes to them.

No Polars here: the first worker starts before this process imports it, so that both do it side by side.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import weakref
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from barca.config import available_cores
from barca.exec.launch import Setup, start
from barca.exec.messages import receive, send

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from multiprocessing.connection import Connection

    from barca._typing import Buffer
    from barca.exec.worker import Answer, Order

LAST_SECONDS: Final = 1.0
"""How long a process may take to end after it has closed its pipe."""


class WorkerEnded(Exception):
    """A worker ended without an answer.

    Attributes:
        exit_code: Negative for a signal; `None` when the process had cut itself off and was ended for it.
    """

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class Worker:
    """One worker process, started but not waited for.

    Attributes:
        equipped: Whether it was sent its tools, which come before the first order.
    """

    def __init__(self, setup: Setup) -> None:
        self.equipped = False
        self._process, self._pipe = start(setup)
        _all.add(self)

    def equip(self, tools: bytes) -> None:
        """Send a pickle of `worker.Tools`; without it the worker answers nothing."""
        self.equipped = True
        self._send(tools)

    def order(self, order: Order, work: Sequence[Buffer]) -> None:
        """Give it a work, as `wire.to_parts` writes it; its answer comes later, or `WorkerEnded` does."""
        self._send(order, work)

    def _send(self, message: Any, parts: Sequence[Buffer] = ()) -> None:
        with suppress(OSError):  # it has ended, as whoever asks for the answer is told
            send(self._pipe, message, parts)

    def answer(self) -> tuple[Answer, list[bytearray]] | None:
        """The answer to the order and its parts, or `None` while there is none.

        Raises:
            WorkerEnded: There will be none.
        """
        alive = self._process.poll() is None  # asked first: what it sent before it ended can be read after
        try:
            if self._pipe.poll():
                return cast("tuple[Answer, list[bytearray]]", receive(self._pipe))
        except KeyboardInterrupt:  # the rest of the answer would be taken for another
            self.kill()
            raise
        except Exception:  # the end of the pipe, or rubbish that a step wrote to it
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LAST_SECONDS)
        else:
            if alive:
                return None
        code = self._process.returncode
        self.kill()
        raise WorkerEnded(code)

    def end(self) -> None:
        """End it, at once; `stop` waits until it has."""
        self._process.kill()

    def stop(self) -> None:
        """End it, at once, and wait until it has ended; nothing where it was ended before."""
        self.end()
        self._process.wait()
        self._pipe.close()
        _all.discard(self)

    def kill(self) -> None:
        """End it together with every process that its steps have started; nothing where it was ended."""
        if self not in _all:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.stop()

    @property
    def pipe(self) -> Connection:
        """What gets ready when there is an answer, or, as the other end is closed, none will come."""
        return self._pipe

    @property
    def process_id(self) -> int:
        """Of the process."""
        return self._process.pid


def wait_for_any(workers: Iterable[Worker], seconds: float) -> None:
    """Wait until a worker has answered or ended, for so many seconds at most.

    The end of one whose steps left processes behind, which keep its pipe open, is not noticed here.
    """
    wait([worker.pipe for worker in workers], seconds)


_all: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """End the workers of runs that nobody shut down; multiprocessing would wait for them."""
    for worker in list(_all):
        worker.stop()


class Workers:
    """The workers of a run: started when one is needed, with the surroundings of the moment.

    The first has every core, since it is alone wherever one call is made after the other; each further one,
    which is started for calls beside those, has its share.

    Args:
        size: At most so many will work at a time.

    Attributes:
        size: The same.
    """

    def __init__(self, size: int) -> None:
        self.size = max(1, size)
        self._threads = available_cores()
        self._setup = Setup(environment=dict(os.environ), directory=str(Path.cwd()), path=list(sys.path))
        self._idle: list[Worker] = []
        self._started: list[Worker] = []

    def start(self) -> None:
        """Start a worker without waiting for it, unless one is idle."""
        if not self._idle:
            surroundings = {"POLARS_MAX_THREADS": str(self._threads), **self._setup.environment}
            worker = Worker(self._setup._replace(environment=surroundings))
            self._started = [*filter(_all.__contains__, self._started), worker]
            self._idle.append(worker)
            self._threads = max(1, available_cores() // self.size)

    def take(self) -> Worker:
        """A worker that has nothing to do."""
        self.start()
        return self._idle.pop()

    def give_back(self, worker: Worker) -> None:
        """A worker has nothing to do any more."""
        self._idle.append(worker)

    def release(self) -> None:
        """Have those end that have nothing to do, without waiting for it: no worker will be taken."""
        for worker in self._idle:
            worker.end()

    def stop(self) -> None:
        """End every worker, those that are still starting or were taken too.

        A Ctrl-C may come between `take` and the taker's note of what it took: nobody else knows that worker.
        """
        while self._idle:
            self._idle.pop().stop()
        while self._started:
            self._started.pop().kill()

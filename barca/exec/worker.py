"""What runs in a worker process: getting ready, then works one after the other.

No Polars at module level: a process that starts workers imports this before it imports Polars.
"""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import shutil
import signal
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from barca.exec.messages import receive, send

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

    from barca._typing import Buffer
    from barca.model import Definition, FunctionRef
    from barca.ports import PackStore

Answer: TypeAlias = "tuple[str, str, str] | None"
"""When our own code failed, the error's type, message and traceback; else a `WorkResult` comes as parts."""


class Order(NamedTuple):
    """One thing to do; the `Work` comes as parts.

    Attributes:
        progress: Path of its progress file.
        spill: Path of what its one-key calls came to.
        finished: So many of its calls are finished and only to be stored; `None` to call the function.
    """

    progress: str
    spill: str
    finished: int | None = None


class Tools(NamedTuple):
    """The parts of `execute` that are the same for every work.

    Attributes:
        store: Where packs are.
        load: Loads a function.
        log_dir: Directory of logs, or `None`.
        quiet: Whether printed lines are only recorded.
    """

    store: PackStore
    load: Callable[[FunctionRef], Definition[..., Any]]
    log_dir: Path | None
    quiet: bool


def serve(pipe: Connection) -> None:
    """Be a worker until this process is ended, or the one at the other end of the pipe has ended.

    Args:
        pipe: Brings a pickle of `Tools`, then one `Order` with its work after the other; takes an `Answer` to
            each.
    """
    os.set_inheritable(pipe.fileno(), False)  # noqa: FBT003  # it takes no names
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    messages: SimpleQueue[Any] = SimpleQueue()
    receiver = threading.Thread(target=_receive, args=(pipe, messages), name="barca-orders", daemon=True)
    receiver.start()
    tools: Tools | BaseException
    try:
        # all that `_run` imports, while the plan is made
        from barca.exec import call, capture, parts, progress, spill, wire  # noqa: F401

        capture.install()
        tools = pickle.loads(messages.get()[0])
    except BaseException as error:  # told by the works, not lost with the process
        tools = error
    gc.freeze()
    gc.enable()
    while True:
        order, work = messages.get()
        send(pipe, *_answer(order, work, tools))


def _receive(pipe: Connection, messages: SimpleQueue[Any]) -> None:
    """Take messages as they come, so that sending them waits for no import and no work.

    When there will be no more, the coordinator has died: this process, and what its step started, end too,
    as nobody else would end them.
    """
    directories: set[Path] = set()
    with suppress(EOFError, OSError):
        while True:
            message = receive(pipe)
            if isinstance(message[0], Order):
                directories.add(Path(message[0].progress).parent)
            messages.put(message)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def _answer(
    order: Order, work: Sequence[Buffer], tools: Tools | BaseException
) -> tuple[Answer, Sequence[Buffer]]:
    """The answer to an order, and its parts."""
    if isinstance(tools, BaseException):
        return _told(tools), ()
    try:
        if order.finished is None:
            return None, _run(order, work, tools)
        return None, _recover(order, order.finished, work, tools)
    except BaseException as error:
        return _told(error), ()


def _told(error: BaseException) -> Answer:
    return type(error).__name__, str(error), "".join(traceback.format_exception(error))


def _run(order: Order, parts: Sequence[Buffer], tools: Tools) -> list[Buffer]:
    from barca.exec.call import execute
    from barca.exec.parts import PartWriter
    from barca.exec.progress import Progress
    from barca.exec.spill import Spill
    from barca.exec.wire import from_parts, to_parts

    work = from_parts(parts)
    progress = Progress(Path(order.progress))
    try:
        with Spill(Path(order.spill)) as spill:
            result = execute(
                work,
                tools.store,
                tools.load,
                tools.log_dir,
                quiet=tools.quiet,
                progress=progress,
                spill=spill,
                keep=PartWriter(Path(order.progress)),
            )
        return to_parts(result, work.keys)
    finally:
        progress.close()


def _recover(order: Order, finished: int, parts: Sequence[Buffer], tools: Tools) -> list[Buffer]:
    from barca.exec.call import recover
    from barca.exec.spill import read_spill
    from barca.exec.wire import from_parts, to_parts

    came = itertools.islice(read_spill(Path(order.spill)), finished)
    work = from_parts(parts)
    return to_parts(recover(work, tools.store, tools.load, came), work.keys)

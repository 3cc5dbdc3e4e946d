"""Messages through the pipe between the process of a run and a worker's.

A message is a small pickle, and what is large comes after it as bytes: `multiprocessing` would copy those
several times on both sides, and read them in small pieces.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from barca._typing import Buffer


def send(pipe: Connection, message: Any, parts: Sequence[Buffer] = ()) -> None:
    """Send a message, and parts of it as they are.

    Raises:
        OSError: The other end is closed.
    """
    pipe.send((message, [memoryview(part).nbytes for part in parts]))
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(pipe.fileno(), rest) :]


def receive(pipe: Connection) -> tuple[Any, list[bytearray]]:
    """The next message and its parts, waited for.

    Raises:
        EOFError: The other end is closed, perhaps in the middle of a message.
        OSError: This end is closed.
    """
    message, sizes = pipe.recv()
    return message, [_read(pipe, size) for size in sizes]


def _read(pipe: Connection, size: int) -> bytearray:
    part = bytearray(size)
    rest = memoryview(part)
    while rest:
        count = os.readv(pipe.fileno(), [rest])
        if not count:
            raise EOFError
        rest = rest[count:]
    return part

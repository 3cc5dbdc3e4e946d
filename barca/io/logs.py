"""What steps printed: appended by workers line by line, read back as one frame.

A run's lines are JSON lines in `<log_dir>/<run_id>/<process id>.jsonl`, one file per process so that nobody
waits for anybody. Each line is written when it ends, with no buffer of our own: what a step printed before
its process was killed is there.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Final

import polars as pl

from barca.schemas import CALL, KEY, LOGS, NODE

if TYPE_CHECKING:
    from pathlib import Path

    from barca._typing import NodeId

STREAM: Final = "stream"
TS: Final = "ts"
LINE: Final = "line"

_quoted: Final = json.encoder.encode_basestring_ascii
_STORED: Final = pl.Schema({name: pl.Int64 if name == TS else dtype for name, dtype in LOGS.items()})


class LogFile:
    """Appends one process's lines of one run; the file appears with the first line."""

    def __init__(self, log_dir: Path, run_id: str) -> None:
        self._directory = log_dir / run_id
        self._descriptor: int | None = None
        self._head: tuple[NodeId, str, str | None, str] | None = None
        self._head_text = ""

    def append(self, node: NodeId, call: str, key: str | None, stream: str, line: str) -> None:
        """Write one line through to the operating system.

        Args:
            node: Node that printed.
            call: Its call.
            key: Key of a one-key call, else `None`.
            stream: `stdout` or `stderr`.
            line: Text without its line end.
        """
        if self._descriptor is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            path = self._directory / f"{os.getpid()}.jsonl"
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if not line.isascii():  # lone surrogates would make the whole file unreadable
            line = line.encode("utf-8", "backslashreplace").decode()
        head = (node, call, key, stream)
        if head != self._head:  # the same for thousands of lines
            self._head = head
            self._head_text = json.dumps({NODE: node, CALL: call, KEY: key, STREAM: stream})[:-1]
        text = f'{self._head_text}, "{TS}": {time.time_ns() // 1000}, "{LINE}": {_quoted(line)}}}\n'
        os.write(self._descriptor, text.encode("ascii"))

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def read_logs(log_dir: Path, run_id: str) -> pl.DataFrame:
    """Every line that the steps of a run printed, oldest first: frame of `schemas.LOGS`.

    A line that was cut short when its process was killed is left out. Empty for a run without lines.
    """
    parts = [pl.DataFrame(schema=_STORED)]
    for path in sorted((log_dir / run_id).glob("*.jsonl")):
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole:
            parts.append(pl.read_ndjson(whole, schema=_STORED))
    lines = pl.concat(parts).with_columns(pl.from_epoch(TS, time_unit="us").dt.replace_time_zone("UTC"))
    return lines.sort(TS, maintain_order=True).match_to_schema(LOGS)

"""Markers of runs that have not ended: what tells a run that is going from one that was killed.

A run writes its marker when it starts and removes it once its row in the ledger's `runs` is committed. A
marker whose process is gone is an interrupted run; after a power cut there may be none of a run that had just
begun. The process is identified by id and start time, since ids are used again.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import polars as pl

from barca.io.leftovers import process_exists
from barca.io.storage import write_whole
from barca.schemas import RUN_ID, TIMESTAMP

if TYPE_CHECKING:
    from datetime import datetime

MARKERS: Final = pl.Schema(
    {
        RUN_ID: pl.String(),
        "command": pl.String(),
        "target": pl.String(),
        "pid": pl.Int64(),
        "process_started": pl.String(),
        "host": pl.String(),
        "started_at": TIMESTAMP,
        "alive": pl.Boolean(),
    }
)
"""One row per marker. `process_started`: when the process began, as the operating system writes it.
`alive`: whether that process still runs; null for a run on another machine, which cannot be told here."""


def write_marker(
    directory: Path, *, run_id: str, command: str, target: str | None, started_at: datetime
) -> None:
    """Mark a run of this process as going.

    Args:
        directory: Of the markers; made when missing.
        run_id: The run.
        command: The verb that started it.
        target: Display text of its target.
        started_at: When it started, aware.

    Raises:
        StoreError: The file system refused.
    """
    marker = {
        RUN_ID: run_id,
        "command": command,
        "target": target,
        "pid": os.getpid(),
        "process_started": _process_started(os.getpid()),
        "host": platform.node(),
        "started_at": started_at.isoformat(),
    }
    write_whole(_marker_file(directory, run_id), json.dumps(marker, ensure_ascii=False).encode())


def remove_marker(directory: Path, run_id: str) -> None:
    """Remove the marker of a run that has ended; nothing when it is gone already."""
    _marker_file(directory, run_id).unlink(missing_ok=True)


def read_markers(directory: Path) -> pl.DataFrame:
    """The runs with a marker, oldest first, as a frame of `MARKERS`; other files are passed over."""
    markers = [marker for file in sorted(directory.glob("*.json")) if (marker := _read(file)) is not None]
    parsed = pl.col("started_at").str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
    raw = pl.Schema({**MARKERS, "started_at": pl.String()})
    return pl.DataFrame(markers, schema=raw).with_columns(parsed).sort("started_at", RUN_ID)


def _marker_file(directory: Path, run_id: str) -> Path:
    return directory / f"{quote(run_id, safe='')}.json"


def _read(file: Path) -> dict[str, Any] | None:
    """A marker file's fields and whether its process lives; `None` when it is not a marker."""
    try:
        marker = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(marker, dict):
        return None
    fields: dict[str, Any] = {name: marker.get(name) for name in MARKERS if name != "alive"}
    pid = fields.pop("pid")
    texts = all(value is None or isinstance(value, str) for value in fields.values())
    if not texts or fields[RUN_ID] is None or not isinstance(pid, int) or not 0 < pid < 2**31:
        return None
    return {**fields, "pid": pid, "alive": _is_alive(pid, fields["process_started"], fields["host"])}


def _is_alive(pid: int, process_started: str | None, host: str | None) -> bool | None:
    if host != platform.node():
        return None
    return process_exists(pid) and process_started in (None, _process_started(pid))


def _process_started(pid: int) -> str | None:
    """When a process began: ticks since boot on Linux, elsewhere what `ps` says; `None` when unknown."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return _process_started_by_ps(pid)
    return status.rpartition(b")")[2].split()[19].decode()  # the name, in parentheses, may hold blanks


def _process_started_by_ps(pid: int) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603 -- the arguments are ours
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 -- where `ps` lives differs
            capture_output=True,
            text=True,
            check=True,
            timeout=5,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None

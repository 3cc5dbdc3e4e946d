"""Markers tell runs that go from runs that were killed."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from barca.io import runs
from barca.io.runs import MARKERS, read_markers, remove_marker, write_marker

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def mark(directory: Path, run_id: str = "r1", **fields: object) -> Path:
    """A marker of this process, some fields changed."""
    write_marker(directory, run_id=run_id, command="get", target="scored", started_at=NOON)
    (path,) = [path for path in directory.glob("*.json") if json.loads(path.read_bytes())["run_id"] == run_id]
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return path


def test_a_marker_of_this_process_is_alive_until_it_is_removed(tmp_path: Path):
    directory = tmp_path / "runs"
    assert read_markers(directory).schema == MARKERS
    assert not directory.exists()
    mark(directory)
    (row,) = read_markers(directory).to_dicts()
    assert (row["run_id"], row["command"], row["target"], row["started_at"]) == ("r1", "get", "scored", NOON)
    assert (row["pid"], row["host"], row["alive"]) == (os.getpid(), platform.node(), True)
    remove_marker(directory, "r1")
    remove_marker(directory, "r1")
    assert read_markers(directory).height == 0


def test_no_part_of_a_marker_is_ever_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    there: list[list[str]] = []
    write = Path.write_bytes

    def looking(path: Path, content: bytes) -> int:
        written = write(path, content)
        there.append([file.name for file in tmp_path.glob("*.json")])
        return written

    monkeypatch.setattr(Path, "write_bytes", looking)
    write_marker(tmp_path, run_id="r1", command="get", target=None, started_at=NOON)
    assert there == [[]] and read_markers(tmp_path).height == 1


def test_a_killed_process_leaves_a_marker_that_is_not_alive(tmp_path: Path):
    script = f"""
import os, signal
from pathlib import Path
from datetime import datetime, UTC
from barca.io.runs import write_marker
write_marker(Path({str(tmp_path)!r}), run_id="r1", command="get", target=None, started_at=datetime.now(UTC))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    (row,) = read_markers(tmp_path).to_dicts()
    assert (row["alive"], row["target"]) == (False, None)


def test_a_process_that_took_over_the_id_is_not_the_run(tmp_path: Path):
    mark(tmp_path, process_started="12345")
    assert read_markers(tmp_path)["alive"].to_list() == [False]


def test_without_a_start_time_the_id_decides(tmp_path: Path):
    mark(tmp_path, "r1", process_started=None)
    mark(tmp_path, "r2", process_started=None, pid=2**22 + 1)
    assert read_markers(tmp_path).select("run_id", "alive").rows() == [("r1", True), ("r2", False)]


def test_start_times_come_from_ps_where_there_is_no_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "_process_started", runs._process_started_by_ps)
    mark(tmp_path)
    assert read_markers(tmp_path)["alive"].to_list() == [True]
    assert runs._process_started_by_ps(2**22 + 1) is None


def test_a_run_of_another_machine_is_unknown(tmp_path: Path):
    mark(tmp_path, host="elsewhere")
    assert read_markers(tmp_path)["alive"].to_list() == [None]


def test_markers_come_oldest_first_and_any_run_id_is_a_file_name(tmp_path: Path):
    mark(tmp_path, "../b/é", started_at=(NOON + timedelta(hours=1)).isoformat())
    mark(tmp_path, "z")
    assert read_markers(tmp_path)["run_id"].to_list() == ["z", "../b/é"]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"3",
        b"{}",
        b'{"run_id": "x"}',
        b'{"run_id": "x", "pid": "7"}',
        b'{"run_id": 1, "pid": 7}',
    ]
    + [
        b'{"run_id": "x", "pid": -1}',
        b'{"run_id": "x", "pid": 1e9}',
        b'{"run_id": "x", "pid": 99999999999999999999}',
    ],
)
def test_other_files_are_passed_over(tmp_path: Path, content: bytes):
    mark(tmp_path)
    (tmp_path / "garbage.json").write_bytes(content)
    (tmp_path / "directory.json").mkdir()
    (tmp_path / ".staging-1-a").write_bytes(content)
    assert read_markers(tmp_path)["run_id"].to_list() == ["r1"]


def test_a_marker_with_a_broken_time_still_counts(tmp_path: Path):
    mark(tmp_path, started_at="yesterday")
    assert read_markers(tmp_path)["started_at"].to_list() == [None]

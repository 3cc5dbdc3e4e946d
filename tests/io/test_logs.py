"""The files that hold what steps printed."""

from __future__ import annotations

from pathlib import Path

from barca.io.logs import LogFile, read_logs
from barca.schemas import LOGS


def test_lines_come_back_in_the_schema_oldest_first(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "run1")
    log.append("a.py:f", "w1", "r=1", "stdout", 'quotes " and \\ and ü')
    log.append("a.py:f", "w1", None, "stderr", "")
    log.close()
    lines = read_logs(tmp_path, "run1")
    assert lines.schema == LOGS
    assert lines.drop("ts").rows() == [
        ("a.py:f", "w1", "r=1", "stdout", 'quotes " and \\ and ü'),
        ("a.py:f", "w1", None, "stderr", ""),
    ]
    assert lines.get_column("ts").is_sorted()


def test_a_run_without_lines_is_an_empty_frame_and_creates_nothing(tmp_path: Path) -> None:
    LogFile(tmp_path, "run1").close()
    assert read_logs(tmp_path, "run1").schema == LOGS
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "run1")
    log.append("a.py:f", "w1", None, "stdout", "whole")
    log.close()
    [file] = (tmp_path / "run1").iterdir()
    file.write_bytes(file.read_bytes() + b'{"node": "a.py:f", "ca')
    assert read_logs(tmp_path, "run1").get_column("line").to_list() == ["whole"]


def test_every_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "run1")
    log.append("a.py:f", "w1", None, "stdout", "mine")
    log.close()
    [file] = (tmp_path / "run1").iterdir()
    file.with_name("1.jsonl").write_bytes(file.read_bytes().replace(b"mine", b"other"))
    assert sorted(read_logs(tmp_path, "run1").get_column("line")) == ["mine", "other"]
    assert read_logs(tmp_path, "run2").is_empty()

"""What is published is on the disk before it gets its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from barca.io.sinks import durable

SYNC = durable._sync_function  # other tests get one that does nothing


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is flushed: files, directories, and with a `*` all that waits for the disk below one."""
    names: list[str] = []
    for function in ("flush_file", "flush_directory"):
        monkeypatch.setattr(durable, function, lambda path: names.append(path.name))
    monkeypatch.setattr(durable, "_sync_function", lambda: lambda path: names.append(f"{path.name}/*"))
    return names


def write(directory: Path, count: int) -> list[Path]:
    files = [directory / f"part={number % 2}" / f"{number}.csv" for number in range(count)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return files


def test_few_files_are_flushed_one_by_one_with_their_directories(tmp_path: Path, flushed: list[str]):
    durable.flush_files(write(tmp_path / "new", 3), tmp_path / "new")
    assert flushed[:3] == ["0.csv", "1.csv", "2.csv"]
    assert sorted(flushed[3:]) == ["new", "part=0", "part=1"]


def test_many_files_are_flushed_together(tmp_path: Path, flushed: list[str]):
    durable.flush_files(write(tmp_path / "new", 100), tmp_path / "new")
    assert flushed == ["new/*"]


def test_many_files_are_flushed_one_by_one_where_the_system_has_no_call_for_it(
    tmp_path: Path, flushed: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(durable, "_sync_function", lambda: None)
    durable.flush_files(write(tmp_path / "new", 20), tmp_path / "new")
    assert len(flushed) == 20 + 3


def test_a_refusal_of_the_disk_is_told(tmp_path: Path):
    if (sync := SYNC()) is None:
        return
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "missing")

"""Whole files, and directory names for nodes."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barca.errors import StoreError
from barca.io.leftovers import process_exists
from barca.io.storage import node_directory, write_atomically, write_whole


@pytest.mark.parametrize("write", [write_atomically, write_whole])
def test_a_file_is_replaced_whole(tmp_path: Path, write: Callable[[Path, bytes], None]):
    path = tmp_path / "new" / "f"
    write(path, b"one")
    write(path, b"two")
    assert path.read_bytes() == b"two"
    assert [other.name for other in path.parent.iterdir()] == ["f"]


@pytest.mark.parametrize(
    ("write", "refused"),
    [(write_atomically, "replace"), (write_whole, "replace"), (write_whole, "write_bytes")],
)
def test_what_stood_there_stays_where_the_new_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None], refused: str
):
    path = tmp_path / "f"
    write(path, b"one")
    original = getattr(Path, refused)

    def fail(file: Path, *arguments: Any) -> None:
        if refused == "write_bytes":
            original(file, *arguments)
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(Path, refused, fail)
    with pytest.raises(StoreError):
        write(path, b"two")
    assert path.read_bytes() == b"one"
    assert [other.name for other in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("write", [write_atomically, write_whole])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, write: Callable[[Path, bytes], None]):
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(StoreError) as caught:
        write(tmp_path / "f" / "g", b"")
    assert caught.value.file == str(tmp_path / "f" / "g")


@pytest.mark.parametrize(
    ("node", "directory"),
    [
        ("pipeline.py:scored", "pipeline.py@scored"),
        ("flows/daily/a_b.py:clean2", "flows+daily+a_b.py@clean2"),
        ("weekly-sales", "weekly-sales"),
    ],
)
def test_an_ordinary_node_keeps_its_name(node: str, directory: str):
    assert node_directory(node) == directory


@pytest.mark.parametrize(
    "node",
    [
        "Upper.py:F",
        "../up",
        "a b",
        "é",
        "con",
        "nul.txt",
        "a.",
        ".hidden",
        "a+b",
        "a@b",
        "a~b",
        "",
        "a" * 97,
        "a//b",
    ],
)
def test_any_other_node_gets_a_hash(node: str):
    assert len(node_directory(node).partition("~")[2]) == 32


def test_nodes_that_differ_in_case_have_directories_that_differ_without_it():
    names = {node_directory(node).lower() for node in ("a.py:f", "a.py:F", "A.py:f", "a.py@f", "a.py:f ")}
    assert len(names) == 5


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=120) | st.from_regex(
    r"[a-z/:+@~.]{0,8}", fullmatch=True
)


@given(text, text)
def test_directories_are_safe_and_injective(one: str, other: str):
    name = node_directory(one)
    assert name not in ("", ".", "..") and len(name) <= 96
    assert not set(name) & set('/\\:*?"<>|') and name.isascii() and name == name.lower()
    assert (name == node_directory(other)) == (one == other)


def test_processes():
    import os

    assert process_exists(os.getpid()) and process_exists(1)
    assert not process_exists(2**22 + 1) and not process_exists(2**70)

"""What finished calls came to, kept outside of their process."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from barca.exec import spill
from barca.exec.spill import Spill, read_spill


def test_what_is_kept_is_read_in_order(tmp_path: Path) -> None:
    with Spill(tmp_path / "one") as kept:
        assert kept.keep({"a": 1}, 0.5)
        assert kept.keep("b", 0.25)
    assert list(read_spill(tmp_path / "one")) == [({"a": 1}, 0.5), ("b", 0.25)]


def test_what_cannot_be_kept_ends_the_chunk_so_that_none_takes_its_place(tmp_path: Path) -> None:
    with Spill(tmp_path / "one") as kept:
        assert kept.keep("a", 0.1)
        assert not kept.keep(threading.Lock(), 0.1)
    assert list(read_spill(tmp_path / "one")) == [("a", 0.1)]


def test_too_much_to_lose_ends_the_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "SPILL_BYTES", 300)
    with Spill(tmp_path / "one") as kept:
        assert [kept.keep("x" * 100, 0.1) for _ in range(3)] == [True, True, False]
    assert len(list(read_spill(tmp_path / "one"))) == 3, "what ended it is kept too"


def test_a_record_that_was_cut_is_none(tmp_path: Path) -> None:
    with Spill(tmp_path / "one") as kept:
        kept.keep("a", 0.1)
        kept.keep("b" * 100, 0.1)
    data = (tmp_path / "one").read_bytes()
    (tmp_path / "one").write_bytes(data[:-9])
    assert list(read_spill(tmp_path / "one")) == [("a", 0.1)]


def test_nothing_kept_is_no_file(tmp_path: Path) -> None:
    with Spill(tmp_path / "one"):
        pass
    assert not (tmp_path / "one").exists()

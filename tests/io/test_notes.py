"""Notes: what is read is what was written whole, or nothing."""

from __future__ import annotations

import pytest

from barca.io.ledger import DeltaLedger
from barca.io.notes import DIRECTORY, Notes, outdate
from tests.io.test_ledger import rows, write


def test_a_note_is_replaced_and_removed(tmp_path):
    (tmp_path / "materializations").mkdir()
    notes = Notes(tmp_path)
    assert notes.read("a.py:f") is None
    notes.write("a.py:f", {"keys": 3})
    notes.write("a.py:f", {"keys": 4, "é": ["%"]})
    assert notes.read("a.py:f") == {"keys": 4, "é": ["%"]}
    assert notes.read("a.py:g") is None
    notes.write("a.py:f", None)
    notes.write("a.py:f", None)
    assert notes.read("a.py:f") is None


def test_without_a_ledger_there_is_nothing_to_note_on(tmp_path):
    Notes(tmp_path).write("n", {"keys": 1})
    assert list(tmp_path.iterdir()) == []


def test_a_broken_note_is_no_note(tmp_path):
    directory = tmp_path / "materializations" / DIRECTORY
    directory.mkdir(parents=True)
    notes = Notes(tmp_path)
    notes.write("n", {"keys": 3})
    [path] = directory.iterdir()
    for content in ('{"version": 1, "ke', "[]", '{"version": 0, "keys": 3}', "", "\ufffd"):
        path.write_text(content)
        assert notes.read("n") is None


def test_notes_are_no_rows_and_outlive_a_vacuum(tmp_path):
    ledger = DeltaLedger(tmp_path)
    write(ledger, *(rows("n", [f"k{i}"]) for i in range(70)))
    Notes(tmp_path).write("n", {"keys": 3})
    ledger.maintain(60.0)
    assert Notes(tmp_path).read("n") == {"keys": 3}
    assert ledger.reader().materialized("n").height == 70


@pytest.mark.parametrize("given_up", ["n", None])
def test_a_note_of_before_results_were_given_up_is_none_whenever_it_is_written(tmp_path, given_up):
    (tmp_path / "materializations").mkdir()
    runs = Notes(tmp_path).pinned()
    runs.write("n", {"keys": 3})
    runs.write("m", {"keys": 4})
    outdate(tmp_path, given_up)
    assert Notes(tmp_path).read("n") is None
    assert Notes(tmp_path).read("m") == (None if given_up is None else {"keys": 4})
    runs.write("n", {"keys": 5})
    assert Notes(tmp_path).read("n") is None
    runs.pinned().write("n", {"keys": 6})
    assert Notes(tmp_path).read("n") == {"keys": 6}


def test_a_note_goes_with_the_commit_that_it_followed(tmp_path):
    ledger = DeltaLedger(tmp_path)
    write(ledger, rows("n", ["k1"]), rows("n", ["k2"]))
    Notes(tmp_path).write("n", {"keys": 2})
    last = max((tmp_path / "materializations/_delta_log").iterdir())
    write(ledger, rows("n", ["k3"]))
    assert Notes(tmp_path).read("n") == {"keys": 2}
    last.rename(last.with_suffix(".damaged"))
    assert Notes(tmp_path).read("n") is None
    last.write_text("another's")
    assert Notes(tmp_path).read("n") is None


def test_a_note_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "materializations").mkdir()
    (tmp_path / "materializations" / DIRECTORY).write_text("no directory")
    Notes(tmp_path).write("n", {"keys": 3})
    assert Notes(tmp_path).read("n") is None

"""What people write on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barca.cli.arguments import (
    is_file,
    names,
    parse_batch,
    parse_partition,
    pick,
    several_of,
    split_positionals,
)
from barca.errors import BarcaError, UsageError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "x.py").write_text("")
    (tmp_path / "y.py").write_text("")
    return tmp_path


@pytest.mark.parametrize("word", ["x.py", "no/such.py", "a/", ".", "..", "a/b", "./a"])
def test_first_words_that_are_files(here, word):
    assert is_file(word)


@pytest.mark.parametrize("word", ["a", "scored", "x.py:scored", "a/b/x.py:scored", "a,b", "a/c", ""])
def test_first_words_that_are_targets(here, word):
    assert not is_file(word)


def test_positionals(here):
    assert split_positionals([]) == (None, [])
    assert split_positionals(["scored"]) == (["scored"], [])
    assert split_positionals(["x.py:a, b ,c", "x.py"]) == (["x.py:a", "b", "c"], [Path("x.py")])
    assert split_positionals(["x.py", "y.py"]) == (None, [Path("x.py"), Path("y.py")])
    assert split_positionals([".", "a/b"]) == (None, [Path(), Path("a/b")])
    assert split_positionals(["a", "a"]) == (["a"], [Path("a")])


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["zz.py"], "there is no file `zz.py`", "valid: `x.py`, `y.py`"),
        (["scored", "zz.py"], "there is no file `zz.py`", "valid"),
        (["scored", "ranked"], "`ranked` is no project file", "`scored,ranked`"),
        ([","], "`,` names no target", "barca get scored"),
        (["c/zz.py"], "there is no file `c/zz.py`", "existing"),
    ],
)
def test_wrong_positionals(here, words, message, hint):
    with pytest.raises(UsageError) as raised:
        split_positionals(words)
    assert raised.value.message == message
    assert hint in raised.value.remediation


def test_partitions():
    assert parse_partition([]) is None
    assert parse_partition(["r=r1, r2,r1"]) == {"r": ["r1", "r2"]}
    assert parse_partition(["r=a", "m=1", "r=b"]) == {"r": ["a", "b"], "m": ["1"]}
    assert parse_partition(["r=a=b"]) == {"r": ["a=b"]}
    assert parse_partition(['{"r": "a,b", "m": [1, "02"]}', "r=c"]) == {"r": ["a,b", "c"], "m": ["1", "02"]}


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8),
        st.lists(st.text(max_size=8), min_size=1, max_size=3, unique=True),
        min_size=1,
        max_size=3,
    )
)
def test_a_json_object_selects_any_value(selection):
    import json

    assert parse_partition([json.dumps(selection)]) == selection


@pytest.mark.parametrize(
    "text",
    ["r", "=a", "r=", "r=a,,b", " =a", "{", '{"r": true}', '{"r": []}', '{"r": 1.5}', '{"r": [null]}', ""],
)
def test_wrong_partitions_are_named(text):
    with pytest.raises(BarcaError) as raised:
        parse_partition([text])
    assert raised.value.kind == "usage" and f"--partition `{text}`" in raised.value.message
    assert "--partition retailer=r1,r2" in raised.value.remediation


def test_batches():
    assert parse_batch([]) is None
    assert parse_batch(["all"]) == "all"
    assert parse_batch(["none"]) == "none"
    assert parse_batch(["20"]) == 20
    assert parse_batch(["auto"]) == "auto"
    assert parse_batch(["scored=all", "x.py:ranked=100"]) == {"scored": "all", "x.py:ranked": 100}
    assert parse_batch(["scored=all", "20"]) == {None: 20, "scored": "all"}


@pytest.mark.parametrize(
    "texts",
    [
        ["0"],
        ["-1"],
        ["1.5"],
        ["some"],
        [""],
        ["²"],
        ["=2"],
        ["a="],
        ["all", "20"],
        ["a=1", "a=2"],
    ],
)
def test_wrong_batches(texts):
    with pytest.raises(UsageError) as raised:
        parse_batch(texts)
    assert "--batch all" in raised.value.remediation


def test_closed_sets():
    assert several_of("--state", None, ("stale",)) is None
    assert several_of("--state", "stale, cached", ("stale", "cached")) == ["stale", "cached"]
    with pytest.raises(UsageError, match="--state `stal` is unknown") as raised:
        several_of("--state", "stal", ("stale", "cached"))
    assert "did you mean `stale`?" in raised.value.remediation
    with pytest.raises(UsageError, match="names nothing"):
        several_of("--state", ",", ("stale",))


def test_small_helpers():
    assert names(" a,, b ") == ["a", "b"]
    assert names(None) == []
    assert list(pick({"b": 1, "a": 2}, ["a", "c", "b"]).items()) == [("a", 2), ("b", 1)]

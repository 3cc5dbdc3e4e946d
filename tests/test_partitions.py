"""Keys: their text forms, and what may be declared."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barca import asset, batches, batches_auto, batches_by, collect, partitions, partitions_from
from barca.errors import DefinitionError
from barca.model import Deferred
from barca.partitions import (
    UNSAFE,
    decode_value,
    display_keys,
    display_text,
    encode_value,
    key_text,
    normalise_groups,
    parse_key,
    step_text,
)

VALUES = st.text(max_size=12)
NAMES = st.text(st.sampled_from("abc_Z09é"), min_size=1, max_size=4).filter(str.isidentifier)
KEYS = st.dictionaries(NAMES, VALUES, max_size=3)


@given(VALUES)
def test_encoding_is_undone_by_decoding(value: str):
    assert decode_value(encode_value(value)) == value


@given(KEYS, KEYS)
def test_key_texts_are_injective(one: dict[str, str], other: dict[str, str]):
    assert (key_text(one) == key_text(other)) == (one == other)


@given(KEYS)
def test_keys_parse_back(values: dict[str, str]):
    assert parse_key(key_text(values)) == values


@given(VALUES)
def test_unsafe_finds_exactly_what_encoding_changes(value: str):
    found = pl.Series([value]).str.contains(UNSAFE).item()
    assert found == (encode_value(value) != value)


def test_forms_of_a_key():
    key = key_text({"retailer": "r/1", "day": "2026-10-01"})
    assert key == "day=2026-10-01/retailer=r%2F1"
    assert display_text(key) == "day=2026-10-01,retailer=r/1"
    assert display_keys([key, ""]) == ["day=2026-10-01,retailer=r/1", ""]
    assert step_text("p.py:a", key) == "p.py:a[day=2026-10-01,retailer=r/1]"
    assert step_text("p.py:a", "") == "p.py:a"
    assert (key_text({}), parse_key("")) == ("", {})


def test_p3_names_that_differ_in_case_or_unicode_form_stay_apart():
    assert partitions(["abc", "ABC", "\u00e9", "e\u0301"]).values == ("abc", "ABC", "\u00e9", "e\u0301")


def test_f11_key_values():
    assert partitions([2, 1]).values == ("2", "1")
    assert partitions([dt.date(2026, 10, 1)]).values == ("2026-10-01",)
    assert partitions(["01", "1"]).values == ("01", "1")
    assert partitions([]).values == ()
    assert partitions(str(n) for n in range(2)).values == ("0", "1")
    assert partitions(pl.Series(["a", "b"])).values == ("a", "b")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ("abc", "`'abc'`"),
        ({"a": 1}, "dict"),
        ({"a"}, "set"),
        (3, "`3`"),
        (None, "`None`"),
        ([True], "`True`"),
        ([1.5], "`1.5`"),
        ([None], "`None`"),
        ([("a", "b")], "tuple"),
        ([dt.datetime(2026, 1, 1)], "datetime"),
        ([1, 2, "1"], "`1` stands twice"),
        (["a", "a"], "`a` stands twice"),
        (["caf\udce9"], r"caf\udce9"),
    ],
)
def test_f11_refused_key_values_are_named(values: object, named: str):
    with pytest.raises(DefinitionError) as caught:
        partitions(values)
    assert named in caught.value.message
    assert caught.value.remediation


@pytest.mark.parametrize("helper", [partitions, partitions_from, collect])
def test_helpers_take_one_positional_argument(helper: object):
    for args, kwargs in [((), {}), ((["a"], ["b"]), {}), ((), {"values": ["a"]}), ((["a"],), {"x": 1})]:
        with pytest.raises(DefinitionError, match=f"{helper.__name__}\\(\\) takes exactly one argument"):
            helper(*args, **kwargs)


@pytest.mark.parametrize("helper", [partitions_from, collect])
def test_sources_are_definitions_or_ids(helper: object):
    source = asset(lambda: 1)
    assert helper(source).source is source
    assert helper("other.py:node").source == "other.py:node"
    with pytest.raises(DefinitionError, match="decorated function or a node id"):
        helper(lambda: 1)


def test_deferred_expressions_are_not_evaluated():
    never = Deferred(lambda: 1 / 0, file="f.py", line=1, source="1/0")
    assert partitions(never).values is never
    assert batches(never).groups is never


def test_groups():
    assert batches([["r1", 2], ("r3",)]).groups == (("r1", "2"), ("r3",))
    assert batches([["a"]], strict=True).strict is True
    grouped = normalise_groups([[{"b": 1, "a": "x"}], [{"a": "y", "b": 1}]])
    assert grouped == (((("a", "x"), ("b", "1")),), ((("a", "y"), ("b", "1")),))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("abc", "list of lists"),
        (["abc"], "at least one key"),
        ([[]], "at least one key"),
        ([3], "at least one key"),
        ([["a"], ["a"]], "`a` stands in batches.* twice"),
        ([["a", "a"]], "`a`"),
        ([[True]], "`True`"),
        ({"a": ["b"]}, "list of lists"),
    ],
)
def test_refused_groups(groups: object, message: str):
    with pytest.raises(DefinitionError, match=message):
        batches(groups)


def test_a_key_named_by_the_empty_text_can_stand_in_one_group_only():
    with pytest.raises(DefinitionError, match="twice"):
        batches([[""], [""]])


def test_groups_may_be_generators():
    assert batches((key for key in group) for group in (["a"], ["b", "c"])).groups == (("a",), ("b", "c"))


def test_strict_is_a_flag():
    with pytest.raises(DefinitionError, match="strict"):
        batches([["a"]], strict="yes")


def test_groups_that_are_not_given():
    with pytest.raises(
        DefinitionError, match=r"batches_by\(...\) takes a function of a key, and none is given"
    ):
        batches_by()
    with pytest.raises(DefinitionError, match=r"takes a list of lists of keys, and none is given"):
        batches()


def test_batches_by():
    assert (batches_by(len).label, batches_by(len, max_size=2).max_size) == (len, 2)
    with pytest.raises(DefinitionError, match="a function of a key"):
        batches_by("region")
    for size in (0, True, "2", -1):
        with pytest.raises(DefinitionError, match="max_size"):
            batches_by(len, max_size=size)


@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), float("nan"), True, "30"])
def test_calls_cannot_be_asked_to_take_such_seconds(seconds: object):
    with pytest.raises(DefinitionError, match="positive number of seconds"):
        batches_auto(target_seconds=seconds)
    assert batches_auto(target_seconds=2).target_seconds == 2.0

"""Keyed sources: their keys and values as one fragment."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barca.errors import FragmentError, InputError, OutputError
from barca.io.digests import digest_pairs
from barca.io.fragments import pack_keyed, read_keyed
from barca.io.keyed import keyed_as
from barca.io.values import read_value
from barca.schemas import FRAGMENTS, KEYED
from tests.io.packing import NODE, ONLY_KEY, PATH, CountingFileStore, CountingMemoryStore, only


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    return CountingFileStore(tmp_path) if request.param == "disk" else CountingMemoryStore()


def pack(store, returned: Any, path: str = PATH) -> pl.DataFrame:
    return pack_keyed(store, path, NODE, returned, ONLY_KEY)


def digest(returned: Any) -> str:
    return pack(CountingMemoryStore(), returned)["digest"].item()


def test_a_dict_is_one_row_per_key(store):
    fragment = pack(store, {"r2": "v2", "r1": {"b": 1, "a": [None, True, 1.5, "é"]}, 3: None})
    assert fragment.schema == FRAGMENTS
    assert fragment.select("key", "run_hash", "format", "path", "row_offset", "rows").rows() == [
        ("", "h", "keyed", PATH, 0, 3)
    ]
    pairs = read_keyed(store, fragment)
    assert pairs.schema == KEYED
    assert pairs.rows() == [
        ("3", "null", 2),
        ("r1", '{"a":[null,true,1.5,"é"],"b":1}', 1),
        ("r2", '"v2"', 0),
    ]
    assert dict(store.calls) == {"write": 1, "scan": 1}


def test_a_list_has_keys_and_no_values(store):
    names = ["r2", "1", "r10"]
    for returned in (["r2", 1, "r10"], ("r2", 1, "r10"), pl.Series(names), pl.DataFrame({"k": names})):
        assert read_keyed(store, pack(store, returned)).rows() == [
            ("1", None, 1),
            ("r10", None, 2),
            ("r2", None, 0),
        ]


@pytest.mark.parametrize("returned", [{}, [], (), pl.DataFrame(schema={"k": pl.String, "v": pl.Int64})])
def test_f8_no_keys_are_a_success(store, returned):
    fragment = pack(store, returned)
    assert fragment["rows"].item() == 0
    assert read_keyed(store, fragment).equals(pl.DataFrame(schema=KEYED))


def test_tables_give_keys_and_values(store):
    one = pl.DataFrame({"retailer": [2, 1], "version": ["b", "a"]})
    assert read_keyed(store, pack(store, one)).rows() == [("1", '"a"', 1), ("2", '"b"', 0)]
    several = pl.LazyFrame(
        {"retailer": ["x"], "n": [1], "at": ["t"]}, schema_overrides={"retailer": pl.Categorical}
    )
    assert read_keyed(store, pack(store, several)).rows() == [("x", '{"at":"t","n":1}', 0)]
    dates = pl.DataFrame({"day": [dt.date(2026, 1, 2)]})
    assert read_keyed(store, pack(store, dates))["key"].to_list() == ["2026-01-02"]


def test_p2_the_digest_is_of_keys_and_values_not_of_order():
    source = {"a": {"x": 1, "y": [1, 2]}, "b": "3"}
    assert digest({"b": "3", "a": {"y": [1, 2], "x": 1}}) == digest(source)
    assert digest(OrderedDict(source)) == digest(source)
    changed = [
        {"a": {"x": 1, "y": [2, 1]}, "b": "3"},
        {"a": {"x": 1, "y": [1, 2]}, "b": 3},
        {"a": {"x": 1, "y": [1, 2]}},
        {**source, "c": None},
        list(source),
        {"a": {"x": 1.0, "y": [1, 2]}, "b": "3"},
    ]
    assert len({digest(source), *map(digest, changed)}) == len(changed) + 1


def test_p3_names_that_look_alike_are_kept_apart(store):
    names = ["abc", "ABC", "é", "e\u0301", " ", "", "a=b/c", "%20"]
    pairs = read_keyed(store, pack(store, {name: at for at, name in enumerate(names)}))
    assert pairs.sort("ordinal")["key"].to_list() == names


class Kind(str, enum.Enum):
    RED = "red"


def test_subclasses_of_str_and_int_are_keys(store):
    assert read_keyed(store, pack(store, {Kind.RED: 1}))["key"].to_list() == ["red"]


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ({True: 1}, "the key `True`, of type `bool`"),
        ({None: 1}, "the key `None`, of type `NoneType`"),
        ({("a", "b"): 1}, "the key `('a', 'b')`, of type `tuple`"),
        ({1.5: 1}, "the key `1.5`, of type `float`"),
        ([dt.date(2026, 1, 1)], "of type `date`"),
        (["a", ["b"]], "the key `['b']`, of type `list`"),
        ({1: "a", "1": "b"}, "the key `1` twice"),
        (["a", "b", "a"], "the key `a` twice"),
        (["a", "b", "b", "c"], "the key `b` twice"),
        (["b", "a", "a"], "the key `a` twice"),
        ({"0": "x", 1: "a", "1": "b", "2": "x"}, "the key `1` twice"),
        ({2: "x", 1: "a", "1": "b"}, "the key `1` twice"),
        (pl.DataFrame({"k": ["a", "a", "b"], "v": ["x", "y", "z"]}), "the key `a` twice"),
        (pl.DataFrame({"k": ["b", "a", "b"], "v": ["x", "y", "z"]}), "the key `b` twice"),
        (pl.DataFrame({"k": ["a", None], "v": [1, 2]}), "the key `None`, of type `NoneType`"),
        (pl.DataFrame({"k": [1, 1]}), "the key `1` twice"),
        (pl.DataFrame({"k": [[1]]}), "of type `list`"),
        (pl.DataFrame({"k": [True]}), "of type `bool`"),
        (pl.DataFrame({"k": [1.0]}), "of type `float`"),
        ({"a": 1, "b": float("nan")}, "the key `b` that is not JSON: at `value`, JSON has no number `nan`"),
        ({"a": {"x": [0, float("-inf")]}}, 'at `value["x"][1]`, JSON has no number `-inf`'),
        ({"a": {"x": dt.date(2026, 1, 1)}}, 'at `value["x"]`, a date is not JSON'),
        ({"a": {"x": {1: 1, "1": 2}}}, 'at `value["x"]`, the key `1` stands there twice'),
        ({"a": {1, 2}}, "a set is not JSON"),
        ({"a": "\ud800"}, "half a surrogate pair"),
        ({"\ud800": 1}, "half a surrogate pair"),
        ({"a": [10**5000]}, "a number is too long"),
        ("abc", "but returned a `str`"),
        ({"a"}, "but returned a `set`"),
        (None, "but returned a `NoneType`"),
        ((key for key in "ab"), "but returned a `generator`"),
        (pl.DataFrame(), "a table without columns"),
        (pa.table([["a"], [1], [2]], names=["k", "v", "v"]), "column `v` stands in it more than once"),
    ],
)
def test_what_is_no_keyed_source_is_refused_by_name(store, returned, text):
    with pytest.raises(OutputError) as caught:
        pack(store, returned)
    assert text in caught.value.message
    assert (caught.value.node, caught.value.key) == (NODE, None)
    assert caught.value.remediation
    assert store.calls["write"] == 0


def test_values_that_json_turns_into_others_are_what_json_makes_of_them(store):
    pairs = read_keyed(store, pack(store, {"a": (1, {2: Kind.RED}), "b": True}))
    assert pairs["value"].to_list() == ['[1,{"2":"red"}]', "true"]


def test_what_a_source_returned_can_be_read_whole(store):
    for returned in ({"b": {"x": [1]}, "a": None}, {}, ["b", "a"], []):
        fragment = pack(store, returned)
        value = read_value(store, fragment, None, ())
        assert value == returned
        assert list(value) == list(returned)
        with pytest.raises(InputError, match="which is no table"):
            read_value(store, fragment, pl.DataFrame, ())


def test_a_source_that_returned_a_table_is_read_as_one(store):
    one = pl.DataFrame({"retailer": ["b", "a"], "version": [2, 1]})
    assert read_value(store, pack(store, one), None, ()).equals(one)
    assert read_value(store, pack(store, one), pl.LazyFrame, ()).collect().equals(one)
    assert read_value(store, pack(store, one), dict, ()) == {"b": 2, "a": 1}
    several = one.with_columns(at=pl.lit("t"))
    assert read_value(store, pack(store, several), None, ()).equals(several)
    keys = one.select("retailer")
    assert read_value(store, pack(store, keys), "pl.DataFrame", ()).equals(keys)
    assert read_value(store, pack(store, one.clear()), None, ()).columns == one.columns


def test_only_keyed_fragments_are_keyed(store):
    with pytest.raises(FragmentError, match="format `json`"):
        read_keyed(store, only(store, {"a": 1}))


@given(
    st.dictionaries(
        st.text(max_size=4),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=5,
        ),
        max_size=5,
    )
)
def test_any_json_comes_back(source: dict[str, Any]):
    memory = CountingMemoryStore()
    back = read_value(memory, pack(memory, source), None, ())
    assert back == source
    assert list(back) == list(source)


ODD = ['"', "\\", "\n", "\0", "\x1f", "\x7f", "\x85", "\u2028", "é", "\U0001f600", "", '""']


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("ordered", [True, False])
def test_one_text_among_many_is_written_as_json_writes_it(store, odd, table, ordered):
    source = {f"k{number:04}": "2026-01-01T00:00:00" for number in range(1_200)}
    source["k1100"] = odd
    if not ordered:
        source["k0000"] = source.pop("k0000")  # so that the odd one is still far from the first
    returned = pl.DataFrame({"k": list(source), "v": list(source.values())}) if table else source
    fragment = pack(store, returned)
    pairs = read_keyed(store, fragment)
    texts = [json.dumps(source[key], ensure_ascii=False) for key in pairs["key"]]
    assert pairs["value"].to_list() == texts and pairs["key"].to_list() == sorted(source)
    assert pairs.sort("ordinal")["key"].to_list() == list(source)
    assert fragment["digest"].item() == digest_pairs(pairs)
    again = pack_keyed(store, "n/second.parquet", NODE, returned, ONLY_KEY, before=fragment)
    assert again.equals(fragment) and store.calls["write"] == 1


@pytest.mark.parametrize("ordered", [True, False])
def test_half_a_surrogate_pair_among_many_is_refused_by_its_key(store, ordered):
    source = {f"k{number:04}": "v" for number in range(1_200)} | {"k1100": "\ud800"}
    with pytest.raises(OutputError, match="the key `k1100` that is not JSON.*half a surrogate pair"):
        pack(store, source if ordered else dict(reversed(source.items())))
    with pytest.raises(OutputError, match="half a surrogate pair"):
        pack(store, {**source, "k1100": "v", "z\ud800": "v"})


def test_a_dict_of_one_key(store):
    for value in ("v", 'v"', None, 1):
        fragment = pack(store, {"a": value})
        assert read_keyed(store, fragment).rows() == [("a", json.dumps(value), 0)]
        assert fragment["digest"].item() == digest_pairs(read_keyed(store, fragment))


@given(
    st.lists(st.text(max_size=6) | st.sampled_from(['"', "\\", "\x1f", "\x7f", "\u2028", "é{}"]), min_size=1)
)
def test_texts_are_quoted_as_json_does(values):
    returned = {f"k{number:04}": value for number, value in enumerate(values)}
    store = CountingMemoryStore()
    pairs = read_keyed(store, pack(store, returned))
    assert pairs["value"].to_list() == [json.dumps(value, ensure_ascii=False) for value in values]


def test_an_equal_answer_is_the_pack_that_is_stored(store):
    frame = pl.DataFrame({"k": ["b", "a"], "n": [1, 2]}, schema={"k": pl.String, "n": pl.Int64})
    for number, returned in enumerate(({"b": 1, "a": 2}, ["b", "a"], frame)):
        first = pack(store, returned, f"n/first{number}.parquet")
        keys = ONLY_KEY.with_columns(run_hash=pl.lit("later"))
        store.calls.clear()
        again = pack_keyed(store, "n/second.parquet", NODE, returned, keys, before=first)
        assert again.equals(first.with_columns(run_hash=pl.lit("later")))
        assert store.calls["write"] == 0


@pytest.mark.parametrize(
    "returned",
    [
        {"b": 1, "a": 3},  # a value
        {"b": 1, "a": 2, "c": 0},  # a key
        {"a": 2, "b": 1},  # the order alone
        pl.DataFrame({"k": ["b", "a"], "n": [1, 2]}),  # a table of the same values
        pl.DataFrame({"k": ["b", "a"], "n": [1, 2]}, schema_overrides={"n": pl.Int8}),
    ],
)
def test_another_answer_is_a_pack_of_its_own(store, returned):
    first = pack(store, {"b": 1, "a": 2}, "n/first.parquet")
    second = pack_keyed(store, PATH, NODE, returned, ONLY_KEY, before=first)
    assert second["path"].to_list() == [PATH]
    third = pack_keyed(store, "n/third.parquet", NODE, returned, ONLY_KEY, before=second)
    assert third.equals(second)


def test_types_of_a_table_tell_equal_values_apart(store):
    small, large = (
        pl.DataFrame({"k": ["a"], "n": [1]}, schema_overrides={"n": kind}) for kind in (pl.Int8, pl.Int64)
    )
    first = pack(store, small, "n/first.parquet")
    second = pack_keyed(store, PATH, NODE, large, ONLY_KEY, before=first)
    assert second["digest"].item() == first["digest"].item() and second["path"].item() == PATH


def test_equal_pairs_of_another_form_or_by_another_column_are_stored_anew(store):
    frame = pl.DataFrame({"k": ["x"], "j": ["x"]})
    first = pack_keyed(store, "n/first.parquet", NODE, frame, ONLY_KEY, dimensions=["k"])
    second = pack_keyed(store, PATH, NODE, frame, ONLY_KEY, dimensions=["j"], before=first)
    assert second["digest"].item() == first["digest"].item() and second["path"].item() == PATH
    assert keyed_as(store, PATH, ["j"]) and not keyed_as(store, PATH, ["k"])
    first = pack(store, {}, "n/none.parquet")
    second = pack_keyed(store, "n/other.parquet", NODE, [], ONLY_KEY, before=first)
    assert second["digest"].item() == first["digest"].item() and second["path"].item() == "n/other.parquet"


def test_an_equal_table_of_any_types_is_the_pack_that_is_stored(store):
    frame = pl.DataFrame(
        {
            "k": ["b", "a"],
            "day": [dt.date(2026, 1, 2), None],
            "at": pl.Series([0, 1], dtype=pl.Datetime("ns", "Europe/Rome")),
            "kind": pl.Series(["x", None], dtype=pl.Categorical),
            "grade": pl.Series(["y", "x"], dtype=pl.Enum(["y", "x"])),
            "list": [["a"], []],
            "struct": [{"x": 1.5}, {"x": None}],
        }
    )
    first = pack(store, frame, "n/first.parquet")
    assert pack_keyed(store, PATH, NODE, frame, ONLY_KEY, before=first).equals(first)
    other = frame.with_columns(day=pl.lit(dt.date(2026, 1, 3)))
    assert not pack_keyed(store, PATH, NODE, other, ONLY_KEY, before=first).equals(first)


@pytest.mark.parametrize("keys", [["a", "b"], ["b", "a"]])
def test_a_table_that_a_filter_left_in_chunks_is_the_same_table(store, keys):
    frame = pl.DataFrame({"k": keys, "v": ["x", "y"]})
    left = pl.concat([frame, frame], rechunk=False).filter(pl.Series([False, False, True, True]))
    assert left.n_chunks() == 2
    first = pack(store, left, "n/first.parquet")
    assert pack_keyed(store, PATH, NODE, frame, ONLY_KEY, before=first).equals(first)


def test_an_answer_whose_pack_is_gone_is_stored_again(store):
    first = pack(store, {"a": 1}, "n/first.parquet")
    store.remove(["n/first.parquet"])
    second = pack_keyed(store, PATH, NODE, {"a": 1}, ONLY_KEY, before=first)
    assert read_keyed(store, second).height == 1

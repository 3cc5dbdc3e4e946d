"""Hashes are file formats: pinned values, an injective encoding, and vectorised twins."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_series_equal

from barca.hashing import (
    FORMAT_VERSION,
    HASH_LENGTH,
    encode,
    encode_columns,
    field,
    hash_column,
    hash_fields,
    hash_text,
    short_hash,
)

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
TAGS = st.text(st.sampled_from("abxyz_"), min_size=1, max_size=3)
FIELDS = st.lists(st.tuples(TAGS, TEXTS), max_size=5)


def test_the_format_is_version_1():
    """A change of any golden value below needs another version here."""
    assert FORMAT_VERSION == "1"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([], ""),
        ([("v", "1")], "v1:1"),
        ([("key", "retailer=r1"), ("env", "")], "key11:retailer=r1env0:"),
        ([("k", "é")], "k2:é"),
        ([("k", "🙂")], "k4:🙂"),
    ],
)
def test_golden_encodings(fields: list[tuple[str, str]], text: str):
    assert encode(fields) == text
    assert hash_fields(fields) == hash_text(text)


GOLDEN = {
    "": "99aa06d3014798d86001c324468d497f",
    "a": "a96faf705af16834e6c632b61e964e1f",
    "v1:1": "cd188b189ee1ac24ce785b419697086b",
    "key11:retailer=r1env0:": "16c98a548612b474733c7f8e4539a65e",
    "é": "90326970ab18793af7940a006cf10cb3",
    "🙂": "7c0686c35fa9ed3b399c8855d5a76578",
    "x" * 1000: "50a1af5a5f2dcf01c0a4877b962cba82",
}


@pytest.mark.parametrize(("text", "digest"), GOLDEN.items())
def test_golden_hashes(text: str, digest: str):
    assert hash_text(text) == digest
    assert len(digest) == HASH_LENGTH
    assert hash_column(pl.Series([text])).item() == digest


@given(FIELDS, FIELDS)
@example([("a", "1b1:2")], [("a", "1"), ("b", "2")])
@example([("a", ""), ("b", "")], [("a", "b0:")])
def test_the_encoding_is_injective(one: list[tuple[str, str]], other: list[tuple[str, str]]):
    assert (encode(one) == encode(other)) == (one == other)


@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5),
    st.lists(st.tuples(TAGS, st.one_of(TEXTS, st.sampled_from([0, 1]))), max_size=5),
)
@example([("{}", "}{")], [("a", "{}"), ("b", 0), ("c", "{"), ("d", 1)])
def test_scalar_and_vectorised_forms_are_equal(
    rows: list[tuple[str, str]], layout: list[tuple[str, str | int]]
):
    """A field of the layout is a constant, or a column by position."""
    frame = pl.DataFrame(rows, schema={"c0": pl.String, "c1": pl.String}, orient="row")
    columns = [(tag, value if isinstance(value, str) else pl.col(f"c{value}")) for tag, value in layout]
    texts = frame.select(encode_columns(columns)).to_series()
    expected = [
        encode([(tag, value if isinstance(value, str) else row[value]) for tag, value in layout])
        for row in rows
    ]
    if len(texts) == 1:  # constants only
        expected = expected[:1]
    assert texts.to_list() == expected
    assert hash_column(texts).to_list() == [hash_text(text) for text in expected]


def test_a_null_makes_the_row_null_never_shorter():
    frame = pl.DataFrame({"x": ["a", None]})
    assert frame.select(encode_columns([("t", pl.col("x")), ("u", "1")])).to_series().to_list() == [
        "t1:au1:1",
        None,
    ]
    assert hash_column(pl.Series([None, "a"])).to_list() == [None, hash_text("a")]


def test_hash_column_keeps_name_and_type():
    empty = hash_column(pl.Series("h", [], dtype=pl.String))
    assert_series_equal(empty, pl.Series("h", [], dtype=pl.String))


def test_lone_surrogates_have_a_hash():
    assert len(hash_text("\ud800")) == HASH_LENGTH
    assert field("k", "\ud800") == "k3:\ud800"


@given(TEXTS)
def test_short_hash_is_the_start_of_the_hash(text: str):
    digest = hash_text(text)
    short = pl.select(short_hash(pl.lit(digest))).item()
    assert short == int(digest[:15], 16)
    assert 0 <= short < 2**63

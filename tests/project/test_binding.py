"""Values bound into queries: what comes out is what went in, whatever it looks like."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barca.errors import UsageError
from barca.project.binding import bind, without_comments


def asked(value):
    return pl.sql(bind("SELECT :v AS v", {"v": value})).collect().item()


@given(st.text() | st.text(alphabet="'\"\\-/*:;$ e`\n"))
def test_any_text_is_that_text(text):
    assert asked(text) == text


@given(
    st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
)
def test_any_number_is_that_number(value):
    assert asked(value) == value


@given(st.dates(min_value=dt.date(1, 1, 1)))
def test_any_date_is_that_date(value):
    assert asked(value) == value


def test_times_and_lists():
    moment = dt.datetime(2024, 1, 2, 10, 0, 0, 5)
    assert asked(moment) == moment
    frame = pl.LazyFrame({"x": ["a", "b'", "c"]})
    query = bind("SELECT x FROM t WHERE x IN :xs", {"xs": ["a", "b'"]})
    assert pl.SQLContext(t=frame).execute(query).collect().get_column("x").to_list() == ["a", "b'"]
    assert pl.sql(bind("SELECT 1 -:n AS v", {"n": -1})).collect().item() == 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ':a'", "SELECT 'it''s :a'", 'SELECT ":a"', "SELECT `:a`", "SELECT 1 -- :a", "SELECT /* :a */ 1",
        "SELECT /* /* */ :a */ 1", "SELECT $$ :a ' $$", "SELECT $t$ :a $$ $t$", r"SELECT E'\' :a'", "SELECT x::int",
        "SELECT x[1:a]", "SELECT 'a\\'",
    ],
)  # fmt: skip
def test_what_stands_in_texts_names_and_comments_is_no_parameter(query):
    assert bind(query, {}) == query


def test_beside_texts_and_comments_it_is_one():
    query = "SELECT ':a', :a, x::text /* ' */ FROM t -- it's\nWHERE y = :b"
    assert bind(query, {"a": 1, "b": "'"}) == (
        "SELECT ':a', 1, x::text /* ' */ FROM t -- it's\nWHERE y = ''''"
    )
    assert bind("SELECT :a_1,:a", {"a": 1, "a_1": 2}) == "SELECT 2,1"
    assert bind("SELECT :a", {"a": ":b"}) == "SELECT ':b'", "what was bound is not looked at again"


@pytest.mark.parametrize(
    ("query", "params", "said"),
    [
        ("SELECT :week", {}, "which has no value"),
        ("SELECT :wek", {"week": 1}, "did you mean `week`"),
        ("SELECT :week", {"week": 1, "wekk": 2}, "did you mean `week`"),
        ("SELECT 1", {"week": 1}, "no `:week`"),
        ("SELECT :x", {"x": {"a": 1}}, "cannot be"),
        ("SELECT :x", {"x": float("nan")}, "cannot be"),
        ("SELECT :x", {"x": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}, "cannot be"),
        ("SELECT 'a :x", {"x": "'"}, "without its other half"),
        ("SELECT /* /* */ :x", {"x": 1}, "does not end"),
    ],
)
def test_what_cannot_be_bound(query, params, said):
    with pytest.raises(UsageError, match="query|cannot be") as raised:
        bind(query, params)
    assert said in str(raised.value)


def test_comments_are_left_out_and_texts_are_not():
    assert without_comments("/* a /* b */ */ SELECT '--x' -- y\n, 1").split() == ["SELECT", "'--x'", ",", "1"]

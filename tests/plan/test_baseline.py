"""What changed of a keyed source, compared in columns, is what two dicts say of it."""

from __future__ import annotations

import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from barca.plan.baseline import changed_keys
from barca.schemas import KEYED

KEYS = ["a", "b", "c=1", "d/é", "\U0001f600"]
answers = st.dictionaries(st.sampled_from(KEYS), st.sampled_from([None, "null", '"x"', "1"]))


def frame(answer: dict[str, str | None]) -> pl.DataFrame:
    rows = [(key, value, ordinal) for ordinal, (key, value) in enumerate(answer.items())]
    return pl.DataFrame(sorted(rows), schema=KEYED, orient="row")


@example({"a": None}, {"a": '"x"'}, [])
@example({"a": "1"}, {"a": None}, [])
@example({"a": None, "b": None}, {"b": None}, [])
@example({"a": None, "b": None}, {"b": None, "a": None}, ["a"])
@given(answers, answers, st.lists(st.sampled_from(KEYS), unique=True))
def test_keys_that_changed_and_those_that_are_looked_at_anyway(before, now, also):
    moved, gone = changed_keys(frame(before), frame(now), also)
    assert moved.schema == gone.schema == KEYED
    assert moved.select("key", "value").rows() == [
        (key, value) for key, value in now.items() if key in also or (key, value) not in before.items()
    ]
    assert gone.select("key", "value").rows() == [
        (key, value) for key, value in before.items() if key not in also and (key, value) not in now.items()
    ]

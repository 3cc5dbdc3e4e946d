"""The plain values: definitions as functions, and expressions put off."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest

from barca import asset
from barca.model import Deferred


def doubled(x: int = 1) -> int:
    """Twice x."""
    return 2 * x


definition = asset(name="renamed", description="d")(doubled)


def test_definitions_look_like_their_function():
    assert definition(3) == 6
    assert (definition.__name__, definition.__doc__, definition.__wrapped__) == (
        "doubled",
        "Twice x.",
        doubled,
    )
    assert definition.__module__ == __name__
    assert repr(definition) == f"<asset renamed at {__file__}:{definition.line}>"
    assert "doubled" in repr(asset(doubled))


def test_definitions_are_frozen_and_compare_by_identity():
    with pytest.raises(AttributeError, match="frozen"):
        definition.retries = 2
    twin = asset(name="renamed", description="d")(doubled)
    assert definition != twin
    assert len({definition, twin}) == 2


def test_definitions_copy_and_pickle():
    for twin in (pickle.loads(pickle.dumps(definition)), copy.copy(definition)):
        assert (twin(3), twin.name, twin.__name__) == (6, "renamed", "doubled")


def test_deferred_evaluates_once():
    calls = []
    deferred = Deferred(lambda: calls.append(1) or ["a"], file="f.py", line=1, source="x")
    assert calls == []
    assert deferred.evaluate() is deferred.evaluate()
    assert calls == [1]


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3)])
def test_deferred_raises_the_same_failure_every_time(error: BaseException):
    calls = []

    def thunk():
        calls.append(1)
        raise error

    deferred = Deferred(thunk, file="f.py", line=1, source="x")
    depths = []
    for _ in range(3):
        with pytest.raises(type(error)) as caught:
            deferred.evaluate()
        assert caught.value is error
        depths.append(len(traceback.extract_tb(caught.value.__traceback__)))
    assert calls == [1]
    assert len(set(depths[1:])) == 1


def test_an_interrupt_is_not_an_outcome():
    outcomes = iter([KeyboardInterrupt(), None])

    def thunk():
        outcome = next(outcomes)
        if outcome:
            raise outcome
        return ["a"]

    deferred = Deferred(thunk, file="f.py", line=1, source="x")
    with pytest.raises(KeyboardInterrupt):
        deferred.evaluate()
    assert deferred.evaluate() == ["a"]

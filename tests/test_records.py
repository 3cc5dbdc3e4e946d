"""Records: what frozen dataclasses do, without their import."""

from __future__ import annotations

import copy
import pickle

import pytest

from barca.records import Record, fields_of, replace


class Point(Record):
    x: int
    y: int = 0


class Solid(Point):
    z: int = 0


class Named(Record, kw_only=True):
    name: str
    size: int | None = None


class Same(Record, eq=False):
    x: int


def test_fields_are_given_in_order_or_by_name():
    assert (Point(1).x, Point(1).y) == (1, 0)
    assert Point(1, 2) == Point(y=2, x=1)
    assert Named(name="a").size is None
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Point(),
        lambda: Point(1, 2, 3),
        lambda: Point(1, x=2),
        lambda: Point(1, z=2),
        lambda: Named("a"),
    ],
)
def test_other_arguments_are_refused(make):
    with pytest.raises(TypeError, match="Point|Named"):
        make()


def test_records_are_values():
    assert Point(1) == Point(1) and hash(Point(1)) == hash(Point(1))
    assert Point(1) != Point(2) and Point(1) != (1, 0) and Same(1) != Same(1)
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert replace(Point(1), y=5) == Point(1, 5)
    for again in (
        pickle.loads(pickle.dumps(Point(1, 2))),
        copy.copy(Point(1, 2)),
        copy.deepcopy(Point(1, 2)),
    ):
        assert again == Point(1, 2)


def test_records_are_frozen():
    point = Point(1)
    with pytest.raises(AttributeError, match="Point is frozen"):
        point.x = 2
    with pytest.raises(AttributeError, match="Point is frozen"):
        del point.x
    assert point == Point(1)


def test_a_record_that_extends_another_has_its_fields_first():
    assert fields_of(Solid(1, z=3)) == {"x": 1, "y": 0, "z": 3}
    assert Solid(1, 2, 3) != Point(1, 2) and replace(Solid(1), z=1) == Solid(1, 0, 1)
    with pytest.raises(TypeError, match="Solid needs x"):
        Solid(z=1)

"""Fixtures of the planner's tests."""

from typing import Any

import pytest

from barca import asset, collect, partitions, partitions_from, sensor
from tests.plan.worlds import Planner, graph_of


@pytest.fixture
def make_planner() -> Any:
    """`make_planner(*definitions)`: a planner whose node ids are the functions' names."""
    return lambda *definitions: Planner(graph_of(*definitions))


@pytest.fixture
def chain() -> Planner:
    """source (keyed sensor) -> a -> b -> total (collect)."""

    @sensor
    def source() -> dict: ...

    @asset(partitions={"r": partitions_from(source)})
    def a(r: str, source: str) -> dict: ...

    @asset(partitions={"r": partitions_from(a)})
    def b(r: str, a: dict) -> dict: ...

    @asset(inputs={"every": collect(b)})
    def total(every: list) -> dict: ...

    planner = Planner(graph_of(source, a, b, total))
    planner.returned("source", {"x": '"1"', "y": '"1"', "z": '"1"'})
    return planner


@pytest.fixture
def grid() -> Planner:
    """An asset of two explicit dimensions, read key for key by another that declares them in turn."""

    @asset(partitions={"r": partitions(["a", "b"]), "m": partitions([1, 2, 3])})
    def cells(r: str, m: str) -> dict: ...

    @asset(
        inputs={"cells": cells},
        partitions={"m": partitions([1, 2, 3]), "r": partitions(["a", "b"])},
    )
    def turned(r: str, m: str, cells: dict) -> dict: ...

    return Planner(graph_of(cells, turned))

"""Grouping sees the keys that run, whatever the number declared."""

from __future__ import annotations

import polars as pl
import pytest

from barca import asset, batches, batches_by, partitions
from barca.errors import DefinitionError
from barca.plan import build_plan
from barca.plan.batching import calls
from tests.plan.worlds import Planner, graph_of

FORMS = {
    "int": 2,
    "all": "all",
    "auto": "auto",
    "groups": batches([["1", "2"], ["3"]]),
    "no groups": batches([]),
    "label": batches_by(len),
}


@pytest.mark.parametrize("form", FORMS)
def test_only_keys_that_run_are_grouped(monkeypatch: pytest.MonkeyPatch, form: str):
    @asset(partitions={"k": partitions(range(1_000))}, batch=FORMS[form])
    def a(k: list[str]) -> dict: ...

    grouped: list[int] = []

    def counted(running: pl.DataFrame, *others: object) -> pl.DataFrame:
        grouped.append(running.height)
        return calls(running, *others)

    monkeypatch.setattr("barca.plan.build.calls", counted)
    planner = Planner(graph_of(a))
    labels = pl.DataFrame({"key": ["k=1", "k=2", "k=3"], "label": "x"})
    inputs = planner.inputs("a", selection={"k": ("1", "2", "3")}, labels={"a": labels})
    plan = build_plan(inputs).nodes["a"]
    assert grouped == [3]
    assert plan.calls.get_column("key").to_list() == ["k=1", "k=2", "k=3"]
    sizes = plan.calls.group_by("call", maintain_order=True).len().get_column("len").to_list()
    assert sizes == {"int": [2, 1], "groups": [2, 1], "no groups": [1, 1, 1]}.get(form, [3])


def test_strict_groups_name_the_key_that_is_in_none():
    @asset(partitions={"k": partitions(range(4))}, batch=batches([["1", "2"]], strict=True))
    def a(k: list[str]) -> dict: ...

    with pytest.raises(DefinitionError, match="the key `k=0` of `a` is in no group"):
        build_plan(Planner(graph_of(a)).inputs("a"))

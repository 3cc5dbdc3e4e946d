"""Grouping sees the keys that run, whatever the number declared."""

from __future__ import annotations

import polars as pl
import pytest

from barca import asset, batches, batches_auto, batches_by, partitions
from barca.errors import DefinitionError
from barca.model import BatchesAuto
from barca.plan import build_plan
from barca.plan.batching import calls, effective_batch
from barca.plan.explain import call_count
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


def grouped(batch, *, labels=None, shuffled=False, **options):
    """Keys of the calls of eight keys `0` to `7`."""

    @asset(partitions={"k": partitions(range(8))}, batch=batch)
    def a(k: list[str]) -> dict: ...

    graph = graph_of(a)
    keys = [f"k={number}" for number in range(8)]
    running = pl.DataFrame({"key": keys, "ordinal": range(8), "dim:k": [str(number) for number in range(8)]})
    running = running.sample(fraction=1.0, shuffle=True, seed=3) if shuffled else running
    named = None if labels is None else pl.DataFrame({"key": keys, "label": list(labels)})
    rows = calls(running, graph.nodes["a"], batch, named, **options)
    assert rows.get_column("call").rle().len() == rows.get_column("call").n_unique(), "calls are whole"
    parts = rows.partition_by("call", maintain_order=True)
    return ["".join(key[2:] for key in part.get_column("key")) for part in parts]


def test_labels_that_take_turns_are_chunked_each_for_itself_in_declared_order():
    by = batches_by(len, max_size=3)
    assert grouped(by, labels="xyxyxyxx") == ["024", "135", "67"]
    assert grouped(batches_by(len), labels="yxyxyxyx") == ["0246", "1357"]


@pytest.mark.parametrize("form", [3, "all", batches([["5", "1"], ["0", "7"]]), batches_by(len, max_size=2)])
def test_groups_do_not_depend_on_the_order_in_which_keys_were_decided(form):
    assert grouped(form, labels="xyxyxyxx", shuffled=True) == grouped(form, labels="xyxyxyxx")


def test_keys_of_a_named_group_run_in_declared_order():
    assert grouped(batches([["5", "1"], ["0", "7"]])) == ["07", "15", "2", "3", "4", "6"]


def test_one_key_in_no_group_is_enough_for_a_strict_one():
    most = [["0", "1", "2"], ["4", "5", "6", "7"]]
    with pytest.raises(DefinitionError, match="the key `k=3` of `a` is in no group"):
        grouped(batches(most, strict=True))
    assert grouped(batches([*most, ["3"]], strict=True)) == ["012", "3", "4567"]


def test_what_a_run_says_of_a_node_goes_before_what_it_says_of_all_and_that_before_the_declared():
    limits = batches_auto(target_seconds=5)

    @asset(partitions={"k": partitions(["a", "b"])}, batch=limits)
    def a(k: list[str]) -> dict: ...

    @asset(partitions={"k": partitions(["a", "b"])}, batch=2)
    def b(k: list[str]) -> dict: ...

    @asset(partitions={"k": partitions(["a", "b"])})
    def one(k: str) -> dict: ...

    nodes = graph_of(a, b, one).nodes
    for override, expected in [
        ({}, (limits, 2, None)),
        ({None: "all"}, ("all", "all", None)),
        ({None: "all", "b": 7}, ("all", 7, None)),
        ({"a": "none"}, (1, 2, None)),
        ({None: "auto"}, (limits, BatchesAuto(), None)),
        ({None: "none", "a": "auto"}, (limits, 1, None)),
    ]:
        assert tuple(effective_batch(nodes[name], override) for name in ("a", "b", "one")) == expected


def test_calls_are_counted_by_name_and_those_without_one_by_one():
    for names, count in ((["1", "1", "2"], 2), ([None, None, None], 3), (["1", None, "1", None], 3), ([], 0)):
        calls = pl.DataFrame({"call": names}, schema={"call": pl.String})
        assert call_count(calls) == count

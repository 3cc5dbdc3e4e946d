"""The planner decides what must run: whole plans over small worlds."""

import polars as pl

from barca import Manual, asset, collect, partitions, partitions_from, sensor
from barca.plan import build_plan
from barca.plan.explain import changes, summarise


def test_first_run_runs_everything_and_the_next_only_the_sensor(chain):
    assert chain.run("total") == {
        "source": [""],
        "a": ["r=x", "r=y", "r=z"],
        "b": ["r=x", "r=y", "r=z"],
        "total": [""],
    }
    assert chain.run("total") == {"source": [""]}


def test_one_new_value_runs_its_key_down_the_chain(chain):
    chain.run("total")
    chain.returned("source", {"x": '"1"', "y": '"2"', "z": '"1"'})
    assert chain.run("total") == {"source": [""], "a": ["r=y"], "b": ["r=y"], "total": [""]}


def test_order_of_the_source_never_matters_and_a_removed_key_runs_only_the_fan_in(chain):
    chain.run("total")
    chain.returned("source", {"z": '"1"', "x": '"1"', "y": '"1"'})
    assert chain.run("total") == {"source": [""]}
    chain.returned("source", {"z": '"1"', "x": '"1"'})
    assert chain.run("total") == {"source": [""], "total": [""]}


def test_new_key_runs_alone(chain):
    chain.run("b")
    chain.returned("source", {"x": '"1"', "y": '"1"', "z": '"1"', "w": '"1"'})
    assert chain.run("b") == {"source": [""], "a": ["r=w"], "b": ["r=w"]}


def test_editing_the_sensor_runs_every_key(chain):
    chain.run("b")
    chain.code["source"] = "edited"
    assert chain.run("b") == {"source": [""], "a": ["r=x", "r=y", "r=z"], "b": ["r=x", "r=y", "r=z"]}


def test_going_back_to_older_code_is_a_hit(chain):
    chain.run("b")
    chain.code["a"] = "other"
    chain.run("b")
    del chain.code["a"]
    assert chain.run("b") == {"source": [""]}


def test_before_the_sensor_ran_its_readers_are_unknown(chain):
    plan = chain.plan("total")
    assert [(p.state, p.reason) for p in plan.nodes.values()] == [
        ("decided", None),
        ("unknown", "sensor_output_unknown"),
        ("unknown", "sensor_output_unknown"),
        ("unknown", "sensor_output_unknown"),
    ]
    assert plan.nodes["total"].awaits == {"source"}


def test_forecast_takes_the_sensor_to_return_what_it_returned_and_names_what_changed(chain):
    chain.run("total")
    chain.returned("source", {"x": '"1"', "y": '"2"', "z": '"1"'})
    chain.run("source")
    plan = chain.plan("total")
    assert summarise(plan.nodes["a"]).preview == ("r=y",)
    assert changes(plan, "a").rows() == [("r=y", ["value source"])]
    assert changes(plan, "b").rows() == [("r=y", ["input a"])]
    assert changes(plan, "total").rows() == [("", ["input b"])]


def test_editing_code_is_named_as_the_change(chain):
    chain.run("b")
    chain.code["b"] = "edited"
    assert changes(chain.plan("b"), "b").rows() == [(f"r={k}", ["definition"]) for k in "xyz"]


def test_keys_of_two_dimensions_match_by_name_not_by_order(grid):
    assert grid.run("turned") == {
        "cells": [f"m={m}/r={r}" for r in "ab" for m in "123"],
        "turned": [f"m={m}/r={r}" for m in "123" for r in "ab"],
    }
    assert grid.run("turned") == {}


def test_selection_builds_only_the_selected_keys_with_the_hashes_of_a_full_run(grid):
    full = grid.plan("turned")
    some = grid.plan("turned", selection={"m": ("2",)})
    for node in ("cells", "turned"):
        whole = full.nodes[node].decision.filter(pl.col("dim:m") == "2")
        assert some.nodes[node].decision.equals(whole)
        assert some.nodes[node].narrowed == 4


def test_selection_skips_a_fan_in_and_what_is_below_it(chain):
    chain.run("total")
    plan = chain.plan("total", selection={"r": ("x",)})
    assert plan.nodes["total"].state == "skipped"
    assert plan.nodes["total"].reason == "partition_selection"
    assert summarise(plan.nodes["b"]).total == 1


def test_refresh_cascades_by_key_and_can_be_kept_from_it(chain):
    chain.run("total")
    assert chain.run("total", refresh=frozenset({"a"}))["b"] == ["r=x", "r=y", "r=z"]
    assert chain.run("total", refresh=frozenset({"a"}), cascade=False) == {
        "source": [""],
        "a": ["r=x", "r=y", "r=z"],
    }
    assert chain.run("b", refresh_all=True).keys() == {"source", "a", "b"}


def test_missing_pack_runs_its_key_only_when_something_reads_it(chain):
    chain.run("b")
    gone = frozenset(row["path"] for row in chain.rows["a"] if row["key"] == "r=y")
    assert chain.run("b", missing=gone) == {"source": [""]}, "b holds its own result; nobody reads a"
    chain.code["b"] = "edited"
    assert chain.run("b", missing=gone) == {"source": [""], "a": ["r=y"], "b": ["r=x", "r=y", "r=z"]}


def test_cutoff_stops_where_content_is_the_same(make_planner):
    @asset(partitions={"k": partitions("0 1 2 3".split())}, cutoff=True)
    def a(k: str) -> dict: ...

    @asset(partitions={"k": partitions_from(a)})
    def b(k: str, a: dict) -> dict: ...

    @asset(inputs={"every": collect(a)})
    def total(every: list) -> dict: ...

    planner = make_planner(a, b, total)
    planner.digests = {("a", f"k={k}"): "same" for k in range(4)}
    planner.run("b", "total")
    planner.code["a"] = "edited"
    forecast = planner.plan("b", "total")
    assert forecast.nodes["b"].reason == forecast.nodes["total"].reason == "cutoff_pending"
    planner.digests["a", "k=3"] = "other"
    assert planner.run("b", "total") == {
        "a": ["k=0", "k=1", "k=2", "k=3"],
        "b": ["k=3"],
        "total": [""],
    }
    planner.code["a"] = "edited again"
    assert planner.run("b", "total") == {"a": ["k=0", "k=1", "k=2", "k=3"]}


def test_manual_result_stands_until_refreshed_and_counts_by_content(make_planner):
    @asset(freshness=Manual())
    def rates() -> dict: ...

    @asset(inputs={"rates": rates})
    def prices(rates: dict) -> dict: ...

    planner = make_planner(rates, prices)
    assert planner.run("prices") == {"rates": [""], "prices": [""]}
    planner.code["rates"] = "edited"
    assert planner.run("prices") == {}
    assert planner.run("prices", refresh=frozenset({"rates"})) == {"rates": [""], "prices": [""]}


def test_failed_key_of_a_cutoff_input_blocks_its_reader(make_planner):
    @asset(partitions={"k": partitions(["0", "1"])}, cutoff=True)
    def a(k: str) -> dict: ...

    @asset(partitions={"k": partitions_from(a)})
    def b(k: str, a: dict) -> dict: ...

    planner = make_planner(a, b)
    assert planner.run("b", fail={"a": {"k=1"}}) == {"a": ["k=0"], "b": ["k=0"]}
    assert planner.run("b") == {"a": ["k=1"], "b": ["k=1"]}


def test_list_source_gives_keys_and_no_part(make_planner):
    @asset
    def names() -> list: ...

    @asset(partitions={"k": partitions_from(names)})
    def a(k: str) -> dict: ...

    planner = make_planner(names, a)
    planner.returned("names", {"x": None, "y": None})
    assert planner.run("a") == {"names": [""], "a": ["k=x", "k=y"]}
    planner.code["names"] = "edited"
    planner.returned("names", {"y": None, "x": None, "new": None})
    assert planner.run("a") == {"names": [""], "a": ["k=new"]}


def test_empty_source_has_no_keys_and_the_fan_in_still_runs(chain):
    chain.returned("source", {})
    assert chain.run("total") == {"source": [""], "total": [""]}
    chain.returned("source", {"x": '"1"'})
    assert chain.run("total") == {"source": [""], "a": ["r=x"], "b": ["r=x"], "total": [""]}


def test_environment_variable_is_part_of_the_run_hash_and_is_named(make_planner):
    @asset(env=["MODE"])
    def a() -> dict: ...

    planner = make_planner(a)
    planner.env = {"a": {"MODE": "fast"}}
    planner.run("a")
    planner.env = {"a": {"MODE": None}}
    assert planner.run("a") == {"a": [""]}
    planner.env = {"a": {"MODE": ""}}
    assert planner.run("a") == {"a": [""]}, "unset and empty differ"


def test_a_plan_is_a_function_of_its_inputs(chain):
    chain.run("a")
    inputs = chain.plan("total").inputs
    first, second = build_plan(inputs), build_plan(inputs)
    for node in first.nodes:
        assert first.nodes[node].decision.equals(second.nodes[node].decision)


def test_partitioned_sensor_counts_by_content(make_planner):
    @sensor(partitions={"k": partitions(["x", "y"])})
    def poll(k: str) -> str: ...

    @asset(partitions={"k": partitions_from(poll)})
    def a(k: str, poll: str) -> dict: ...

    planner = make_planner(poll, a)
    planner.digests = {("poll", "k=x"): "1", ("poll", "k=y"): "1"}
    planner.run("a")
    planner.digests["poll", "k=y"] = "2"
    assert planner.run("a") == {"poll": ["k=x", "k=y"], "a": ["k=y"]}


def test_a_refresh_goes_on_through_a_key_whose_pack_is_missing(chain):
    chain.run("total")
    gone = frozenset(row["path"] for row in chain.rows["b"] if row["key"] == "r=y")
    assert chain.run("total", refresh=frozenset({"a"}), missing=gone)["total"] == [""]
    chain.returned("source", {"x": '"1"'})
    chain.run("total")
    gone = frozenset(row["path"] for row in chain.rows["b"] if row["key"] == "r=x")
    assert chain.run("total", refresh=frozenset({"a"}), missing=gone)["total"] == [""]


def test_a_refreshed_node_runs_though_nothing_that_runs_reads_it(grid):
    grid.run("turned")
    ran = grid.run("turned", refresh=frozenset({"cells"}), cascade=False)
    assert {node: len(keys) for node, keys in ran.items()} == {"cells": 6}

"""The planner's laws, over generated worlds, against an oracle in plain Python."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from barca import asset, collect, partitions, partitions_from, sensor, task
from barca.plan.batching import calls
from barca.schemas import CALL, KEY, NEEDED, ORDINAL, STATE
from tests.plan.oracle import Oracle, Request, Told, World, stored_key
from tests.plan.worlds import Planner, graph_of

few = st.sampled_from(["1", "2", "3"])
names = st.text("abc/=%é ", min_size=1, max_size=4)
axes = {
    "r": ("a", "b/=", "%", "c"),
    "m": ("1", "01", "é"),
}


def _definitions():
    @sensor
    def source() -> dict: ...

    @asset(env=["MODE"])
    def rates() -> dict: ...

    @asset(partitions={"r": partitions_from(source)}, cutoff=True)
    def first(r: str, source: str) -> dict: ...

    @asset(inputs={"first": first}, partitions={"r": partitions_from(first)}, env=["MODE", "LEVEL"])
    def second(r: str, first: dict) -> dict: ...

    @asset(inputs={"second": second, "rates": rates}, partitions={"r": partitions_from(second)})
    def third(r: str, second: dict, rates: dict) -> dict: ...

    @asset(partitions={"r": partitions(["a"]), "m": partitions(["1"])}, env=["LEVEL"])
    def cells(r: str, m: str) -> dict: ...

    @asset(inputs={"cells": cells}, partitions={"m": partitions(["1"]), "r": partitions(["a"])})
    def turned(r: str, m: str, cells: dict) -> dict: ...

    @asset(inputs={"every": collect(third), "grid": collect(turned)})
    def total(every: list, grid: list) -> dict: ...

    @task(inputs={"total": total})
    def report(total: dict) -> dict: ...

    return [source, rates, first, second, third, cells, turned, total, report]


TOLD = {
    "source": Told(kind="sensor"),
    "rates": Told(env=("MODE",)),
    "first": Told({"source": ("keyed", "source")}, dimensions=("r",), keys_from="source", cutoff=True),
    "second": Told(
        {"first": ("same_key", "first")}, dimensions=("r",), keys_from="first", env=("MODE", "LEVEL")
    ),
    "third": Told(
        {"second": ("same_key", "second"), "rates": ("whole", "rates")}, dimensions=("r",), keys_from="second"
    ),
    "cells": Told(dimensions=("r", "m"), env=("LEVEL",)),
    "turned": Told({"cells": ("same_key", "cells")}, dimensions=("m", "r")),
    "total": Told({"every": ("collect", "third"), "grid": ("collect", "turned")}),
    "report": Told({"total": ("whole", "total")}, kind="task"),
}
TARGETS = [("report",), ("total",), ("total",), ("third", "turned"), ("second",), ("first",)]


class Twins:
    """The planner and the oracle, told the same; `edits` and `runs` are drawn from."""

    def __init__(self, data):
        self.data = data
        self.planner = Planner(graph_of(*_definitions()))
        self.oracle = Oracle(TOLD)
        self.returned = self.draw(st.dictionaries(names, few, max_size=3))
        self.declare_other_keys("r")
        self.declare_other_keys("m")
        self.environment = {"MODE": "1"}
        self.edits = [
            self.change_or_add_a_key,
            self.reorder_keys_and_remove_some,
            self.declare_other_keys,
            self.edit_code,
            self.set_a_variable,
            self.compute_another_content,
            self.lose_a_pack,
        ]
        self.runs = [self.run, self.refresh, self.select, self.fail]

    def draw(self, strategy):
        return self.data.draw(strategy)

    def pick(self, choices):
        return self.draw(st.sampled_from(choices))

    def some(self, choices, most=None):
        return self.draw(st.lists(st.sampled_from(choices), min_size=1, max_size=most, unique=True))

    # --- edits --------------------------------------------------------------------------------------

    def change_or_add_a_key(self):
        self.returned[self.draw(names)] = self.draw(few)

    def reorder_keys_and_remove_some(self):
        pairs = self.draw(st.permutations(sorted(self.returned.items())))
        self.returned = dict(pairs[: self.pick([1, len(pairs), len(pairs)])])

    def declare_other_keys(self, name=None):
        name = name or self.pick(sorted(axes))
        self.planner.declared[name] = tuple(self.some(axes[name]))

    def edit_code(self):
        node = self.pick(sorted(TOLD))
        self.planner.code[node] = f"code {self.draw(few)} of {node}"

    def set_a_variable(self):
        variable, value = self.pick(["MODE", "LEVEL"]), self.pick(["", "1", "2", None])
        self.environment.pop(variable, None)
        if value is not None:
            self.environment[variable] = value

    def compute_another_content(self):
        """What the code of `first` makes of a key from now on; without this, every result's content is new."""
        for value in self.some(sorted(self.returned)) if self.returned else []:
            self.planner.digests["first", stored_key({"r": value})] = f"content {self.draw(few)}"

    def lose_a_pack(self):
        results = sorted(one for one in self.oracle.stored if TOLD[one[0]].kind == "asset")
        self.oracle.broken |= set(self.some(results, 3)) if results else set()

    # --- runs ---------------------------------------------------------------------------------------

    def compare(self, *targets, fail=frozenset(), **options):
        """A run of the planner runs what the oracle says."""
        self.ready()
        missing = frozenset(f"{node}/{key}/{run_hash}.parquet" for node, key, run_hash in self.oracle.broken)
        world = World(
            code={node: fingerprint.hash for node, fingerprint in self.planner.fingerprints().items()},
            environment=self.environment,
            declared=self.planner.declared,
            returned={"source": self.returned},
            contents=self.planner.digests,
        )
        expected = self.oracle.run(world, Request(targets, fail=fail, **options))
        failing = {node: {key for one, key in fail if one == node} for node, _ in fail}
        ran = self.planner.run(*targets, fail=failing, missing=missing, **options)
        assert {(node, key) for node, keys in ran.items() for key in keys} == expected

    def ready(self):
        self.planner.returned("source", self.returned)
        self.planner.env = {
            node: {name: self.environment.get(name) for name in told.env} for node, told in TOLD.items()
        }

    def run(self, wanted):
        self.compare(*wanted)
        self.nothing_is_left(*wanted)

    def refresh(self, wanted):
        """It reaches exactly what is below, or nothing without the cascade."""
        everything = self.pick([False] * 5 + [True])
        nodes = frozenset() if everything else frozenset(self.some(sorted(TOLD), 2))
        self.compare(*wanted, refresh=nodes, refresh_all=everything, cascade=self.pick([True, True, False]))
        self.nothing_is_left(*wanted)

    def select(self, wanted):
        """Its keys run with the hashes of a full run: a later one does not run them again."""
        values = {"r": sorted({*self.returned, *self.planner.declared["r"]}), "m": self.planner.declared["m"]}
        selection = {name: tuple(self.some(values[name])) for name in self.some(["r", "m"])}
        self.compare(*wanted, selection=selection)
        self.a_selection_is_the_filtered_plan(wanted, selection)

    def fail(self, wanted):
        """A key that fails holds up its own chain and the fan-in; the next run computes exactly those."""
        places = [("rates", ""), *(("cells", f"m={m}/r=a") for m in ("1", "01"))]
        places += [(node, stored_key({"r": r})) for node in ("first", "second") for r in self.returned]
        self.compare(*wanted, fail=frozenset(self.some(places, 2)))

    # --- laws ---------------------------------------------------------------------------------------

    def nothing_is_left(self, *targets):
        """A plan after a successful run is empty but for tasks, with the keys in the order declared."""
        plan = self.planner.plan(*(("total",) if "report" in targets else targets))
        for node in plan.nodes.values():
            assert node.state == "decided"
            stale = node.decision.filter((pl.col(STATE) == "stale") & pl.col(NEEDED))
            assert node.node.id == "source" or not stale.height
        if "first" in plan.nodes:
            assert plan.nodes["first"].decision["dim:r"].to_list() == list(self.returned)

    def a_selection_is_the_filtered_plan(self, wanted, selection):
        if not self.planner.rows.get("source"):
            return
        full, some = self.planner.plan(*wanted), self.planner.plan(*wanted, selection=selection)
        for name, node in some.nodes.items():
            if full.nodes[name].state == node.state == "decided":
                whole = full.nodes[name].decision
                for dimension in set(TOLD[name].dimensions) & set(selection):
                    whole = whole.filter(pl.col(f"dim:{dimension}").is_in(selection[dimension]))
                # what waits for other keys reads all of an input, so that more of it may be needed
                assert node.decision.drop(NEEDED).equals(whole.drop(NEEDED))


@settings(max_examples=min(60, settings().max_examples))  # of five runs each
@given(st.data())
def test_what_runs_is_what_the_oracle_says(data):
    """Random edits of the world; each time, a run must run exactly what the oracle says."""
    twins = Twins(data)
    twins.run(("report",))
    for _ in range(4):
        for edit in data.draw(st.lists(st.sampled_from(twins.edits), max_size=2)):
            edit()
        data.draw(st.sampled_from(twins.runs))(data.draw(st.sampled_from(TARGETS)))


@pytest.mark.parametrize("cascade", [True, False])
@given(st.data())
@settings(max_examples=1, phases=[Phase.generate])
def test_each_node_refreshed_reaches_what_the_oracle_says(cascade, data):
    """Every node alone, after everything was computed: it and what is below, or without the cascade it."""
    twins = Twins(data)
    twins.returned = {"a": "1", "b": "2"}
    twins.planner.declared.update(r=("a", "c"), m=("1", "01"))
    twins.run(("report",))
    for node in TOLD:
        twins.compare("report", refresh=frozenset({node}), cascade=cascade)


@given(
    numbers=st.sets(st.integers(0, 300), max_size=60),
    batch=st.one_of(st.none(), st.just("all"), st.integers(1, 70)),
)
def test_calls_are_a_disjoint_cover_in_order(numbers, batch):
    graph = graph_of(*_definitions())
    ordinals = sorted(numbers, reverse=True)
    running = pl.DataFrame(
        {KEY: [f"r={n}" for n in ordinals], ORDINAL: ordinals, "dim:r": [str(n) for n in ordinals]},
        schema={KEY: pl.String, ORDINAL: pl.Int64, "dim:r": pl.String},
    )
    grouped = calls(running, graph.nodes["first"], batch, None)
    assert grouped[KEY].to_list() == [f"r={n}" for n in sorted(numbers)]
    if batch is None:
        assert grouped[CALL].null_count() == len(numbers)
        return
    sizes = grouped.group_by(CALL, maintain_order=True).len()["len"].to_list()
    limit = len(numbers) if batch == "all" else batch
    assert sum(sizes) == len(numbers)
    assert all(size == limit for size in sizes[:-1])
    assert all(0 < size <= limit for size in sizes)

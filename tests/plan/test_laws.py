"""The planner's laws, over generated worlds, against an oracle in plain Python."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

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
NODES = st.sampled_from(sorted(TOLD))
TARGETS = st.sampled_from(
    [("total",), ("report",), ("third",), ("second", "turned"), ("turned",), ("first",)]
)


class PlannerMachine(RuleBasedStateMachine):
    """Random edits of the world; a run must then run exactly what the oracle says."""

    @initialize(
        returned=st.dictionaries(names, few, max_size=3),
        declared=st.fixed_dictionaries(
            {name: st.sets(st.sampled_from(values), min_size=1) for name, values in axes.items()}
        ),
    )
    def start(self, returned, declared):
        self.planner = Planner(graph_of(*_definitions()))
        self.oracle = Oracle(TOLD)
        self.returned = returned
        self.planner.declared = {name: tuple(sorted(values)) for name, values in declared.items()}
        self.environment = {"MODE": "1"}
        self.run(("report",))

    # --- edits --------------------------------------------------------------------------------------

    @rule(key=names, value=few)
    def change_or_add_a_key(self, key, value):
        self.returned[key] = value

    @rule(data=st.data())
    def reorder_the_keys_and_remove_some(self, data):
        pairs = data.draw(st.permutations(sorted(self.returned.items())))
        self.returned = dict(pairs[: data.draw(st.sampled_from([1, len(pairs), len(pairs)]))])

    @rule(name=st.sampled_from(sorted(axes)), data=st.data())
    def declare_other_keys(self, name, data):
        some = st.lists(st.sampled_from(axes[name]), min_size=1, unique=True)
        self.planner.declared[name] = tuple(data.draw(some))

    @rule(node=NODES, code=few)
    def edit_code(self, node, code):
        self.planner.code[node] = f"code {code} of {node}"

    @rule(variable=st.sampled_from(["MODE", "LEVEL"]), value=st.sampled_from(["", "1", "2", None]))
    def set_a_variable(self, variable, value):
        self.environment.pop(variable, None)
        if value is not None:
            self.environment[variable] = value

    @rule(data=st.data(), content=few)
    def compute_another_content(self, data, content):
        """What the code of `first` makes of a key from now on; without this, every key's content is its own."""
        if self.returned:
            key = stored_key({"r": data.draw(st.sampled_from(sorted(self.returned)))})
            self.planner.digests["first", key] = f"content {content}"

    @rule(data=st.data())
    def lose_a_pack(self, data):
        results = sorted(one for one in self.oracle.stored if TOLD[one[0]].kind == "asset")
        if results:
            self.oracle.broken.add(data.draw(st.sampled_from(results)))

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

    def forecast(self, *targets, **options):
        self.ready()
        return self.planner.plan(*targets, **options)

    def ready(self):
        self.planner.returned("source", self.returned)
        self.planner.env = {
            node: {name: self.environment.get(name) for name in told.env} for node, told in TOLD.items()
        }

    @rule(wanted=TARGETS)
    def run(self, wanted):
        self.compare(*wanted)
        self.nothing_is_left(*wanted)

    @rule(wanted=TARGETS, nodes=st.none() | st.sets(NODES, min_size=1, max_size=3), cascade=st.booleans())
    def refresh(self, wanted, nodes, cascade):
        """It reaches exactly what is below, or nothing without the cascade."""
        self.compare(*wanted, refresh=frozenset(nodes or ()), refresh_all=nodes is None, cascade=cascade)
        self.nothing_is_left(*wanted)

    @rule(wanted=TARGETS, data=st.data())
    def select(self, wanted, data):
        """Its keys run with the hashes of a full run: a later one does not run them again."""
        values = {"r": sorted({*self.returned, *self.planner.declared["r"]}), "m": self.planner.declared["m"]}
        some = {name: st.lists(st.sampled_from(of), min_size=1, unique=True) for name, of in values.items()}
        chosen = data.draw(st.fixed_dictionaries({}, optional=some))
        self.compare(*wanted, selection={name: tuple(of) for name, of in chosen.items()})

    @rule(wanted=TARGETS, data=st.data())
    def fail(self, wanted, data):
        """A key that fails holds up its own chain and the fan-in; the next run computes exactly those."""
        places = [("rates", ""), *(("cells", f"m={m}/r=a") for m in ("1", "01"))]
        places += [(node, stored_key({"r": r})) for node in ("first", "second") for r in self.returned]
        chosen = data.draw(st.sets(st.sampled_from(places), min_size=1, max_size=2))
        self.compare(*wanted, fail=frozenset(chosen))

    def nothing_is_left(self, *targets):
        """A plan after a successful run is empty but for tasks, with the keys in the order declared."""
        if "report" in targets:
            targets = ("total",)
        plan = self.forecast(*targets)
        for node in plan.nodes.values():
            assert node.state == "decided"
            stale = node.decision.filter((pl.col(STATE) == "stale") & pl.col(NEEDED))
            assert node.node.id == "source" or not stale.height
        if "first" in plan.nodes:
            assert plan.nodes["first"].decision["dim:r"].to_list() == list(self.returned)

    @rule(wanted=TARGETS, data=st.data())
    def a_selection_is_the_filtered_plan(self, wanted, data):
        values = sorted({*self.returned, *self.planner.declared["r"]})
        chosen = data.draw(st.sampled_from(values))
        full, some = self.forecast(*wanted), self.forecast(*wanted, selection={"r": (chosen,)})
        for name, node in some.nodes.items():
            if "r" in TOLD[name].dimensions and full.nodes[name].state == node.state == "decided":
                # what waits for other keys reads all of an input, so that more of it may be needed
                whole = full.nodes[name].decision.filter(pl.col("dim:r") == chosen).drop(NEEDED)
                assert node.decision.drop(NEEDED).equals(whole)


TestPlannerMachine = PlannerMachine.TestCase
TestPlannerMachine.settings = settings(stateful_step_count=10)


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

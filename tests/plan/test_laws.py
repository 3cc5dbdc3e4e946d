"""The planner's laws, over generated worlds, against an oracle in plain Python."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barca import asset, collect, partitions_from, sensor
from barca.graph import build_graph
from barca.hashing import FORMAT_VERSION, hash_fields, hash_text
from barca.plan.batching import calls
from barca.schemas import CALL, KEY, NEEDED, ORDINAL, STATE

values = st.sampled_from(["1", "2", "3"])
keys = st.text("abc/=%é ", min_size=1, max_size=4)


def _definitions():
    @sensor
    def source() -> dict: ...

    @asset(partitions={"r": partitions_from(source)})
    def a(r: str, source: str) -> dict: ...

    @asset(partitions={"r": partitions_from(a)})
    def b(r: str, a: dict) -> dict: ...

    @asset(inputs={"every": collect(b)})
    def total(every: list) -> dict: ...

    return [source, a, b, total]


class Oracle:
    """What must run, told in plain Python: a dict of results, hashes by the scalar functions."""

    def __init__(self) -> None:
        self.stored: set[tuple[str, str, str]] = set()

    @staticmethod
    def key(value: str) -> str:
        return "r=" + value.replace("%", "%25").replace("/", "%2F").replace("=", "%3D")

    def hashes(self, code: dict[str, str], returned: dict[str, str]) -> dict[tuple[str, str], str]:
        found = {}
        for value, version in returned.items():
            key = self.key(value)
            found["a", key] = self._hash(
                code["a"],
                key,
                [("p", "source"), ("m", "keyed"), ("i", code["source"]), ("w", hash_text(version))],
            )
            found["b", key] = self._hash(
                code["b"], key, [("p", "a"), ("m", "same_key"), ("r", found["a", key])]
            )
        every = sorted((key, run_hash) for (node, key), run_hash in found.items() if node == "b")
        text = "".join(f"k{len(key.encode())}:{key}r{len(run_hash)}:{run_hash}" for key, run_hash in every)
        combined = hash_fields([("n", str(len(every))), ("c", text)])
        found["total", ""] = self._hash(
            code["total"], "", [("p", "every"), ("m", "collect"), ("c", combined)]
        )
        return found

    @staticmethod
    def _hash(code: str, key: str, parts: list[tuple[str, str]]) -> str:
        return hash_fields([("b", FORMAT_VERSION), ("d", code), ("k", key), *parts])

    def run(
        self,
        code: dict[str, str],
        returned: dict[str, str],
        *,
        only: str | None = None,
        bad: str | None = None,
        refresh: str | None = None,
        cascade: bool = True,
    ) -> set[tuple[str, str]]:
        """What runs now; it is stored afterwards.

        Args:
            code: Node to its definition hash.
            returned: What the source returns.
            only: A selected key; the fan-in is then left out.
            bad: A key of `a` that fails when it runs.
            refresh: A node to run again.
            cascade: Whether what reads it runs again too.
        """
        hashes = self.hashes(code, returned)
        if only is not None:
            hashes = {place: run_hash for place, run_hash in hashes.items() if place[1] == only}
        chain = ["a", "b", "total"]
        again = chain[chain.index(refresh) :] if refresh and cascade else [refresh]
        if refresh != "total" and not returned:
            again = []  # a refresh reaches a reader by the keys it runs, and there are none
        forced = {place for place in hashes if place[0] in again}
        new = {place for place, run_hash in hashes.items() if (*place, run_hash) not in self.stored} | forced
        if bad is not None and ("a", bad) in new:
            new -= {("a", bad), ("b", bad), ("total", "")}
        self.stored |= {(*place, hashes[place]) for place in new}
        return new


class PlannerMachine(RuleBasedStateMachine):
    """Random edits of code and sources; after each, a run must run exactly what the oracle says."""

    @initialize(returned=st.dictionaries(keys, values, max_size=5))
    def start(self, returned):
        from tests.plan.worlds import Planner

        definitions = _definitions()
        graph = build_graph([(d.function.__name__, d) for d in definitions])
        self.planner = Planner(graph)
        self.oracle = Oracle()
        self.returned = returned

    @rule(key=keys, value=values)
    def change_or_add(self, key, value):
        self.returned[key] = value

    @rule(data=st.data())
    def remove(self, data):
        if self.returned:
            del self.returned[data.draw(st.sampled_from(sorted(self.returned)))]

    @rule(data=st.data())
    def reorder(self, data):
        self.returned = dict(data.draw(st.permutations(list(self.returned.items()))))

    @rule(node=st.sampled_from(["source", "a", "b", "total"]), code=values)
    def edit(self, node, code):
        self.planner.code[node] = f"code {code} of {node}"

    def compare(self, target, options, **told):
        """A run of the planner runs what the oracle says."""
        self.planner.returned("source", self.returned)
        code = {node: fingerprint.hash for node, fingerprint in self.planner.fingerprints().items()}
        ran = self.planner.run(target, **options)
        assert ran.pop("source") == [""]
        expected = self.oracle.run(code, self.returned, **told)
        assert {(node, key) for node, keys in ran.items() for key in keys} == expected

    @rule()
    def run(self):
        self.compare("total", {})
        self.after_run()

    @rule(data=st.data())
    def run_a_selection(self, data):
        """Its keys run with the hashes of a full run: a later one does not run them again."""
        if self.returned:
            value = data.draw(st.sampled_from(sorted(self.returned)))
            self.compare("b", {"selection": {"r": (value,)}}, only=Oracle.key(value))

    @rule(data=st.data())
    def run_with_a_key_that_fails(self, data):
        """It holds up its own chain and the fan-in; the next run computes exactly those."""
        if self.returned:
            bad = Oracle.key(data.draw(st.sampled_from(sorted(self.returned))))
            self.compare("total", {"fail": {"a": {bad}}}, bad=bad)

    @rule(node=st.sampled_from(["a", "b", "total"]), cascade=st.booleans())
    def refresh(self, node, cascade):
        """It reaches exactly what is below, or nothing without the cascade."""
        options = {"refresh": frozenset({node}), "cascade": cascade}
        self.compare("total", options, refresh=node, cascade=cascade)
        self.after_run()

    def after_run(self):
        """A plan after a successful run is empty, and says the same keys that the source returned."""
        plan = self.planner.plan("total")
        for node in ("a", "b", "total"):
            decision = plan.nodes[node].decision
            assert not decision.filter((pl.col(STATE) == "stale") & pl.col(NEEDED)).height
        assert plan.nodes["a"].decision["dim:r"].to_list() == list(self.returned)

    @invariant()
    def a_selection_is_the_filtered_plan(self):
        if not getattr(self, "returned", None) or not self.planner.rows.get("source"):
            return
        self.planner.returned("source", self.returned)
        value = sorted(self.returned)[0]
        full = self.planner.plan("b")
        some = self.planner.plan("b", selection={"r": (value,)})
        for node in ("a", "b"):
            assert some.nodes[node].decision.equals(
                full.nodes[node].decision.filter(pl.col("dim:r") == value)
            )


TestPlannerMachine = PlannerMachine.TestCase
TestPlannerMachine.settings = settings(stateful_step_count=12)


@given(
    numbers=st.sets(st.integers(0, 300), max_size=60),
    batch=st.one_of(st.none(), st.just("all"), st.integers(1, 70)),
)
def test_calls_are_a_disjoint_cover_in_order(numbers, batch):
    definitions = _definitions()
    graph = build_graph([(d.function.__name__, d) for d in definitions])
    ordinals = sorted(numbers, reverse=True)
    running = pl.DataFrame(
        {KEY: [f"r={n}" for n in ordinals], ORDINAL: ordinals, "dim:r": [str(n) for n in ordinals]},
        schema={KEY: pl.String, ORDINAL: pl.Int64, "dim:r": pl.String},
    )
    grouped = calls(running, graph.nodes["a"], batch, None)
    assert grouped[KEY].to_list() == [f"r={n}" for n in sorted(numbers)]
    if batch is None:
        assert grouped[CALL].null_count() == len(numbers)
        return
    sizes = grouped.group_by(CALL, maintain_order=True).len()["len"].to_list()
    limit = len(numbers) if batch == "all" else batch
    assert sum(sizes) == len(numbers)
    assert all(size == limit for size in sizes[:-1])
    assert all(0 < size <= limit for size in sizes)

"""Planning only what may have changed is the same as planning everything, whatever happened before."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from barca.errors import StoreError
from barca.io.ledger import DeltaLedger, replacing
from barca.project import narrowing
from barca.schemas import MOVED, empty

PIPELINE = """
import json, pathlib
import polars as pl
from barca import asset, collect, partitions_from, sensor

HERE = pathlib.Path(__file__).parent
FACTOR = 1

@sensor
def versions() -> dict:
    return json.loads((HERE / "versions.json").read_text())

@asset
def rate() -> int:
    return 7

@asset(partitions={"shop": partitions_from(versions)}, batch=3, inputs={"rate": rate})
def cleaned(shop: list[str], versions: dict, rate: int) -> dict:
    with open(HERE / "calls.txt", "a") as calls:
        calls.writelines(f"cleaned {key}\\n" for key in shop)
    failing = json.loads((HERE / "failing.json").read_text())
    if any(key in failing for key in shop):
        raise ValueError("failing")
    return {key: pl.DataFrame({"value": [versions[key]] * (1 + len(versions[key]))}) for key in shop}

@asset(partitions={"shop": partitions_from(cleaned)})
def scored(shop: str, cleaned: pl.DataFrame) -> int:
    with open(HERE / "calls.txt", "a") as calls:
        calls.write(f"scored {shop}\\n")
    return FACTOR * cleaned.height

@asset(inputs={"scored": collect(scored)})
def total(scored: list) -> int:
    return sum(scored)
"""

KEYS = ["a", "b", "c=1", "d/é"]
steps = st.one_of(
    st.tuples(st.just("value"), st.sampled_from(KEYS), st.sampled_from(["x", "yy", "zzz"])),
    st.tuples(st.just("remove"), st.sampled_from(KEYS)),
    st.tuples(st.just("code"), st.sampled_from("123")),
    st.tuples(st.just("rate"), st.sampled_from("78")),
    st.tuples(st.just("fail"), st.sampled_from(KEYS)),
    st.tuples(st.just("mend")),
    st.tuples(st.just("lose"), st.integers(0, 50)),
    st.tuples(st.just("give up"), st.sampled_from(["cleaned", "scored"]), st.integers(0, 50)),
    st.tuples(st.just("select"), st.sampled_from(KEYS)),
    st.tuples(st.just("refresh"), st.sampled_from(["cleaned", "scored"])),
    st.tuples(st.just("target"), st.sampled_from(["cleaned", "scored", "total"])),
    st.tuples(st.just("nothing")),
)


@pytest.fixture
def every_node_is_large(monkeypatch):
    monkeypatch.setattr(narrowing, "FEW_KEYS", 0)
    monkeypatch.setattr(narrowing, "LARGE_SHARE", 1)


class Scene:
    """A project, what it should hold by now told in plain Python, and a hand that spoils things."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.values = {"a": "x", "b": "yy", "c=1": "x"}
        self.failing: set[str] = set()
        self.factor, self.rate = "1", "7"
        self.target = "scored"
        (root / "barca.toml").touch()
        self.write()

    def write(self) -> None:
        text = PIPELINE.replace("FACTOR = 1", f"FACTOR = {self.factor}")
        (self.root / "pipeline.py").write_text(text.replace("return 7", f"return {self.rate}"))
        (self.root / "versions.json").write_text(json.dumps(self.values))
        (self.root / "failing.json").write_text(json.dumps(sorted(self.failing)))
        (self.root / "calls.txt").write_text("")

    def project(self):
        from barca import Project

        return Project(self.root, executor="inline")

    def without_notes(self, look):
        notes = self.root / ".barca/ledger/materializations/_notes"
        if not notes.exists():
            return look()
        notes.rename(self.root / "aside")
        try:
            return look()
        finally:
            (self.root / "aside").rename(notes)

    def step(self, name: str, *arguments) -> None:
        if name == "value":
            self.values[arguments[0]] = arguments[1]
        elif name == "remove" and len(self.values) > 1:
            self.values.pop(arguments[0], None)
        elif name == "code":
            self.factor = arguments[0]
        elif name == "rate":
            self.rate = arguments[0]
        elif name == "fail":
            self.failing.add(arguments[0])
        elif name == "mend":
            self.failing.clear()
        elif name == "lose":
            packs = sorted((self.root / ".barca/artifacts").rglob("*.parquet"))
            packs = [pack for pack in packs if "@versions" not in str(pack)]
            if packs:
                packs[arguments[0] % len(packs)].unlink()
        elif name == "give up":
            node, ledger = f"pipeline.py:{arguments[0]}", DeltaLedger(self.root / ".barca/ledger")
            rows = ledger.reader().materialized(node).select("key", "run_hash", "run_id")
            if rows.height:
                ledger.revise(node, empty(MOVED), rows.slice(arguments[1] % rows.height, 1))
        elif name == "target":
            self.target = arguments[0]
        self.write()

    def check(self) -> None:
        """The forecast with notes is the one without; the run computes exactly what the latter says."""
        assert self.look() == self.without_notes(self.look)

    def look(self) -> tuple[dict, dict]:
        project = self.project()
        return project.plan(self.target).to_dict(), project.status().to_dict()

    def run(self, **options) -> None:
        before = len((self.root / "calls.txt").read_text().splitlines())
        whole = self.without_notes(lambda: self.copy_ran(**options))
        result = self.project().get(self.target, **options)
        ran = sorted((self.root / "calls.txt").read_text().splitlines()[before:])
        document = result.to_dict()
        mine = (ran, document["status"], document["steps_executed"], document["steps_cached"])
        assert mine == whole, "what ran with notes, and without"
        if document["status"] == "success" and self.target == "scored" and not options.get("partition"):
            expected = {
                f"shop={key}": int(self.factor) * (1 + len(value)) for key, value in self.values.items()
            }
            assert result.value == expected

    def copy_ran(self, **options):
        """What a run does in a copy of the project."""
        with tempfile.TemporaryDirectory() as directory:
            other = Path(directory, "copy")
            shutil.copytree(self.root, other, ignore=shutil.ignore_patterns("aside"))
            (other / "calls.txt").write_text("")
            from barca import Project

            document = Project(other, executor="inline").get(self.target, **options).to_dict()
            ran = sorted((other / "calls.txt").read_text().splitlines())
            return (ran, document["status"], document["steps_executed"], document["steps_cached"])


KEYS_CHANGE = [
    ("nothing",),
    ("value", "a", "yy"),  # of other rows
    ("value", "d/é", "x"),
    ("target", "total"),
    ("value", "b", "zzz"),
    ("remove", "b"),
    ("value", "a", "x"),  # as it was
    ("target", "scored"),
    ("nothing",),
]
RESULTS_ARE_LACKING = [
    ("fail", "b"),
    ("value", "b", "x"),
    ("nothing",),
    ("mend",),
    ("lose", 1),
    ("value", "c=1", "zzz"),
    ("select", "a"),
    ("lose", 3),
    ("refresh", "cleaned"),
]
WHAT_MADE_THEM_CHANGES = [
    ("code", "2"),
    ("rate", "8"),
    ("value", "a", "zzz"),
    ("code", "1"),
    ("refresh", "scored"),
]

NOTHING_READS_IT_WHOLE = [  # so that single keys of it are planned
    ("target", "cleaned"),
    ("value", "a", "yy"),
    ("lose", 0),  # of the keys that did not run
    ("value", "c=1", "zzz"),
    ("remove", "b"),
    ("fail", "a"),
    ("value", "a", "x"),
    ("nothing",),
]


@pytest.mark.slow
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=1, max_size=8))
@example(KEYS_CHANGE)
@example(RESULTS_ARE_LACKING)
@example(WHAT_MADE_THEM_CHANGES)
@example(NOTHING_READS_IT_WHOLE)
def test_a_narrowed_run_is_a_whole_run(every_node_is_large, happened):
    with tempfile.TemporaryDirectory() as directory:
        scene = Scene(Path(directory))
        scene.run()
        for name, *arguments in happened:
            scene.step(name, *arguments)
            if name == "select" and arguments[0] in scene.values:
                scene.run(partition={"shop": arguments[0]}) if scene.target != "total" else None
            elif name == "refresh":
                scene.run(refresh=arguments[0]) if scene.target != "cleaned" else None
            scene.check()
            scene.run()
        scene.check()


MANY = """
import json, pathlib
from barca import asset, partitions_from, sensor

@sensor
def versions() -> dict:
    return json.loads(pathlib.Path(__file__).with_name("versions.json").read_text())

@asset(partitions={"shop": partitions_from(versions)}, batch="all")
def cleaned(shop: list[str], versions: dict) -> dict:
    return {key: len(versions[key]) for key in shop}

@asset(partitions={"shop": partitions_from(cleaned)}, batch="all")
def scored(shop: list[str], cleaned: dict) -> dict:
    return {key: {"length": cleaned[key]} for key in shop}
"""


def looked_at(result) -> dict[str, int]:
    return {
        node_id.rpartition(":")[2]: report.plan.decision.height
        for node_id, report in result._report.nodes.items()
        if report.plan.node.partitioned
    }


def many(project, count: int) -> dict[str, str]:
    values = {f"s{number:06}": "v" for number in range(count)}
    project.write("pipeline.py", MANY)
    project.write("versions.json", json.dumps(values))
    return values


@pytest.mark.parametrize("count", [1_001, 3_000, 9_000])
def test_only_what_may_have_changed_is_looked_at(project, count):
    values = many(project, count)
    assert looked_at(project.get("scored")) == {"cleaned": count, "scored": count}
    assert looked_at(project.get("scored")) == {"cleaned": 0, "scored": 0}
    project.write("versions.json", json.dumps(values | {"s000007": "other", "new": "v"}))
    result = project.get("scored")
    assert looked_at(result) == {"cleaned": 2, "scored": 2}
    assert (result.steps_executed, result.steps_cached) == (1 + 4, 2 * (count - 1))
    assert result.held("pipeline.py:scored").height == count + 1, "what a result holds is whole"
    plan = project.open().plan("scored")
    assert plan.plan.nodes["pipeline.py:scored"].decision.height == 0
    assert plan.keys("pipeline.py:scored").height == count + 1
    assert project.open().scan("scored").collect(engine="in-memory").height == count + 1
    project.write("versions.json", json.dumps(values))
    result = project.get("scored")
    assert looked_at(result) == {"cleaned": 1, "scored": 1}, "the former value was computed before"
    assert result.steps_executed == 1


def test_few_keys_or_many_changes_are_planned_whole(project):
    values = many(project, 1_000)
    project.get("scored")
    assert looked_at(project.get("scored")) == {"cleaned": 1_000, "scored": 1_000}
    project.write("versions.json", json.dumps(values | {"new": "v"}))
    project.get("scored")
    assert looked_at(project.get("scored")) == {"cleaned": 0, "scored": 0}
    changed = {
        key: "other" if number % 3 == 0 else value for number, (key, value) in enumerate(values.items())
    }
    project.write("versions.json", json.dumps(changed))
    assert looked_at(project.get("scored")) == {"cleaned": 1_000, "scored": 1_000}


def four(project) -> dict[str, str]:
    """A project of four keys, whose last run had one of them changed."""
    values = many(project, 4)
    project.get("scored")
    values["s000000"] = "other"
    project.write("versions.json", json.dumps(values))
    project.get("scored")
    return values


def lengths(values: dict[str, str]) -> dict[str, int]:
    return {f"shop={key}": len(value) for key, value in values.items()}


def test_what_was_given_up_is_computed_again(every_node_is_large, project):
    values = four(project)
    node, ledger = "pipeline.py:cleaned", project.open()._ledger
    gone = ledger.reader().materialized(node).filter(pl.col("key") == "shop=s000001")
    assert ledger.revise(node, empty(MOVED), gone.select("key", "run_hash", "run_id"))
    assert project.get("cleaned").value == lengths(values)


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_a_damaged_commit_recorded_is_computed_again(every_node_is_large, project, by_hand):
    values = four(project)
    last = max((project.root / ".barca/ledger/materializations/_delta_log").glob("*.json"))
    last.write_bytes(last.read_bytes()[:40])
    if by_hand:
        last.rename(last.with_suffix(".damaged"))
    else:
        project.open().repair()
    assert project.get("cleaned").value == lengths(values)


def test_keys_that_were_selected_meanwhile_hold_what_the_next_run_serves(every_node_is_large, project):
    values = four(project)
    project.write("versions.json", json.dumps(values | {"s000001": "longer"}))
    selected = project.get("cleaned", partition={"shop": "s000001"})
    assert selected.value == {"shop=s000001": len("longer")}
    project.write("versions.json", json.dumps(values))
    run_id = project.get("cleaned").run_id
    assert project.open().get("cleaned", as_of=run_id).value == lengths(values)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_keys_whose_pack_was_lost_are_computed_again(every_node_is_large, project, meanwhile):
    """Also where a run meanwhile did not need it."""
    values = four(project)
    for pack in (project.root / ".barca/artifacts").glob("*cleaned*/*.parquet"):
        pack.unlink()
    if meanwhile:
        assert project.get("scored").steps_executed == 1
    assert project.get("cleaned").value == lengths(values)
    assert looked_at(project.get("cleaned")) == {"cleaned": 0}


def test_where_what_a_source_returned_before_is_lost_every_key_is_looked_at(every_node_is_large, project):
    values = four(project) | {"s000002": "changed"}
    for pack in (project.root / ".barca/artifacts").glob("*versions*/*.parquet"):
        pack.unlink()
    project.write("versions.json", json.dumps(values))
    result = project.get("cleaned")
    assert (result.value, result.steps_executed, looked_at(result)) == (lengths(values), 2, {"cleaned": 4})


def test_another_environment_runs_every_key(every_node_is_large, project, monkeypatch):
    values = four(project)
    declared = MANY.replace('batch="all")\ndef cleaned', 'batch="all", env=["RATE"])\ndef cleaned')
    project.write("pipeline.py", declared)
    for rate, ran in (("1", 1 + 2 * 4), ("1", 1), ("2", 1 + 2 * 4)):
        monkeypatch.setenv("RATE", rate)
        assert project.get("scored").steps_executed == ran
    assert project.get("cleaned").value == lengths(values)


FAILING = """
    import json, pathlib
    from barca import asset, collect, partitions_from, sensor

    @sensor
    def versions() -> dict:
        return json.loads(pathlib.Path(__file__).with_name("versions.json").read_text())

    @asset(partitions={"shop": partitions_from(versions)})
    def size(shop: str, versions: str) -> int:
        return len(versions) if versions != "bad" else 1 / 0

    @asset(inputs={"sizes": collect(size)})
    def total(sizes: list) -> int:
        return sum(sizes)
"""


def test_keys_that_failed_are_tried_again_and_what_is_read_whole_is_told_by_every_key(
    every_node_is_large, project
):
    project.write("pipeline.py", FAILING)
    for values, status, total, ran in (
        ({"a": "x", "b": "bad"}, "failed", None, 3),
        ({"a": "x", "b": "bad"}, "failed", None, 2),
        ({"a": "x", "b": "yy"}, "success", 3, 3),
        ({"a": "x", "b": "yy"}, "success", 3, 1),
        ({"a": "xxx", "b": "yy"}, "success", 5, 3),
        ({"a": "xxx"}, "success", 3, 2),
        ({"a": "xxx"}, "success", 3, 1),
        ({"a": "xxx", "b": "yy"}, "success", 5, 1),
    ):
        project.write("versions.json", json.dumps(values))
        result = project.get("total")
        assert (result.status, result.value, result.steps_executed) == (status, total, ran), values


def test_keys_that_failed_are_tried_again_where_nothing_is_read_whole(every_node_is_large, project):
    project.write("pipeline.py", FAILING[: FAILING.index("@asset(inputs")])
    project.write("versions.json", json.dumps({"a": "x", "b": "bad"}))
    ran = [project.get("size").steps_executed for _ in range(3)]
    assert ran == [3, 2, 2]
    assert looked_at(project.get("size")) == {"size": 1}


def test_what_reads_every_key_of_its_own_group_is_planned_whole(every_node_is_large, project):
    shares = (
        FAILING[: FAILING.index("@asset(inputs")]
        + """
    @asset(partitions={"shop": partitions_from(size)}, inputs={"sizes": collect(size)})
    def share(shop: str, size: int, sizes: list) -> float:
        return size / sum(sizes)
"""
    )
    project.write("pipeline.py", shares)
    for values, expected in (({"a": "x", "b": "x"}, [0.5, 0.5]), ({"a": "xxx", "b": "x"}, [0.75, 0.25])):
        project.write("versions.json", json.dumps(values))
        assert list(project.get("share").value.values()) == expected


def test_a_key_that_left_is_held_no_more(every_node_is_large, project):
    values = four(project)
    values.pop("s000003")
    project.write("versions.json", json.dumps(values))
    result = project.get("cleaned")
    assert looked_at(result) == {"cleaned": 0}
    assert project.open().get("cleaned", as_of=result.run_id).value == lengths(values)


def lose_a_row(project, node: str) -> None:
    ledger = project.open()._ledger
    gone = ledger.reader().materialized(node).head(1).select("key", "run_hash", "run_id")
    assert replacing.revise(ledger.root, node, empty(MOVED), gone)


def test_a_result_that_lacks_keys_is_none(every_node_is_large, project):
    """Whatever went wrong: rather an error than fewer keys."""
    values = many(project, 4)
    assert project.get("cleaned").value == lengths(values)
    lose_a_row(project, "pipeline.py:cleaned")
    with pytest.raises(
        StoreError, match="of 4 keys of `pipeline.py:cleaned` that need not be looked at, 3 have"
    ):
        _ = project.get("cleaned").value


def test_what_reads_every_key_does_not_read_fewer(every_node_is_large, project):
    project.write("pipeline.py", FAILING)
    project.write("versions.json", json.dumps({"a": "x", "b": "yy"}))
    assert project.get("total").value == 3
    lose_a_row(project, "pipeline.py:size")
    project.write("pipeline.py", FAILING.replace("return sum(sizes)", "return 10 * sum(sizes)"))
    with pytest.raises(
        StoreError, match="of 2 keys of `pipeline.py:size` that need not be looked at, 1 have"
    ):
        project.get("total")

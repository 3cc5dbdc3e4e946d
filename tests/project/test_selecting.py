"""`--partition`: what it narrows, what it skips, and what it refuses."""

from __future__ import annotations

import json

import polars as pl
import pytest

import barca
from barca.errors import SelectionError, UsageError

PIPELINE = """
    import pathlib
    from barca import asset, collect, partitions, partitions_from, sensor, task

    @sensor(partitions={"region": partitions(["emea", "amer", "apac"])})
    def orders(region: str) -> str:
        return region

    @asset(partitions={"region": partitions_from(orders)})
    def sales(region: str, orders: str) -> dict:
        return {"revenue": len(region) * 100}

    @asset(partitions={"region": partitions_from(sales)})
    def margin(region: str, sales: dict) -> float:
        return sales["revenue"] * 0.2

    @asset(partitions={"year": partitions([2025, 2026])})
    def rates(year: str) -> int:
        return int(year)

    @asset(inputs={"rates": collect(rates)}, partitions={"region": partitions(["amer", "apac", "emea"])})
    def rated(region: str, rates: list[int]) -> list:
        return [region, sum(rates)]

    @asset(inputs={"every": collect(margin)})
    def summary(every: list[float]) -> float:
        return sum(every)

    @asset(inputs={"summary": summary})
    def headline(summary: float) -> str:
        return f"{summary:.0f}"

    @task(inputs={"margin": margin}, partitions={"region": partitions(["emea", "amer", "apac"])})
    def notify(region: str, margin: float) -> str:
        return f"{region} {margin:.0f}"

    @task(inputs={"headline": headline})
    def publish(headline: str) -> str:
        return headline
"""


@pytest.fixture
def world(project):
    project.write("pipeline.py", PIPELINE)
    return project


def hashes(project):
    rows = project.open()._reader().scan("materializations").collect(engine="in-memory")
    return {
        (node, key): run_hash for node, key, run_hash in rows.select("node", "key", "run_hash").iter_rows()
    }


def statuses(result):
    return {step["id"].rpartition(":")[2]: step["status"] for step in result["steps"]}


def test_every_node_with_the_dimension_is_narrowed_and_the_others_are_not(world):
    result = world.get(partition={"region": "apac"}).to_dict()
    assert result["status"] == "success"
    nodes = {
        node["id"].rpartition(":")[2]: (node["selected"], node["skipped"])
        for node in result["partition_selection"]["nodes"]
    }
    assert nodes == dict.fromkeys(["orders", "sales", "margin", "rated"], (1, 2))
    assert statuses(result) == {
        "orders": "ran", "sales": "ran", "margin": "ran", "rates": "ran", "rated": "ran",
        "summary": "skipped", "headline": "skipped",
    }  # fmt: skip
    skipped = {
        node["id"].rpartition(":")[2]: node["detail"]
        for node in result["partition_selection"]["skipped_nodes"]
    }
    assert list(skipped) == ["summary", "headline"]
    assert all("run without --partition to update it" in detail for detail in skipped.values())
    steps = {step["id"].rpartition(":")[2]: step for step in result["steps"]}
    assert steps["summary"]["reason"] == steps["headline"]["reason"] == "partition_selection"
    assert steps["rates"]["partitions"]["total"] == 2, "what has no named dimension keeps its keys"


def test_selected_keys_are_those_of_a_full_run(world):
    world.get(partition={"region": ["apac", "emea"]})
    some = hashes(world)
    assert world.ran() == {"orders": 3, "sales": 1, "margin": 1, "rated": 1, "summary": 1, "headline": 1}
    every = hashes(world)
    assert {place: every[place] for place in some} == some
    assert world.ran("margin", partition={"region": "amer"}) == {"orders": 1}, "all cached but the sensor"


FORMS = [
    ["--partition", "region=emea,amer"],
    ["--partition", "region=emea", "--partition", "region=amer"],
    ["--partition", '{"region": ["emea", "amer"]}'],
    ["--partition", '{"region": "emea"}', "--partition", "region=amer"],
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_selects_the_same(world, form):
    plan = world.cli_json("get", "margin", *form, "--dry-run")
    assert plan["partition_selection"]["selection"] == {"region": ["emea", "amer"]}
    assert [node["selected"] for node in plan["partition_selection"]["nodes"]] == [2, 2, 2]
    phases = world.cli_json("plan", "margin", *form)
    assert phases["partition_selection"] == plan["partition_selection"]
    assert phases["total_steps"] == 6


def test_every_verb_of_python_selects_the_same(world, monkeypatch):
    monkeypatch.chdir(world.root)
    chosen = {"partition": {"region": ["emea", "apac"]}}
    assert list(barca.get("margin", "pipeline.py", executor="inline", **chosen)) == [
        "region=apac",
        "region=emea",
    ]
    scanned = (
        barca.scan("sales", "pipeline.py", executor="inline", **chosen)
        .sort("region")
        .collect(engine="in-memory")
    )
    assert scanned.to_dict(as_series=False) == {"region": ["apac", "emea"], "revenue": [400, 400]}
    assert list(barca.run("notify", "pipeline.py", executor="inline", **chosen)) == [
        "region=apac",
        "region=emea",
    ]
    plan = barca.plan("margin", "pipeline.py", **chosen)
    assert plan.to_dict()["partition_selection"]["selection"] == {"region": ["emea", "apac"]}
    assert plan.keys("pipeline.py:margin").height == 2
    for values in (("emea",), {"emea": 1}, pl.Series(["emea"]), (name for name in ["emea"])):
        assert (
            barca.plan("rated", "pipeline.py", partition={"region": values}).keys("pipeline.py:rated").height
            == 1
        )
    with pytest.raises(UsageError, match="strings, integers and dates"):
        barca.plan("margin", "pipeline.py", partition={"region": [1.5]})
    with pytest.raises(UsageError, match="takes names of dimensions, not `1`"):
        barca.plan("margin", "pipeline.py", partition={1: "emea"})


def test_a_task_with_the_dimension_is_narrowed_and_one_below_a_fan_in_is_refused(world):
    result = world.open().run("notify", partition={"region": "emea"})
    assert result.value == {"region=emea": "emea 80"}
    with pytest.raises(UsageError, match="the selection skips `publish`"):
        world.open().run("publish", partition={"region": "emea"})
    done = world.cli("run", "--partition", "region=emea")
    assert done.returncode == 2 and "takes one task" in done.stderr


def test_the_command_line_notes_what_is_skipped_and_exits_with_0(world):
    done = world.cli("get", "pipeline.py", "--partition", "region=emea", "--json", "--executor", "inline")
    assert done.returncode == 0
    note = "note: --partition skips fan-ins that read every key: summary, headline. Run without --partition to update them."
    assert done.stderr.count(note) == 1
    assert note in world.cli("get", "--partition", "region=emea", "--dry-run").stderr


@pytest.mark.parametrize(
    ("arguments", "told", "valid"),
    [
        (["--partition", "area=emea"], "no node of this run has the dimension `area`", "`region`"),
        (["--partition", "region=emae"], "`emae` is not a key of `region`", "did you mean `emea`?"),
        (
            ["--partition", '{"region": ["emea", "x"]}'],
            "`x` is not a key of `region`",
            "`emea`, `amer`, `apac`",
        ),
        (["--partition", "region"], "it is not DIM=V[,V]", "--partition retailer=r1,r2"),
        (["--partition", "region="], "no value is given for `region`", "--partition retailer=r1,r2"),
        (["--partition", "region= , "], "one of the values is empty", "blanks around"),
        (["--partition", '{"region": 1.5}'], "strings or integers", "--partition"),
        (["--partition", "{region}"], "it is not JSON", "--partition"),
    ],
)
def test_wrong_selections_are_refused_before_anything_runs(world, arguments, told, valid):
    done = world.cli("get", "margin", *arguments, "--json")
    error = json.loads(done.stderr)
    assert (done.returncode, done.stdout, error["kind"]) == (2, "", "usage")
    assert told in error["error"] and valid in error["remediation"]
    assert not (world.root / ".barca").exists()


def test_a_key_that_a_sensor_returns_in_this_run_only_can_be_selected(project):
    project.write(
        "pipeline.py",
        """
        import json, pathlib
        from barca import asset, partitions_from, sensor
        @sensor
        def names() -> dict: return json.loads((pathlib.Path(__file__).parent / "names.json").read_text())
        @asset(partitions={"k": partitions_from(names)})
        def own(k: str, names: int) -> int: return names
        """,
    )
    project.write("names.json", '{"a": 1}')
    project.ran()
    project.write("names.json", '{"a": 1, "new": 2}')
    assert project.open().plan("own", partition={"k": "new"}).warnings, "it may come, and has not yet"
    assert project.get("own", partition={"k": "new"}).value == {"k=new": 2}


def test_p6_keys_that_are_known_late(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions_from
        @asset
        def names() -> list: return ["a", "b"]
        @asset(partitions={"k": partitions_from(names)})
        def own(k: str) -> str: return k
        @asset(partitions={"k": partitions_from(own)})
        def below(k: str, own: str) -> str: return own
        """,
    )
    before = project.cli_json("get", "below", "--partition", "k=zz", "--dry-run")
    nodes = before["partition_selection"]["nodes"]
    assert [(node["selected"], node["skipped"]) for node in nodes] == [(None, None)] * 2
    done = project.cli("get", "below", "--partition", "k=zz", "--json", "--executor", "inline")
    result = json.loads(done.stdout)
    assert (done.returncode, result["final_output"], result["steps_executed"]) == (0, {}, 1)
    assert (
        "warning: `pipeline.py:below` has none of the selected keys; it computes nothing (valid: `a`, `b`)"
        in done.stderr
    )
    assert list(project.get("below", partition={"k": "b"}).value) == ["k=b"]
    with pytest.raises(SelectionError, match="`zz` is not a key of `k`"):
        project.get("below", partition={"k": "zz"})


GRID = """
    from barca import asset, collect, partitions
    AXES = {"day": partitions(["mo", "tu", "we"]), "shop": partitions(["x", "y"])}
    @asset(partitions=AXES)
    def cell(day: str, shop: str) -> dict:
        if (day, shop) == ("tu", "y"):
            raise ValueError("closed")
        return {"sold": len(day) + len(shop)}
    @asset(inputs={"cell": cell}, partitions=dict(reversed(AXES.items())), batch=2)
    def doubled(shop: list[str], day: list[str], cell: dict) -> dict:
        return {f"day={d},shop={s}": cell[f"day={d},shop={s}"]["sold"] * 2 for d, s in zip(day, shop)}
    @asset(partitions={"day": partitions(["mo", "tu", "we"])})
    def weather(day: str) -> str:
        return day
    @asset(inputs={"every": collect(doubled)})
    def total(every: list[int]) -> int:
        return sum(every)
"""


def test_compound_keys_are_selected_by_each_dimension(project):
    project.write("pipeline.py", GRID)
    selection = {"shop": "x", "day": ["mo", "tu"]}
    result = project.get(["doubled", "weather"], partition=selection)
    assert result.value == {
        "doubled": {"day=mo,shop=x": 6, "day=tu,shop=x": 6},
        "weather": {"day=mo": "mo", "day=tu": "tu"},
    }
    nodes = {
        node["id"].rpartition(":")[2]: node["selected"]
        for node in result.to_dict()["partition_selection"]["nodes"]
    }
    assert nodes == {"cell": 2, "doubled": 2, "weather": 2}
    done = project.cli(
        "get",
        "doubled",
        "--partition",
        json.dumps({"day": "we"}),
        "-o",
        "value",
        "--json",
        "--executor",
        "inline",
    )
    assert json.loads(done.stdout)["final_output"] == {"day=we,shop=x": 6, "day=we,shop=y": 6}
    frame = project.open().scan("cell", partition={"shop": "x"}).collect(engine="in-memory")
    assert frame.schema == {"day": pl.String, "shop": pl.String, "sold": pl.Int64}


def test_compound_keys_fail_and_are_blocked_one_by_one(project):
    project.write("pipeline.py", GRID)
    result = project.get("total").to_dict()
    assert result["failed_node"] == "pipeline.py:cell[day=tu,shop=y]"
    steps = {step["id"].removeprefix("pipeline.py:"): step for step in result["steps"]}
    assert steps["doubled[day=tu,shop=y]"]["detail"] == "depends on 'cell[day=tu,shop=y]', which failed"
    assert (steps["doubled"]["partitions"]["total"], result["steps_executed"]) == (6, 6 + 5)
    assert steps["total"]["reason"] == "upstream_failed"


def test_p5_any_text_can_be_selected(project):
    """By flag where the text allows it, by JSON and in Python always; wrong ones show valid values."""
    odd = ["a,b", "c=d", 'q"q', "{e", " f ", "-g", "", "h", "ü", "[1]"]
    project.write(
        "pipeline.py",
        f"""
        from barca import asset, partitions
        @asset(partitions={{"k": partitions({odd!r})}})
        def own(k: str) -> str: return k
        """,
    )
    opened = project.open()
    for value in odd:
        assert opened.get("own", partition={"k": value}).value == {f"k={value}": value}
    for value in odd:
        forms = [json.dumps({"k": [value]})]
        forms += [] if "," in value or value != value.strip() or not value else [f"k={value}"]
        for form in forms:
            from barca.cli.arguments import parse_partition

            assert opened.get("own", partition=parse_partition([form])).value == {f"k={value}": value}
    done = project.cli("get", "own", "--partition", "k=-g", "-o", "value", "--json", "--executor", "inline")
    assert json.loads(done.stdout)["final_output"] == {"k=-g": "-g"}
    done = project.cli("get", "own", "--partition", "k=a,b", "--json")
    error = json.loads(done.stderr)
    assert (done.returncode, error["error"]) == (2, "`a` is not a key of `k`")
    assert (
        error["remediation"] == """a key that holds a comma is selected as JSON: --partition '{"k": "a,b"}'"""
    )
    done = project.cli("get", "own", "--partition", "k=zz", "--json")
    assert "`a,b`, `c=d`" in json.loads(done.stderr)["remediation"]


@pytest.mark.slow
def test_p7_a_selection_builds_only_its_keys(project):
    """Ten of two hundred thousand: the frames of the plan have ten rows, whatever there is beside them."""
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, partitions_from
        @asset(partitions={"k": partitions([f"k{n:06}" for n in range(200_000)])})
        def a(k: str) -> str: return k
        @asset(partitions={"k": partitions_from(a)})
        def b(k: str, a: str) -> str: return a
        @asset(partitions={"k": partitions_from(b)})
        def c(k: str, b: str) -> str: return b
        """,
    )
    chosen = [f"k{n:06}" for n in range(0, 200_000, 20_000)]
    plan = project.open().plan("c", partition={"k": chosen})
    assert [node.decision.height for node in plan.plan.nodes.values()] == [10, 10, 10]
    assert [node.narrowed for node in plan.plan.nodes.values()] == [199_990] * 3
    assert plan.to_dict()["summary"]["will_run"] == 30
    result = project.get("c", partition={"k": chosen})
    assert result.value == {f"k={key}": key for key in chosen}


def test_a_key_that_several_nodes_declare_is_named_once_among_the_valid_ones(project):
    project.write(
        "twice.py",
        """
        from barca import asset, partitions

        @asset(partitions={"k": partitions(["x", "y"])})
        def first(k: str) -> str:
            return k

        @asset(inputs={"first": first}, partitions={"k": partitions(["x", "y"])})
        def second(k: str, first: str) -> str:
            return first
        """,
    )
    done = project.cli("get", "second", "twice.py", "--partition", "k=nope")
    assert done.returncode == 2
    assert json.loads(done.stderr)["remediation"] == "valid: `x`, `y`"


@pytest.mark.parametrize("many", [20, 200, 2_000])
def test_of_selected_keys_alone_results_are_read(project, monkeypatch, many):
    project.write("keys.json", json.dumps({f"k{number}": 1 for number in range(many)}))
    project.write(
        "pipeline.py",
        """
        import json, pathlib
        from barca import asset, partitions, partitions_from, sensor

        @sensor
        def versions() -> dict:
            return json.loads((pathlib.Path(__file__).parent / "keys.json").read_text())

        @asset(partitions={"k": partitions_from(versions)}, batch="all")
        def one(k: list[str], versions: dict) -> dict:
            return {key: versions[key] for key in k}

        @asset(partitions={"k": partitions_from(one)}, batch="all")
        def two(k: list[str], one: dict) -> dict:
            return {key: one[key] + 1 for key in k}
        """,
    )
    assert project.ran("two") == {"versions": 1, "one": many, "two": many}
    from barca.io.ledger import DeltaLedger

    read = type(DeltaLedger(project.root).reader()).materialized_many
    heights = {}

    def counted(reader, nodes, keys=None):
        found = read(reader, nodes, keys)
        heights.update({node.rpartition(":")[2]: rows.height for node, rows in found.items()})
        return found

    monkeypatch.setattr(f"{read.__module__}.DeltaReader.materialized_many", counted)
    result = project.get("two", partition={"k": ["k3", "k1", "k3"]}).to_dict()
    assert (result["steps_executed"], result["steps_cached"]) == (1, 4)
    assert heights == {"versions": 1, "one": 2, "two": 2}

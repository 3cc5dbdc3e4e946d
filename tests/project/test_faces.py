"""Dry run, status, plan and run tell one story; what was left out is told too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

import barca
from barca import schemas
from barca.errors import LoadError
from barca.project.state import NODE_STATES

PACKAGE = Path(barca.__file__).parent

WORLD = """
    import json, pathlib
    import polars as pl
    from barca import Manual, asset, collect, partitions, partitions_from, sensor, task

    HERE = pathlib.Path(__file__).parent

    @sensor
    def versions() -> dict:
        return json.loads((HERE / "versions.json").read_text())

    @asset(partitions={"r": partitions_from(versions)}, cutoff=True)
    def rounded(r: str, versions: int) -> int:
        return versions // 10

    @asset(partitions={"r": partitions_from(rounded)}, batch="all")
    def scored(r: list[str], rounded: dict) -> dict:
        if "bad" in r:
            return {key: rounded[key] for key in r if key != "bad"}
        return {key: rounded[key] for key in r}

    @asset(inputs={"every": collect(scored)})
    def total(every: list) -> int:
        return sum(every)

    @asset
    def apart() -> int:
        return 1

    @task(inputs={"total": total})
    def report(total: int) -> str:
        return str(total)
"""


@pytest.fixture
def world(project):
    project.write("pipeline.py", WORLD)
    project.write("versions.json", '{"a": 10, "b": 20, "c": 30}')
    return project


def planned(project, *targets, **options):
    """Node to the keys that a dry run says will run; an unpartitioned node's key is ''."""
    forecast = project.open().plan(list(targets) or None, **options)
    return {
        node_id.rpartition(":")[2]: set(
            plan.decision.filter((pl.col("state") == "stale") & pl.col("needed"))["key"]
        )
        for node_id, plan in forecast.plan.nodes.items()
        if plan.state == "decided"
    }


@pytest.fixture
def computed(world):
    """Runs, and says which keys the ledger has new rows of."""

    def run(*targets, **options):
        project = world.open()
        before = project._reader().scan("materializations").collect(engine="in-memory")
        result = project.get(list(targets) or None, **options)
        after = world.open()._reader().scan("materializations").collect(engine="in-memory")
        new = after.filter(pl.col("run_id") == result.run_id)
        assert after.height == before.height + new.height
        return {node.rpartition(":")[2]: set(rows["key"]) for (node,), rows in new.group_by("node")}

    return run


EDITS = {
    "nothing": lambda p: None,
    "one version": lambda p: p.write("versions.json", '{"a": 10, "b": 25, "c": 30}'),
    "a new key": lambda p: p.write("versions.json", '{"a": 10, "b": 20, "c": 30, "d": 40}'),
    "a key gone": lambda p: p.write("versions.json", '{"a": 10, "c": 30}'),
    "code of a node in the middle": lambda p: p.edit(
        "pipeline.py", "if key != ", "if key is not None and key != "
    ),
    "code of a node apart": lambda p: p.edit("pipeline.py", "return 1\n", "return 2\n"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_the_dry_run_says_is_what_runs(world, computed, edit):
    computed()
    EDITS[edit](world)
    world.get("versions")
    said, also = planned(world), planned(world, "total")
    status = {n["name"]: n for n in world.open().status().to_dict()["nodes"]}
    for name, keys in said.items():
        missing = (status[name]["partitions"] or {"missing": len(keys)})["missing"]
        assert (name == "versions") or missing == len(keys), name
    assert all(said[name] == keys for name, keys in also.items()), "a target's plan is part of the whole"
    rows = computed()
    for name, keys in said.items():
        assert rows.pop(name, set()) == keys, name
    # what hangs behind a cutoff is decided when its input is known, never guessed
    assert set(rows) <= {"scored", "total"}
    again = planned(world)
    assert {name for name, keys in again.items() if keys} == {"versions"}


def test_refresh_and_selection_run_what_they_say(world, computed):
    computed()
    said = planned(world, "scored", refresh=["rounded"], partition={"r": ["a", "b"]})
    rows = computed("scored", refresh=["rounded"], partition={"r": ["a", "b"]})
    assert said["rounded"] == rows["rounded"] == {"r=a", "r=b"}
    assert set(rows) == {"versions", "rounded"}, "the content is the same: the cutoff holds"


def test_states_and_reasons_come_from_the_closed_sets(world):
    """Whatever is shown, in every situation that can be made here."""
    seen: dict[str, set[str]] = {"reasons": set(), "actions": set(), "states": set()}

    def look(*targets, **options):
        forecast = world.open().plan(list(targets) or None, **options)
        for step in forecast.to_dict()["steps"]:
            seen["reasons"].add(step["reason"])
            seen["actions"].add(step["action"])
        for plan in forecast.plan.nodes.values():
            assert plan.decision.schema.get("state", schemas.STATE_DTYPE) == schemas.STATE_DTYPE
            assert plan.decision.schema.get("reason", schemas.REASON_DTYPE) == schemas.REASON_DTYPE
        for node in world.open().status().to_dict()["nodes"]:
            seen["reasons"].add(node["cache"]["reason"])
            seen["states"].add(node["cache"]["state"])

    def run(*targets, **options):
        for step in world.get(list(targets) or None, **options).to_dict()["steps"]:
            seen["reasons"].add(step["reason"])
            assert step["status"] in {"ran", "cached", "partial", "failed", "skipped"}

    look()
    run()
    look()
    look("report")
    run("scored", refresh=["rounded"], cascade=False)
    look("scored", refresh_all=True)
    look(partition={"r": ["a"]})
    run(partition={"r": ["a"]})
    world.edit("pipeline.py", "versions // 10", "(versions + 1) // 10")
    look("total")
    world.write("versions.json", '{"a": 10, "b": 20, "c": 30, "bad": 90}')
    run("total")
    look("total")
    for pack in (world.root / ".barca/artifacts").rglob("*.parquet"):
        if "rounded" in str(pack):
            pack.unlink()
    world.edit(
        "pipeline.py",
        "return {key: rounded[key] for key in r}",
        "return {key: rounded[key] + 1 for key in r}",
    )
    look("scored")
    run("scored")
    assert seen["reasons"] - {None} <= set(schemas.REASONS)
    assert seen["states"] <= set(NODE_STATES)
    assert seen["actions"] <= {"cached", "run", "partial", "unknown", "skipped"}
    expected = {
        "sensor",
        "task",
        "not_materialized",
        "refresh",
        "refresh_all",
        "artifact_missing",
        "upstream_failed",
    }
    expected |= {"partition_selection", "sensor_output_unknown", "cutoff_pending"}
    assert expected <= seen["reasons"], expected - seen["reasons"]


def test_every_reason_is_told_in_the_docs():
    pages = "".join(page.read_text() for page in (PACKAGE.parent / "docs" / "concepts").glob("*.md"))
    pages += "".join(page.read_text() for page in (PACKAGE / "cli" / "topics").glob("*.md"))
    assert [reason for reason in schemas.REASONS if not re.search(rf"\b{reason}\b", pages)] == []


def test_one_function_decides():
    """Run, dry run and status reach the planner through one method, which narrowing asks too."""
    callers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "plan" not in path.relative_to(PACKAGE).parts and "build_plan(" in path.read_text()
    }
    assert callers == {"project/narrowing.py", "project/world.py"}


def test_files_that_do_not_load_are_told_of_wherever_their_nodes_are_left_out(project):
    project.write("good.py", "from barca import asset\n@asset\ndef good() -> int:\n    return 1\n")
    project.write("bad.py", "from barca import asset\n@asset\ndef lost() -> int:\n    return 1\nboom(\n")
    warned: list[str] = []
    result = project.open(listener=lambda event: warned.append(getattr(event, "message", ""))).get()
    [warning] = result.to_dict()["warnings"]
    assert "cannot load bad.py" in warning and "bad.py:lost" in warning
    assert warning in warned
    assert project.open().plan().to_dict()["warnings"] == [warning]
    assert project.get("good").to_dict()["warnings"] == [], "it has nothing to do with them"
    [error] = project.open().status().to_dict()["load_errors"]
    assert (error["file"], error["nodes"]) == ("bad.py", ["bad.py:lost"])
    with pytest.raises(LoadError, match="bad.py"):
        project.get("lost")
    for command in (["get"], ["get", "--dry-run"], ["plan"]):
        done = project.cli(*command, "--json")
        assert done.returncode == 0 and "cannot load bad.py" in done.stderr
    assert "cannot load bad.py" in project.cli("status", "--pretty").stdout


def test_when_no_file_loads_nothing_can_be_wanted(project):
    for name in ("bad", "worse"):
        project.write(
            f"{name}.py", "from barca import asset\n@asset\ndef lost() -> int:\n    return 1\nboom(\n"
        )
    for command in (["get"], ["get", "--dry-run"], ["plan"]):
        done = project.cli(*command, "--json")
        error = json.loads(done.stderr.strip().splitlines()[-1])
        assert (done.returncode, error["kind"], done.stdout) == (2, "usage", "")
        assert "cannot load bad.py" in error["error"] and "cannot load worse.py" in error["error"]
    assert project.cli("list", "--json").returncode == 0


def test_a_named_file_that_does_not_load_is_an_error(project):
    project.write("good.py", "from barca import asset\n@asset\ndef good() -> int:\n    return 1\n")
    project.write("bad.py", "from barca import asset\nraise OSError('no such place')\n")
    for files in (["bad.py"], ["good.py", "bad.py"]):
        for command in (["get", *files], ["get", *files, "--dry-run"], ["plan", *files]):
            done = project.cli(*command, "--json")
            assert (done.returncode, done.stdout) == (2, "")
            assert "bad.py" in done.stderr and "no such place" in done.stderr and "load_error" in done.stderr
    assert project.open("bad.py", "good.py").get("good").value == 1
    assert [error["file"] for error in project.open("bad.py").list_nodes()["load_errors"]] == ["bad.py"]


@pytest.mark.parametrize("verb", ["get", "run", "scan"])
def test_module_level_verbs_warn_of_what_planning_could_not_follow(project, monkeypatch, verb):
    project.write(
        "pipeline.py",
        """
        import os
        import polars as pl
        from barca import asset, task

        @asset
        def table() -> pl.DataFrame:
            return pl.DataFrame({"region": [os.environ.get("REGION", "none")]})

        @task(inputs={"table": table})
        def report(table):
            return 1
        """,
    )
    monkeypatch.chdir(project.root)
    with pytest.warns(UserWarning, match="REGION") as caught:
        getattr(barca, verb)("report" if verb == "run" else "table", executor="inline")
    assert [warning.filename for warning in caught] == [__file__]


def test_a_run_says_what_changed_as_the_dry_run_did(project, monkeypatch):
    monkeypatch.chdir(project.root)
    project.write(
        "pipeline.py",
        """
        import json, pathlib
        from barca import asset, collect, partitions_from, sensor

        @sensor
        def versions() -> dict:
            return json.loads(pathlib.Path("versions.json").read_text())

        @asset(partitions={"k": partitions_from(versions)}, cutoff=True)
        def scored(k: str, versions: int) -> int:
            return versions

        @asset(partitions={"k": partitions_from(scored)})
        def ranked(k: str, scored: int) -> int:
            return scored

        @asset(inputs={"every": collect(ranked)})
        def total(every: list) -> int:
            return sum(every)
        """,
    )

    def why(versions):
        project.write("versions.json", json.dumps(versions))
        done = project.cli("get", "total", "--executor", "inline", "--pretty", env={"COLUMNS": "200"})
        rows = [line for line in done.stdout.splitlines() if "pipeline.py:" in line]
        names = ("scored", "ranked", "total")
        return [
            re.split(r" {2,}", next(row for row in rows if f":{name} " in row).strip())[-1] for name in names
        ]

    assert why({"a": 1, "b": 1}) == ["no result yet"] * 3
    assert why({"a": 2, "b": 2}) == [
        "value versions changed",
        "input scored changed",
        "input ranked changed",
    ]
    assert why({"a": 3, "b": 2, "c": 1})[0] == ("1: no result yet; 1: value versions changed")
    result = project.open(executor="inline").get("total", refresh=["scored"]).to_dict()
    [scored] = [step for step in result["steps"] if step["id"].endswith(":scored")]
    assert scored["partitions"]["changed"] == {}
    assert [(group["reason"], group["keys"]) for group in scored["partitions"]["reasons"]] == [("refresh", 3)]

"""Whole runs of small projects through the facade: what runs, what is served, what is returned."""

import json
import os
import time
from datetime import datetime

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from barca import BarcaError
from barca.errors import Cancelled, LoadError, SelectionError, UsageError
from barca.io.leftovers import STAGING_PREFIX
from barca.project.world import World

CHAIN = """
    import json, pathlib
    import polars as pl
    from barca import asset, collect, partitions_from, sensor, task

    HERE = pathlib.Path(__file__).parent

    @sensor
    def versions() -> dict:
        return json.loads((HERE / "versions.json").read_text())

    @asset(partitions={"r": partitions_from(versions)}, batch="all")
    def cleaned(r: list[str], versions: dict) -> pl.DataFrame:
        with open(HERE / "calls.txt", "a") as file:
            file.write(f"cleaned {len(r)}\\n")
        return pl.DataFrame({"r": r, "amount": [len(versions[x]) for x in r], "as_of": [versions[x] for x in r]})

    @asset(partitions={"r": partitions_from(cleaned)}, batch="all")
    def scored(r: list[str], cleaned: pl.LazyFrame) -> pl.LazyFrame:
        return cleaned.group_by("r").agg(total=pl.col("amount").sum())

    @asset(inputs={"every": collect(scored)})
    def total(every: pl.LazyFrame) -> dict:
        return {"total": every.select(pl.col("total").sum()).collect().item(), "columns": every.collect_schema().names()}

    @task(inputs={"total": total})
    def report(total: dict) -> str:
        return f"total {total['total']}"
"""


def versions(project, **values):
    (project.root / "versions.json").write_text(json.dumps(values))


@pytest.fixture
def chain(project):
    project.write("pipeline.py", CHAIN)
    versions(project, a="v1", b="v10", c="v2")
    return project


def test_chain_runs_once_then_only_what_changed(chain):
    assert chain.ran("total") == {"versions": 1, "cleaned": 3, "scored": 3, "total": 1}
    assert chain.ran("total") == {"versions": 1}
    versions(chain, a="v1", b="v11111", c="v2")
    assert chain.ran("total") == {"versions": 1, "cleaned": 1, "scored": 1, "total": 1}
    assert (chain.root / "calls.txt").read_text().split("\n")[:-1] == ["cleaned 3", "cleaned 1"]
    assert chain.get("total").value == {"total": 2 + 6 + 2, "columns": ["r", "total"]}


def test_values_come_back_as_polars_and_by_key(chain):
    values = chain.get("scored").value
    assert list(values) == ["r=a", "r=b", "r=c"]
    assert_frame_equal(values["r=b"], pl.DataFrame({"r": ["b"], "total": [3]}))


def test_scan_is_one_table_with_the_dimension_first(chain):
    frame = chain.open().scan("cleaned").sort("r").collect(engine="in-memory")
    assert frame.columns == ["r", "amount", "as_of"]
    assert frame["as_of"].to_list() == ["v1", "v10", "v2"]


def test_task_always_runs_after_what_it_reads(chain):
    for _ in range(2):
        result = chain.open().run("report")
        assert result.status == "success"
        assert result.value == "total 7"
    with pytest.raises(UsageError, match="not a task"):
        chain.open().run("total")


def test_removed_key_is_gone_and_new_key_runs_alone(chain):
    chain.ran("total")
    versions(chain, c="v2", a="v1")
    assert chain.ran("total") == {"versions": 1, "total": 1}
    assert list(chain.get("scored").value) == ["r=a", "r=c"]
    versions(chain, c="v2", a="v1", d="v1")
    assert chain.ran("scored") == {"versions": 1, "cleaned": 1, "scored": 1}


def test_dry_run_executes_and_writes_nothing(chain):
    plan = chain.open().plan("total")
    assert not (chain.root / ".barca").exists()
    assert not (chain.root / "calls.txt").exists()
    assert [step["action"] for step in plan.to_dict()["steps"]] == ["run", "unknown", "unknown", "unknown"]


def test_dry_run_names_keys_and_reasons(chain):
    chain.ran("total")
    versions(chain, a="v1", b="v11", c="v2")
    chain.ran("versions")
    steps = {step["id"]: step for step in chain.open().plan("total").to_dict()["steps"]}
    cleaned = steps["pipeline.py:cleaned"]
    assert cleaned["action"] == "partial"
    assert cleaned["partitions"] == {
        "total": 3,
        "cached": 2,
        "will_run": 1,
        "will_run_keys": ["r=b"],
        "changed": {"r=b": ["value pipeline.py:versions"]},
        "reasons": [
            {
                "reason": "not_materialized",
                "changed": ["value pipeline.py:versions"],
                "keys": 1,
                "first": ["r=b"],
            }
        ],
    }
    assert cleaned["batch"] == {"grouping": "batch=all", "keys": 1, "calls": 1}
    assert steps["pipeline.py:scored"]["partitions"]["changed"] == {"r=b": ["input pipeline.py:cleaned"]}


def test_editing_a_node_is_named(chain):
    chain.ran("total")
    chain.edit("pipeline.py", 'pl.col("amount").sum())', 'pl.col("amount").max())')
    steps = {step["id"]: step for step in chain.open().plan("total").to_dict()["steps"]}
    assert steps["pipeline.py:cleaned"]["action"] == "cached"
    assert steps["pipeline.py:scored"]["partitions"]["changed"] == {f"r={key}": ["function"] for key in "abc"}
    assert chain.ran("total") == {"versions": 1, "scored": 3, "total": 1}


def test_selection_computes_only_the_selected_keys(chain):
    result = chain.get("scored", partition={"r": ["a", "c"]})
    assert list(result.value) == ["r=a", "r=c"]
    report = result.to_dict()["partition_selection"]
    assert report["selection"] == {"r": ["a", "c"]}
    assert {node["id"]: (node["selected"], node["skipped"]) for node in report["nodes"]} == {
        "pipeline.py:cleaned": (2, 1),
        "pipeline.py:scored": (2, 1),
    }
    assert chain.ran("scored") == {"versions": 1, "cleaned": 1, "scored": 1}


def test_wrong_selection_names_valid_keys(chain):
    chain.ran("scored")
    with pytest.raises(SelectionError, match="no node of this run has the dimension `region`"):
        chain.get("scored", partition={"region": "a"})


def test_a_target_that_the_selection_skips_is_a_usage_error(chain):
    for options in ({"targets": "total"}, {"targets": None, "refresh": "total"}):
        with pytest.raises(SelectionError, match="the selection skips `total`: it reads every key of"):
            chain.get(**options, partition={"r": "a"})
    result = chain.get(partition={"r": "a"})
    assert result.status == "success", "without a name, what the selection skips is left out"


def test_an_interrupted_run_counts_what_had_ended(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, partitions_from

        @asset(partitions={"k": partitions(["1", "2", "3"])}, batch="all")
        def a(k: list[str]) -> dict:
            return dict.fromkeys(k, 1)

        @asset(partitions={"k": partitions_from(a)})
        def b(k: str, a: int) -> int:
            raise KeyboardInterrupt
        """,
    )
    with pytest.raises(Cancelled):
        project.open().get("b")
    [run] = project.open().history()["runs"]
    assert (run["status"], run["steps_executed"], run["steps_cached"]) == ("cancelled", 3, 0)
    with pytest.raises(Cancelled):
        project.open().get("b")
    run = project.open().history()["runs"][0]
    assert (run["status"], run["steps_executed"], run["steps_cached"]) == ("cancelled", 0, 3)


def test_unknown_target_suggests(chain):
    with pytest.raises(SelectionError, match="did you mean `scored`"):
        chain.get("score")


def test_failed_key_blocks_only_its_own_chain(project):
    project.write(
        "pipeline.py",
        """
        import pathlib
        from barca import asset, collect, partitions, partitions_from

        @asset(partitions={"k": partitions(["1", "2", "3", "4", "5"])})
        def a(k: str) -> dict:
            if k == "3" and not (pathlib.Path(__file__).parent / "fixed").exists():
                raise ValueError("bad three")
            return {"k": k}

        @asset(partitions={"k": partitions_from(a)})
        def b(k: str, a: dict) -> dict:
            return a

        @asset(inputs={"every": collect(b)})
        def total(every: list) -> int:
            return len(every)
        """,
    )
    result = project.get("total")
    out = result.to_dict()
    assert out["status"] == "failed"
    assert out["failed_node"] == "pipeline.py:a[k=3]"
    assert "ValueError: bad three" in out["error"]
    steps = {step["id"]: step for step in out["steps"]}
    assert steps["pipeline.py:a"]["status"] == "failed"
    assert steps["pipeline.py:b[k=3]"]["reason"] == "upstream_key_failed"
    assert steps["pipeline.py:total"]["reason"] == "upstream_failed"
    assert out["steps_executed"] == 5 + 4
    status = {node["id"]: node["cache"] for node in project.open().status().to_dict()["nodes"]}
    assert status["pipeline.py:b"]["state"] == "blocked"
    assert status["pipeline.py:b"]["detail"].startswith("1 of 1 missing keys wait on 'a'")
    (project.root / "fixed").touch()
    assert project.ran("total") == {"a": 1, "b": 1, "total": 1}
    assert project.get("total").value == 5


def test_f8_zero_keys_then_one(project):
    project.write(
        "pipeline.py",
        """
        import json, pathlib
        import polars as pl
        from barca import asset, collect, partitions_from, sensor

        @sensor
        def versions() -> dict:
            return json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())

        @asset(partitions={"r": partitions_from(versions)})
        def a(r: str, versions: str) -> pl.DataFrame:
            return pl.DataFrame({"x": [len(versions)]})

        @asset(inputs={"every": collect(a)})
        def as_list(every: list) -> int:
            return len(every)

        @asset(inputs={"every": collect(a)})
        def as_table(every: pl.LazyFrame) -> list:
            return every.collect_schema().names()
        """,
    )
    versions(project)
    assert project.ran() == {"versions": 1, "as_list": 1, "as_table": 1}
    assert project.get(["a", "as_list", "as_table"]).value == {"a": {}, "as_list": 0, "as_table": ["r"]}
    versions(project, one="v1")
    assert project.ran() == {"versions": 1, "a": 1, "as_list": 1, "as_table": 1}
    assert project.get("as_table").value == ["r", "x"]
    versions(project)
    project.edit("pipeline.py", "every.collect_schema().names()", "[*every.collect_schema().names()]")
    project.ran()
    assert project.get("as_table").value == ["r", "x"], "an empty table knows the schema of what there was"


def test_f9_broken_packs_are_computed_again_only_when_read(chain):
    chain.ran("scored")
    packs = sorted((chain.root / ".barca/artifacts").rglob("*.parquet"))
    cleaned = next(pack for pack in packs if "cleaned" in str(pack))
    scored = next(pack for pack in packs if "scored" in str(pack))
    cleaned.unlink()
    assert chain.ran("scored") == {"versions": 1}, "nobody reads cleaned"
    good = scored.read_bytes()
    for damage in (b"", good[: len(good) // 2]):
        scored.write_bytes(damage)
        result = chain.get("scored").to_dict()
        assert {s["id"]: s["reason"] for s in result["steps"]} == {
            "pipeline.py:versions": "sensor",
            "pipeline.py:cleaned": "artifact_missing" if not cleaned.exists() and damage == b"" else None,
            "pipeline.py:scored": "artifact_missing",
        }
        scored = next(
            p
            for p in sorted(
                (chain.root / ".barca/artifacts").rglob("*.parquet"),
                key=lambda p: p.stat().st_mtime,
                reverse=True,
            )
            if "scored" in str(p)
        )
        good = scored.read_bytes()
    other = next(p for p in (chain.root / ".barca/artifacts").rglob("*.parquet") if "versions" in str(p))
    scored.write_bytes(other.read_bytes())
    assert "scored" in chain.ran("scored")
    assert list(chain.get("scored").value) == ["r=a", "r=b", "r=c"]


def test_f12_recomputing_one_key_runs_only_it_below(project):
    project.write(
        "pipeline.py",
        """
        import pathlib
        from barca import asset, partitions, partitions_from, sensor

        HERE = pathlib.Path(__file__).parent

        @sensor(partitions={"k": partitions(["1", "2", "3"])})
        def poll(k: str) -> str:
            file = HERE / k
            return file.read_text() if file.exists() else "old"

        @asset(partitions={"k": partitions_from(poll)})
        def a(k: str, poll: str) -> str:
            return poll

        @asset(partitions={"k": partitions_from(a)})
        def b(k: str, a: str) -> str:
            return a
        """,
    )
    project.ran("b")
    (project.root / "2").write_text("new")
    assert project.ran("b") == {"poll": 3, "a": 1, "b": 1}
    assert project.get("b").value == {"k=1": "old", "k=2": "new", "k=3": "old"}


def test_f7_cutoff_by_content(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, collect, partitions, partitions_from

        ROWS = [3, 1, 2]

        @asset(partitions={"k": partitions([str(n) for n in range(10)])}, cutoff=True)
        def a(k: str) -> pl.DataFrame:
            return pl.DataFrame({"x": [int(k) + row for row in ROWS]})

        @asset(partitions={"k": partitions_from(a)})
        def b(k: str, a: pl.DataFrame) -> int:
            return a["x"].sum()

        @asset(inputs={"every": collect(a)})
        def total(every: pl.DataFrame) -> int:
            return every["x"].sum()
        """,
    )
    assert project.ran(["b", "total"]) == {"a": 10, "b": 10, "total": 1}
    project.edit("pipeline.py", "ROWS = [3, 1, 2]", "ROWS = [1, 2, 3]")
    assert project.ran(["b", "total"]) == {"a": 10}
    project.edit("pipeline.py", "int(k) + row", "int(k) + row + (k == '3')")
    assert project.ran(["b", "total"]) == {"a": 10, "b": 1, "total": 1}


def test_more_than_a_thousand_keys_name_scan(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions
        @asset(partitions={"k": partitions(range(1001))}, batch="all")
        def a(k: list[str]) -> dict:
            return {x: int(x) for x in k}
        """,
    )
    result = project.get("a")
    with pytest.raises(BarcaError, match="barca.scan"):
        _ = result.value
    listed = result.to_dict()["final_output"]["_barca_partitions"]
    assert (listed["keys"], listed["computed"], listed["cached"], listed["truncated"]) == (
        1001,
        1001,
        0,
        True,
    )
    assert len(listed["outputs"]) == 1000
    again = project.get("a").to_dict()["final_output"]["_barca_partitions"]
    assert (again["computed"], again["outputs"]) == (0, {})
    assert project.get("a", partition={"k": ["7"]}).value == {"k=7": 7}


def test_load_error_is_raised_only_for_what_needs_it(project):
    project.write("good.py", "from barca import asset\n@asset\ndef good() -> int:\n    return 1\n")
    project.write(
        "bad.py",
        "from barca import asset\nimport nothing_like_this\n@asset\ndef bad() -> int:\n    return 1\n",
    )
    assert project.get("good").value == 1
    with pytest.raises(LoadError, match="nothing_like_this"):
        project.get("bad")
    listed = project.open().list_nodes()
    assert [error["nodes"] for error in listed["load_errors"]] == [["bad.py:bad"]]


def test_expression_that_raises_is_a_load_error_of_its_node(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, partitions_from
        @asset(partitions={"k": partitions([x for x in 1 / 0])})
        def a(k: str) -> int: return 1
        @asset(partitions={"k": partitions_from(a)})
        def b(k: str, a: int) -> int: return 1
        @asset
        def c() -> int: return 3
        """,
    )
    assert project.get("c").value == 3
    with pytest.raises(LoadError, match="ZeroDivisionError"):
        project.get("b")
    assert project.get().to_dict()["status"] == "success", "the default targets leave it out"


def test_history_and_logs_of_a_run(chain):
    result = chain.get("total")
    history = chain.open().history()
    assert history["total"] == 1
    run = history["runs"][0]
    assert (run["run_id"], run["command"], run["target"], run["status"]) == (
        result.run_id,
        "get",
        "total",
        "success",
    )
    assert (run["steps_executed"], run["steps_cached"]) == (8, 0)
    details = chain.open().history(result.run_id)
    step = next(s for s in details["steps"] if s["node_id"] == "pipeline.py:scored[r=b]")
    assert (step["partition_key"], step["status"], step["attempts"]) == ("r=b", "success", 1)
    assert step["batch"] in {call["batch"] for call in details["calls"]}
    whole = next(s for s in details["steps"] if s["node_id"] == "pipeline.py:total")
    assert whole["partition_key"] is None and whole["batch"] is None


def test_logs_are_found_from_any_key_of_a_call(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions
        @asset(partitions={"k": partitions(["1", "2"])}, batch="all")
        def a(k: list[str]) -> dict:
            print("hello", k)
            return {x: 1 for x in k}
        @asset(partitions={"k": partitions(["1", "2"])})
        def b(k: str) -> int:
            print("single", k)
            return 1
        """,
    )
    project.get()
    lines = [line["line"] for line in project.open().logs(step="a[k=2]")]
    assert lines == ["hello ['1', '2']"]
    assert [line["line"] for line in project.open().logs(step="b[k=2]")] == ["single 2"]
    assert project.open().logs(stream="stderr") == []


def test_environment_change_runs_only_what_declares_it(project):
    project.write(
        "pipeline.py",
        """
        import os
        from barca import asset
        @asset(env=["MODE"])
        def a() -> str: return os.environ.get("MODE", "none")
        @asset(inputs={"a": a})
        def b(a: str) -> str: return a + "!"
        @asset
        def c() -> str: return "c"
        """,
    )
    project.write("barca.toml", '[env.prod]\nMODE = "full"\n')
    assert project.get("b").value == "none!"
    result = project.open(env="prod").get()
    assert {s["id"]: s["status"] for s in result.to_dict()["steps"]} == {
        "pipeline.py:a": "ran",
        "pipeline.py:b": "ran",
        "pipeline.py:c": "ran",
    }
    assert project.open(env="prod").get("b").value == "full!"


def test_a_run_sweeps_what_killed_writers_left(chain):
    chain.ran("scored")
    packs = chain.root / ".barca/artifacts"
    folder = next(path for path in packs.iterdir() if "scored" in path.name)
    left, fresh = (folder / f"{STAGING_PREFIX}999999999-{name}" for name in ("old", "new"))
    for file in (left, fresh):
        file.write_bytes(b"half a pack")
    hours_ago = time.time() - 7200
    os.utime(left, (hours_ago, hours_ago))
    assert chain.ran("scored") == {"versions": 1}
    assert (left.exists(), fresh.exists()) == (False, True)


def test_two_parameters_of_one_source(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions

        @asset(partitions={"k": partitions(["1", "2"])})
        def base(k: str) -> int: return int(k)

        @asset(partitions={"k": partitions(["1", "2"])}, inputs={"x": base, "y": base})
        def both(k: str, x: int, y: int) -> int: return x + y
        """,
    )
    assert project.get("both").value == {"k=1": 2, "k=2": 4}


def test_two_dimensions_everywhere(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, collect, partitions
        @asset(partitions={"r": partitions(["x", "y"]), "m": partitions([1, 2])})
        def cell(r: str, m: str) -> dict: return {"r": r, "m": m}
        @asset(inputs={"c": cell}, partitions={"r": partitions(["x", "y"]), "m": partitions([1, 2])}, batch=3)
        def both(r: list[str], m: list[str], c: dict) -> pl.DataFrame:
            return pl.DataFrame({"r": r, "m": m, "v": [a + b for a, b in zip(r, m)]})
        @asset(inputs={"every": collect(both)})
        def total(every: pl.DataFrame) -> list: return sorted(every["v"].to_list())
        """,
    )
    assert project.get("total").value == ["x1", "x2", "y1", "y2"]
    assert list(project.get("cell").value) == ["m=1,r=x", "m=1,r=y", "m=2,r=x", "m=2,r=y"]
    assert list(project.get("both", partition={"r": "y", "m": ["2"]}).value) == ["m=2,r=y"]
    frame = project.open().scan("both").collect(engine="in-memory")
    assert frame.columns == ["r", "m", "v"]


def test_any_string_is_a_key(project):
    odd = [
        "a/b",
        "..",
        "/abs",
        'quo"te',
        "*",
        "[1]",
        "%2F",
        "new\nline",
        "\x01",
        "é",
        "e\u0301",
        "😀",
        "x" * 300,
        "ABC",
        "abc",
        "",
        " ",
        "a,b=c",
        "{",
    ]
    project.write(
        "pipeline.py",
        f"""
        from barca import asset, partitions, partitions_from
        @asset(partitions={{"k": partitions({odd!r})}})
        def a(k: str) -> dict: return {{"k": k}}
        @asset(partitions={{"k": partitions_from(a)}}, batch="all")
        def b(k: list[str], a: dict) -> dict: return {{x: a[x]["k"] for x in k}}
        """,
    )
    assert project.get("b").value == {f"k={key}": key for key in odd}
    for key in odd:
        assert project.get("a", partition={"k": [key]}).value == {f"k={key}": {"k": key}}


@pytest.mark.parametrize("selection", [None, {"r": ["a"]}])
def test_failing_source_of_keys_fails_the_run_and_skips_its_readers(project, selection):
    project.write(
        "pipeline.py",
        """
        from barca import asset, collect, partitions_from, sensor

        @sensor
        def source() -> dict:
            return {"a": float("nan")}

        @asset(partitions={"r": partitions_from(source)})
        def one(r: str, source: float) -> float:
            return source

        @asset(inputs={"every": collect(one)})
        def all_of_them(every: list[float]) -> float:
            return sum(every)
        """,
    )
    target = "one" if selection else "all_of_them"
    result = project.get(target, partition=selection).to_dict()
    assert result["status"] == "failed"
    assert result["failed_node"] == "pipeline.py:source"
    statuses = {step["id"].rpartition(":")[2]: step["status"] for step in result["steps"]}
    assert statuses.pop("all_of_them", "skipped") == "skipped"
    assert statuses == {"source": "failed", "one": "skipped"}


def test_the_time_of_a_run_is_that_from_its_start_to_its_end_planning_included(chain, monkeypatch):
    plan = World.plan
    monkeypatch.setattr(World, "plan", lambda *args: time.sleep(0.3) or plan(*args))
    seen = []
    for _ in range(2):
        result = chain.get("total", progress=seen.append).to_dict()
        [run] = [run for run in chain.open().history()["runs"] if run["run_id"] == result["run_id"]]
        lasted = datetime.fromisoformat(run["finished_at"]) - datetime.fromisoformat(run["started_at"])
        assert abs(lasted.total_seconds() - run["elapsed_seconds"]) < 0.1
        assert result["elapsed_seconds"] == round(run["elapsed_seconds"], 3) >= 0.3
        assert seen[-1].elapsed_seconds == run["elapsed_seconds"]

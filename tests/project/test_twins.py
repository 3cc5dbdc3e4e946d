"""Executors, stores and batch sizes give one and the same: equal results, digests and hashes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from barca.io.ledger import DeltaLedger
from barca.io.memory import MemoryLedger, MemoryPackStore
from barca.io.storage import FilePackStore

PIPELINE = """
    import json, pathlib
    import polars as pl
    from barca import asset, collect, partitions_from, sensor

    @sensor
    def versions() -> dict:
        return json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())

    @asset(partitions={"r": partitions_from(versions)}, batch=BATCH)
    def cleaned(r: list[str], versions: dict) -> pl.DataFrame:
        return pl.DataFrame(
            {"r": [k for k in r for _ in range(3)], "x": [versions[k] * n / 7 for k in r for n in (3, 1, 2)]}
        )

    @asset(partitions={"r": partitions_from(cleaned)})
    def scored(r: str, cleaned: pl.LazyFrame) -> dict:
        return {"r": r, "sum": cleaned.select(pl.col("x").sum()).collect().item()}

    @asset(partitions={"r": partitions_from(scored)}, cutoff=True)
    def graded(r: str, scored: dict) -> str:
        if r == "k3":
            raise ValueError("no grade for k3")
        return "high" if scored["sum"] > 3 else "low"

    @asset(inputs={"every": collect(cleaned)})
    def total(every: pl.LazyFrame) -> pl.LazyFrame:
        return every.select(pl.col("x").sum(), pl.len())
"""

COMPARED = [
    "node",
    "key",
    "run_hash",
    "status",
    "format",
    "rows",
    "digest",
    "error_type",
    "error_message",
    "attempts",
]


def rows_of(project):
    """What the ledger holds, without what differs from run to run."""
    frame = project._reader().scan("materializations").select(COMPARED).collect(engine="in-memory")
    return frame.sort("node", "key", "status", "run_hash")


def write(project, batch="all", keys=6):
    project.write("pipeline.py", PIPELINE.replace("BATCH", repr(batch)))
    project.write("versions.json", "{" + ", ".join(f'"k{n}": {n}' for n in range(keys)) + "}")


def memory(project, **options):
    """The project with the store and ledger that keep everything in memory."""
    made = project.open(**options)
    made._store, made._ledger = MemoryPackStore(), MemoryLedger()
    return made


def reopened(project, before):
    """As a new process would, except for what is kept in memory."""
    made = project.open()
    made._store, made._ledger = before._store, before._ledger
    return made


def test_both_executors_and_both_stores_leave_the_same_rows(make_project):
    found = {}
    for name in ("inline", "processes", "memory"):
        project = make_project(name)
        write(project)
        opened = memory(project) if name == "memory" else project.open(executor=name)
        result = opened.get(["graded", "total"])
        assert result.status == "failed" and result.steps_executed == 1 + 3 * 6 + 1
        found[name] = rows_of(opened)
        failed = found[name].filter(pl.col("status") == "failed")
        assert failed.select("key", "error_type", "error_message").rows() == [
            ("r=k3", "ValueError", "no grade for k3")
        ]
    assert found["inline"].equals(found["processes"])
    assert found["inline"].equals(found["memory"])


def test_batch_sizes_leave_the_same_rows(make_project):
    found = []
    for batch in (1, 4, "all"):
        project = make_project(f"batch-{batch}")
        write(project)
        opened = project.open()
        opened.get(["graded", "total"])
        found.append(rows_of(opened))
    assert found[0].equals(found[1]) and found[1].equals(found[2])


def test_a_project_in_memory_serves_and_changes_like_one_on_disk(project):
    write(project)
    project.edit("pipeline.py", 'if r == "k3"', 'if r == "none"')
    first = memory(project)
    assert first.get("graded").steps_executed == 1 + 18
    again = reopened(project, first)
    assert again.get("graded").steps_executed == 1
    assert again.get("graded").value["r=k5"] == "high"
    write(project, keys=7)
    project.edit("pipeline.py", 'if r == "k3"', 'if r == "none"')
    assert reopened(project, first).get("graded").steps_executed == 1 + 3
    assert {
        node["cache"]["state"] for node in reopened(project, first).status(["scored"]).to_dict()["nodes"]
    } == {
        "cached",
        "always_runs",
    }
    kept = [path for path in (project.root / ".barca").rglob("*.parquet")]
    assert kept == []


def test_what_one_executor_stored_the_other_serves(project):
    write(project)
    project.edit("pipeline.py", 'if r == "k3"', 'if r == "none"')
    assert project.open(executor="processes").get().steps_executed == 1 + 18 + 1
    assert project.open(executor="inline").get().steps_executed == 1
    assert project.open(executor="processes").get().steps_executed == 1


def test_the_pairs_are_two_of_a_kind(tmp_path: Path):
    """Everything public of a port's implementation on disk is there in memory too, and the other way round."""

    def public(thing):
        return {name for name in dir(thing) if not name.startswith("_") and callable(getattr(thing, name))}

    shared = {"maintain", "reader", "revise", "vacuum", "writer"}
    assert shared <= public(DeltaLedger(tmp_path)) & public(MemoryLedger())
    for one, other in (
        (DeltaLedger(tmp_path).reader(), MemoryLedger().reader()),
        (DeltaLedger(tmp_path).writer("r"), MemoryLedger().writer("r")),
    ):
        assert public(one) == public(other)
    from barca.ports import PackStore

    port = {name for name in vars(PackStore) if not name.startswith("_")}
    for store in (FilePackStore(tmp_path), MemoryPackStore()):
        assert [name for name in port if not hasattr(store, name)] == []


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_streaming_nodes_and_in_memory_nodes_agree_on_whole_numbers(make_project, executor):
    answers = []
    for engine in ("in-memory", "streaming"):
        project = make_project(engine)
        project.write("barca.toml", f'[execution]\nengine = "{engine}"\n')
        project.write(
            "pipeline.py",
            """
            import polars as pl
            from barca import asset, partitions

            @asset(partitions={"k": partitions(["a", "b"])}, batch="all")
            def rows(k: list[str]) -> pl.LazyFrame:
                return pl.LazyFrame({"k": k * 500, "n": range(1000)}).group_by("k").agg(pl.col("n").sum())
            """,
        )
        opened = project.open(executor=executor)
        assert {key: frame["n"].item() for key, frame in opened.get("rows").value.items()} == {
            "k=a": sum(range(0, 1000, 2)),
            "k=b": sum(range(1, 1000, 2)),
        }
        answers.append(rows_of(opened).drop("run_hash"))
    assert answers[0].equals(answers[1])

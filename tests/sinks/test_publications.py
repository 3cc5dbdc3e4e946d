"""What the ledger records of sinks, and cache hits that write them again."""

from __future__ import annotations

import json
import platform

import polars as pl
import pytest

from barca.exec import publications

ONE = """
    import pathlib
    import polars as pl
    from barca import asset, partitions, sink

    HERE = pathlib.Path(__file__).parent
    LETTER = "A"

    @asset
    @sink("out.json")
    def orders() -> dict:
        with open(HERE / "calls.txt", "a") as file:
            file.write(LETTER)
        return {"letter": LETTER}
"""

KEYED = """
    import pathlib
    import polars as pl
    from barca import asset, partitions, sink

    LETTER = "A"

    @asset(partitions={"k": partitions(["1", "2"])}, batch="all")
    @sink("exports/scored/")
    def scored(k: list[str]) -> pl.DataFrame:
        return pl.DataFrame({"k": k, "letter": LETTER})
"""


def notes(project, target=None, **options):
    told = []
    result = project.open(listener=told.append).get(target, **options)
    assert result.status == "success", result.error
    return [event.message for event in told if type(event).__name__ == "Noted"]


def letter(project, old: str, new: str) -> None:
    project.edit("pipeline.py", f'LETTER = "{old}"', f'LETTER = "{new}"')


def records(project) -> list[tuple]:
    rows = project.open()._reader().scan("publications").collect(engine="in-memory")
    return rows.select("sink", "key", "run_hash", "machine").rows()


def read(project, name="out.json"):
    return json.loads((project.root / name).read_text())


def test_a_b_a_writes_a_again_without_running_it(project):
    project.write("pipeline.py", ONE)
    assert notes(project) == []
    letter(project, "A", "B")
    assert notes(project) == []
    assert read(project) == {"letter": "B"}
    letter(project, "B", "A")
    assert notes(project) == ["sink out.json: republished the cached result of orders"]
    assert read(project) == {"letter": "A"}
    assert (project.root / "calls.txt").read_text() == "AB"
    assert notes(project) == []


def test_the_line_stands_on_stderr(project):
    project.write("pipeline.py", ONE)
    for old, new in ("AB", "BA"):
        project.ran()
        letter(project, old, new)
    done = project.cli("get", "orders", "--json")
    assert "[barca] sink out.json: republished the cached result of orders\n" in done.stderr
    assert json.loads(done.stdout)["steps"][0]["status"] == "cached"


def test_only_the_keys_that_it_does_not_hold_are_written_again(project):
    project.write("pipeline.py", KEYED)
    project.ran()
    letter(project, "A", "B")
    project.ran(partition={"k": ["1"]})
    letter(project, "B", "A")
    before = (project.root / "exports/scored/k=2/part-0.parquet").stat().st_ino
    assert notes(project) == ["sink exports/scored/: republished 1 cached key of scored"]
    assert (project.root / "exports/scored/k=2/part-0.parquet").stat().st_ino == before
    found = pl.scan_parquet(f"{project.root}/exports/scored/**/*.parquet").collect(engine="in-memory")
    assert found.rows() == [("A",), ("A",)]


def test_two_keys_are_told_as_keys(project):
    project.write("pipeline.py", KEYED)
    for old, new in ("AB", "BA"):
        project.ran()
        letter(project, old, new)
    assert notes(project) == ["sink exports/scored/: republished 2 cached keys of scored"]


def test_the_record_names_sink_key_run_hash_and_machine(project):
    project.write("pipeline.py", ONE)
    project.ran()
    [(sink, key, run_hash, machine)] = records(project)
    assert (sink, key, machine) == ("out.json", "", platform.node())
    assert len(run_hash) == 32


def test_a_record_of_another_machine_does_not_count(project, monkeypatch):
    project.write("pipeline.py", ONE)
    with monkeypatch.context() as patch:
        patch.setattr(publications.platform, "node", lambda: "elsewhere")
        project.ran()
    assert notes(project) == ["sink out.json: republished the cached result of orders"]
    assert notes(project) == []


def test_a_cached_result_is_written_as_annotated(project):
    project.write(
        "pipeline.py",
        """
        import pandas as pd
        from barca import asset, sink
        N = 1

        @asset
        @sink("out.pkl")
        def orders() -> pd.DataFrame:
            return pd.DataFrame({"n": [N]})
        """,
    )
    for old, new in ("12", "21"):
        project.ran()
        project.edit("pipeline.py", f"N = {old}", f"N = {new}")
    assert notes(project) == ["sink out.pkl: republished the cached result of orders"]
    import pickle

    value = pickle.loads((project.root / "out.pkl").read_bytes())
    assert type(value).__module__.startswith("pandas")
    assert value["n"].to_list() == [1]


def test_a_lost_artifact_is_computed_again_which_writes_the_sink(project):
    project.write("pipeline.py", ONE)
    for old, new in ("AB", "BA"):
        project.ran()
        letter(project, old, new)
    for pack in (project.root / ".barca/artifacts").rglob("*.parquet"):
        pack.unlink()
    assert notes(project) == []
    assert read(project) == {"letter": "A"}
    assert (project.root / "calls.txt").read_text() == "ABA"


def test_a_sink_that_cannot_be_written_again_fails_the_step_and_is_tried_again(project):
    project.write("pipeline.py", ONE)
    with (project.root / "pipeline.py").open("a") as file:
        file.write('\n@asset(inputs={"orders": orders})\ndef total(orders): return orders["letter"] * 2\n')
    for old, new in ("AB", "BA"):
        project.ran()
        letter(project, old, new)
    project.edit("pipeline.py", "* 2", "* 3")
    (project.root / "out.json").unlink()
    (project.root / "out.json").mkdir()
    result = project.get()
    assert result.status == "failed"
    assert result.error.message.startswith("SinkError: sink out.json: IsADirectoryError")
    assert result.to_dict()["steps_skipped"] == 1
    (project.root / "out.json").rmdir()
    assert notes(project) == ["sink out.json: republished the cached result of orders"]
    assert (project.root / "calls.txt").read_text() == "AB"


def test_refresh_writes_what_was_deleted_by_hand(project):
    project.write("pipeline.py", ONE)
    project.ran()
    (project.root / "out.json").write_text("edited")
    project.ran()
    assert (project.root / "out.json").read_text() == "edited"
    project.get(refresh=["orders"])
    assert read(project) == {"letter": "A"}


@pytest.mark.parametrize("sinks", ['"out.json"', '"good.json"'])
def test_what_was_written_before_another_sink_failed_is_known(project, sinks):
    """B wrote one sink and failed at another: back at A, both are written again."""
    project.write(
        "pipeline.py", ONE.replace('@sink("out.json")', '@sink("good.json")\n    @sink("out.json")')
    )
    project.ran()
    letter(project, "A", "B")
    (project.root / "out.json").unlink()
    (project.root / "out.json").mkdir()
    assert project.get().status == "failed"
    assert read(project, "good.json") == {"letter": "B"}
    letter(project, "B", "A")
    (project.root / "out.json").rmdir()
    assert len(notes(project)) == 2
    assert read(project, "good.json") == read(project) == {"letter": "A"}


def test_a_run_killed_after_it_wrote_a_sink_leaves_no_wrong_record(project):
    """B is killed between writing its sink and recording it: back at A, the sink is written again."""
    project.write("pipeline.py", ONE)
    project.ran()
    letter(project, "A", "B")
    project.write(
        "killed.py",
        """
        import os
        from barca import Project
        from barca.exec.runner import Runner
        Runner._answered = lambda *arguments: os._exit(9)
        Project(".", ["pipeline.py"], executor="inline").get("orders")
        """,
    )
    import subprocess
    import sys

    assert subprocess.run([sys.executable, "killed.py"], cwd=project.root, check=False).returncode == 9
    assert read(project) == {"letter": "B"}
    letter(project, "B", "A")
    assert project.open("pipeline.py").get("orders").status == "success"
    assert read(project) == {"letter": "A"}


def test_an_edit_that_changes_nothing_else_republishes_nothing(project):
    project.write("pipeline.py", KEYED)
    project.ran()
    count = len(records(project))
    project.edit("pipeline.py", "import pathlib", "import pathlib, os")
    assert notes(project) == []
    assert len(records(project)) == count


def test_a_keyed_source_has_sinks_too(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions_from, sink

        @asset
        @sink("keys.json")
        @sink("keys/")
        def shops() -> dict:
            return {"a": 1, "b": {"x": [2]}}

        @asset(partitions={"shop": partitions_from(shops)}, inputs={"version": shops})
        @sink("out.json")
        def scored(shop, version):
            return {"shop": shop, "version": version}
        """,
    )
    project.ran()
    assert read(project, "keys.json") == read(project, "keys/part-0.jsonl") == {"a": 1, "b": {"x": [2]}}
    assert read(project, "out_shop_b.json") == {"shop": "b", "version": {"x": [2]}}


YIELDS = """
    import pathlib, time
    import polars as pl
    from barca import asset, partitions, sink

    HERE = pathlib.Path(__file__).parent

    @asset(partitions={"k": partitions(["a", "b", "c"])}, batch="all")
    @sink("out.csv")
    def scored(k: list[str]):
        for key in k:
            with open(HERE / "calls.txt", "a") as file:
                file.write(key)
            yield {key: pl.DataFrame({"v": [key]})}
            time.sleep(0.15)
"""


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_what_a_batched_function_yields_is_published_key_by_key(project, executor):
    project.write("pipeline.py", YIELDS)
    (project.root / "out_k_b.csv").mkdir()
    result = project.get(executor=executor)
    assert result.error.message.startswith("SinkError: sink out.csv: IsADirectoryError")
    assert result.to_dict()["failed_node"] == "pipeline.py:scored[k=b]"
    assert (project.root / "out_k_a.csv").read_text() == "v\na\n"
    assert (project.root / "out_k_c.csv").read_text() == "v\nc\n"
    (project.root / "out_k_b.csv").rmdir()
    assert project.ran() == {"scored": 1}
    assert project.ran() == {}
    assert (project.root / "calls.txt").read_text() == "abcb"
    assert notes(project) == []


def test_the_ledger_keeps_the_last_record_of_each_key(project, monkeypatch):
    monkeypatch.setattr("barca.io.ledger.upkeep.MANY_FILES", 1)
    project.write("pipeline.py", KEYED)
    for old, new in ("AB", "BC", "CA", "AB", "BA"):
        project.ran()
        letter(project, old, new)
    assert len(records(project)) == 2
    assert notes(project) == ["sink exports/scored/: republished 2 cached keys of scored"]
    assert notes(project) == []

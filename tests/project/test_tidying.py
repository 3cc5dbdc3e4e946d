"""The store stays small: merged at the end of runs, collected on request, never under a run's feet."""

from __future__ import annotations

import datetime as dt
import json
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from barca import Project
from barca.__main__ import main
from barca.errors import BarcaError, LedgerError
from barca.io.runs import read_markers, write_marker
from barca.io.ledger import DeltaLedger
from barca.io.leftovers import STAGING_PREFIX
from barca.io.storage import FilePackStore
from barca.project import tidying

PIPELINE = """
import json
from pathlib import Path
from barca import asset, partitions_from, sensor

@sensor
def versions() -> dict:
    return json.loads(Path("versions.json").read_text())

@asset(partitions={"k": partitions_from(versions)}, batch="all")
def cleaned(k: list[str], versions: dict) -> dict:
    return {key: {"k": key, "v": versions[key]} for key in k}

@asset(partitions={"k": partitions_from(cleaned)}, batch="all")
def scored(k: list[str], cleaned: dict) -> dict:
    return {key: {"score": cleaned[key]["v"] * 2} for key in k}
"""


class Ticks:
    def __init__(self, root: Path, keys: int = 4) -> None:
        self.root = root
        self.versions = {f"k{number}": 0 for number in range(keys)}
        (root / "pipeline.py").write_text(PIPELINE)

    def tick(self, number: int) -> Project:
        self.versions[f"k{number % len(self.versions)}"] = number
        (self.root / "versions.json").write_text(json.dumps(self.versions))
        project = Project(self.root, executor="inline")
        assert project.get("scored").status == "success"
        return project

    def packs(self) -> list[str]:
        return [file.name for file in (self.root / ".barca/artifacts").rglob("*.parquet")]

    def check(self, project: Project) -> None:
        result = project.get("scored")
        assert result.to_dict()["steps_executed"] == 1  # the sensor
        assert result.value == {f"k={key}": {"score": 2 * v} for key, v in self.versions.items()}


@pytest.fixture
def ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ticks:
    monkeypatch.chdir(tmp_path)
    return Ticks(tmp_path)


def test_small_packs_of_many_runs_are_merged_at_the_end_of_one(ticks: Ticks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("barca.project.tidying.MANY_NEW", 5)
    monkeypatch.setattr("barca.project.tidying.GRACE", -dt.timedelta(minutes=1))
    monkeypatch.setattr("barca.io.garbage.choice.MANY_PACKS", 5)
    monkeypatch.setattr("barca.io.garbage.choice.REPEATED_KEPT", 3)
    counts = []
    for number in range(1, 31):
        project = ticks.tick(number)
        counts.append(len(ticks.packs()))
    assert max(counts) < 3 * 9 and any(name for name in ticks.packs() if "-g-" in name)
    ticks.check(project)


def test_few_packs_are_not_even_looked_at(ticks: Ticks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("barca.io.garbage.collect.collect", lambda *_, **__: pytest.fail("not asked for"))
    for number in range(3):
        ticks.tick(number)


@pytest.mark.parametrize("keyed", [False, True])
def test_the_end_of_a_run_neither_waits_nor_deletes_what_somebody_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyed: bool
):
    """Packs of a keyed source are not merged, so that there is nothing to do before they are old."""
    packs = [tmp_path / f"flow.py@node/{number:03}.parquet" for number in range(tidying.MANY_NEW + 1)]
    packs[0].parent.mkdir()
    for pack in packs:
        pack.touch()
    asked: list[dict[str, object]] = []

    def claimed(*_: object, **options: Any) -> None:
        asked.append({**options, "before": options["before"]()})
        raise LedgerError("another process does the same", code="claimed" if len(asked) == 1 else "damaged")

    monkeypatch.setattr("barca.io.garbage.collect.collect", claimed)
    nodes: Any = [SimpleNamespace(id="flow.py:node", keyed=keyed)]
    ledger: Any = None
    ends = partial(tidying.tidy, ledger, FilePackStore(tmp_path), tmp_path, "r1", nodes, budget_seconds=3)
    ends()
    now = dt.datetime.now(dt.UTC)
    if keyed:
        assert not asked
        for pack in packs:
            os.utime(pack, (0, 0))
        ends()
    [options] = asked
    assert (options["nodes"], options["budget_seconds"], options["wait_seconds"]) == (["flow.py:node"], 3, 0)
    assert options["before"] <= now - dt.timedelta(minutes=9)
    with pytest.raises(LedgerError):
        ends()


@pytest.mark.parametrize("keyed", [False, True])
def test_runs_look_at_names_of_packs_and_at_one_file_of_a_keyed_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyed: bool
):
    store, looked = FilePackStore(tmp_path), list[str]()
    modified_at = store.modified_at
    monkeypatch.setattr(store, "listing", lambda: pytest.fail("looked at every file"))
    monkeypatch.setattr(store, "modified_at", lambda path: (looked.append(path), modified_at(path))[1])
    nodes: Any = [SimpleNamespace(id=f"flow.py:n{number}", keyed=keyed) for number in range(3)]
    for node, count in zip(nodes, (tidying.MANY_NEW, tidying.MANY_NEW + 1, 0), strict=True):
        for number in range(count):
            path = tmp_path / f"flow.py@{node.id[-2:]}" / f"{number:03}.parquet"
            path.parent.mkdir(exist_ok=True)
            path.touch()
            os.utime(path, (0, 0))
    (tmp_path / "flow.py@n0" / f"{STAGING_PREFIX}1-x.parquet").touch()
    assert tidying._crowded(store, nodes) == ["flow.py:n1"]
    assert looked == ([f"flow.py@n1/{tidying.MANY_NEW:03}.parquet"] if keyed else [])
    (tmp_path / "flow.py@n1" / "001-g-1.parquet").touch()
    assert tidying._crowded(store, nodes) == []  # one was merged, and those after it are few


def test_packs_of_a_keyed_source_are_looked_at_once_many_are_old(tmp_path: Path):
    """Else a source that is asked every few seconds would have some that just got old at the end of each run."""
    store, many = FilePackStore(tmp_path), tidying.MANY_NEW
    packs = [tmp_path / f"flow.py@n/{number:03}.parquet" for number in range(3 * many)]
    packs[0].parent.mkdir()
    nodes: Any = [SimpleNamespace(id="flow.py:n", keyed=True)]
    for pack in packs:
        pack.touch()
    for pack in packs[:many]:
        os.utime(pack, (0, 0))
    assert tidying._crowded(store, nodes) == []
    os.utime(packs[many], (0, 0))
    assert tidying._crowded(store, nodes) == ["flow.py:n"]


def test_gc_makes_results_fit_into_a_size_and_those_that_went_are_computed_again(ticks: Ticks):
    for number in range(1, 6):
        project = ticks.tick(number)
    foreseen = project.gc("1KB", dry_run=True)
    assert foreseen["dry_run"] and foreseen["given_up"]["superseded"] > 0
    assert len(ticks.packs()) == 15
    told = project.gc("1KB")
    assert told["given_up"] == foreseen["given_up"] and told["results"] == sum(told["given_up"].values())
    assert told["kept_bytes"] <= 1000 and told["waiting"] == 0
    assert len(ticks.packs()) == told["kept"] < 15
    assert Project(ticks.root, executor="inline").get("scored").status == "success"
    ticks.check(Project(ticks.root, executor="inline"))


def test_gc_removes_leftovers_and_tidies_the_ledger(ticks: Ticks, monkeypatch: pytest.MonkeyPatch):
    project, budgets = ticks.tick(1), list[float]()
    left = ticks.root / f".barca/artifacts/{STAGING_PREFIX}999999999-x"
    left.touch()
    os.utime(left, (0, 0))
    vacuumed: list[dt.datetime] = []
    monkeypatch.setattr(DeltaLedger, "maintain", lambda _, seconds: budgets.append(seconds))
    monkeypatch.setattr(DeltaLedger, "vacuum", lambda _, before: vacuumed.append(before))
    project.gc()
    assert (budgets, left.exists()) == ([float("inf")], False)
    assert vacuumed[0] < dt.datetime.now(dt.UTC) - dt.timedelta(seconds=59), "who only looks may still do so"


def test_a_run_of_which_nobody_knows_whether_it_goes_on_counts_as_one_that_does(monkeypatch):
    times = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]
    markers = pl.DataFrame({"alive": [False, None, True], "started_at": times})
    monkeypatch.setattr(tidying, "read_markers", lambda _: markers)
    assert tidying._oldest_reader(Path()) == times[1]


def test_gc_without_a_limit_keeps_what_a_return_to_earlier_values_asks_for(ticks: Ticks):
    for number in (1, 2, 1):
        ticks.versions = {"k0": number}
        project = ticks.tick(4 * number)
    before = sorted(ticks.packs())
    assert project.gc()["results"] == 0 and sorted(ticks.packs()) == before


def test_what_a_run_in_progress_may_read_stays(ticks: Ticks):
    for number in range(1, 4):
        project = ticks.tick(number)
    names = ticks.packs()
    markers = ticks.root / ".barca/runs"
    write_marker(markers, run_id="going", command="get", target="scored", started_at=dt.datetime.now(dt.UTC))
    told = project.gc(1)
    assert told["deleted"] == 0 and told["waiting"] == len(names) and ticks.packs() == names
    (markers / "going.json").unlink()
    assert project.gc(1)["deleted"] == len(names) and not ticks.packs()


def test_a_run_is_announced_before_it_reads_the_ledger(ticks: Ticks, monkeypatch: pytest.MonkeyPatch):
    ticks.tick(1)
    seen: list[pl.DataFrame] = []
    from barca.io.ledger import DeltaLedger

    reader = DeltaLedger.reader

    def watched(self):
        seen.append(read_markers(ticks.root / ".barca/runs"))
        return reader(self)

    monkeypatch.setattr(DeltaLedger, "reader", watched)
    ticks.tick(2)
    assert seen[0]["target"].to_list() == ["scored"]
    assert read_markers(ticks.root / ".barca/runs").is_empty()


@pytest.mark.parametrize(
    "wrong", [{"targets": "nothing"}, {"targets": "scored", "partition": {"k": ["zz"]}, "refresh": "no"}]
)
def test_what_does_not_become_a_run_leaves_no_marker(ticks: Ticks, wrong: dict):
    project = ticks.tick(1)
    with pytest.raises(BarcaError):
        project.get(**wrong)
    assert read_markers(ticks.root / ".barca/runs").is_empty()
    assert project.history()["total"] == 1


@pytest.mark.parametrize("size", ["", "lots", "-1GB", 0])
def test_a_size_that_is_none_is_refused(ticks: Ticks, size: object):
    with pytest.raises(BarcaError, match="a size is"):
        ticks.tick(1).gc(size)


def test_the_command(ticks: Ticks, capsys: pytest.CaptureFixture[str]):
    ticks.tick(1)
    assert main(["gc", "--max-size", "1KB", "--dry-run", "--json"]) == 0
    foreseen = json.loads(capsys.readouterr().out)
    assert foreseen["dry_run"] and len(ticks.packs()) == 3
    assert main(["gc", "--max-size", "1KB", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["given_up"] == foreseen["given_up"]
    assert main(["gc", "--pretty"]) == 0
    assert "results given up: none" in capsys.readouterr().out
    assert main(["gc", "--max-size", "much", "--json"]) == 2
    assert "a size is a positive number" in capsys.readouterr().err


TABLES = """
import json
from pathlib import Path
import polars as pl
from barca import asset, collect, partitions_from, sensor, sink

@sensor
def versions() -> dict:
    return json.loads(Path("versions.json").read_text())

@asset(partitions={"k": partitions_from(versions)}, batch="all")
def cleaned(k: list[str], versions: dict) -> pl.DataFrame:
    return pl.DataFrame({"k": k, "v": [versions[key] for key in k]})

@asset(partitions={"k": partitions_from(cleaned)}, batch="all")
@sink("scored/", format="delta")
def scored(k: list[str], cleaned: pl.LazyFrame) -> pl.LazyFrame:
    return cleaned.with_columns(score=pl.col("v") * 2)

@asset(inputs={"scored": collect(scored)})
def total(scored: pl.LazyFrame) -> list:
    return scored.select(pl.len(), pl.col("score").sum()).collect(engine="in-memory").rows()[0]
"""


def test_tables_are_read_right_after_packs_of_many_ticks_were_merged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tidying, "MANY_NEW", 2)
    monkeypatch.setattr("barca.io.garbage.choice.MANY_PACKS", 2)
    monkeypatch.setattr("barca.io.scans._SLICED", 0)
    (tmp_path / "pipeline.py").write_text(TABLES)
    versions = {f"k{number}": 0 for number in range(5)}
    for number in range(8):
        versions[f"k{number % 3}"] = number
        (tmp_path / "versions.json").write_text(json.dumps(versions))
        project = Project(tmp_path, executor="inline")
        assert list(project.get("total").value) == [5, 2 * sum(versions.values())]
        expected = sorted((key, value, 2 * value) for key, value in versions.items())
        assert sorted(project.scan("scored").collect(engine="in-memory").rows()) == expected
        assert sorted(pl.read_delta(str(tmp_path / "scored")).rows()) == expected
    assert [file for file in (tmp_path / ".barca/artifacts").rglob("*-g-*") if "scored" in str(file)]

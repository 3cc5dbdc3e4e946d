"""`barca doctor`: what is wrong is found, what can be mended is mended, and nothing else is touched."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from barca.io.runs import write_marker
from barca.project import surroundings

PIPELINE = """
    from barca import asset, partitions

    @asset(partitions={"k": partitions(["a", "b"])})
    def rows(k: str) -> int:
        return len(k)
"""


@pytest.fixture
def ran(project: Any) -> Any:
    project.write("pipeline.py", PIPELINE)
    assert project.get().status == "success"
    return project


def checks(project: Any, *, repair: bool = False) -> dict[str, dict[str, Any]]:
    done = project.cli("doctor", "--json", *(["--repair"] if repair else []))
    found = json.loads(done.stdout)
    bad = [check["check"] for check in found["checks"] if not check["ok"]]
    assert found["ok"] is (not bad) and (done.returncode == 0) is (not bad)
    return {check["check"]: check for check in found["checks"]} | {"repaired": found.get("repaired")}


def wrong(found: dict[str, Any]) -> list[str]:
    return [name for name, check in found.items() if name != "repaired" and not check["ok"]]


def test_a_project_that_is_well(ran):
    found = checks(ran)
    assert wrong(found) == []
    assert list(found)[:-1] == ["files", "ledger", "results", "python", "store", "disk", "leftovers"]
    assert "polars 2." in found["python"]["detail"] and "deltalake" in found["python"]["detail"]
    assert found["ledger"]["detail"] == "1 run recorded, 2 results"
    assert found["disk"]["detail"].endswith(" B"), "small results are not told as 0.00 GiB"
    assert checks(ran, repair=True)["repaired"] == []
    assert ran.open().diagnose()["versions"]["polars"].startswith("2.")
    assert "nothing was there to repair" in ran.cli("doctor", "--repair", "--pretty").stdout


def test_a_project_without_a_store_gets_none(project):
    project.write("pipeline.py", PIPELINE)
    before = sorted(project.root.iterdir())
    assert wrong(checks(project)) == [] and wrong(checks(project, repair=True)) == []
    assert [path for path in sorted(project.root.iterdir()) if path.name != "__pycache__"] == before


def test_libraries_that_are_too_old_or_missing(ran, monkeypatch: pytest.MonkeyPatch):
    real = surroundings.metadata.version
    monkeypatch.setattr(
        surroundings.metadata, "version", lambda name: "1.30.0" if name == "polars" else real(name)
    )
    monkeypatch.setattr(
        surroundings.metadata, "requires", lambda _: ["polars>=2.1", "typer>=1", 'x>=9; extra == "a"']
    )
    found = checks(ran)
    assert wrong(found) == ["python"] and "polars 1.30.0, at least 2.1 is needed" in found["python"]["detail"]
    assert surroundings.too_old({"polars": None}) == ["polars is missing, at least 2.1 is needed"]


@pytest.mark.parametrize("refuses", ["write_bytes", "mkdir", "replace"])
def test_a_store_that_cannot_be_written_to(ran, monkeypatch: pytest.MonkeyPatch, refuses: str):
    if refuses == "mkdir":
        shutil.rmtree(ran.root / ".barca")
    real = getattr(Path, refuses)

    def refused(self: Path, *arguments: Any, **options: Any) -> Any:
        if ".staging-" in self.name or self.name == ".barca":
            raise OSError(30, "Read-only file system")
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, refuses, refused)
    found = checks(ran)
    assert wrong(found) == ["store"] and "Read-only file system" in found["store"]["detail"]
    monkeypatch.undo()
    assert not list(ran.root.rglob(".staging-*"))


def test_a_file_system_without_hard_links_will_do(ran, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(1, "no")))
    assert "lacks hard links" in checks(ran)["store"]["detail"]


def test_a_disk_that_is_nearly_full(ran, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        surroundings.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(2**30, 2**30, 2**20)
    )
    found = checks(ran)
    assert wrong(found) == ["disk"] and "barca gc --max-size" in found["disk"]["detail"]


def test_what_killed_runs_left(ran):
    markers = ran.root / ".barca/runs"
    now = dt.datetime.now(dt.UTC)
    for name, change in {"aa": {"process_started": "never"}, "bb": {"host": "elsewhere"}}.items():
        write_marker(markers, run_id=name, command="get", target="rows", started_at=now)
        marker = json.loads((markers / f"{name}.json").read_text())
        (markers / f"{name}.json").write_text(json.dumps({**marker, **change}))
    staging = ran.root / ".barca/artifacts/.staging-x-1"
    staging.write_bytes(b"")
    os.utime(staging, (time.time() - 7200,) * 2)
    detail = checks(ran)["leftovers"]["detail"]
    assert "1 run killed, see `barca history --status interrupted`" in detail
    assert "1 run of elsewhere, for which `barca gc` waits: delete `runs/bb.json`" in detail
    assert "1 unfinished file of killed writers" in detail
    (line,) = checks(ran, repair=True)["repaired"]
    assert "which its writer left unfinished" in line and not staging.exists()


def test_nothing_is_repaired_while_a_run_goes_on(ran):
    write_marker(
        ran.root / ".barca/runs",
        run_id="aa",
        command="get",
        target="rows",
        started_at=dt.datetime.now(dt.UTC),
    )
    done = ran.cli("doctor", "--repair", "--json")
    assert done.returncode == 2 and json.loads(done.stderr)["code"] == "run_going"


def cut_last_commit(table: Path) -> None:
    last = max((table / "_delta_log").glob("*.json"))
    last.write_bytes(last.read_bytes()[:40])


def lose_data(table: Path) -> None:
    next(table.rglob("*.parquet")).unlink()


def cut_data(table: Path) -> None:
    file = next(table.rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:50])


def overwrite_data(table: Path) -> None:
    file = next(table.rglob("*.parquet"))
    file.write_bytes(b"\0" * file.stat().st_size)


@pytest.mark.parametrize("damage", [cut_last_commit, lose_data, cut_data, overwrite_data])
@pytest.mark.parametrize("name", ["materializations", "runs"])
def test_a_damaged_ledger_is_found_and_mended(ran, damage: Any, name: str):
    ran.write("more.py", PIPELINE.replace("rows", "more"))
    assert ran.get("more").status == "success"  # so that the damage may lie in the middle
    damage(ran.root / ".barca/ledger" / name)
    found = checks(ran)
    assert wrong(found) == ["ledger"] and "`barca doctor --repair`" in found["ledger"]["detail"]
    mended = checks(ran, repair=True)
    assert wrong(mended) == [] and len(mended["repaired"]) == 1 and name in mended["repaired"][0]
    assert ran.get().status == "success" and wrong(checks(ran)) == []
    assert checks(ran, repair=True)["repaired"] == []


def test_what_cannot_be_mended_is_said_and_the_rest_is_mended(ran):
    ran.write("more.py", PIPELINE.replace("rows", "more"))
    ran.get("more")
    ledger = ran.root / ".barca/ledger"
    (ledger / "calls/_delta_log" / f"{1:020d}.json").unlink()
    cut_last_commit(ledger / "runs")
    done = ran.cli("doctor", "--repair", "--json")
    error = json.loads(done.stderr.splitlines()[-1])
    assert done.returncode == 3 and error["code"] == "ledger_damaged" and "calls" in error["error"]
    assert list((ledger / "runs/_delta_log").glob("*.damaged"))

"""Time travel: what keys held at a moment is what a run would have served then, or an error that says what is gone."""

from __future__ import annotations

import datetime as dt
import json
import random
from typing import Any

import polars as pl
import pytest

import barca
from barca.errors import BarcaError, FragmentError, SelectionError, UsageError
from barca.io.runs import write_marker
from barca.project import moments, narrowing

PIPELINE = """
import json, pathlib
import polars as pl
from barca import asset, collect, partitions_from, sensor

HERE = pathlib.Path(__file__).parent
FACTOR = 1

@sensor
def versions() -> dict:
    return json.loads((HERE / "versions.json").read_text())

@asset(partitions={"shop": partitions_from(versions)}, batch=2)
def rows(shop: list[str], versions: dict) -> dict:
    failing = json.loads((HERE / "failing.json").read_text())
    if set(shop) & set(failing):
        raise ValueError("failing")
    return {key: pl.DataFrame({"x": [FACTOR * versions[key]] * versions[key]}) for key in shop}

@asset(partitions={"shop": partitions_from(rows)})
def size(shop: str, rows: pl.DataFrame) -> int:
    return rows.height

@asset(inputs={"every": collect(size)})
def total(every: list) -> int:
    return sum(every)
"""


class Shops:
    """A project whose state after each run is remembered."""

    def __init__(self, project: Any) -> None:
        self.project = project
        self.states: dict[str, dict[str, Any]] = {}
        project.write("pipeline.py", PIPELINE)
        self.failing()

    def failing(self, *keys: str) -> None:
        self.project.write("failing.json", json.dumps(keys))

    def run(self, expect: str = "success", **versions: int) -> str:
        self.project.write("versions.json", json.dumps(versions))
        result = self.project.get()
        assert result.status == expect
        return result.run_id

    def remember(self, **versions: int) -> str:
        run_id = self.run(**versions)
        shown = self.project.get(["rows", "size", "total"]).value
        shown["rows"] = {key: frame.to_dicts() for key, frame in shown["rows"].items()}
        self.states[run_id] = shown
        return run_id

    def held(self, as_of: Any) -> dict[str, Any]:
        values = self.project.open().get(["rows", "size", "total"], as_of=as_of).value
        return {**values, "rows": {key: frame.to_dicts() for key, frame in values["rows"].items()}}

    def check(self) -> int:
        """Every state that can be read is the one that was; how many cannot."""
        gone = 0
        for run_id, state in self.states.items():
            try:
                assert self.held(run_id) == state
            except FragmentError as error:
                assert error.code == "result_gone" and "was collected by gc on 20" in error.message
                gone += 1
        return gone


@pytest.fixture
def shops(project) -> Shops:
    return Shops(project)


def test_values_that_return_and_keys_that_leave_and_come_back(shops: Shops):
    for versions in ({"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 1, "c": 1}, {"a": 3, "b": 2, "c": 1}):
        shops.remember(**versions)
    assert shops.check() == 0
    assert [sorted(state["size"]) for state in shops.states.values()][2] == ["shop=a", "shop=c"]


@pytest.mark.parametrize("narrowed", [False, True])
def test_whatever_happens_what_is_told_of_the_past_is_what_was(
    shops: Shops, narrowed: bool, monkeypatch: pytest.MonkeyPatch
):
    narrow, found = narrowing.Narrowing.narrow, []
    if narrowed:
        monkeypatch.setattr(narrowing, "FEW_KEYS", 0)
        monkeypatch.setattr(narrowing, "LARGE_SHARE", 1)
        monkeypatch.setattr(
            narrowing.Narrowing, "narrow", lambda *given: found.append(narrow(*given)) or found[-1]
        )
    monkeypatch.setattr("barca.io.garbage.choice.MANY_PACKS", 3)
    monkeypatch.setattr("barca.io.garbage.choice.REPEATED_KEPT", 2)
    chance = random.Random(7)
    for _ in range(9):
        if chance.random() < 0.3:
            factor = chance.choice("12")
            text = PIPELINE.replace("FACTOR = 1", f"FACTOR = {factor}")
            shops.project.write("pipeline.py", text)
        shops.remember(**{key: chance.randint(1, 2) for key in "abcd" if chance.random() < 0.7})
        if chance.random() < 0.5:
            shops.project.open().gc()
    shops.project.open()._ledger.maintain(60)
    assert shops.check() == 0
    assert any(found) is narrowed


def test_what_gc_took_is_named_and_never_another_result_shown(shops: Shops):
    first = shops.remember(a=1, b=2)
    shops.remember(a=3, b=2)
    shops.project.open().gc(1)
    with pytest.raises(FragmentError) as caught:
        shops.project.open().get("rows", as_of=first, partition={"shop": "a"})
    error = caught.value
    assert error.code == "result_gone" and error.key == "shop=a"
    assert f"rows[shop=a] of run {first} was collected by gc on 20" in error.message
    assert shops.check() == 2
    shops.remember(a=3, b=2)
    assert shops.check() == 2
    # a row that a collection took before it got to the others is named, and the rest can be selected
    assert "select other keys" not in (error.remediation or "")


def test_a_collection_that_was_killed_after_its_trace_took_nothing(shops: Shops, monkeypatch):
    shops.remember(a=1)
    shops.remember(a=2)
    monkeypatch.setattr("barca.io.ledger.revise", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        shops.project.open().gc(1)
    monkeypatch.undo()
    assert shops.project.open()._reader().scan("holdings").collect().height > 0
    assert shops.check() == 0


def test_a_pack_that_somebody_deleted_is_named(shops: Shops):
    run_id = shops.remember(a=1, b=1, c=1)
    place = (
        shops.project.open().get("rows", as_of=run_id).to_dict()["final_output"]["shop=c"]["_barca_artifact"]
    )
    (shops.project.root / place["path"]).unlink()
    with pytest.raises(
        FragmentError, match=r"rows\[shop=c\] of run .* which is missing or damaged"
    ) as caught:
        shops.project.open().get("rows", as_of=run_id)
    assert "select other keys with --partition" in caught.value.remediation
    kept = shops.project.open().get("rows", as_of=run_id, partition={"shop": ["a", "b"]})
    assert sorted(kept.value) == ["shop=a", "shop=b"]


def test_a_key_that_failed_held_what_it_had_before(shops: Shops):
    shops.run(a=1)
    shops.failing("a")
    failed = shops.run("failed", a=2, b=1)
    before = {"shop=a": 1, "shop=b": 1}
    assert shops.project.open().get("size", as_of=failed).value == before
    shops.failing()
    fixed = shops.run(a=2, b=1)
    assert shops.project.open().get("size", as_of=failed).value == before
    assert shops.project.open().get("size", as_of=fixed).value == {"shop=a": 2, "shop=b": 1}


def test_nothing_is_run_and_nothing_written(shops: Shops):
    run_id = shops.run(a=1)
    shops.project.write("versions.json", '{"a": 5}')
    before = sorted((path, path.stat().st_mtime_ns) for path in (shops.project.root / ".barca").rglob("*"))
    project = shops.project.open()
    assert project.scan("rows", as_of=run_id).collect().rows() == [("a", 1)]
    assert project.sql("SELECT COUNT(*) AS n FROM rows", as_of=run_id).collect().item() == 1
    assert project.head("size", as_of=run_id).values == {"shop=a": 1}
    assert project.get("versions", as_of=run_id).value == {"a": 1}
    after = sorted((path, path.stat().st_mtime_ns) for path in (shops.project.root / ".barca").rglob("*"))
    assert before == after


def test_nodes_that_are_no_more_and_those_that_changed(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions

        @asset(partitions={"shop": partitions(["r1", "r2"]), "week": partitions(["7"])})
        def sales(shop: str, week: str) -> dict:
            return {"units": int(week)}

        @asset()
        def limit() -> int:
            return 3
        """,
    )
    run_id = project.get().run_id
    project.write(
        "pipeline.py",
        """
        import pandas as pd
        from barca import asset

        @asset()
        def sales() -> pd.DataFrame:
            return pd.DataFrame({"units": [70]})
        """,
    )
    now = project.get().run_id
    then = project.open().get("sales", as_of=run_id)
    assert then.value == {f"shop={shop},week=7": {"units": 7} for shop in ("r1", "r2")}
    one = project.open().get("sales", as_of=run_id, partition={"shop": "r2"})
    assert list(one.value) == ["shop=r2,week=7"]
    assert project.open().get("sales", as_of=now).value["units"].to_list() == [70]
    assert project.open().get("limit", as_of=run_id).value == 3
    assert project.open().get(["limit", "sales"], as_of=now).targets == (
        "pipeline.py:limit",
        "pipeline.py:sales",
    )
    found = project.open().sql("SELECT s.shop, l.value FROM sales s, limit l ORDER BY shop", as_of=run_id)
    assert found.collect().rows() == [("r1", 3), ("r2", 3)]
    project.write("pipeline.py", "import barca\nraise ValueError('broken')\n")
    assert project.open().get("limit", as_of=run_id).value == 3
    with pytest.raises(SelectionError, match="no dimension `week`"):
        project.open().get(["limit", "pipeline.py:sales"], as_of=now, partition={"week": "7"})


def test_a_node_that_moved_to_another_file_is_named(project):
    project.write("old.py", "from barca import asset\n\n@asset()\ndef one() -> int:\n    return 1\n")
    run_id = project.get().run_id
    (project.root / "old.py").rename(project.root / "new.py")
    project.get()
    with pytest.raises(UsageError, match="held no result as of") as caught:
        project.open().get("one", as_of=run_id)
    assert caught.value.remediation.startswith("`old.py:one` had one then")
    assert project.open().get("old.py:one", as_of=run_id).value == 1


def test_before_the_first_run(shops: Shops):
    with pytest.raises(UsageError, match="held no result as of") as caught:
        shops.project.open().get("size", as_of="2h")
    assert caught.value.remediation == "it has none yet: run `barca get size`"
    run_id = shops.run(a=1)
    with pytest.raises(UsageError) as caught:
        shops.project.open().get("size", as_of="2 hours ago")
    assert caught.value.code == "no_result" and f"made by run {run_id}" in caught.value.remediation
    assert shops.project.open().history(as_of="2h")["runs"] == []


def test_many_keys_are_not_listed_but_scanned(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions

        @asset(partitions={"k": partitions([str(n) for n in range(1001)])}, batch="all")
        def many(k: list[str]) -> pl.DataFrame:
            return pl.DataFrame({"k": k, "n": range(len(k))})
        """,
    )
    run_id = project.get().run_id
    found = project.open().get("many", as_of=run_id)
    with pytest.raises(BarcaError, match="more than the 1000 of a dict"):
        _ = found.value
    assert found.to_dict("value")["final_output"]["_barca_partitions"]["keys"] == 1001
    assert found.scan().select(pl.len()).collect().item() == 1001
    assert "many" in found._repr_html_() and "as of" in repr(found)


# --- moments ----------------------------------------------------------------------------------------


def test_a_moment_is_a_run_a_time_or_how_long_ago(shops: Shops):
    first, second = shops.run(a=1), shops.run(a=2)
    project = shops.project.open()
    runs = {run["run_id"]: run for run in project.history()["runs"]}
    assert project.moment(first).at.isoformat() == runs[first]["finished_at"]
    short = next(first[:n] for n in range(1, 16) if not second.startswith(first[:n]))
    assert project.moment(short).run_id == first
    with pytest.raises(SelectionError, match="is the beginning of 2 runs"):
        project.moment(first[:3])
    at = dt.datetime.fromisoformat(runs[first]["finished_at"])
    for when in (at, at.isoformat()):
        assert project.get("size", as_of=when).value == {"shop=a": 1}
    local = at.astimezone().replace(tzinfo=None)
    assert project.moment(local).at == at and project.moment(local).local
    assert "in this machine's zone" in str(project.moment(local.isoformat(" ")))
    today = dt.datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    assert project.moment(today.date()).at == today and project.moment(f"{today:%Y-%m-%d}").at == today
    assert [run["run_id"] for run in project.history(as_of=first)["runs"]] == [first]
    now = dt.datetime.now(dt.UTC)
    for text, seconds in (
        ("0s", 0),
        ("90 minutes ago", 5400),
        ("1.5h", 5400),
        ("3 days ago", 259_200),
        ("1W", 604_800),
    ):
        assert abs((now - project.moment(text).at).total_seconds() - seconds) < 60
    assert project.get("size", as_of="0s").value == {"shop=a": 2}


@pytest.mark.parametrize(
    "when",
    [
        "",
        " ",
        "yesterday-ish",
        "2026-13-01",
        "99:99",
        "3 parsecs",
        "-2h",
        "x\x1b[31m",
        7,
        None,
        b"2h",
        "\ud800",
    ],
)
def test_what_is_no_moment_is_refused_with_samples(shops: Shops, when: Any):
    shops.run(a=1)
    if when is None:
        assert shops.project.open().history(as_of=None)["total"] == 1
        return
    with pytest.raises(UsageError, match="is no tag, run or time") as caught:
        shops.project.open().moment(when)
    assert "`3 days ago`" in caught.value.remediation and caught.value.code == "as_of"


@pytest.mark.parametrize("when", ["2999-01-01", "9999-12-31T23:59:59-23:00", dt.date(2999, 1, 1)])
def test_the_future_is_refused(shops: Shops, when: Any):
    with pytest.raises(UsageError, match="is in the future"):
        shops.project.open().moment(when)


@pytest.mark.parametrize("when", ["0001-01-01", "999999999999999 weeks ago"])
def test_long_ago_nothing_was_held(shops: Shops, when: str):
    shops.run(a=1)
    with pytest.raises(UsageError, match="held no result as of"):
        shops.project.open().get("size", as_of=when)


def test_runs_that_were_killed_and_runs_that_go_on(shops: Shops):
    first = shops.run(a=1)
    markers = shops.project.root / ".barca/runs"
    write_marker(markers, run_id="fff1", command="get", target="size", started_at=dt.datetime.now(dt.UTC))
    with pytest.raises(SelectionError, match="run `fff1` is still going"):
        shops.project.open().moment("fff1")
    marker = json.loads((markers / "fff1.json").read_text())
    (markers / "fff1.json").write_text(json.dumps({**marker, "process_started": "never"}))
    assert shops.project.open().get("size", as_of="fff").value == {"shop=a": 1}
    assert shops.project.open().moment("fff1").at > shops.project.open().moment(first).at


def test_functions_and_modules_take_it_too(shops: Shops, monkeypatch: pytest.MonkeyPatch):
    run_id = shops.run(a=1)
    shops.run(a=2)
    monkeypatch.chdir(shops.project.root)
    assert barca.get("total", as_of=run_id) == 1
    assert barca.scan("rows", as_of=run_id).collect().height == 1
    assert barca.sql("SELECT COUNT(*) AS n FROM rows", as_of=run_id).collect().item() == 1
    node = shops.project.open().graph.nodes["pipeline.py:size"].definition
    assert barca.get(node, as_of=run_id) == {"shop=a": 1}
    with pytest.raises(UsageError, match="refresh= does not go with it"):
        barca.get("size", as_of=run_id, refresh="size")
    with pytest.raises(UsageError, match="executor= does not go with it"):
        barca.get("size", as_of=run_id, executor="inline")
    with pytest.raises(UsageError, match="executor= does not go with it"):
        barca.scan("rows", as_of=run_id, executor="inline")
    with pytest.raises(UsageError, match="progress= does not go with it"):
        barca.get("size", as_of=run_id, progress=print)
    assert list(barca.get(as_of=run_id)) == ["versions", "rows", "size", "total"]
    with pytest.raises(UsageError, match="nothing was held as of"):
        barca.get(as_of="2h")


# --- command line -----------------------------------------------------------------------------------


def test_the_command_line_shows_what_was_held(shops: Shops):
    run_id = shops.run(a=1, b=2)
    shops.run(a=3)
    cli = shops.project.cli
    done = cli("get", "size", "--as-of", run_id, "-o", "value", "--json")
    document = json.loads(done.stdout)
    assert document["final_output"] == {"shop=a": 1, "shop=b": 2} and document["steps_executed"] == 0
    assert document["as_of"]["run_id"] == run_id
    assert done.stderr.startswith("note: as of 20") and f"after run {run_id}" in done.stderr
    shown = cli("get", "size", "--as-of", run_id, "--pretty", env={"COLUMNS": "200"}).stdout
    assert f"(after run {run_id}): 2 keys, nothing ran" in shown
    assert cli("get", "total", "--as-of", run_id, "-o", "path").stdout.startswith(".barca/artifacts/")
    assert json.loads(cli("head", "rows", "--as-of", run_id, "--json").stdout)["keys"] == 2
    counted = json.loads(cli("sql", "SELECT COUNT(*) AS n FROM rows", "--as-of", run_id).stdout)
    assert counted["rows"] == [{"n": 3}]
    assert (
        json.loads(cli("export", "size", "out", "--as-of", run_id, "--format", "ndjson").stdout)["keys"] == 2
    )
    assert len(json.loads(cli("history", "--as-of", run_id).stdout)["runs"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--refresh", "size"],
        ["--refresh-all"],
        ["--no-cascade"],
        ["--batch", "2"],
        ["--dry-run"],
        ["--watch"],
        ["--executor", "inline"],
    ],
)
def test_what_only_a_run_can_do_does_not_go_with_it(shops: Shops, arguments: list[str]):
    done = shops.project.cli("get", "size", "--as-of", "2h", *arguments, "--json")
    assert done.returncode == 2 and f"{arguments[0]} does not go with it" in done.stderr
    assert not (shops.project.root / ".barca").exists()


def test_the_command_line_refuses_what_is_no_moment(shops: Shops):
    shops.run(a=1)
    for arguments in (["head", "size"], ["sql", "SELECT 1"], ["export", "size", "out"], ["history"]):
        done = shops.project.cli(*arguments, "--as-of", "never", "--json")
        assert done.returncode == 2 and json.loads(done.stderr)["code"] == "as_of"
    done = shops.project.cli("history", "abc", "--as-of", "2h")
    assert done.returncode == 2 and "--as-of choose among runs" in done.stderr


def test_moments_are_small_values():
    moment = moments.Moment(at=dt.datetime(2026, 1, 2, tzinfo=dt.UTC), run_id="1", tag="t")
    assert str(moment) == "2026-01-02 00:00:00 UTC (tag t, after run 1)"
    assert moment.to_dict() == {"at": "2026-01-02T00:00:00+00:00", "run_id": "1", "tag": "t"}


@pytest.mark.parametrize("more", [False, True])
def test_keys_that_a_run_did_not_select_have_not_left(project, more):
    text = """
    from barca import asset, partitions

    @asset(partitions={"shop": partitions(["a", "b"]), "day": partitions(["mon", "tue"])})
    def rows(shop: str, day: str) -> str:
        return shop + day
    """
    project.write("pipeline.py", text)
    project.get("rows")
    if more:  # a key that did leave, so that holdings are known
        project.edit("pipeline.py", '["mon", "tue"]', '["tue", "mon", "wed"]')
        project.get("rows")
        project.edit("pipeline.py", '["tue", "mon", "wed"]', '["mon", "tue"]')
        project.get("rows")
    known = project.open()._reader().scan("holdings").collect().height
    assert known == 2 * more
    assert project.get("rows", partition={"shop": "a"}).status == "success"
    assert project.open()._reader().scan("holdings").collect().height == known

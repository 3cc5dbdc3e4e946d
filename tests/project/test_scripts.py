"""barca inside of scripts and programs: lazy results, the guard, other libraries, own executors and listeners."""

from __future__ import annotations

import json
import subprocess
import sys

import duckdb
import polars as pl
import pytest

import barca
from barca import Project, asset, events, partitions, task
from barca.errors import UsageError
from barca.exec.inline import InlineExecutor
from barca.io.storage import FilePackStore
from barca.io.values import form_table


def run(project, *command, **env):
    done = subprocess.run(
        [sys.executable, *command],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=False,
        env=env or None,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- scan ---------------------------------------------------------------------------------------------


@asset(partitions={"k": partitions([f"k{number:02}" for number in range(20)])}, batch="all")
def scored(k: list[str]) -> pl.DataFrame:
    rows = pl.DataFrame({"k": k}).select(pl.col("k").repeat_by(20_000).explode())
    number = pl.int_range(pl.len(), dtype=pl.Int64)
    return rows.with_columns(score=(number * 7919) % 99_991, other=(number * 104_729) % 1_299_709)


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    root = tmp_path_factory.mktemp("scores")
    (root / "barca.toml").touch()
    return Project.of([scored], path=root).scan(scored), root


def test_filters_and_columns_are_pushed_into_the_packs(scores):
    scan, _ = scores
    others = pl.LazyFrame({"k": ["k03"], "weight": [2]})
    query = (
        scan.join(others, on="k").filter(pl.col("k") == "k03", pl.col("score") > 10).select("score", "weight")
    )
    plan = query.explain()
    [pack] = [part for part in plan.split("Parquet SCAN")[1:]]
    selection = pack.partition("SELECTION:")[2].partition("\n")[0]
    assert 'col("k") == "k03"' in selection and 'col("score") > 10' in selection, plan
    assert "PROJECT 2/3 COLUMNS" in pack, "`other` is not read"
    assert (
        query.collect().height == 20_000 - scan.filter(k="k03").filter(pl.col("score") <= 10).collect().height
    )


READ = """
import sys
import polars as pl

scan = pl.LazyFrame.deserialize(sys.argv[1])

def read(query):
    def so_far():
        return int(open("/proc/self/io").readline().split()[1])
    before = so_far()
    query.collect()
    return so_far() - before

read(scan.limit(1))  # what is loaded once
print([read(scan), read(scan.select("score")), read(scan.filter(k="k03")), read(scan.filter(k="k03").select("score"))])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="bytes read are counted by Linux")
def test_what_is_filtered_out_is_not_read(scores):
    scan, root = scores
    (root / "query.bin").write_bytes(scan.serialize())
    printed = subprocess.run(
        [sys.executable, "-c", READ, root / "query.bin"],
        capture_output=True, text=True, check=True,
        env={"POLARS_FORCE_ASYNC": "1"},  # files are read, not mapped
    ).stdout  # fmt: skip
    whole, column, key, both = json.loads(printed)
    size = sum(path.stat().st_size for path in (root / ".barca/artifacts").rglob("*.parquet"))
    assert whole > 0.9 * size
    assert column < 0.7 * whole
    assert key < 0.2 * whole, "one of twenty keys"
    assert both < column and both < key


# --- __main__ -----------------------------------------------------------------------------------------

SCRIPT = """
    import sys
    from pathlib import Path
    import barca
    from barca import asset, partitions

    @asset(partitions={"k": partitions(["a", "b"])})
    def each(k: str) -> str:
        with Path(__file__).with_name("calls").open("a") as file:
            file.write(k)
        return k.upper()

    if __name__ == "__main__":
        print(barca.get(each, executor=sys.argv[1]))
"""


def test_a_script_gets_its_own_functions_below_the_guard(project):
    project.write("jobs/etl.py", SCRIPT)
    first = run(project, "jobs/etl.py", "processes")
    assert first == run(project, "jobs/etl.py", "inline") == "{'k=a': 'A', 'k=b': 'B'}\n"
    assert sorted((project.root / "jobs/calls").read_text()) == ["a", "b"], "once, in whatever process"
    assert project.ran("each") == {}, "the command line finds what the script computed"


def test_a_failed_step_shows_its_own_frames_in_a_script(project):
    project.write("etl.py", SCRIPT.replace("return k.upper()", "return k.missing()"))
    done = subprocess.run(
        [sys.executable, "etl.py", "inline"], cwd=project.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stdout == ""
    shown = done.stderr.partition("StepFailed: ")[2]
    assert "In etl.py:each[k=a]:" in shown and "return k.missing()" in shown
    assert "AttributeError: 'str' object has no attribute 'missing'" in shown and "barca/" not in shown


# --- other libraries ----------------------------------------------------------------------------------


def test_arrow_and_duckdb_are_given_the_memory_of_the_frame():
    frame = pl.DataFrame({"x": range(1000), "y": [0.5] * 1000})
    table = form_table(frame, "arrow")
    for name in frame.columns:
        [chunk] = table.column(name).chunks
        assert chunk.buffers()[1].address == frame[name].to_numpy(allow_copy=False).ctypes.data
    relation = form_table(frame, "duckdb")
    assert relation.aggregate("sum(x), sum(y)").fetchall() == [(499_500, 500.0)]
    assert duckdb.sql("SELECT COUNT(*) FROM frame").fetchall() == [(1000,)]


# --- embedding ----------------------------------------------------------------------------------------


class Counting:
    """An executor of a program's own: barca's, and what was submitted to it."""

    workers = 1

    def __init__(self, root):
        from barca.discovery import load_function

        self.inner = InlineExecutor(FilePackStore(root / ".barca" / "artifacts"), load_function, quiet=True)
        self.nodes = []
        self.ended = False

    def submit(self, work, keep=None):
        self.nodes.append(work.node)
        return self.inner.submit(work, keep)

    def wait(self, timeout):
        return self.inner.wait(timeout)

    def withdraw(self):
        self.inner.withdraw()

    def shutdown(self, *, cancel=False):
        self.ended = True


def test_a_program_has_its_own_executor_and_listener(project):
    project.write("jobs.py", SCRIPT)
    happened, told = [], []
    executor = Counting(project.root)
    opened = Project(project.root, [project.root / "jobs.py"], executor=executor, listener=happened.append)
    assert opened.get("each", progress=told.append).value == {"k=a": "A", "k=b": "B"}
    assert executor.nodes and set(executor.nodes) == {"jobs.py:each"}
    assert told == happened
    assert isinstance(happened[0], events.RunStarted) and isinstance(happened[-1], events.RunFinished)
    assert sum(event.succeeded for event in happened if isinstance(event, events.KeysDone)) == 2
    assert opened.get("each").to_dict()["steps_executed"] == 0
    assert not executor.ended  # it may be used again, and is its owner's to end


# --- what is asked for --------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["get", "scan", "plan"])
@pytest.mark.parametrize("face", ["functions", "project"])
def test_a_misspelt_option_is_refused_and_nothing_runs(tmp_path, monkeypatch, verb, face):
    monkeypatch.chdir(tmp_path)

    @asset(partitions={"k": partitions(["a", "b"])})
    def size(k: str) -> dict:
        raise AssertionError

    call = getattr(barca if face == "functions" else Project.of([size]), verb)
    with pytest.raises(UsageError, match="no option `partitions=`") as raised:
        call(size, partitions={"k": "a"})
    assert "did you mean `partition`?" in str(raised.value.remediation)
    with pytest.raises(UsageError, match="refresh_all= is True or False, not `'size'`"):
        call(size, refresh_all="size")
    assert not (tmp_path / ".barca").exists()


def test_a_task_does_not_run_when_what_it_gave_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @task
    def report() -> str:
        raise AssertionError

    with pytest.raises(UsageError, match="no option `as_of=`"):
        barca.run(report, as_of="2h")
    with pytest.raises(UsageError, match="no option `as_of=`"):
        barca.plan(report, as_of="2h")


def test_a_plan_takes_what_a_run_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @asset
    def size() -> int:
        return 1

    plan = barca.plan(size, executor="inline", progress=print, partition=None)
    assert plan.to_dict()["summary"]["will_run"] == 1


def test_limits_of_stats_have_two_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @asset
    def size() -> int:
        return 1

    with pytest.raises(UsageError, match="no option `seconds=`"):
        barca.stats(size, seconds=3)

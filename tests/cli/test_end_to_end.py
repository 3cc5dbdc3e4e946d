"""Whole commands on small projects: in this process, and a few as a process of their own."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

PIPELINE = """
    import json, pathlib, sys
    import polars as pl
    from barca import asset, collect, partitions_from, sensor, task

    @sensor()
    def versions() -> dict:
        return json.loads(pathlib.Path("versions.json").read_text())

    @asset(partitions={"shop": partitions_from(versions)})
    def cleaned(shop: str, versions: int) -> pl.DataFrame:
        print("cleaning", shop)
        print("careful", file=sys.stderr)
        if versions < 0:
            raise ValueError(f"no rows for {shop}")
        return pl.DataFrame({"x": range(versions)})

    @asset(partitions={"shop": partitions_from(cleaned)}, batch="all")
    def scored(shop: list[str], cleaned: pl.LazyFrame) -> pl.LazyFrame:
        return cleaned.group_by("shop").agg(pl.col("x").sum())

    @asset(inputs={"scores": collect(scored)})
    def totals(scores: pl.DataFrame) -> pl.DataFrame:
        return scores.sort("shop")

    @task(inputs={"table": totals})
    def report(table: pl.DataFrame) -> dict:
        return {"rows": table.height}
"""


@pytest.fixture
def shop(commands):
    commands.write("pipeline.py", PIPELINE)
    commands.write("versions.json", json.dumps({"r1": 1, "r2": 2, "r3": 3}))
    return commands


def step(result, name):
    [found] = [step for step in result["steps"] if step["id"] == f"pipeline.py:{name}"]
    return found


def test_a_dry_run_writes_nothing(shop):
    planned = shop.cli_json("get", "totals", "--dry-run")
    assert planned["dry_run"] and step(planned, "cleaned")["action"] == "unknown"
    assert not (shop.root / ".barca").exists()


def test_a_pipeline_from_first_run_to_one_change(shop):
    first = shop.cli("get", "scored")
    result = json.loads(first.stdout)
    assert (first.returncode, result["status"], result["steps_executed"]) == (0, "success", 7)
    assert list(result["final_output"]) == ["shop=r1", "shop=r2", "shop=r3"]
    assert "cleaning r1" in first.stderr and "careful" in first.stderr

    again = shop.cli_json("get", "scored", "-o", "value")
    assert again["steps_executed"] == 1 and step(again, "scored")["status"] == "cached"
    assert [rows[0]["x"] for rows in again["final_output"].values()] == [0, 1, 3]

    paths = shop.cli("get", "scored", "-o", "path").stdout.splitlines()
    files = {line.partition("#")[0] for line in paths}
    assert [line.partition("#")[2] for line in paths] == ["shop=r1", "shop=r2", "shop=r3"]
    assert len(files) == 1 and pl.read_parquet(shop.root / files.pop()).height == 3

    shop.write("versions.json", json.dumps({"r1": 1, "r2": 5, "r3": 3}))
    shop.cli_json("get", "versions")
    shown = shop.cli("get", "scored", "--dry-run", "--pretty", env={"COLUMNS": "200"}).stdout
    assert "2 of 3 keys cached; will run: shop=r2 (value pipeline.py:versions changed)" in shown
    assert "1 key in 1 call (batch=all)" in shown
    assert shop.cli_json("get", "scored")["steps_executed"] == 3

    history = shop.cli_json("history")
    assert [run["target"] for run in history["runs"]][:2] == ["scored", "versions"]
    run_id = history["runs"][0]["run_id"]
    assert shop.cli_json("history", run_id)["run"]["steps_executed"] == 3
    lines = shop.cli_json("logs", run_id, "--step", "cleaned[shop=r2]", "--stream", "stdout")
    assert [line["line"] for line in lines] == ["cleaning r2"]


def test_one_key_of_a_shared_file_is_named(shop):
    shop.cli_json("get", "scored")
    [line] = shop.cli("get", "scored", "--partition", "shop=r1", "-o", "path").stdout.splitlines()
    assert line.endswith(".parquet#shop=r1")


def test_tables_for_people(shop):
    shown = shop.cli("get", "totals", "--pretty", env={"COLUMNS": "120", "NO_COLOR": "1"})
    assert shown.returncode == 0
    assert "shop" in shown.stdout and "3 rows, 2 columns" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert '"rows": 3' in shop.cli("run", "report", "--pretty").stdout
    assert '"x": 1' in shop.cli("get", "scored", "--pretty", "-o", "value").stdout
    everything = shop.cli("get", "--pretty").stdout
    assert "3 rows, 2 columns" in everything and "shop=r1" in everything
    status = shop.cli("status", "--pretty").stdout
    assert "3/3" in status and "cached" in status


def test_a_failed_key(shop):
    shop.write("versions.json", json.dumps({"r1": 1, "r2": -1, "r3": 3}))
    done = shop.cli("get", "totals")
    result, error = json.loads(done.stdout), json.loads(done.stderr.splitlines()[-1])
    assert done.returncode == 1
    assert (result["status"], result["failed_node"]) == ("failed", "pipeline.py:cleaned[shop=r2]")
    assert (error["kind"], error["node"], error["key"]) == ("step_failed", "pipeline.py:cleaned", "shop=r2")
    assert "no rows for r2" in error["error"] and "pipeline.py" in error["traceback"]
    shown = shop.cli("get", "totals", "--pretty")
    assert shown.returncode == 1 and "1 of 1 key failed: shop=r2" in " ".join(shown.stdout.split())
    assert "error: pipeline.py:cleaned[shop=r2]: ValueError: no rows for r2" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["get", "scord"], "unknown_target", "did you mean `scored`?"),
        (["run", "scored"], "not_a_task", "barca get scored"),
        (["get", "scored", "--refresh", "cleand"], "unknown_target", "did you mean `cleaned`?"),
        (["get", "totals", "--partition", "shp=r1"], "unknown_dimension", "did you mean `shop`?"),
        (["get", "scored", "--env", "prod"], "unknown_environment", "barca.toml"),
        (["get", "cleaned", "--batch", "cleaned=2"], "batch", "batch="),
    ],
)
def test_wrong_usage_runs_nothing(shop, arguments, code, hint):
    done = shop.cli(*arguments)
    error = json.loads(done.stderr.splitlines()[-1])
    assert (done.returncode, done.stdout) == (2, "")
    assert (error["kind"], error["code"]) == ("usage", code) and hint in error["remediation"]
    assert not (shop.root / ".barca" / "artifacts").exists()


def test_a_file_that_does_not_load(shop):
    shop.write(
        "broken.py",
        "import barca\nfrom barca import asset\n@asset()\ndef lost() -> int:\n    return 1\nboom(\n",
    )
    done = shop.cli("get", "lost")
    assert done.returncode == 2 and json.loads(done.stderr)["code"] == "load_error"
    listed = shop.cli_json("list")
    assert [error["file"] for error in listed["load_errors"]] == ["broken.py"]
    assert "cannot load broken.py" in shop.cli("list", "--pretty").stdout
    assert shop.cli_json("get", "scored")["status"] == "success"


def test_names_from_outside_are_shown_literally(shop):
    evil = "[red]\x1b[2J<b>\u202e"
    shop.write("versions.json", json.dumps({evil: 1, "r1": 2}))
    assert shop.cli("get", "scored").returncode == 0  # its step prints the name itself
    for arguments in (
        ["get", "scored"],
        ["get", "scored", "--dry-run"],
        ["status"],
        ["get", "scored", "-o", "path"],
    ):
        done = shop.cli(*arguments, "--pretty", env={"COLUMNS": "200"})
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr and "\u202e" not in done.stdout + done.stderr
    assert "#shop=[red]\\x1b[2J<b>\\u202e" in done.stdout
    assert f"shop={evil}" in shop.cli_json("get", "scored")["final_output"]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BARCA_")}


@pytest.mark.slow
def test_ctrl_c_exits_with_130(project):
    project.write(
        "slow.py",
        """
        import time
        from barca import asset, partitions

        @asset(partitions={"k": partitions(["a", "b"])})
        def slow(k: str) -> str:
            if k == "b":
                print("sleeping", flush=True)
                time.sleep(60)
            return k
        """,
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "barca", "get", "slow", "--executor", "processes"],
        cwd=project.root, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    marker = project.root / ".barca" / "runs"
    deadline = time.monotonic() + 30
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130, err
    assert json.loads(err.splitlines()[-1])["kind"] == "cancelled"
    assert "Traceback" not in err
    [run, *_] = project.cli_json("history")["runs"]
    assert run["status"] == "cancelled"


def read_terminal(arguments: list[str], directory: Path, **more: str) -> str:
    """What a command writes to a terminal of its own."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "barca", *arguments],
        cwd=directory, env={**environment(), "TERM": "xterm", "COLUMNS": "120", **more},
        stdin=follower, stdout=follower, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    written = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # how Linux tells that the other side is closed
            break
        if not chunk:
            break
        written += chunk
    os.close(leader)
    assert process.wait() == 0
    return written.decode()


@pytest.mark.slow
def test_a_terminal_gets_tables_in_colour_and_progress(shop):
    shown = read_terminal(["get", "scored"], shop.root)
    assert "Run " in shown and "success" in shown and '"final_output"' not in shown
    assert "\x1b[32m" in shown and "pipeline.py:scored" in shown
    plain = read_terminal(["get", "scored"], shop.root, NO_COLOR="1")
    assert "\x1b[32m" not in plain and "success" in plain
    assert read_terminal(["version", "--json"], shop.root).startswith('{"version"')


@pytest.mark.slow
def test_what_workers_print_stands_above_the_bars(project):
    project.write(
        "noisy.py",
        """
        import os, sys, time
        from barca import asset, partitions

        @asset(partitions={"k": partitions(range(20))})
        def noisy(k: str) -> str:
            time.sleep(0.02)
            print(f"line {k}")
            os.write(2, f"raw {k}\\n".encode())
            return k
        """,
    )
    shown = read_terminal(["get", "noisy", "--executor", "processes"], project.root, NO_COLOR="1")
    lines = [line.rpartition("\r")[2].replace("\x1b[2K", "").strip() for line in shown.splitlines()]
    for number in range(20):
        assert f"line {number}" in lines and f"raw {number}" in lines
    assert "/20" in shown and "success" in shown


def test_the_examples_of_the_manual_load(shop):
    import re

    from barca.cli.completing import TOPICS

    (shop.root / "pipeline.py").unlink()

    for topic in TOPICS.glob("*.md"):
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", topic.read_text(), re.DOTALL)):
            shop.write(f"{topic.stem.replace('-', '_')}_{number}.py", code)
    listed = shop.cli_json("list")
    assert listed["load_errors"] == [] and listed["total"] == 14
    for file in shop.root.glob("sinks_*.py"):  # they write to buckets; docs/sinks.md runs such examples
        file.unlink()
    result = shop.cli_json("get", "-o", "value")
    assert result["targets"]["labelled"]["retailer=r1"] == "R1"


@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "one", "--executor", "inline"),
        ("get", "one", "--dry-run"),
        ("plan",),
        ("list",),
        ("status",),
        ("logs", "--step", "one"),
    ],
    ids=" ".join,
)
def test_f15_nothing_that_the_project_writes_reaches_stdout(project, arguments):
    project.write(
        "pipeline.py",
        """
        import os
        from barca import asset

        print("printed on import")
        os.write(1, b"written on import\\n")

        @asset
        def one() -> int:
            os.system("echo from a program")
            return 1
        """,
    )
    if arguments[0] == "logs":
        project.cli_json("get", "one", "--executor", "inline")
    done = project.cli(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert "printed on import" in done.stderr
    assert "written on import" in done.stderr
    assert ("from a program" in done.stderr) == ("inline" in arguments)


def test_the_graph_in_each_form(shop):
    told = shop.cli_json("graph", "scored")
    assert [node["name"] for node in told["nodes"]] == ["versions", "cleaned", "scored"]
    drawn = shop.cli("graph", "--pretty", env={"COLUMNS": "60"}).stdout.splitlines()
    assert drawn[0] == "report (task)" and drawn[-1].strip() == "└── versions (sensor)"
    assert shop.cli("graph", "--format", "text").stdout.splitlines() == drawn
    assert shop.cli("graph", "totals", "--format", "mermaid").stdout.startswith("flowchart LR\n")
    assert shop.cli("graph", "--format", "svg").stdout.startswith("<svg ")
    refused = shop.cli("graph", "--format", "sgv")
    assert refused.returncode == 2 and "did you mean `svg`" in refused.stderr
    assert not (shop.root / ".barca").exists()


def test_a_history_of_a_target_that_no_run_had_says_which_there_are(shop):
    shop.cli("get", "scored,totals")
    done = shop.cli("history", "--target", "scord")
    assert json.loads(done.stdout)["runs"] == []
    assert done.stderr == "note: no run is of `scord`; did you mean `scored`? valid: `scored`, `totals`\n"
    assert shop.cli("history", "--target", "scored", "--status", "failed").stderr == ""

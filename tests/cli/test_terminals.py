"""Every command in narrow and wide terminals, without colour where there is no terminal, and into closed pipes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest

from barca import Project

PIPELINE = """
    import pathlib, json
    import polars as pl
    from barca import asset, collect, partitions_from, sensor

    @sensor(description="what there is")
    def versions_of_everything_there_is() -> dict:
        return json.loads(pathlib.Path("versions.json").read_text())

    @asset(partitions={"shop": partitions_from(versions_of_everything_there_is)})
    def cleaned(shop: str, versions_of_everything_there_is: int) -> pl.DataFrame:
        print("cleaning", shop)
        return pl.DataFrame({f"a_rather_long_name_{n}": range(versions_of_everything_there_is) for n in range(8)})

    @asset(partitions={"shop": partitions_from(cleaned)}, batch="all")
    def scored(shop: list[str], cleaned: pl.LazyFrame) -> pl.LazyFrame:
        return cleaned.group_by("shop").agg(pl.len().alias("rows"))

    @asset(inputs={"scores": collect(scored)})
    def totals(scores: pl.DataFrame) -> pl.DataFrame:
        return scores.sort("shop")
"""

COMMANDS = [
    "get", "get --dry-run", "get totals -o value", "get --fields status,steps", "plan", "list", "status", "status --fields id,cache",
    "explain scored", "diff cleaned --partition shop=a_shop_with_a_long_name_1", "doctor", "doctor --repair", "history", "history RUN",
    "stats scored", "head cleaned", "head versions_of_everything_there_is", "sql EXPLAIN", "sql SELECT", "graph",
    "get --as-of RUN", "get cleaned --as-of audit -o value", "head cleaned --as-of audit", "history --as-of RUN", "tag", "gc --dry-run",
    "docs", "docs cli", "docs batched-partitions", "version", "export totals OUT",
]  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A project with two runs."""
    root = tmp_path_factory.mktemp("terminals") / "project"
    root.mkdir()
    (root / "barca.toml").write_text('[execution]\nexecutor = "inline"\n')
    (root / "pipeline.py").write_text(textwrap.dedent(PIPELINE))
    for rows in (2, 3):
        (root / "versions.json").write_text(
            json.dumps({f"a_shop_with_a_long_name_{n}": rows for n in range(4)})
        )
        done = subprocess.run(
            [sys.executable, "-m", "barca", "get"], cwd=root, capture_output=True, text=True, check=True
        )
    run_id = json.loads(done.stdout)["run_id"]
    Project(root).tag("audit", run_id)
    return root, run_id


def arguments(command, shop):
    root, run_id = shop
    queries = {"EXPLAIN": "EXPLAIN SELECT * FROM cleaned", "SELECT": "SELECT * FROM cleaned", "RUN": run_id}
    return [queries.get(word, word) for word in command.split() if word != "OUT"] + (
        ["out"] if "OUT" in command else []
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_wider_than_the_terminal_and_none_is_coloured(command, shop, monkeypatch, capfd):
    from barca.__main__ import main

    monkeypatch.chdir(shop[0])
    monkeypatch.delenv("BARCA_OUTPUT", raising=False)
    for width in (60, 100, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        capfd.readouterr()
        code = main([*arguments(command, shop), "--pretty"])
        shown = capfd.readouterr()
        assert code == 0, shown.err
        assert "\x1b" not in shown.out + shown.err
        assert shown.out
        wide = [line for line in shown.out.splitlines() if len(line) > width]
        assert wide == [], width


@pytest.mark.parametrize(
    "command",
    ["--help", "get --help", "docs", "list", "list --pretty", "get -o path", "sql SELECT -o csv", "sql SELECT -o parquet", "graph --format svg"],
)  # fmt: skip
def test_a_reader_that_has_gone_away_is_no_error(command, shop):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "barca", *arguments(command, shop)],
            cwd=shop[0],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    finally:
        os.close(writing)
    assert done.returncode == 0, done.stderr
    assert not re.search("Traceback|Broken|error", done.stderr), done.stderr

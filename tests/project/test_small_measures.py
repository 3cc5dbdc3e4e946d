"""What is there for many keys, many packs and many ticks, played with few: every measure of "many" is tiny."""

from __future__ import annotations

import json
from importlib import import_module
from random import Random
from typing import Any, TypeAlias

import polars as pl
import pytest

from barca import Project
from barca.io.packs import WRITE_OPTIONS
from tests.quick import QuickProject

PIPELINE = """
import json
from pathlib import Path

import polars as pl
import pyarrow.dataset as pads
from barca import asset, collect, partitions_from, sensor

FACTOR = 1

@sensor
def sizes() -> dict:
    return json.loads(Path("sizes.json").read_text())

@asset(partitions={"k": partitions_from(sizes)}, batch="all")
def rows(k: list[str], sizes: dict) -> pl.DataFrame:
    found = [(key, row, sizes[key]) for key in k for row in range(sizes[key] % 4)]
    return pl.DataFrame(found, {"k": pl.String, "row": pl.Int64, "size": pl.Int64}, orient="row")

@asset(partitions={"k": partitions_from(rows)}, batch="all", engine="streaming")
def scaled(k: list[str], rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.with_columns(pl.col("size") * FACTOR)

@asset(partitions={"k": partitions_from(rows)}, inputs={"scaled": scaled}, batch=3)
def sums(k: list[str], scaled: pads.Dataset) -> dict:
    table = pl.from_arrow(scaled.to_table())
    return {key: table.filter(pl.col("k") == key)["size"].sum() for key in k}

@asset(inputs={"every": collect(scaled), "each": collect(sums)})
def total(every: pl.LazyFrame, each: list) -> list:
    return [every.select("size").sum().collect(engine="in-memory").item(), sum(each)]
"""

Made: TypeAlias = dict[str, list[tuple[Any, ...]]]

MEASURES: dict[str, dict[str, list[Any]]] = {
    "project.tidying": {"MANY_NEW": [0, 2]},
    "io.garbage.choice": {"MANY_PACKS": [1, 3], "SMALL_BYTES": [2500, 1 << 20]},
    "io.garbage.collect": {"MOST_BYTES": [1, 20_000]},
    "io.scans": {"_SLICED": [0, 3], "_LISTED": [0, 3]},
    "io.spool": {"PARTS": [1, 3], "PART_BYTES": [1], "HELD_BYTES": [0]},
    "io.ledger.reader": {"SMALL_BYTES": [0], "MOST_HELD": [0, 2]},
    "io.ledger.upkeep": {
        "MANY_FILES": [1, 3],
        "TIER_BYTES": [(0, 5000), (4000, 12_000)],
        "MERGED_BYTES": [1, 20_000],
    },
    "project.narrowing": {"FEW_KEYS": [0], "LARGE_SHARE": [0, 1], "MANY_UNFINISHED": [0, 2]},
    "exec.binding": {"_FEW": [0, 1]},
    "lookup": {"_FEW": [0, 1]},
}


def make_small(patch: pytest.MonkeyPatch, random: Random) -> None:
    for home, measures in MEASURES.items():
        for name, values in measures.items():
            if random.random() < 0.8:
                patch.setattr(import_module(f"barca.{home}"), name, random.choice(values))
    patch.setitem(WRITE_OPTIONS, "row_group_size", random.choice([1, 2, 20_000]))


def change(project: QuickProject, sizes: dict[str, int], random: Random) -> int:
    """Change some keys, add or remove one, edit the code or go back to what it was; the factor that it has."""
    factor = random.choice([1, 1, 1, 2])
    project.write("pipeline.py", PIPELINE.replace("FACTOR = 1", f"FACTOR = {factor}"))
    for _ in range(random.choice([0, 1, 2])):
        sizes[f"k{random.randrange(9)}"] = random.randrange(8)
    if len(sizes) > 4 and random.random() < 0.3:
        del sizes[random.choice(list(sizes))]
    project.write("sizes.json", json.dumps(sizes))
    return factor


def made_of(sizes: dict[str, int], factor: int) -> Made:
    """What the nodes hold."""
    rows = [(key, row, size) for key, size in sizes.items() for row in range(size % 4)]
    scaled = [(key, row, size * factor) for key, row, size in rows]
    total = sum(size for _, _, size in scaled)
    return {"rows": sorted(rows), "scaled": sorted(scaled), "total": [(total, total)]}


def check_table(opened: Project, made: Made, random: Random, **options: Any) -> None:
    """Compare a table as it is read whole, by key, by value and by column."""
    name, key, size = random.choice(["rows", "scaled"]), f"k{random.randrange(9)}", random.randrange(16)
    table, rows = opened.scan(name, **options).select("k", "row", "size"), made[name]
    for found, wanted in [
        (table, rows),
        (table.filter(k=key), [row for row in rows if row[0] == key]),
        (table.filter(size=size), [row for row in rows if row[2] == size]),
        (table.filter(pl.col("row") > 0).select("k"), [row[:1] for row in rows if row[1] > 0]),
    ]:
        assert sorted(found.collect(engine="in-memory").rows()) == wanted


@pytest.mark.parametrize("seed", range(2))
def test_all_that_is_read_is_what_was_made_however_few_are_many(
    project: QuickProject, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    make_small(monkeypatch, random)
    monkeypatch.chdir(project.root)
    sizes = {f"k{number}": number for number in range(6)}
    runs: list[tuple[str, Made]] = []
    for tick in range(8):
        made = made_of(sizes, change(project, sizes, random))
        opened = project.open()
        ran = opened.get("total")
        assert ran.value == list(made["total"][0])
        runs.append((ran.run_id, made))
        check_table(opened, made, random)
        run, then = random.choice(runs)
        check_table(opened, then, random, as_of=run)
        if tick % 3 == 2:
            opened.gc()

"""What a run does, counted: the same for any number of keys, so that no step per key creeps in."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from barca.exec import journal, runner, sizes
from barca.io import appending
from barca.io.ledger import commits as commits_of
from barca.io.ledger import reader
from barca.project import running

pytestmark = pytest.mark.slow

SIZES = (1_500, 3_000, 6_000)
"""All of them so large that runs look at what changed only."""
TABLES = ("materializations", "definitions", "calls", "runs", "published")
CHAIN = """
    import json, pathlib
    import polars as pl
    from barca import asset, collect, partitions_from, sensor

    HERE = pathlib.Path(__file__).parent
    called = []

    @sensor
    def versions() -> dict:
        called.append(1)
        return json.loads((HERE / "versions.json").read_text())

    @asset(partitions={"k": partitions_from(versions)}BATCH)
    def cleaned(k, versions):
        called.append(1)
        if isinstance(k, list):
            return pl.DataFrame({"k": k, "v": [versions[key] for key in k]})
        return {"v": versions}

    @asset(partitions={"k": partitions_from(cleaned)}BATCH)
    def scored(k, cleaned):
        called.append(1)
        if isinstance(k, list):
            return pl.DataFrame({"k": k, "n": range(len(k))})
        return cleaned["v"]
"""
FORMS = {"unbatched": "", "all": ', batch="all"'}


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No count depends on how fast this machine is: nothing is cut or committed for time."""
    for module in (sizes, runner):
        monkeypatch.setattr(module, "BUDGET_SECONDS", 1e9)
    monkeypatch.setattr(sizes, "SPREAD_SECONDS", 1e9)
    monkeypatch.setattr(sizes, "FIRST_CHUNK", 1_000_000)
    for module in (journal, appending):
        monkeypatch.setattr(module, "GROUP_SECONDS", 1e9)
    monkeypatch.setattr(running, "MAINTENANCE_SECONDS", 1e9)
    monkeypatch.setattr(
        reader, "SMALL_BYTES", 0
    )  # small files are read once by a process, large ones each time
    monkeypatch.setattr(commits_of, "_known", {})  # else other tests' tables may push out this one's


_watched: list[tuple[str, set[str]]] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watched and isinstance(arguments[0], str):
        root, opened = _watched[-1]
        if arguments[0].startswith(root):
            opened.add(arguments[0])


sys.addaudithook(_hear)


@contextmanager
def counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts queries that are run, packs that Polars is given, other files opened, each once, and commits.

    A file that has just been written may be read again to be sure of it, which depends on the time.
    """
    seen: Counter[str] = Counter()
    opened: set[str] = set()
    store = root / ".barca"

    def watched(of: Any, name: str, count: Callable[..., None]) -> None:
        original = getattr(of, name)

        def wrapper(*values: Any, **named: Any) -> Any:
            count(*values)
            return original(*values, **named)

        patch.setattr(of, name, wrapper)

    def packs(paths: Any, *_: Any) -> None:
        seen["packs read"] += len(paths) if isinstance(paths, list) else 1

    before = commits(store)
    with monkeypatch.context() as patch:
        watched(pl.LazyFrame, "collect", lambda *_: seen.update(["collects"]))
        watched(pl.LazyFrame, "_collect_eager", lambda *_: seen.update(["eager queries"]))
        for name in ("scan_parquet", "read_parquet", "read_parquet_metadata", "read_parquet_schema"):
            watched(pl, name, packs)
        _watched.append((str(store), opened))
        try:
            yield seen
        finally:
            _watched.pop()
    seen["opened"] = len(opened)
    seen.update({table: count for table, count in (commits(store) - before).items()})


def commits(store: Path) -> Counter[str]:
    return Counter(
        {table.name: len(list(table.glob("_delta_log/*.json"))) for table in (store / "ledger").glob("*")}
    )


def effects(
    make_project: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, form: str, keys: int
) -> dict[str, tuple[int, int, Counter[str]]]:
    """By phase: steps that ran, calls of functions made for them, and what else was done."""
    project = make_project(f"{form}{keys}")
    project.write("pipeline.py", CHAIN.replace("BATCH", FORMS[form]))
    project.write("barca.toml", "")
    found = {}

    def phase(name: str, changed: int, act: Callable[[Any], Any]) -> None:
        versions = {f"k{number:05d}": int(number < changed) for number in range(keys)}
        project.write("versions.json", json.dumps(versions))
        opened = project.open(executor="inline")
        with counted(project.root, monkeypatch) as seen:
            told = act(opened).to_dict()
        module = sys.modules[opened.graph.nodes["pipeline.py:scored"].definition.function.__module__]
        found[name] = (told.get("steps_executed", 0), len(module.called), seen)
        module.called.clear()

    ten = {"k": [f"k{number:05d}" for number in range(10)]}
    phase("cold", 0, lambda project: project.get("scored"))
    phase("nothing changed", 0, lambda project: project.get("scored"))
    phase("one changed", 1, lambda project: project.get("scored"))
    phase("ten selected", 1, lambda project: project.get("scored", partition=ten))
    phase("dry run", 2, lambda project: project.plan("scored"))
    phase("status", 2, lambda project: project.status())
    return found


EXPECTED = {
    "cold": {"packs read": 6, "materializations": 2, "definitions": 2, "calls": 2, "runs": 2},
    "nothing changed": {"packs read": 6, "materializations": 1, "calls": 1, "runs": 1},
    "one changed": {"packs read": 13, "materializations": 1, "calls": 1, "runs": 1},
    "ten selected": {"packs read": 14, "materializations": 1, "calls": 1, "runs": 1},
    "dry run": {"packs read": 6},
    "status": {"packs read": 17},
}
"""By phase, how often Polars was given a pack, and the commits to each table of the ledger; the first two to a
table make it and fill it."""

QUERIES = {
    "cold": 120,
    "nothing changed": 75,
    "one changed": 160,
    "ten selected": 110,
    "dry run": 40,
    "status": 50,
}
"""By phase, at most so many steps on frames that Polars makes a query of, see `barca.frames`."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("unhurried")
def test_what_is_done_does_not_depend_on_the_number_of_keys(make_project, monkeypatch, form):
    by_size = {keys: effects(make_project, monkeypatch, form, keys) for keys in SIZES}
    first = by_size[SIZES[0]]
    for keys, found in by_size.items():
        cold = 1 + 2 * keys
        steps = {phase: (ran, calls) for phase, (ran, calls, _) in found.items()}
        assert steps == {
            "cold": (cold, cold if form == "unbatched" else 3),
            "nothing changed": (1, 1),
            "one changed": (3, 3),
            "ten selected": (1, 1),
            "dry run": (0, 0),
            "status": (0, 0),
        }
        for phase, (_, _, seen) in found.items():
            assert seen == first[phase][2], f"{phase} of {keys} keys does other things than of {SIZES[0]}"
            exact = {name: count for name, count in seen.items() if name in (*TABLES, "packs read")}
            assert exact == EXPECTED[phase], phase
            assert seen["eager queries"] <= QUERIES[phase], phase

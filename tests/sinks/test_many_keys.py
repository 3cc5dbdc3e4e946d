"""Ten thousand keys in one sink."""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
import time

import polars as pl
import pytest

KEYS = 10_000

PIPELINE = """
    import json, pathlib
    import polars as pl
    from barca import asset, partitions_from, sensor, sink

    @sensor
    def versions() -> dict:
        changed = json.loads((pathlib.Path(__file__).parent / "changed.json").read_text())
        return {f"r{n:05d}": changed.get(f"r{n:05d}", 1) for n in range(10_000)}

    @asset(partitions={"r": partitions_from(versions)}, batch="all")
    @sink("out/"{options})
    def scored(r: list[str], versions: dict) -> pl.DataFrame:
        return pl.DataFrame({"r": r, "version": [versions[key] for key in r]})
"""


def stamps(root) -> dict[str, int]:
    return {
        entry.name: os.stat(f"{entry.path}/part-0.parquet").st_ino
        for entry in os.scandir(root)
        if entry.is_dir()
    }


@pytest.mark.slow
def test_s5_ten_thousand_keys_then_one(project, monkeypatch):
    project.write("pipeline.py", PIPELINE.replace("{options}", ""))
    (project.root / "changed.json").write_text("{}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        began = time.process_time()
        assert project.ran() == {"versions": 1, "scored": KEYS}
        used = time.process_time() - began
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert used < 16, "processor seconds, of two cores for eight seconds"
    before = stamps(project.root / "out")
    assert len(before) == KEYS
    found = pl.scan_parquet(
        f"{project.root}/out/**/*.parquet", hive_partitioning=True, hive_schema={"r": pl.String}
    )
    assert found.collect(engine="in-memory").height == KEYS
    (project.root / "changed.json").write_text('{"r00077": 2}')
    listed = set()
    with monkeypatch.context() as patch:
        for name in ("scandir", "listdir"):
            spy = lambda path=".", real=getattr(os, name): (listed.add(str(path)), real(path))[1]
            patch.setattr(os, name, spy)
        assert project.ran() == {"versions": 1, "scored": 1}
    out = str(project.root / "out")
    assert [path.removeprefix(out) for path in listed if path.startswith(out)] == ["/r=r00077"]
    after = stamps(project.root / "out")
    assert [name for name in after if after[name] != before[name]] == ["r=r00077"]


MEASURED = """
    import os, pathlib, threading
    from collections import Counter
    from barca.io.sinks import dataset, durable, local
    from barca import Project
    most_rows, most_keys, most_descriptors = 0, 0, 0
    done, over = Counter(), threading.Event()
    lay_out = dataset.lay_out

    def watch(tables, *rest):
        global most_rows, most_keys
        most_rows = max(most_rows, sum(table.height for table in tables))
        most_keys = max(most_keys, len(tables))
        return lay_out(tables, *rest)

    def look():
        global most_descriptors
        while not over.wait(0.002):
            most_descriptors = max(most_descriptors, len(os.listdir("/proc/self/fd")))

    def count(module, name):
        real = getattr(module, name)
        def spy(*arguments, **options):
            if "/out/" in str(arguments) or "barca-staging" in str(arguments):
                done[name] += 1
            return real(*arguments, **options)
        setattr(module, name, spy)

    for name in ("stat", "lstat", "mkdir", "rename", "replace", "unlink", "rmdir", "scandir", "listdir", "open"):
        count(os, name)
    count(dataset, "write_tables")
    count(local, "flush_files")
    dataset.lay_out = watch
    watcher = threading.Thread(target=look)
    if os.path.isdir("/proc/self/fd"):
        watcher.start()
    result = Project(".", ["pipeline.py"], executor="inline").get("scored")
    over.set()
    assert result.status == "success"
    print({"keys": most_keys, "rows": most_rows, "descriptors": most_descriptors, **done})
"""


def measured(project, processors: int = 2) -> dict[str, int]:
    """Most keys, rows and open files at a time; how often what was done in the dataset and its staging."""
    project.write("measured.py", MEASURED)
    done = subprocess.run(
        [sys.executable, "measured.py"],
        cwd=project.root,
        env={**os.environ, "POLARS_MAX_THREADS": str(processors)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ast.literal_eval(done.stdout)


@pytest.mark.parametrize("processors", [1, 2, 16])
def test_keys_pass_through_memory_some_at_a_time(project, processors):
    """However many keys a call returns, the rows and files of only so many are held at once."""
    text = PIPELINE.replace("{options}", "").replace("10_000", "2_500")
    project.write("pipeline.py", text)
    (project.root / "changed.json").write_text("{}")
    found = measured(project, processors)
    assert (found["keys"], found["rows"]) == (1_000, 1_000)
    assert found["descriptors"] < 64 + 64, "what Python, Polars and the ledger have open, and some files"
    # Polars makes the directory and the file of each key, which is renamed; all of them are flushed together
    assert found["rename"] - 2_500 in range(8)
    others = ("stat", "lstat", "mkdir", "replace", "unlink", "rmdir", "scandir", "listdir", "open")
    assert sum(found.get(name, 0) for name in others) < 100, found
    assert (found["write_tables"], found["flush_files"]) == (3, 1)


def test_rows_pass_through_memory_some_at_a_time(project, monkeypatch):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"r": partitions([f"{n:02d}" for n in range(40)])}, batch="all")
        @sink("out/")
        def scored(r: list[str]) -> pl.DataFrame:
            return pl.DataFrame({"r": [key for key in r for _ in range(100_000)]}).with_row_index("n")
        """,
    )
    found = measured(project)
    assert found["keys"] < 20
    assert found["rows"] <= 1_100_000  # about a million, and one key


@pytest.mark.slow
def test_ten_thousand_keys_in_one_delta_table(project):
    project.write("pipeline.py", PIPELINE.replace("{options}", ', format="delta"'))
    (project.root / "changed.json").write_text("{}")
    project.ran()
    (project.root / "changed.json").write_text('{"r00077": 2}')
    project.ran()
    found = pl.read_delta(str(project.root / "out"))
    assert found.height == found["r"].n_unique() == KEYS
    assert found.filter(pl.col("version") == 2)["r"].to_list() == ["r00077"]

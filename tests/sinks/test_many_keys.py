"""Ten thousand keys in one sink."""

from __future__ import annotations

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
def test_s5_ten_thousand_keys_then_one(project):
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
    assert project.ran() == {"versions": 1, "scored": 1}
    after = stamps(project.root / "out")
    assert [name for name in after if after[name] != before[name]] == ["r=r00077"]


TRACED = """
    import os
    from barca import Project
    listed = []
    for name in ("scandir", "listdir"):
        def spy(path=".", real=getattr(os, name)):
            listed.append(str(path))
            return real(path)
        setattr(os, name, spy)
    result = Project(".", ["pipeline.py"], executor="inline").get("scored")
    assert result.status == "success"
    print(sorted({path.partition("/out")[2] for path in listed if "/out" in path}))
"""


@pytest.mark.slow
def test_a_tick_lists_the_directory_that_it_replaces_and_no_other(project):
    project.write("pipeline.py", PIPELINE.replace("{options}", ""))
    (project.root / "changed.json").write_text("{}")
    project.ran()
    (project.root / "changed.json").write_text('{"r00077": 2}')
    project.write("traced.py", TRACED)
    done = subprocess.run(
        [sys.executable, "traced.py"], cwd=project.root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().splitlines()[-1] == "['/r=r00077']"


MEASURED = """
    import os, sys, threading
    import polars as pl
    from barca.io.sinks import dataset, writing
    from barca import Project
    most_rows, most_keys, most_open, most_descriptors = 0, 0, 0, 0
    being_written, lock, over = [], threading.Lock(), threading.Event()
    os.cpu_count = lambda: int(sys.argv[1])
    lay_out, collect = dataset.lay_out, writing._collect

    def watch(tables, *rest):
        global most_rows, most_keys
        most_rows = max(most_rows, sum(table.height for table in tables))
        most_keys = max(most_keys, len(tables))
        return lay_out(tables, *rest)

    def count(files):
        global most_open
        with lock:
            being_written.append(len(files))
            most_open = max(most_open, sum(being_written))
        try:
            return collect(files)
        finally:
            with lock:
                being_written.remove(len(files))

    def look():
        global most_descriptors
        while not over.wait(0.002):
            most_descriptors = max(most_descriptors, len(os.listdir("/proc/self/fd")))

    dataset.lay_out, writing._collect = watch, count
    watcher = threading.Thread(target=look)
    if os.path.isdir("/proc/self/fd"):
        watcher.start()
    result = Project(".", ["pipeline.py"], executor="inline").get("scored")
    over.set()
    assert result.status == "success"
    print(most_keys, most_rows, most_open, most_descriptors)
"""


def measured(project, processors: int = 2) -> list[int]:
    project.write("measured.py", MEASURED)
    done = subprocess.run(
        [sys.executable, "measured.py", str(processors)],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("processors", [1, 2, 16])
def test_keys_pass_through_memory_some_at_a_time(project, processors):
    """However many keys a call returns, the rows and files of only so many are held at once."""
    text = PIPELINE.replace("{options}", "").replace("10_000", "2_500")
    project.write("pipeline.py", text)
    (project.root / "changed.json").write_text("{}")
    keys, rows, files_at_once, descriptors = measured(project, processors)
    assert (keys, rows) == (1_000, 1_000)
    assert files_at_once <= 128, "of all threads together"
    assert descriptors < 128 + 64, "what Python, Polars and the ledger have open besides"


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
    keys, rows, *_ = measured(project)
    assert keys < 20
    assert rows <= 1_100_000  # about a million, and one key


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

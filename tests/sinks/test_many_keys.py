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
    real, listed = os.scandir, []
    os.scandir = lambda path=".": (listed.append(str(path)), real(path))[1]
    result = Project(".", ["pipeline.py"], executor="inline").get("scored")
    assert result.status == "success"
    print([path for path in listed if "/out" in path])
"""


@pytest.mark.slow
def test_a_tick_lists_no_directory_of_the_dataset(project):
    project.write("pipeline.py", PIPELINE.replace("{options}", ""))
    (project.root / "changed.json").write_text("{}")
    project.ran()
    (project.root / "changed.json").write_text('{"r00077": 2}')
    project.write("traced.py", TRACED)
    done = subprocess.run(
        [sys.executable, "traced.py"], cwd=project.root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().splitlines()[-1] == "[]"


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

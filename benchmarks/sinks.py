"""Measures what publishing costs: ten thousand keys, from one batched call, into a dataset and a Delta table.

    python benchmarks/sinks.py                            # prints the section of RESULTS.md

Each figure is a whole fresh process of the `barca` command, the median of a few, in seconds: `cold` stores
and publishes every key, `one key changed` one of them, `nothing changed` none. A run without a sink is what
the sink comes on top of. Each run is checked to have left every row in its sink.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

INTRODUCTION = """\
One batched call returns a row for each key, which is published to the sink named, a directory for each key in
the dataset. *Time* is the median, in seconds, of whole fresh processes; *without* is the same run without a
sink. *Bare* is a script that does nothing but write such rows as a Hive dataset with Polars, in place and
without waiting for the disk; *ratio* is the median of the times over those of the script just before.
"""
BARE = """\
import json, pathlib
import polars as pl

versions = json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())
rows = pl.DataFrame({"k": list(versions), "version": list(versions.values())})
rows.lazy().sink_parquet(pl.PartitionBy("bare/", key="k", include_key=False), mkdir=True, engine="streaming")
"""
PIPELINE = """\
import json, pathlib
import polars as pl
from barca import asset, partitions_from, sensor, sink

@sensor
def versions() -> dict:
    return json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())

@asset(partitions={{"k": partitions_from(versions)}}, batch="all")
{sink}
def scored(k: list[str], versions: dict) -> pl.DataFrame:
    return pl.DataFrame({{"k": k, "version": [versions[key] for key in k]}})
"""
SINKS = {"": "", "dataset": '@sink("out/")', "Delta table": '@sink("out/", format="delta")'}
PHASES = ("cold", "one key changed", "nothing changed")


def run(root: Path, *arguments: str) -> float:
    started = time.perf_counter()
    command = [sys.executable, *(arguments or ("-m", "barca", "get", "scored", "pipeline.py", "--json"))]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    assert done.returncode == 0, done.stderr
    return seconds


def check(root: Path, sink: str, keys: int, changed: int) -> None:
    if not sink:
        return
    if sink == "dataset":
        schema = {"k": pl.String}
        found = pl.scan_parquet(f"{root}/out/**/*.parquet", hive_partitioning=True, hive_schema=schema)
    else:
        found = pl.scan_delta(str(root / "out"))
    told = found.select(pl.col("k").n_unique(), rows=pl.len(), versions=pl.col("version").sum()).collect()
    assert told.row(0) == (keys, keys, keys + changed), told


def measure(sink: str, keys: int, root: Path) -> dict[str, float]:
    """Seconds by phase."""
    root.mkdir()
    (root / "barca.toml").touch()
    (root / "pipeline.py").write_text(PIPELINE.format(sink=SINKS[sink]))
    (root / "bare.py").write_text(BARE)
    versions = {f"r{number:07d}": 1 for number in range(keys)}
    seconds = {}
    for number, phase in enumerate(PHASES):
        versions["r0000000"] = 2 if number else 1
        (root / "versions.json").write_text(json.dumps(versions))
        if sink == "dataset" and not number:
            seconds["bare"] = run(root, "bare.py")
        seconds[phase] = run(root)
        check(root, sink, keys, changed=min(number, 1))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keys", type=int, default=10_000)
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {sink: [] for sink in SINKS}
    # files are deleted at the end only: for a while some file systems are slow to make new ones after that
    with tempfile.TemporaryDirectory() as directory:
        for number in range(options.repeat):
            for place, sink in enumerate(SINKS):
                found[sink].append(measure(sink, options.keys, Path(directory, f"{number}-{place}")))
        show(found, options.keys)


def show(found: dict[str, list[dict[str, float]]], keys: int) -> None:
    print(f"## Sinks\n\n{INTRODUCTION}")
    print("| keys | sink | what | time | from, to | without | bare | ratio |")
    print("|---:|---|---|---:|---:|---:|---:|---:|")
    for sink in SINKS:
        for phase in PHASES if sink else ():
            times = [seconds[phase] for seconds in found[sink]]
            without = statistics.median(seconds[phase] for seconds in found[""])
            spread = f"{min(times):.2f} to {max(times):.2f}"
            row = f"| {keys:,} | {sink} | {phase} | {statistics.median(times):.2f} | {spread} "
            print(f"{row}| {without:.2f} | {bare(found[sink], phase)} |")


def bare(rounds: list[dict[str, float]], phase: str) -> str:
    """Seconds of the bare script, and how many times as long the runs took: two cells."""
    if phase != PHASES[0] or "bare" not in rounds[0]:
        return " | "
    ratio = statistics.median(seconds[phase] / seconds["bare"] for seconds in rounds)
    return f"{statistics.median(seconds['bare'] for seconds in rounds):.2f} | {ratio:.2f}"


if __name__ == "__main__":
    main()

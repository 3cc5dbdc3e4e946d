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
sink.
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


def run(root: Path) -> float:
    started = time.perf_counter()
    command = [sys.executable, "-m", "barca", "get", "scored", "pipeline.py", "--json"]
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


def measure(sink: str, keys: int) -> dict[str, float]:
    """Seconds by phase."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "barca.toml").touch()
        (root / "pipeline.py").write_text(PIPELINE.format(sink=SINKS[sink]))
        versions = {f"r{number:07d}": 1 for number in range(keys)}
        seconds = {}
        for number, phase in enumerate(PHASES):
            versions["r0000000"] = 2 if number else 1
            (root / "versions.json").write_text(json.dumps(versions))
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
    found = {sink: [measure(sink, options.keys) for _ in range(options.repeat)] for sink in SINKS}
    print(f"## Sinks\n\n{INTRODUCTION}")
    print("| keys | sink | what | time | from, to | without |")
    print("|---:|---|---|---:|---:|---:|")
    for sink in SINKS:
        for phase in PHASES if sink else ():
            times = [seconds[phase] for seconds in found[sink]]
            without = statistics.median(seconds[phase] for seconds in found[""])
            spread = f"{min(times):.2f} to {max(times):.2f}"
            print(
                f"| {options.keys:,} | {sink} | {phase} | {statistics.median(times):.2f} | {spread} "
                f"| {without:.2f} |"
            )


if __name__ == "__main__":
    main()

"""Measures what a tick costs: one process, one key changed each time, thousands of times.

    python benchmarks/ticks.py --ticks 1000                  # prints the section of RESULTS.md

Every tick is checked to have run the source and the changed key of both assets, and nothing else. The source
only reads a file; what that takes is part of a tick, and told beside it.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from barca import Project

HERE = Path(__file__).parent
EVERY = 10
"""After so many ticks reading the versions is timed once."""
READERS_SECONDS = 61
"""So long `gc` leaves replaced files of the ledger to those who may be reading them."""
INTRODUCTION = """\
One process, whose steps run in it, computes `scored` of the chain of tables again and again; before each tick
the version of one key changes. *Time* is the median over the last ticks of each row, in seconds, *source*
that of reading the versions between them, which is what the source does, and *beyond* the difference.
*Bare* is the bare script as a process of its own, for the pace of the machine at that moment. *Memory* is
resident, *ledger* and *packs* what lies on the disk; the last row is after `gc`, and another a minute later,
which deletes what was just replaced, with growth per tick since the first row.
"""


def resident_mb() -> float:
    """Resident memory of this process."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def seconds_of(action: Callable[[], object]) -> float:
    """What an action takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def megabytes(directory: Path) -> float:
    """What files below a directory hold."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file()) / 1e6


class Ticking:
    """A project, ticked."""

    def __init__(self, root: Path, keys: int) -> None:
        shutil.copy(HERE / "chain_tables" / "pipeline.py", root)
        (root / "barca.toml").touch()
        self.file = root / "versions.json"
        self.store = root / ".barca"
        self.versions = {f"d{number:06d}": "2026-01-01T00:00:00" for number in range(keys)}
        self.project = Project(root, executor="inline")
        self.seconds: list[float] = []
        self.source: list[float] = []

    def tick(self, number: int) -> None:
        """Change a key and compute."""
        changed = f"d{number * 7919 % len(self.versions):06d}"
        self.versions[changed] = f"2026-02-01T00:00:{number:06d}"
        self.file.write_text(json.dumps(self.versions))
        begin = time.perf_counter()
        result = self.project.get("scored")
        self.seconds.append(time.perf_counter() - begin)
        steps = result.to_dict()["steps_executed"]
        wanted = 3 if number else 1 + 2 * len(self.versions)
        assert steps == wanted, f"tick {number}: {steps} instead of {wanted}"
        if number % EVERY == 0:
            self.source.append(seconds_of(lambda: json.loads(self.file.read_text())))

    def bare(self) -> None:
        """The bare script with these versions."""
        with tempfile.TemporaryDirectory() as name:
            subprocess.run([sys.executable, HERE / "bare.py", self.file, name], check=True)

    def row(self, label: str, last: int) -> str:
        """A line of the table over the last ticks."""
        packs = [file.stat().st_size for file in (self.store / "artifacts").rglob("*.parquet")]
        tick = statistics.median(self.seconds[-last:])
        source = statistics.median(self.source[-max(1, last // EVERY) :])
        cells = [
            label,
            *(f"{seconds:.3f}" for seconds in (tick, source, tick - source, seconds_of(self.bare))),
            f"{resident_mb():.0f} MB",
            f"{megabytes(self.store / 'ledger'):.1f} MB",
            f"{len(packs):,}, {sum(packs) / 1e6:.1f} MB",
        ]
        return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ticks", type=int, default=1_000)
    parser.add_argument("--keys", type=int, default=200_000)
    options = parser.parse_args()
    print(f"## Ticks\n\n{INTRODUCTION}")
    print(f"{options.keys:,} keys.\n")
    print("| ticks | time | source | beyond | bare | memory | ledger | packs |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        ticking = Ticking(Path(name), options.keys)
        ticking.tick(0)
        print(ticking.row("cold", 1), flush=True)
        first = megabytes(ticking.store / "ledger")
        part = max(1, options.ticks // 5)
        for number in range(1, options.ticks + 1):
            ticking.tick(number)
            if number % part == 0:
                print(ticking.row(f"{number:,}", part), flush=True)
        ticking.project.gc()
        time.sleep(READERS_SECONDS)
        ticking.project.gc()
        growth = (megabytes(ticking.store / "ledger") - first) * 1000 / options.ticks
        print(ticking.row(f"after `gc`: {growth:.1f} kB of ledger a tick", 1))
        os.chdir("/")


if __name__ == "__main__":
    main()

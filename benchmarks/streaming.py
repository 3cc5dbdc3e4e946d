"""Measures a result that is larger than memory: 50 kB for each of many keys, from one streamed call.

    python benchmarks/streaming.py                           # prints the section of RESULTS.md

All processes of a run together may have 2 GB of memory, where the kernel lets a control group be made (on
Linux, as root); a process that held its result would be killed. Each run is checked to have stored every row.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import polars as pl

import barca

LIMIT = 2 * 1024**3
"""Bytes of memory a run may have."""
GROUPS = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))
"""Where control groups are made and what limits their memory, in the second and first version of them."""
ROWS = 50
"""Rows of a key, of a kilobyte each."""
INTRODUCTION = """\
One call over all keys, `batch="all"` with `engine="streaming"`, answers with a LazyFrame of 50 kB a key. The
processes of a run {limited}; *peak* is the memory of the largest. *Bare* is the same
query written to one file by Polars' streaming engine, which groups nothing by key; it may have all it wants.
"""
PIPELINE = """\
from pathlib import Path
import polars as pl
from barca import asset, partitions

READINGS = Path(__file__).with_name("readings.parquet")

KEYS = partitions([f"k{{number:06d}}" for number in range({keys})])

@asset(partitions={{"k": KEYS}}, batch="all", engine="streaming")
def wide(k: list[str]) -> pl.LazyFrame:
    return rows().filter(pl.col("k").is_in(k))

def rows() -> pl.LazyFrame:
    mark = pl.concat_str("k", pl.col("n").cast(pl.String)).hash(7).cast(pl.String).str.pad_start(20, "0")
    return pl.scan_parquet(READINGS).with_columns(text=mark + pl.lit("x" * 980))
"""
BARE = 'import pipeline\npipeline.rows().sink_parquet("bare.parquet", engine="streaming")\n'


def write_readings(path: Path, keys: int) -> None:
    """What the table is made of: rows in the order of their keys."""
    number = pl.int_range(keys * ROWS, eager=True)
    key = pl.lit("k") + (pl.col("number") // ROWS).cast(pl.String).str.pad_start(6, "0")
    rows = pl.LazyFrame({"number": number}).select(k=key, n=pl.col("number") % ROWS)
    rows.sink_parquet(path, row_group_size=20_000, engine="streaming")


def make_group() -> Path | None:
    """A control group whose processes have the limited memory; `None` where none can be made."""
    for place, limit in GROUPS:
        group = Path(place, f"barca-{os.getpid()}")
        with suppress(OSError):
            group.mkdir()
            if (group / limit).exists():  # the kernel's, not a directory like any other
                (group / limit).write_text(str(LIMIT))
                return group
            group.rmdir()
    return None


def run(root: Path, *arguments: str, group: Path | None = None) -> tuple[float, float]:
    """Seconds, and the megabytes of the largest process."""
    command = [sys.executable, *arguments]
    if group is not None:
        command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "-", *command]
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        assert process.returncode == 0, errors.read().decode()
    return seconds, usage.ru_maxrss / 1024


def measure(keys: int, root: Path, group: Path | None) -> str:
    """A line of the table."""
    (root / "barca.toml").touch()
    (root / "pipeline.py").write_text(PIPELINE.format(keys=keys))
    (root / "bare.py").write_text(BARE)
    write_readings(root / "readings.parquet", keys)
    bare_seconds, bare_peak = run(root, "bare.py")
    seconds, peak = run(root, "-m", "barca", "get", "wide", "pipeline.py", "--json", group=group)
    stored = barca.Project(root, executor="inline").scan("wide")
    rows, distinct = stored.select(pl.len(), pl.col("k").n_unique()).collect(engine="streaming").row(0)
    assert (rows, distinct) == (keys * ROWS, keys), (rows, distinct)
    packs = list((root / ".barca" / "artifacts").rglob("*.parquet"))
    disk = sum(pack.stat().st_size for pack in packs) / 1e6
    cells = [
        f"{keys:,}",
        f"{keys * ROWS / 1e6:.1f} GB",
        f"{seconds:.1f}",
        f"{peak:.0f} MB",
        f"{bare_seconds:.1f}",
        f"{bare_peak:.0f} MB",
        f"{len(packs)}, {disk:.0f} MB",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, nargs="+", default=[2_000, 20_000, 120_000])
    options = parser.parse_args()
    group = make_group()
    limited = "together may have 2 GB of memory" if group is not None else "are not limited"
    print(f"## Larger than memory\n\n{INTRODUCTION.format(limited=limited)}")
    print("| keys | result | time | peak | bare | bare peak | packs |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for keys in options.keys:
        with tempfile.TemporaryDirectory() as directory:
            print(measure(keys, Path(directory), group), flush=True)
    if group is not None:
        group.rmdir()


if __name__ == "__main__":
    main()

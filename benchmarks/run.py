"""Measures a chain of three steps (keyed source, `cleaned`, `scored`) beside a bare Polars script.

    python benchmarks/run.py --readme README.md               # all, into benchmarks/RESULTS.md and the README
    python benchmarks/run.py --keys 2000 --forms all --repeat 1 --out /dev/stdout

Every figure is a whole fresh process, from its start to its exit, and every process is checked to have run
exactly the keys it should: a figure for other work is worth nothing, so the script fails then.

It imports neither barca nor Polars: a child starts with its parent's peak memory on its account.
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from report import render, summary

HERE = Path(__file__).parent
FORMS = {
    "unbatched": ("chain_values", ()),
    "1000": ("chain_tables", ("--batch", "1000")),
    "all": ("chain_tables", ("--batch", "all")),
}
"""Form to its pipeline and the options of its commands."""
TEN = 10
"""Keys of the phase that selects some."""
SECTIONS = ("planning", "ticks", "sinks", "streaming")
SIZED = ("planning", "ticks")
"""Further scripts of this directory whose output ends the page; those that take a number of keys."""
LARGE = 1_000_000
"""From so many keys on only the form `all` is measured, and fewer times."""
MARKS = ("<!-- measured: written by benchmarks/run.py -->", "<!-- /measured -->")
"""Where a README takes the summary."""
LEFT_OUT = ("BARCA_", "GROCERY_", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED")
"""Variables that processes do not get: settings, other code, what makes each start compile every module."""


@dataclass(frozen=True)
class Process:
    """One process that ended: seconds, peak memory of its largest process in MB, and what it printed."""

    seconds: float
    peak_mb: float
    output: str


@dataclass(frozen=True)
class Row:
    """One line of the table: times of all repeats, the bare script's beside each, the rest of the last."""

    keys: int
    form: str
    phase: str
    seconds: list[float]
    beside: list[float]
    peak_mb: float
    calls: int | None
    files: int
    disk_mb: float

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def ratio(self) -> float:
        """To the bare script, which ran in turns with it: the pace of a machine changes over the day."""
        return self.median / statistics.median(self.beside)


def run(command: list[str], directory: Path) -> Process:
    """Runs a command to its end.

    Raises:
        SystemExit: It failed; its errors are printed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            sys.exit(f"{' '.join(command)} ended with {process.returncode}\n{errors.read().decode()}")
        unit = 1024**2 if sys.platform == "darwin" else 1024
        return Process(seconds, usage.ru_maxrss / unit, output.read().decode())


def on_disk(directory: Path) -> tuple[int, float]:
    """Files below a directory, and the megabytes they occupy."""
    sizes = [
        (Path(where) / name).stat().st_blocks * 512
        for where, _, names in os.walk(directory)
        for name in names
    ]
    return len(sizes), sum(sizes) / 1e6


def write_versions(path: Path, keys: int, changed: int) -> None:
    """A version per key; in the `changed`-th generation one key differs from the generation before."""
    versions = {f"d{number:06d}": "2026-01-01T00:00:00" for number in range(keys)}
    for generation in range(1, changed + 1):
        versions[f"d{generation * 7919 % keys:06d}"] = f"2026-02-01T00:00:{generation:02d}"
    path.write_text(json.dumps(versions))


def calls_of(result: dict) -> int:
    """Calls of functions that a run made, as its JSON tells."""
    calls = 0
    for step in result["steps"]:
        if step["status"] in ("ran", "partial"):
            keys = step.get("partitions", {}).get("will_run", 1)
            calls += step["batch"]["calls"] if step.get("batch") else keys
    return calls


def check(form: str, phase: str, found: int, wanted: int) -> None:
    """Stops the benchmark when a process did not run what it should."""
    if found != wanted:
        sys.exit(f"{form}, {phase}: {found} instead of {wanted}")


def expected_calls(form: str, keys: int) -> int:
    """Calls that run `keys` keys of both assets, and the source."""
    size = {"unbatched": 1, "1000": 1000, "all": keys}[form]
    return 1 + 2 * -(-keys // size)


class Bare:
    """The bare script, with a version per key as they are in the beginning."""

    def __init__(self, keys: int, directory: Path) -> None:
        self.keys, self.directory, self.output = keys, directory, directory / "output"
        self.output.mkdir()
        write_versions(directory / "versions.json", keys, 0)

    def run(self) -> Process:
        versions = self.directory / "versions.json"
        return run([sys.executable, str(HERE / "bare.py"), str(versions), str(self.output)], self.directory)

    def row(self, repeat: int) -> Row:
        processes = [self.run() for _ in range(repeat)]
        seconds = [process.seconds for process in processes]
        peak = max(process.peak_mb for process in processes)
        return Row(self.keys, "bare Polars", "", seconds, seconds, peak, None, *on_disk(self.output))


class Chain:
    """One project directory with the chain in it."""

    def __init__(self, barca: str, directory: Path, form: str, bare: Bare) -> None:
        pipeline, self.options = FORMS[form]
        self.barca, self.directory, self.form, self.keys = barca, directory, form, bare.keys
        self.bare = bare
        self.beside: list[float] = []
        self.generation = 0
        shutil.copy(HERE / pipeline / "pipeline.py", directory)
        (directory / "barca.toml").touch()
        write_versions(directory / "versions.json", self.keys, 0)

    def get(self, *extra: str) -> Process:
        return self.command("get", "scored", "pipeline.py", "--json", *self.options, *extra)

    def command(self, *words: str) -> Process:
        """Runs the bare script, then a command of barca."""
        self.beside.append(self.bare.run().seconds)
        return run([self.barca, *words], self.directory)

    def forget(self) -> None:
        shutil.rmtree(self.directory / ".barca", ignore_errors=True)

    def change_one(self) -> None:
        self.generation += 1
        write_versions(self.directory / "versions.json", self.keys, self.generation)

    def measure(self, phase: str, prepare: Callable[[], None], changed: int, repeat: int) -> Row:
        """One phase: `changed` keys of each asset must run, in the calls the form gives them."""
        processes, calls = [], 0
        for _ in range(repeat):
            prepare()
            process = self.get()
            result = json.loads(process.output)
            calls = calls_of(result)
            check(self.form, f"{phase}: keys that ran", result["steps_executed"], 1 + 2 * changed)
            check(self.form, f"{phase}: calls", calls, expected_calls(self.form, changed) if changed else 1)
            processes.append(process)
        return self.row(phase, processes, calls)

    def measure_status(self, repeat: int) -> Row:
        processes = [self.command("status", "pipeline.py", "--json") for _ in range(repeat)]
        nodes = json.loads(processes[-1].output)["nodes"]
        cached = sum((node["partitions"] or {}).get("cached", 0) for node in nodes)
        check(self.form, "status: keys cached", cached, 2 * self.keys)
        return self.row("status", processes, None)

    def measure_selected(self, repeat: int) -> Row:
        keys = ",".join(f"d{number:06d}" for number in range(TEN))
        processes = [self.get("--partition", f"device={keys}") for _ in range(repeat)]
        result = json.loads(processes[-1].output)
        check(self.form, "selected: keys that ran", result["steps_executed"], 1)
        check(self.form, "selected: keys cached", result["steps_cached"], 2 * TEN)
        return self.row("ten keys selected", processes, 1)

    def measure_dry_run(self, repeat: int) -> Row:
        before = on_disk(self.directory / ".barca")
        processes = [self.get("--dry-run") for _ in range(repeat)]
        summary = json.loads(processes[-1].output)["summary"]
        check(self.form, "dry run: keys cached", summary["cached"], 2 * self.keys)
        check(self.form, "dry run: files", on_disk(self.directory / ".barca")[0], before[0])
        return self.row("dry run", processes, None)

    def row(self, phase: str, processes: list[Process], calls: int | None) -> Row:
        files, megabytes = on_disk(self.directory / ".barca")
        beside, self.beside = self.beside, []
        return Row(
            self.keys,
            self.form,
            phase,
            [process.seconds for process in processes],
            beside,
            max(process.peak_mb for process in processes),
            calls,
            files,
            megabytes,
        )


def measure_form(barca: str, form: str, bare: Bare, directory: Path, repeat: int) -> Iterator[Row]:
    """The phases of one form, in an order that leaves each the state it needs."""
    project = directory / form
    project.mkdir()
    chain = Chain(barca, project, form, bare)
    yield chain.measure("cold", chain.forget, bare.keys, repeat)
    if FORMS[form][0] == "chain_tables":
        run([sys.executable, str(HERE / "compare.py"), str(project), str(directory / "output")], directory)
    yield chain.measure("nothing changed", lambda: None, 0, repeat)
    yield chain.measure("one key changed", chain.change_one, 1, repeat)
    yield chain.measure_dry_run(repeat)
    yield chain.measure_status(repeat)
    yield chain.measure_selected(repeat)


def warm_up(barca: str) -> None:
    """Runs everything once at a small size, so that modules are compiled and in the file cache."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        bare = Bare(100, directory)
        for form in FORMS:
            (directory / form).mkdir()
            Chain(barca, directory / form, form, bare).get()


def measure(keys: list[int], forms: list[str], repeat: int) -> Iterator[Row]:
    """Every row, size by size."""
    barca = shutil.which("barca", path=str(Path(sys.executable).parent)) or shutil.which("barca")
    if barca is None:
        sys.exit("the barca command is not installed: pip install .")
    warm_up(barca)
    for size in keys:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            times = repeat if size < LARGE else max(1, repeat // 2)
            bare = Bare(size, directory)
            yield bare.row(max(times, 3))
            for form in forms if size < LARGE else ["all"]:
                yield from measure_form(barca, form, bare, directory, times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, nargs="+", default=[2_000, 10_000, 20_000, 200_000, 2_000_000])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--repeat", type=int, default=3, help="processes per figure; the median is shown")
    parser.add_argument("--sections", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    parser.add_argument("--readme", type=Path, help="also write a summary between this file's marks")
    options = parser.parse_args()
    rows = []
    for row in measure(options.keys, options.forms, options.repeat):
        print(
            f"{row.keys:>8} {row.form:<12} {row.phase:<16} {row.median:7.2f} s {row.peak_mb:6.0f} MB",
            flush=True,
        )
        rows.append(row)
    pages = [render(rows, sys.argv[1:])]
    for name in options.sections:
        size = [f"--keys={max(size for size in options.keys if size < LARGE)}"] if name in SIZED else []
        pages.append(run([sys.executable, str(HERE / f"{name}.py"), *size], HERE).output)
    options.out.write_text("\n".join(pages))
    if options.readme:
        head, begin, rest = options.readme.read_text().partition(MARKS[0])
        tail = "".join(rest.partition(MARKS[1])[1:])
        options.readme.write_text(f"{head}{begin}\n\n{summary(rows)}\n\n{tail}")


if __name__ == "__main__":
    main()

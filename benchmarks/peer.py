"""Measures the chain beside the other edition of barca, the one that PyPI has under the name.

    python benchmarks/peer.py --keys 10000                   # prints the section of RESULTS.md

It makes a virtual environment for the other edition, which has the same import name, and runs the pipeline of
plain values, one call a key, with both in turns. Its first run of 200,000 keys takes the better part of an
hour; `--peer DIRECTORY` goes on with a project in which it has run.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from run import HERE, Process, on_disk, run, write_versions

RELEASE = "barca[parquet]==0.33.0"
COMMANDS = {
    "nothing changed": ("get", "scored", "pipeline.py", "--json"),
    "one key changed": ("get", "scored", "pipeline.py", "--json"),
    "dry run": ("get", "scored", "pipeline.py", "--dry-run", "--json"),
    "status": ("status", "pipeline.py", "--json"),
}
INTRODUCTION = """\
The chain of plain values, one call a key, on this barca and on release {release} of the other edition, whole
fresh processes in turns: medians, in seconds, and the memory of the largest process.
"""


class Tool:
    """One of the two, with a project of its own."""

    def __init__(self, command: Path, directory: Path, keys: int) -> None:
        self.command, self.directory, self.keys, self.changes = command, directory, keys, 0
        directory.mkdir(exist_ok=True)
        shutil.copy(HERE / "chain_values" / "pipeline.py", directory)
        (directory / "barca.toml").touch()
        self.cold: Process | None = None
        if not (directory / ".barca").exists():
            write_versions(directory / "versions.json", keys, 0)
            self.cold = self.run("get", "scored", "pipeline.py", "--json")
            self.check(self.cold, 1 + 2 * keys)

    def run(self, *arguments: str) -> Process:
        return run([str(self.command), *arguments], self.directory)

    def check(self, process: Process, steps: int) -> None:
        found = json.loads(process.output)["steps_executed"]
        if found != steps:
            sys.exit(f"{self.command}: {found} steps instead of {steps}")

    def phase(self, name: str, generation: int) -> Process:
        write_versions(self.directory / "versions.json", self.keys, generation)
        process = self.run(*COMMANDS[name])
        if COMMANDS[name][0] == "get" and "--dry-run" not in COMMANDS[name]:
            self.check(process, 3 if name == "one key changed" else 1)
        return process


def install(directory: Path, python: str) -> Path:
    """The other edition's command, in an environment of its own."""
    subprocess.run([python, "-m", "venv", str(directory)], check=True)
    subprocess.run([str(directory / "bin" / "pip"), "install", "-q", RELEASE, "polars"], check=True)
    return directory / "bin" / "barca"


def line(what: str, ours: list[Process], theirs: list[Process]) -> str:
    cells = []
    for processes in (ours, theirs):
        seconds = statistics.median(process.seconds for process in processes)
        cells += [f"{seconds:.2f}", f"{max(process.peak_mb for process in processes):.0f} MB"]
    ratio = statistics.median(one.seconds / other.seconds for one, other in zip(ours, theirs, strict=True))
    return f"| {what} | {' | '.join(cells)} | {ratio:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--python", default="python3.12", help="makes the other edition's environment")
    parser.add_argument("--command", type=Path, help="the other edition's command, where it is installed")
    parser.add_argument("--peer", type=Path, help="a project in which the other edition has run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        theirs = Tool(
            options.command or install(directory / "venv", options.python),
            options.peer or directory / "peer",
            options.keys,
        )
        ours = Tool(Path(sys.executable).with_name("barca"), directory / "barca", options.keys)
        print(f"## Beside the other edition\n\n{INTRODUCTION.format(release=RELEASE.partition('==')[2])}")
        print(f"| {options.keys:,} keys | barca | memory | other | memory | ratio |")
        print("|---|---:|---:|---:|---:|---:|")
        if ours.cold and theirs.cold:
            print(line("cold", [ours.cold], [theirs.cold]), flush=True)
        generation = 0
        for what in COMMANDS:
            rounds = []
            for _ in range(options.repeat):
                generation += what == "one key changed"
                rounds.append([tool.phase(what, generation) for tool in (ours, theirs)])
            print(line(what, *map(list, zip(*rounds, strict=True))), flush=True)
        files = [on_disk(tool.directory / ".barca") for tool in (ours, theirs)]
        told = [f"{count:,}, {size:,.0f} MB |" for count, size in files]
        print(f"| files on disk | {told[0]} | {told[1]} | |")


if __name__ == "__main__":
    main()

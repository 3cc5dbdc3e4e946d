"""Renders the rows of `run.py` as Markdown: the machine, the versions, the command, and a table per size."""

import os
import platform
import shlex
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby, pairwise
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from run import Row

INTRODUCTION = """\
# Results

A chain of three steps, a source of one version per key, `cleaned` and `scored`, in three forms:
`unbatched` calls the functions once per key with plain values; `1000` and `all` call them with at most a
thousand keys, or with every key that must run, and tables. `bare Polars` is a script that computes the
same tables, remembers nothing and writes one file per step: it is what recomputing everything costs.

Every figure is a whole fresh process of the `barca` command, interpreter start included. *Time* is the
median, in seconds, and *ratio* is to the median of the bare script of the same size, which runs in turns
with what is measured: a ratio travels better than a time, between machines and from hour to hour. *Peak*
is the memory of the largest process. *Calls* counts calls of the three functions, *files* and *disk* what
is under `.barca` afterwards. Each run is checked to have executed exactly the keys it should have.
"""


def machine() -> str:
    """Processor, cores, memory and system, as far as they can be read."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, {memory:.0f} GB, {platform.system()}, Python {platform.python_version()}"


def line(row: "Row") -> str:
    """One line of a table."""
    spread = f"{min(row.seconds):.2f} to {max(row.seconds):.2f}" if len(row.seconds) > 1 else ""
    cells = [
        row.form,
        row.phase,
        f"{row.median:.2f}",
        spread,
        f"{row.ratio:.2f}",
        f"{row.peak_mb:.0f} MB",
        "" if row.calls is None else f"{row.calls:,}",
        f"{row.files:,}",
        f"{row.disk_mb:.1f} MB",
    ]
    return f"| {' | '.join(cells)} |"


def render(rows: "Sequence[Row]", arguments: "Sequence[str]") -> str:
    """The whole page."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("barca", "polars", "deltalake"))
    parts = [
        INTRODUCTION,
        f"Machine: {machine()}. Versions: {packages}.\n",
        f"Measured on {datetime.now(UTC):%Y-%m-%d}. Repeat it with\n",
        f"```bash\n{shlex.join(['python', 'benchmarks/run.py', *arguments])}\n```\n",
    ]
    for keys, group in groupby(rows, key=lambda row: row.keys):
        parts += [
            f"## {keys:,} keys\n",
            "| form | what | time | from, to | ratio | peak | calls | files | disk |\n"
            "|---|---|---:|---:|---:|---:|---:|---:|---:|\n" + "\n".join(map(line, group)) + "\n",
        ]
    return "\n".join([*parts, *growth(rows)])


def growth(rows: "Sequence[Row]") -> list[str]:
    """How times grow from size to size, as exponents of the number of keys; nothing for a single size."""
    sizes = list[int]()
    for size in sorted({row.keys for row in rows}):
        if not sizes or size >= 10 * sizes[-1]:
            sizes.append(size)
    if len(sizes) < 2:
        return []
    found = {(row.form, row.phase, row.keys): row.median for row in rows}
    steps = list(pairwise(sizes))
    lines = [
        "## Growth\n",
        "The exponent *e* for which a time grows as keys^*e* between two sizes; 1 is proportional.\n",
        "| form | what | " + " | ".join(f"{low:,} to {high:,}" for low, high in steps) + " |",
        "|---|---|" + "---:|" * len(steps),
    ]
    for form, phase in dict.fromkeys((row.form, row.phase) for row in rows):
        exponents = [
            f"{log(found[form, phase, high] / found[form, phase, low]) / log(high / low):.2f}"
            if (form, phase, high) in found
            else ""
            for low, high in steps
        ]
        lines.append(f"| {form} | {phase} | {' | '.join(exponents)} |")
    return [*lines, ""]


def summary(rows: "Sequence[Row]") -> str:
    """The table of the README: the largest size that was measured in most forms, a column per form."""
    sizes = {row.keys: len({one.form for one in rows if one.keys == row.keys}) for row in rows}
    keys = max(size for size, forms in sizes.items() if forms == max(sizes.values()))
    found = {(row.form, row.phase): row for row in rows if row.keys == keys}
    bare = next(row for (form, _), row in found.items() if form == "bare Polars")
    forms = list(dict.fromkeys(form for form, phase in found if phase))
    phases = list(dict.fromkeys(phase for _, phase in found if phase))
    lines = [
        f"| {keys:,} keys, three steps | {' | '.join(forms)} |",
        f"|---|{'---:|' * len(forms)}",
    ]
    for phase in phases:
        cells = [f"{row.median:.1f} s ({row.ratio:.1f}x)" for row in (found[form, phase] for form in forms)]
        lines.append(f"| {phase} | {' | '.join(cells)} |")
    cold = [found[form, phases[0]] for form in forms]
    counts = [f"{row.calls:,}, {row.files:,}, {row.disk_mb:.0f} MB" for row in cold]
    lines += [
        f"| peak memory, cold | {' | '.join(f'{row.peak_mb:.0f} MB' for row in cold)} |",
        f"| calls, files and disk, cold | {' | '.join(counts)} |",
    ]
    note = (
        f"The bare Polars script took {bare.median:.1f} s and {bare.peak_mb:.0f} MB; `x` is the ratio "
        "to it, taken in turns."
    )
    return "\n".join([*lines, "", note])

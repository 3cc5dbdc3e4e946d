"""What a project stands on: Python and its libraries, the disk, what killed runs left behind."""

from __future__ import annotations

import os
import platform
import re
import shutil
import uuid
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import plural
from barca.io.leftovers import STAGING_PREFIX, leftovers
from barca.io.locks import LOCKS
from barca.io.storage import flush_directory, flush_file

if TYPE_CHECKING:
    from pathlib import Path

LIBRARIES: Final = ("barca", "polars", "deltalake", "fsspec", "pyarrow", "pandas", "duckdb")
"""Distributions whose versions are told; of those that barca requires, too old ones are found."""

LITTLE_BYTES: Final = 256 << 20
"""A disk with less room than this is as good as full."""

_LEAST: Final = re.compile(r"^([A-Za-z0-9_-]+)\s*>=\s*([0-9.]+)")


def versions() -> dict[str, str | None]:
    """Of Python and of each library, its version; `None` where it is not installed."""
    told: dict[str, str | None] = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            told[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            told[name] = None
    return told


def too_old(found: dict[str, str | None]) -> list[str]:
    """What barca requires and does not find: `polars 1.9, at least 2.1 is needed`."""
    try:
        required = metadata.requires("barca") or []
    except metadata.PackageNotFoundError:  # run from its source
        return []
    wrong = []
    for requirement in required:
        match = None if ";" in requirement else _LEAST.match(requirement)
        if match and match[1] in found:
            there = found[match[1]]
            if there is None or _numbers(there) < _numbers(match[2]):
                wrong.append(f"{match[1]} {there or 'is missing'}, at least {match[2]} is needed")
    return wrong


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.split("+", maxsplit=1)[0])[:3]]


def try_to_write(store: Path) -> str:
    """Do in the store's directory what a run does there, and clean up: write, flush, link, rename, read.

    Returns:
        What the file system lacks that barca can do without; empty where it lacks nothing.

    Raises:
        OSError: It refused.
    """
    made = [path for path in (store, store.parent) if not path.exists()]
    store.mkdir(parents=True, exist_ok=True)
    probe = store / f"{STAGING_PREFIX}{os.getpid()}-{uuid.uuid4().hex}"
    other = probe.with_name(f"{probe.name}-2")
    lacks = [] if LOCKS else ["locks on files"]
    try:
        probe.write_bytes(b"barca" * 1000)
        flush_file(probe)
        try:
            os.link(probe, other)
        except OSError:
            lacks.append("hard links")
        probe.replace(other)
        flush_directory(store)
        if other.read_bytes() != b"barca" * 1000:
            raise OSError("what was written is not what is read")
    finally:
        probe.unlink(missing_ok=True)
        other.unlink(missing_ok=True)
        with suppress(OSError):  # a run has something in it by now
            for path in made:
                path.rmdir()
    return " and ".join(lacks)


def room(store: Path) -> tuple[int, int]:
    """Free bytes of the disk of a directory that need not be there yet, and its size."""
    there = next(path for path in (store, *store.parents) if path.exists())
    usage = shutil.disk_usage(there)
    return usage.free, usage.total


def remains(store: Path, markers: pl.DataFrame) -> str:
    """What killed runs left behind, in words; empty where there is nothing.

    Args:
        store: The `.barca` directory.
        markers: `io.runs.MARKERS`.
    """
    told = []
    killed = markers.filter(~pl.col("alive")).height
    if killed:
        told.append(f"{plural(killed, 'run')} killed, see `barca history --status interrupted`")
    foreign = markers.filter(pl.col("alive").is_null())
    if foreign.height:
        hosts = ", ".join(foreign.get_column("host").unique().sort().drop_nulls())
        first = foreign.item(0, "run_id")
        told.append(
            f"{plural(foreign.height, 'run')} of {hosts}, for which `barca gc` waits: "
            f"delete `runs/{first}.json` if it has ended there"
        )
    if files := len(leftovers(store)):
        told.append(f"{plural(files, 'unfinished file')} of killed writers")
    return "; ".join(told)


def environment_check() -> dict[str, Any]:
    """The versions as one check: `ok`, `detail`, `versions`."""
    found = versions()
    wrong = too_old(found)
    there = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    return {"ok": not wrong, "detail": "; ".join([*wrong, there]), "versions": found}

"""A source of keys and its reader, as a module that was imported."""

from pathlib import Path

from barca import asset, partitions_from

ROOT = Path(__file__).parents[2]


@asset
def listed() -> list:
    return ["a", "b"]


@asset(partitions={"k": partitions_from(listed)})
def each(k: str) -> str:
    return k

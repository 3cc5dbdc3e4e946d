"""The chain with many keys a call: each function takes the keys of its call and returns one table."""

import json
from pathlib import Path

import polars as pl

from barca import asset, partitions_from, sensor


@sensor()
def versions() -> dict[str, str]:
    return json.loads(Path(__file__).with_name("versions.json").read_text())


@asset(partitions={"device": partitions_from(versions)}, batch="all")
def cleaned(device: list[str], versions: dict[str, str]) -> pl.DataFrame:
    number = pl.col("device").str.slice(1).cast(pl.Int64)
    return pl.DataFrame({"device": device, "version": [versions[key] for key in device]}).with_columns(
        level=(pl.col("version").str.len_bytes() + number % 97).cast(pl.Float64)
    )


@asset(partitions={"device": partitions_from(cleaned)}, batch="all")
def scored(device: list[str], cleaned: pl.LazyFrame) -> pl.LazyFrame:
    return cleaned.group_by("device").agg(score=pl.col("level").sum() * 0.5)

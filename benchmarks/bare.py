"""The floor: the same chain as one Polars script that remembers nothing and writes one file per step.

python benchmarks/bare.py VERSIONS.json OUTPUT_DIRECTORY
"""

import json
import sys
from pathlib import Path

import polars as pl

source, output = (Path(argument) for argument in sys.argv[1:])
versions = json.loads(source.read_text())
number = pl.col("device").str.slice(1).cast(pl.Int64)
cleaned = pl.DataFrame({"device": list(versions), "version": list(versions.values())}).with_columns(
    level=(pl.col("version").str.len_bytes() + number % 97).cast(pl.Float64)
)
cleaned.write_parquet(output / "cleaned.parquet")
scored = pl.scan_parquet(output / "cleaned.parquet").group_by("device").agg(score=pl.col("level").sum() * 0.5)
scored.collect(engine="in-memory").sort("device").write_parquet(output / "scored.parquet")

"""Checks that the chain and the bare script computed the same: python benchmarks/compare.py PROJECT BARE."""

import sys
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

from barca import Project

project, bare = (Path(argument) for argument in sys.argv[1:])
ours = Project(project, executor="inline").scan("scored").select("device", "score").sort("device")
assert_frame_equal(ours.collect(engine="in-memory"), pl.read_parquet(bare / "scored.parquet"))

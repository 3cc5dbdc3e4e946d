"""Run hashes do not depend on how columns lie in memory."""

from __future__ import annotations

import polars as pl

from barca import asset
from barca.plan.edges import Part, combined_identity
from barca.plan.hashes import run_hashes
from barca.schemas import KEYS
from tests.plan.worlds import graph_of


def in_chunks(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame as a filter leaves it that drops every row of the first of two chunks."""
    both = pl.concat([frame, frame], rechunk=False)
    found = both.filter(pl.int_range(pl.len()) >= frame.height)
    assert [len(chunk) for chunk in found.to_series().get_chunks()] == [0, frame.height]
    return found


def test_a_chunk_without_rows_does_not_count():
    keys = pl.DataFrame({"key": ["k=a", "k=b", "k=c"], "ordinal": range(3)}, schema=KEYS)

    def hashes(lie) -> list[str]:
        read = keys.hstack([lie(pl.DataFrame({"digest": ["x", "y", "z"]})).to_series()])
        part = Part(read, (("g", pl.col("digest")),), ())
        return run_hashes(lie(keys), "d", {}, [lambda _: part])[0]["run_hash"].to_list()

    assert hashes(in_chunks) == hashes(lambda frame: frame)


def test_nor_does_it_in_the_identity_of_every_key():
    @asset(cutoff=True)
    def one() -> int: ...

    node = graph_of(one).nodes["one"]
    rows = pl.DataFrame({"key": ["a", "b"], "run_hash": ["x", "y"], "digest": ["z", "z"]})
    assert combined_identity(node, in_chunks(rows), "d") == combined_identity(node, rows, "d")

"""Results larger than what a worker may hold."""

from __future__ import annotations

import polars as pl
import pytest

WIDE = """
    from pathlib import Path
    import polars as pl
    from barca import asset, partitions

    READINGS = Path(__file__).with_name("readings.parquet")

    EVERY = partitions([f"k{number:05d}" for number in range(KEYS)])

    @asset(partitions={"k": EVERY}, batch="all", engine="streaming")
    def wide(k: list[str]) -> pl.LazyFrame:
        mark = pl.concat_str("k", pl.col("n").cast(pl.String)).hash(7).cast(pl.String).str.pad_start(20, "0")
        return pl.scan_parquet(READINGS).with_columns(text=mark + pl.lit("x" * 9_980))
"""


@pytest.mark.slow
def test_b10_wide_results_of_a_streamed_call_are_never_held_whole(make_project, monkeypatch):
    """20,000 keys of 50 kB are 1 GB, which is read in pieces of 20 MB: the rest is what Polars has under way."""
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")
    peaks = {}
    for keys in (2_000, 20_000):
        project = make_project(str(keys))
        project.write("pipeline.py", WIDE.replace("KEYS", str(keys)))
        number = pl.int_range(keys * 5, eager=True)
        key = pl.lit("k") + (pl.col("number") // 5).cast(pl.String).str.pad_start(5, "0")
        rows = pl.DataFrame({"number": number}).select(k=key, n=pl.col("number") % 5)
        rows.write_parquet(project.root / "readings.parquet", row_group_size=2_000)
        opened = project.open(executor="processes")
        assert opened.get("wide").to_dict()["steps_executed"] == keys
        found = opened.scan("wide").select(pl.len(), pl.col("k").n_unique()).collect(engine="streaming")
        assert found.row(0) == (keys * 5, keys)
        [size] = opened.stats("wide")["sizes"]
        peaks[keys] = size["memory_bytes"]["max"] / 1e6
    assert peaks[20_000] < peaks[2_000] + 150, peaks

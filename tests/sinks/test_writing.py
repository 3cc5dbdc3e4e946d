"""Pieces of a table are written together, each to its file."""

from __future__ import annotations

import polars as pl
import pytest

from barca.io.sinks import writing
from barca.io.sinks.writing import TableFile, write_tables

READERS = {"parquet": pl.read_parquet, "csv": pl.read_csv, "ndjson": pl.read_ndjson, "ipc": pl.read_ipc}
TABLE = pl.DataFrame({"piece": range(100), "*": range(100, 200), "^p.*$": [f"{n}" * 9 for n in range(100)]})
PIECES = [(0, 3), (3, 0), (10, 1), (11, 50), (80, 20)]


@pytest.fixture
def queries(monkeypatch) -> list:
    """What each query writes to."""
    found = []
    for form, writer in writing._WRITERS.items():
        spy = lambda rows, target, real=writer, **options: (
            found.append(target),
            real(rows, target, **options),
        )
        monkeypatch.setitem(writing._WRITERS, form, spy)
    return found


@pytest.mark.parametrize("form", READERS)
def test_pieces_hold_their_rows_in_their_order(tmp_path, form, queries):
    files = [TableFile(TABLE, f"{tmp_path}/{n}", form, *piece) for n, piece in enumerate(PIECES)]
    assert write_tables(files) == {}
    assert len(queries) == 2, "one for the piece without rows, and one"
    for file in files:
        if form == "ndjson" and not file.rows:
            continue  # which holds no columns
        found = (
            READERS[form](file.path, schema_overrides=TABLE.schema)
            if form == "csv"
            else READERS[form](file.path)
        )
        assert found.equals(TABLE.slice(file.offset, file.rows)), file


def test_a_piece_that_cannot_be_written_is_told_and_the_others_are_there(tmp_path):
    names = ["a", "file/b", "c"]
    (tmp_path / "file").touch()
    files = [TableFile(TABLE, f"{tmp_path}/{name}", "parquet", n, 1) for n, name in enumerate(names)]
    failures = write_tables(files)
    assert list(failures) == [1]
    assert [pl.read_parquet(tmp_path / name)["piece"].item() for name in "ac"] == [0, 2]


def test_a_piece_that_would_come_in_parts_is_written_by_itself(tmp_path, monkeypatch):
    """Polars would begin another file, under the same name."""
    real = pl.PartitionBy
    monkeypatch.setattr(
        pl, "PartitionBy", lambda *places, **options: real(*places, **options, max_rows_per_file=7)
    )
    files = [TableFile(TABLE, f"{tmp_path}/{n}", "parquet", n * 50, 50) for n in range(2)]
    assert write_tables(files) == {}
    assert [pl.read_parquet(file.path).height for file in files] == [50, 50]

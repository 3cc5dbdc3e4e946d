"""Both ledgers keep the promises of `ports.Ledger`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from barca.errors import LedgerError, UsageError
from barca.io import appending
from barca.io.ledger import DeltaLedger
from barca.io.memory import MemoryLedger
from barca.io.rows import check_node, newest
from barca.ports import Ledger
from barca.schemas import LEDGER_TABLES, MATERIALIZATIONS, RUNS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["disk", "memory"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return DeltaLedger(tmp_path / "ledger") if request.param == "disk" else MemoryLedger()


def rows(node: str, keys: list[str], run_hash: str = "h1", **columns: Any) -> pl.DataFrame:
    """Materializations of some keys of a node."""
    values = {
        "node": node,
        "run_hash": run_hash,
        "format": "table",
        "path": "n/p.parquet",
        "row_offset": 0,
        "rows": 1,
        "size_bytes": 10,
        "digest": "d",
        "status": "success",
        "definition_hash": "f",
        "env_hash": None,
        "input_hashes": None,
        "run_id": "r1",
        "call": "c1",
        "attempts": 1,
        "elapsed_seconds": 0.5,
        "error_type": None,
        "error_message": None,
        "traceback": None,
        "created_at": NOON,
        **columns,
    }
    return pl.DataFrame(
        [{**values, "key": key} for key in keys], schema=pl.Schema(MATERIALIZATIONS), orient="row"
    )


def run_row(run_id: str) -> pl.DataFrame:
    values = dict.fromkeys(RUNS) | {"run_id": run_id, "status": "success", "started_at": NOON}
    return pl.DataFrame([values], schema=RUNS)


def write(ledger: Ledger, *frames: pl.DataFrame, run_id: str = "r1") -> None:
    """Each frame as a commit of its own."""
    writer = ledger.writer(run_id)
    for frame in frames:
        writer.append("materializations", frame)
        writer.flush()


def hashes(frame: pl.DataFrame) -> list[tuple[str, str]]:
    return frame.select("key", "run_hash").rows()


def test_an_empty_ledger_has_every_table_with_no_rows(ledger: Ledger):
    reader = ledger.reader()
    for table, schema in LEDGER_TABLES.items():
        assert reader.scan(table).collect(engine="in-memory").schema == schema
    assert_frame_equal(reader.materialized("a.py:f"), pl.DataFrame(schema=MATERIALIZATIONS))
    assert reader.materialized_many([]) == {}


def test_rows_come_back_as_they_were_written(ledger: Ledger):
    odd = rows("a.py:f", ["k"], input_hashes=[1, None, -(2**60)], env_hash="é\n\x00'\"😀", call=None)
    odd = odd.with_columns(
        created_at=pl.lit(NOON + timedelta(microseconds=123_457)).cast(pl.Datetime("us", "UTC"))
    )
    nothing = rows("a.py:f", ["l"], input_hashes=[])
    write(ledger, odd, nothing)
    reader = ledger.reader()
    expected = pl.concat([odd, nothing]).select(list(MATERIALIZATIONS))
    assert_frame_equal(reader.scan("materializations").collect(engine="in-memory"), expected)
    assert_frame_equal(reader.materialized("a.py:f"), expected)


def test_every_table_takes_a_row_of_nulls_beside_its_names(ledger: Ledger):
    writer = ledger.writer("r1")
    for table, schema in LEDGER_TABLES.items():
        row = dict.fromkeys(schema) | ({"node": "a.py:f"} if "node" in schema else {})
        writer.append(table, pl.DataFrame([row], schema=schema))
    writer.flush()
    for table, schema in LEDGER_TABLES.items():
        frame = ledger.reader().scan(table).collect(engine="in-memory")
        assert (frame.height, frame.schema) == (1, schema)


def test_the_columns_may_come_in_any_order(ledger: Ledger):
    frame = rows("a.py:f", ["k"])
    write(ledger, frame.select(sorted(frame.columns)))
    assert ledger.reader().materialized("a.py:f").columns == list(MATERIALIZATIONS)


def test_the_newest_result_of_a_key_stands_last(ledger: Ledger):
    write(
        ledger,
        rows("n", ["k", "l"], "h1"),
        rows("n", ["k"], "h2"),
        rows("n", ["k"], "h1", digest="again"),
        rows("n", ["l"], "h3", status="failed"),
        rows("other", ["k"], "h9"),
    )
    found = ledger.reader().materialized("n")
    assert hashes(found) == [("l", "h1"), ("k", "h2"), ("k", "h1")]
    assert found["digest"].to_list() == ["d", "d", "again"]


def test_age_is_the_order_of_commits_whatever_the_clock_said(ledger: Ledger):
    write(
        ledger,
        rows("n", ["k"], "new", created_at=NOON + timedelta(days=400)),
        rows("n", ["k"], "newer", created_at=NOON),
        rows("n", ["k"], "newest", created_at=NOON - timedelta(days=400)),
    )
    assert hashes(ledger.reader().materialized("n")) == [("k", "new"), ("k", "newer"), ("k", "newest")]


def test_several_nodes_are_read_together(ledger: Ledger):
    write(ledger, pl.concat([rows("a", ["k"]), rows("b", ["k", "l"]), rows("c", ["k"])]))
    many = ledger.reader().materialized_many(["b", "a", "none"])
    assert {node: frame.height for node, frame in many.items()} == {"b": 2, "a": 1, "none": 0}
    for node, frame in many.items():
        assert_frame_equal(frame, ledger.reader().materialized(node))


def test_rows_of_some_keys(ledger: Ledger):
    write(ledger, rows("a", ["k", "l"]), rows("a", ["l", "m"], "h2"), rows("b", ["k", "l"]))
    wanted = {"a": pl.Series(["l", "none"]), "b": pl.Series([], dtype=pl.String)}
    many = ledger.reader().materialized_many(["a", "b", "c"], wanted)
    assert hashes(many["a"]) == [("l", "h1"), ("l", "h2")]
    assert (many["b"].height, many["c"].height) == (0, 0)
    assert hashes(ledger.reader().materialized_many(["a", "b"], {"a": pl.Series(["m"])})["b"]) == [
        ("k", "h1"),
        ("l", "h1"),
    ], "all rows of a node that is not narrowed"


def test_the_latest_result_is_the_one_committed_last(ledger: Ledger):
    write(ledger, rows("a", ["k", "l"]), rows("b", ["k"]), rows("a", ["k"], "h2"))
    write(ledger, rows("a", ["m"], status="failed"), rows("failing", ["k"], status="failed"))
    latest = ledger.reader().latest(["a", "b", "failing", "none"])
    assert {node: hashes(frame) for node, frame in latest.items()} == {
        "a": [("k", "h2")],
        "b": [("k", "h1")],
        "failing": [],
        "none": [],
    }


def test_a_reader_stays_at_its_version(ledger: Ledger):
    before = ledger.reader()
    write(ledger, rows("n", ["k"]))
    between = ledger.reader()
    write(ledger, rows("n", ["l"]))
    assert [reader.materialized("n").height for reader in (before, between, ledger.reader())] == [0, 1, 2]
    assert before.scan("materializations").collect(engine="in-memory").height == 0
    assert between.scan("materializations").collect(engine="in-memory").height == 1


def test_appended_rows_are_there_after_flush_in_the_order_appended(ledger: Ledger):
    writer = ledger.writer("r1")
    for number in range(5):
        writer.append("materializations", rows("n", [f"k{number}"]))
    writer.flush()
    writer.flush()
    keys = ledger.reader().scan("materializations").collect(engine="in-memory")["key"].to_list()
    assert keys == [f"k{number}" for number in range(5)]


def test_many_rows_are_committed_without_a_flush(ledger: Ledger, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(appending, "GROUP_ROWS", 3)
    writer = ledger.writer("r1")
    writer.append("materializations", rows("n", ["a", "b"]))
    assert ledger.reader().materialized("n").height == 0
    writer.append("materializations", rows("n", ["c"]))
    assert ledger.reader().materialized("n").height == 3


def test_old_rows_are_committed_by_the_next_append_of_any_table(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    writer = ledger.writer("r1")
    now = [100.0]
    monkeypatch.setattr(writer, "_monotonic", lambda: now[0])
    writer.append("materializations", rows("n", ["a"]))
    now[0] += 0.4
    writer.append("materializations", rows("n", ["b"]))
    assert ledger.reader().materialized("n").height == 0
    now[0] += 0.1
    writer.append("runs", pl.DataFrame(schema=RUNS))
    assert ledger.reader().materialized("n").height == 2


def test_rows_that_do_not_fit_are_refused_and_nothing_is_queued(ledger: Ledger):
    writer = ledger.writer("r1")
    with pytest.raises(LedgerError, match=r"missing \['digest'\], unknown \['x'\]"):
        writer.append("materializations", rows("n", ["k"]).rename({"digest": "x"}))
    with pytest.raises(LedgerError, match="wrong dtypes"):
        writer.append("materializations", rows("n", ["k"]).with_columns(rows=pl.lit("many")))
    writer.flush()
    assert ledger.reader().materialized("n").height == 0


NAMES = [
    "a/b c.py:f",
    "x*y",
    "[z]",
    "q?",
    "ü😀",
    "new\nline",
    "tab\t",
    "nul\x00",
    "q\"uo'te",
    "per%2Fcent",
    "..",
    ".",
]
NAMES += [
    "a\\b",
    "a+b",
    "a&b#c;d,e",
    "{x}",
    "01",
    "true",
    "2024-01-01",
    "null",
    "x=y",
    "node=x",
    "CON",
    "A",
    "a",
    " ",
]


def test_node_ids_and_keys_of_any_text_round_trip(ledger: Ledger):
    write(ledger, pl.concat([rows(name, [name, f"dim={name}"]) for name in NAMES]))
    many = ledger.reader().materialized_many(NAMES)
    for name in NAMES:
        assert many[name].select("node", "key").rows() == [(name, name), (name, f"dim={name}")]
    everything = ledger.reader().scan("materializations").collect(engine="in-memory")
    assert sorted(everything["node"].unique()) == sorted(NAMES)


@pytest.mark.parametrize("node", ["", "x" * 251, "ü" * 42, "/" * 84, "__HIVE_DEFAULT_PARTITION__", "\ud800"])
def test_a_node_id_that_cannot_be_a_directory_is_refused_before_anything_runs(ledger: Ledger, node: str):
    with pytest.raises(UsageError, match="name=") as caught:
        ledger.reader().materialized(node)
    assert (caught.value.code, caught.value.node) == ("node_name", node)


def test_the_longest_node_ids_are_taken(ledger: Ledger):
    longest = ["x" * 250, "/" * 83]
    write(ledger, *(rows(node, ["k"]) for node in longest))
    assert [ledger.reader().materialized(node).height for node in longest] == [1, 1]


def test_rows_without_a_node_are_refused(ledger: Ledger):
    with pytest.raises(UsageError, match="empty"):
        write(ledger, rows("n", ["k"]).with_columns(node=pl.lit(None, pl.String)))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=12))
def test_newest_is_what_a_loop_would_keep(pairs: list[tuple[str, str]]):
    frame = pl.DataFrame(
        pairs, schema={"key": pl.String, "run_hash": pl.String}, orient="row"
    ).with_row_index("age")
    last = {pair: age for age, pair in enumerate(pairs)}
    assert newest(frame)["age"].to_list() == sorted(last.values())


@given(st.text(max_size=80))
def test_a_node_id_that_is_taken_has_a_directory_of_its_own(node: str):
    from barca.io.rows import partition_directory

    try:
        check_node(node)
    except UsageError:
        return
    directory = partition_directory(node)
    assert "/" not in directory and len(directory.encode()) <= 255


def test_a_run_comes_after_what_it_did(ledger: Ledger):
    writer = ledger.writer("r1")
    writer.append("runs", run_row("r1"))
    writer.append("materializations", rows("n", ["k"]))
    committed = []
    original = writer.commit
    writer.commit = lambda batch: (committed.append(batch.table), original(batch))  # type: ignore[method-assign]
    writer.flush()
    assert committed == ["materializations", "runs"]


def test_what_a_failed_flush_leaves_is_committed_by_the_next(ledger: Ledger):
    writer = ledger.writer("r1")
    writer.append("definitions", pl.DataFrame([{"node": "n"}], schema=LEDGER_TABLES["definitions"]))
    writer.append("runs", run_row("r1"))
    original = writer.commit

    def refuse(batch: appending.Batch) -> None:
        if batch.table == "runs":
            raise LedgerError("the disk is full")
        original(batch)

    writer.commit = refuse  # type: ignore[method-assign]
    with pytest.raises(LedgerError, match="full"):
        writer.flush()
    writer.append("runs", run_row("r2"))
    writer.commit = original  # type: ignore[method-assign]
    writer.flush()
    reader = ledger.reader()
    assert reader.scan("runs").collect(engine="in-memory")["run_id"].to_list() == ["r1", "r2"]
    assert reader.scan("definitions").collect(engine="in-memory").height == 1


def test_maintenance_of_an_empty_ledger_does_nothing(ledger: Ledger):
    ledger.maintain(1.0)
    assert ledger.reader().scan("runs").collect(engine="in-memory").height == 0


def test_the_memory_ledger_counts_its_commits():
    ledger = MemoryLedger()
    writer = ledger.writer("r1")
    writer.append("materializations", rows("n", ["a"]))
    writer.append("materializations", rows("n", ["b"]))
    writer.append("runs", run_row("r1"))
    writer.flush()
    assert [(table, frame.height) for table, frame in ledger.commits] == [
        ("materializations", 2),
        ("runs", 1),
    ]

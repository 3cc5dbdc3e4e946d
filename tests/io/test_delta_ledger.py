"""What only the ledger on disk has: Delta tables, their files, their upkeep."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable, TableFeatures
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from barca.errors import LedgerError, StoreError, UsageError
from barca.io.ledger import DeltaLedger, commits, log, repair, tables, replacing, upkeep, writer
from barca.io.ledger.commits import Overtaken, Snapshot, snapshot
from barca.io.ledger import reader as reading
from barca.io.ledger.log import last_checkpoint, last_version
from barca.schemas import LEDGER_TABLES, MATERIALIZATIONS, MOVED, empty


def rows(node: str, keys: list[str], run_hash: str = "h1") -> pl.DataFrame:
    frame = pl.DataFrame({"key": keys}).with_columns(
        node=pl.lit(node), run_hash=pl.lit(run_hash), status=pl.lit("success"), run_id=pl.lit("r1")
    )
    missing = [
        pl.lit(None, dtype).alias(name) for name, dtype in MATERIALIZATIONS.items() if name not in frame
    ]
    return frame.with_columns(missing).with_columns(
        created_at=pl.datetime(2026, 3, 1, 12, 0, 0, 500_000, time_zone="UTC")
    )


def commit(ledger: DeltaLedger, *frames: pl.DataFrame) -> None:
    writing = ledger.writer("r1")
    for frame in frames:
        writing.append("materializations", frame)
        writing.flush()


def everything(ledger: DeltaLedger) -> pl.DataFrame:
    return ledger.reader().scan("materializations").collect(engine="in-memory")


@pytest.fixture
def ledger(tmp_path: Path) -> DeltaLedger:
    return DeltaLedger(tmp_path / "ledger")


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of what other tests read is in memory."""
    monkeypatch.setattr(reading, "_held", {})
    monkeypatch.setattr(reading, "_read", set())


@pytest.fixture
def table(ledger: DeltaLedger) -> Path:
    return ledger.root / "materializations"


def test_reading_and_maintaining_creates_nothing_and_does_not_import_deltalake(tmp_path: Path):
    script = f"""
import sys
from barca.io.ledger import DeltaLedger
ledger = DeltaLedger({str(tmp_path / "x" / "ledger")!r})
reader = ledger.reader()
reader.materialized("n"), reader.scan("runs").collect(engine="in-memory"), ledger.maintain(1.0), ledger.writer("r")
assert "deltalake" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert list(tmp_path.iterdir()) == []


def test_one_commit_of_one_file_per_node(ledger: DeltaLedger, table: Path):
    commit(ledger, pl.concat([rows("a", ["k", "l"]), rows("b", ["k"])]))
    assert last_version(table) == 1
    assert len(list(table.rglob("*.parquet"))) == 2


def test_small_files_are_read_once_by_a_process_that_goes_on(
    ledger: DeltaLedger, monkeypatch: pytest.MonkeyPatch, caches: None
):
    commit(ledger, *(rows(node, [f"k{number}"]) for number in range(3) for node in "nm"))
    read: list[int] = []
    scan = pl.scan_parquet
    monkeypatch.setattr(
        pl, "scan_parquet", lambda files, **told: read.append(len(files)) or scan(files, **told)
    )
    told = everything(ledger)
    assert read == [6] and told["node"].to_list() == ["n", "m"] * 3
    assert_frame_equal(everything(ledger), told)
    assert read == [6, 6]  # the first time it was not known that there would be another
    commit(ledger, rows("n", ["k3"]))
    assert ledger.reader().materialized("n")["key"].to_list() == ["k0", "k1", "k2", "k3"]
    assert_frame_equal(everything(ledger).head(6), told)
    assert read == [6, 6, 1]
    monkeypatch.setattr(reading, "SMALL_BYTES", 0)
    assert_frame_equal(everything(ledger).head(6), told)
    assert read == [6, 6, 1, 7]


def test_files_that_are_in_memory_stand_among_the_others_in_the_order_of_commits(
    ledger: DeltaLedger, caches: None
):
    keys = [f"k{number}" for number in range(4)]
    commit(ledger, *(rows("n", [key]) for key in keys))
    ledger.reader()
    everything(ledger)
    for name in sorted(reading._held)[::2]:
        del reading._held[name]
    assert len(reading._held) == 2
    assert everything(ledger)["key"].to_list() == keys


def test_large_and_small_files_are_one_table(
    ledger: DeltaLedger, monkeypatch: pytest.MonkeyPatch, caches: None
):
    many = [f"k{number:03}" for number in range(500)]
    commit(ledger, rows("n", ["a"]), rows("n", many), rows("m", ["b"]))
    sizes = sorted(file.size for file in snapshot(ledger.root / "materializations", 3).files)
    monkeypatch.setattr(reading, "SMALL_BYTES", sizes[1])
    ledger.reader()
    assert everything(ledger)["key"].to_list() == ["a", *many, "b"]
    assert everything(ledger).schema == MATERIALIZATIONS
    assert ledger.reader().materialized("n")["key"].to_list() == ["a", *many]


def test_memory_for_small_files_is_bounded(
    ledger: DeltaLedger, monkeypatch: pytest.MonkeyPatch, caches: None
):
    monkeypatch.setattr(reading, "MOST_HELD", 2)
    for number in range(6):
        commit(ledger, rows("n", [f"k{number}"]))
        assert everything(ledger).height == number + 1
        assert len(reading._held) <= 2 + number


def test_people_read_it_with_scan_delta_and_files_are_skipped_rightly(ledger: DeltaLedger, table: Path):
    commit(ledger, rows("a/b.py:f", ["k", "l"]), rows("c*[d]", ["m"]).with_columns(run_id=pl.lit("r2")))
    delta = pl.scan_delta(str(table))
    assert delta.collect_schema() == MATERIALIZATIONS
    assert delta.collect(engine="in-memory").height == 3
    for predicate, count in (
        (pl.col("node") == "a/b.py:f", 2),
        (pl.col("run_id") == "r2", 1),
        (pl.col("created_at") >= pl.datetime(2026, 3, 1, 12, 0, 0, 500_000, time_zone="UTC"), 3),
        (pl.col("created_at") > pl.datetime(2026, 3, 1, 12, 0, 0, 500_000, time_zone="UTC"), 0),
        (pl.col("key") == "l", 1),
    ):
        assert delta.filter(predicate).collect(engine="in-memory").height == count


def test_a_project_below_odd_directories(tmp_path: Path):
    ledger = DeltaLedger(tmp_path / "x=1" / "[a]*?" / "100% ü" / "ledger")
    commit(ledger, rows("a.py:f", ["k"]), rows("b", ["l"]))
    assert everything(ledger).select("node", "key").rows() == [("a.py:f", "k"), ("b", "l")]
    assert ledger.reader().materialized("a.py:f").height == 1


def test_a_directory_that_delta_would_misread_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="%2F") as caught:
        DeltaLedger(tmp_path / "a%2Fb" / "ledger")
    assert caught.value.code == "ledger_directory"


def test_data_files_and_commit_are_flushed_before_and_after(
    ledger: DeltaLedger, table: Path, monkeypatch: pytest.MonkeyPatch
):
    order = []
    from barca.io import storage

    flush, append = storage.flush_file, writer.commit
    spy = lambda path: (order.append(path.suffix or path.name), flush(path))  # noqa: E731
    monkeypatch.setattr(storage, "flush_file", spy)
    monkeypatch.setattr(log, "flush_file", spy)
    monkeypatch.setattr(writer, "commit", lambda *a: (order.append("commit"), append(*a)))
    commit(ledger, rows("n", ["k"]))
    at = order.index("commit")
    assert ".parquet" in [*order[:at]] or any(name.startswith(".staging") for name in order[:at])
    assert order[at + 1 :] == [".json", ".json", "_delta_log"] or order[at + 1 :] == [".json", "_delta_log"]


# --- the log, read and written here -----------------------------------------------------------------


def by_delta(table: Path, version: int) -> Snapshot:
    """What delta-rs makes of the same log."""
    opened = DeltaTable(table, version=version)
    columns = frozenset(field.name for field in opened.schema().fields)
    return Snapshot(version, tables.data_files(opened), columns)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.one_of(st.sets(st.sampled_from(["a", "b/c.py:f", "d*%[e]"]), min_size=1), st.just("merge")),
        max_size=30,
    ),
    st.integers(2, 25),
)
def test_every_version_is_what_delta_takes_it_for(history: list[Any], interval: int):
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "CHECKPOINT_INTERVAL", interval)
        patch.setattr(upkeep, "MANY_FILES", 1)
        ledger, table = DeltaLedger(Path(name)), Path(name) / "materializations"
        for step in history:
            if step == "merge":
                ledger.maintain(60)
            else:
                commit(ledger, pl.concat([rows(node, ["k"]) for node in sorted(step)]))
        last = last_version(table)
        for version in range((-1 if last is None else last) + 1):
            told = by_delta(table, version)
            assert snapshot(table, version) == told
            patch.setattr(commits, "_known", {})  # as another process finds it
            assert snapshot(table, version) == told


def test_a_log_that_others_changed_is_read_by_delta(ledger: DeltaLedger, table: Path):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(3)))
    DeltaTable(table).alter.add_feature(
        [TableFeatures.DeletionVectors], allow_protocol_versions_increase=True
    )
    found = snapshot(table)
    assert not found.plain and len(found.files) == 3
    assert everything(ledger).height == 3
    with pytest.raises(LedgerError, match="features of Delta that barca does not write") as caught:
        commit(ledger, rows("n", ["k"]))
    assert caught.value.code == "ledger_features"


def test_appending_and_reading_do_not_need_deltalake(ledger: DeltaLedger, table: Path):
    commit(ledger, rows("n", ["k"]))
    script = f"""
import sys
from pathlib import Path
from barca.io.ledger import DeltaLedger
ledger = DeltaLedger(Path({str(ledger.root)!r}))
rows = ledger.reader().materialized("n").with_columns(run_id=__import__("polars").lit("later"))
writer = ledger.writer("later")
writer.append("materializations", rows)
writer.flush()
ledger.maintain(1.0)
assert ledger.reader().materialized("n")["run_id"].to_list() == ["later"]
assert "deltalake" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert pl.scan_delta(str(table)).collect(engine="in-memory").height == 2


@pytest.mark.parametrize("links", [True, False])
def test_a_version_is_made_once(
    ledger: DeltaLedger, table: Path, monkeypatch: pytest.MonkeyPatch, links: bool
):
    commit(ledger, rows("n", ["k"]))
    if not links:

        def refuse(*_: object) -> None:
            raise OSError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(Overtaken, match="version 1 is"):
        commits.commit(table, 1, "late", [])
    commits.commit(table, 2, "next", [])
    assert log.find_batch(table, 1, "next") == 2
    assert not [file for file in (table / "_delta_log").iterdir() if file.suffix not in (".json", ".parquet")]
    assert everything(ledger).height == 1


# --- exactly once -----------------------------------------------------------------------------------


def failing(times: int, *, after: bool) -> tuple[list[int], object]:
    """`commit` that fails some times, before or after it did its work."""
    attempts: list[int] = []
    append = writer.commit

    def attempt(*arguments: object) -> None:
        attempts.append(len(attempts))
        if len(attempts) > times:
            append(*arguments)  # type: ignore[arg-type]
            return
        if after:
            append(*arguments)  # type: ignore[arg-type]
        raise Overtaken("connection lost")

    return attempts, attempt


@pytest.mark.parametrize("after", [True, False])
def test_a_commit_of_unclear_outcome_is_made_once(
    ledger: DeltaLedger, monkeypatch: pytest.MonkeyPatch, after: bool
):
    attempts, attempt = failing(2, after=after)
    monkeypatch.setattr(writer, "commit", attempt)
    monkeypatch.setattr(writer.time, "sleep", lambda seconds: None)
    commit(ledger, rows("n", ["k"]))
    assert len(attempts) == (1 if after else 3)
    assert everything(ledger)["key"].to_list() == ["k"]


def test_contention_ends_in_an_error_and_the_rows_stay_queued(
    ledger: DeltaLedger, table: Path, monkeypatch: pytest.MonkeyPatch
):
    commit(ledger, rows("n", ["first"]))
    writing = ledger.writer("r2")
    now = [0.0]
    monkeypatch.setattr(writing, "_monotonic", lambda: now[0])
    monkeypatch.setattr(writer.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    attempts, attempt = failing(10**6, after=False)
    working = writer.commit
    monkeypatch.setattr(writer, "commit", attempt)
    writing.append("materializations", rows("n", ["k"]))
    with pytest.raises(LedgerError, match="connection lost"):
        writing.flush()
    assert 60 <= now[0] < 66 and len(attempts) > 20
    monkeypatch.setattr(writer, "commit", working)
    writing.append("materializations", rows("n", ["l"]))
    writing.flush()
    assert everything(ledger)["key"].to_list() == ["first", "k", "l"]
    assert len(list(table.rglob("*.parquet"))) == 3


def test_what_no_retry_would_mend_is_raised_at_once(ledger: DeltaLedger, monkeypatch: pytest.MonkeyPatch):
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "commit", full)
    writing = ledger.writer("r1")
    writing.append("materializations", rows("n", ["k"]))
    with pytest.raises(LedgerError, match="No space left"):
        writing.flush()


def test_writers_of_two_runs_take_turns(ledger: DeltaLedger):
    first, second = ledger.writer("r1"), ledger.writer("r2")
    for number in range(3):
        first.append("materializations", rows("n", [f"a{number}"]))
        second.append("materializations", rows("n", [f"b{number}"]))
        first.flush()
        second.flush()
    assert everything(ledger)["key"].to_list() == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_rows_that_had_to_wait_come_after_those_that_were_merged_meanwhile(
    ledger: DeltaLedger, table: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(upkeep, "MANY_FILES", 2)
    monkeypatch.setattr(writer.time, "sleep", lambda seconds: None)
    writing, working, attempts = ledger.writer("r1"), writer.commit, []

    def overtaken(*arguments: Any) -> None:
        attempts.append(1)
        if len(attempts) == 2:  # the second batch of ours: others append, and merge all there is
            monkeypatch.setattr(writer, "commit", working)
            commit(ledger, *(rows("n", [f"other{number}"]) for number in range(3)))
            ledger.maintain(60)
            raise Overtaken("version 2 is another commit's")
        working(*arguments)

    monkeypatch.setattr(writer, "commit", overtaken)
    for key in ("first", "second"):
        writing.append("materializations", rows("n", [key]))
        writing.flush()
    assert everything(ledger)["key"].to_list() == ["first", "other0", "other1", "other2", "second"]
    assert len(list(table.rglob("node=n/*.parquet"))) == 6  # one of each commit, the merged one, no stray


# --- tables of other versions -----------------------------------------------------------------------


def test_a_table_made_before_a_column_existed_gets_it(ledger: DeltaLedger, monkeypatch: pytest.MonkeyPatch):
    older = {**LEDGER_TABLES, "materializations": pl.Schema(dict(list(MATERIALIZATIONS.items())[:-1]))}
    with monkeypatch.context() as patched:
        from barca.io import rows as rules
        from barca.io.ledger import reader

        for module in (rules, writer, reader):
            patched.setattr(module, "LEDGER_TABLES", older)
        commit(ledger, rows("n", ["k"]).drop("created_at"))
    commit(ledger, rows("n", ["l"]))
    assert everything(ledger)["created_at"].is_null().to_list() == [True, False]
    assert pl.scan_delta(str(ledger.root / "materializations")).collect_schema() == MATERIALIZATIONS


def test_a_table_with_columns_of_a_later_version_is_read_and_appended_to(ledger: DeltaLedger, table: Path):
    commit(ledger, rows("n", ["k"]))
    from deltalake import Field

    DeltaTable(table).alter.add_columns([Field("later", "string")])
    commit(ledger, rows("n", ["l"]))
    assert everything(ledger)["key"].to_list() == ["k", "l"]
    assert pl.scan_delta(str(table)).collect(engine="in-memory")["later"].null_count() == 2


# --- upkeep -----------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MANY_FILES", 4)


def test_compaction_merges_files_and_changes_no_row_nor_order(ledger: DeltaLedger, table: Path, few: None):
    keys = [f"k{number % 3}" for number in range(6)]
    commit(ledger, *(rows("n", [key], f"h{at}") for at, key in enumerate(keys)), rows("other", ["k"]))
    pinned, before = ledger.reader(), everything(ledger)
    ledger.maintain(60)
    after = everything(ledger)
    assert_frame_equal(after.filter(pl.col("node") == "n"), before.filter(pl.col("node") == "n"))
    assert after.height == before.height
    assert len(tables.data_files(DeltaTable(table))) == 2
    assert pinned.materialized("n").height == 6
    commit(ledger, rows("n", ["k0"], "last"))
    assert ledger.reader().materialized("n")["run_hash"].to_list()[-1] == "last"
    assert pl.scan_delta(str(table)).collect(engine="in-memory").height == before.height + 1


def test_a_second_maintenance_finds_nothing_to_do(ledger: DeltaLedger, table: Path, few: None):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(5)))
    ledger.maintain(60)
    version = last_version(table)
    ledger.maintain(60)
    assert last_version(table) == version


def test_what_was_merged_is_not_written_again_for_a_few_rows_more(
    ledger: DeltaLedger, table: Path, few: None, monkeypatch: pytest.MonkeyPatch
):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(5)))
    ledger.maintain(60)
    [first] = tables.data_files(DeltaTable(table))
    small = first.size - 1  # every file of one row is smaller than that of five
    monkeypatch.setattr(upkeep, "TIER_BYTES", (small, 1 << 20))
    for turn in range(1, 6):
        commit(ledger, *(rows("n", [f"k{turn}{number}"]) for number in range(5)))
        ledger.maintain(60)
        held = [file.rows for file in tables.data_files(DeltaTable(table))]
        assert held == [5] * (turn + 1)
        assert not upkeep._crowded(table)
    commit(ledger, *(rows("n", [f"z{number}"]) for number in range(5)))
    monkeypatch.setattr(upkeep, "TIER_BYTES", (0, 1 << 20))
    ledger.maintain(60)
    assert [file.rows for file in tables.data_files(DeltaTable(table))] == [35]
    assert everything(ledger).height == 35


def test_no_budget_no_compaction(ledger: DeltaLedger, table: Path, few: None):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(5)))
    ledger.maintain(0)
    assert len(tables.data_files(DeltaTable(table))) == 5


def test_two_compactions_at_once_do_not_double_rows(ledger: DeltaLedger, table: Path, few: None):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(5)))
    files = tables.data_files(DeltaTable(table))
    read = replacing._read

    def meanwhile(*arguments: object) -> pl.DataFrame:
        replacing._read = read
        assert upkeep._merge(table, "materializations", files)
        return read(*arguments)  # type: ignore[arg-type]

    replacing._read = meanwhile  # type: ignore[assignment]
    assert not upkeep._merge(table, "materializations", files)
    assert not upkeep._merge(table, "materializations", files)
    assert everything(ledger)["key"].to_list() == [f"k{number}" for number in range(5)]
    assert len(list(table.rglob("*.parquet"))) == 6


def test_large_files_are_left_alone_and_keep_their_place(
    ledger: DeltaLedger, few: None, monkeypatch: pytest.MonkeyPatch
):
    large = pl.concat([rows("n", [f"{number}"]) for number in range(300)])
    frames = [rows("n", ["a"]), rows("n", ["b"]), large, rows("n", ["c"]), rows("n", ["d"]), rows("n", ["e"])]
    commit(ledger, *frames)
    sizes = sorted(file.size for file in tables.data_files(DeltaTable(ledger.root / "materializations")))
    monkeypatch.setattr(upkeep, "TIER_BYTES", (sizes[-2],))
    ledger.maintain(60)
    files = tables.data_files(DeltaTable(ledger.root / "materializations"))
    assert [file.rows for file in files] == [2, 300, 3]
    assert everything(ledger)["key"].to_list() == pl.concat(frames)["key"].to_list()


def test_merged_files_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upkeep, "MERGED_BYTES", 30)
    files = [tables.DataFile(at, f"{at}", "n", 10, 1) for at in range(8)]
    assert [len(run) for run in upkeep._small_runs(files, 10)] == [3, 3, 2]


def test_checkpoints_come_every_twenty_commits(ledger: DeltaLedger, table: Path):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(45)))
    checkpoints = sorted(int(path.name[:20]) for path in table.glob("_delta_log/*.checkpoint.parquet"))
    assert checkpoints == [19, 39]
    assert last_checkpoint(table) == 39
    assert everything(ledger).height == 45


def test_another_process_reads_the_head_that_a_checkpoint_leaves(
    ledger: DeltaLedger, table: Path, monkeypatch: pytest.MonkeyPatch
):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(22)))
    told, head = snapshot(table), table / "_head.json"
    DeltaTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)

    def found_by_another() -> Any:
        monkeypatch.setattr(commits, "_known", {})
        return snapshot(table)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "checkpoint_before", lambda *_: pytest.fail("read the checkpoint"))
        assert found_by_another() == told
    for content in (b"", b"[]", b'{"version": 19}', head.read_bytes()[:-20]):
        head.write_bytes(content)
        assert found_by_another() == told
    head.unlink()
    assert found_by_another() == told


def test_a_head_of_a_commit_that_was_lost_is_none(
    ledger: DeltaLedger, table: Path, monkeypatch: pytest.MonkeyPatch
):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(20)))
    log.commit_file(table, 19).write_bytes(b"{}")  # of other rows
    next(table.glob("_delta_log/*.checkpoint.parquet")).unlink()
    (table / "_delta_log" / "_last_checkpoint").unlink()
    assert commits._read_head(table) is not None
    monkeypatch.setattr(commits, "_known", {})
    assert len(snapshot(table, 19).files) == 18


def test_a_head_that_cannot_be_written_is_done_without(
    ledger: DeltaLedger, table: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(commits, "write_whole", refuse)
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(22)))
    assert last_checkpoint(table) == 19 and not (table / "_head.json").exists()
    assert everything(ledger).height == 22


def test_a_table_with_features_unknown_here_gets_no_head(ledger: DeltaLedger, table: Path):
    commit(ledger, rows("n", ["k"]))
    DeltaTable(table).alter.add_feature(
        [TableFeatures.DeletionVectors], allow_protocol_versions_increase=True
    )
    commits.keep_head(table)
    assert not (table / "_head.json").exists()


def test_old_removed_files_and_orphans_are_vacuumed_and_young_ones_kept(
    ledger: DeltaLedger, table: Path, few: None
):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(5)))
    old, young = table / "node=n" / "old.parquet", table / "node=n" / "young.parquet"
    for path in (old, young):
        path.write_bytes(b"x")
    os.utime(old, (0, 0))
    ledger.maintain(60)
    assert not old.exists() and young.exists()
    assert len(list(table.rglob("*.parquet"))) == 7  # the merged one, the five it replaced, the young one


def test_gc_deletes_files_that_were_replaced_and_were_never_committed(
    ledger: DeltaLedger, table: Path, few: None
):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(5)))
    (table / "node=n" / "killed.parquet").write_bytes(b"x")
    ledger.maintain(60)
    merged = datetime.now(UTC)
    ledger.vacuum(merged - timedelta(minutes=1))
    assert len(list(table.rglob("node=*/*.parquet"))) == 7
    ledger.vacuum(merged + timedelta(seconds=1))
    [file] = table.rglob("node=*/*.parquet")
    assert "merged-" in file.name
    assert everything(ledger).height == 5
    commit(ledger, rows("n", ["z"]))
    assert ledger.reader().materialized("n").height == 6


def test_what_was_replaced_is_as_old_as_its_replacement(ledger: DeltaLedger, table: Path, few: None):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(5)))
    for file in table.rglob("node=*/*.parquet"):
        os.utime(file, (0, 0))
    ledger.maintain(60)
    assert all(file.stat().st_mtime > 0 for file in table.rglob("node=*/*.parquet"))


# --- damage -----------------------------------------------------------------------------------------


def spoil_empty(path: Path) -> None:
    path.write_bytes(b"")


def spoil_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def spoil_cut_at_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


def spoil_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def spoil_data(path: Path) -> None:
    action = json.loads(path.read_text().splitlines()[-1])["add"]
    data = path.parents[1] / action["path"]
    data.write_bytes(data.read_bytes()[:100])


SPOILERS = [spoil_empty, spoil_cut, spoil_cut_at_line, spoil_zeros, spoil_data]


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_a_damaged_last_commit_is_refused_and_repaired(ledger: DeltaLedger, table: Path, spoil):
    commit(ledger, rows("n", ["k"]), rows("n", ["l"]))
    last = log.commit_file(table, 2)
    spoil(last)
    for use in (ledger.reader, lambda: commit(ledger, rows("n", ["m"])), lambda: ledger.maintain(1)):
        with pytest.raises(LedgerError) as caught:
            use()
        assert caught.value.code == "ledger_damaged"
        assert caught.value.file == str(last)
        assert "move it aside" in (caught.value.remediation or "") and last.name in str(caught.value)
    assert not log.commit_file(table, 3).exists()
    (line,) = repair(ledger.root)
    assert str(last) in line
    assert (last.parent / f"{last.name}.damaged").exists() and not last.exists()
    assert everything(ledger)["key"].to_list() == ["k"]
    commit(ledger, rows("n", ["m"]))
    assert everything(ledger)["key"].to_list() == ["k", "m"]
    assert repair(ledger.root) == []


def test_a_damaged_first_commit_leaves_no_table(ledger: DeltaLedger, table: Path):
    commit(ledger, rows("n", ["k"]))
    spoil_empty(log.commit_file(table, 1))
    spoil_empty(log.commit_file(table, 0))
    assert len(repair(ledger.root)) == 2
    assert everything(ledger).height == 0
    commit(ledger, rows("n", ["l"]))
    assert everything(ledger)["key"].to_list() == ["l"]


@pytest.mark.parametrize("spoil", [Path.unlink, spoil_empty], ids=["missing", "empty"])
def test_a_hole_in_the_log_is_refused_and_not_papered_over(ledger: DeltaLedger, table: Path, spoil):
    commit(ledger, rows("n", ["k"]), rows("n", ["l"]), rows("n", ["m"]))
    middle = log.commit_file(table, 2)
    spoil(middle)
    for use in (ledger.reader, lambda: repair(ledger.root)):
        with pytest.raises(LedgerError, match="backup") as caught:
            use()
        assert (caught.value.code, caught.value.file) == ("ledger_damaged", str(middle))


def test_commits_before_a_checkpoint_are_not_needed(ledger: DeltaLedger, table: Path):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(20)))
    for version in range(15):
        log.commit_file(table, version).unlink()
    assert everything(ledger).height == 20


def cut_checkpoint(directory: Path) -> None:
    (path,) = directory.glob("*.checkpoint.parquet")
    path.write_bytes(path.read_bytes()[:300])


def lose_checkpoint(directory: Path) -> None:
    (path,) = directory.glob("*.checkpoint.parquet")
    path.unlink()


def cut_hint(directory: Path) -> None:
    (directory / "_last_checkpoint").write_bytes(b'{"vers')


@pytest.mark.parametrize(
    "spoil", [cut_checkpoint, lose_checkpoint, cut_hint], ids=lambda spoil: spoil.__name__
)
def test_a_damaged_checkpoint_is_refused_and_repaired_without_loss(ledger: DeltaLedger, table: Path, spoil):
    commit(ledger, *(rows("n", [f"k{number}"]) for number in range(20)))
    spoil(table / "_delta_log")
    with pytest.raises(LedgerError) as caught:
        ledger.reader()
    assert caught.value.code == "ledger_damaged"
    assert repair(ledger.root)
    assert everything(ledger).height == 20
    commit(ledger, rows("n", ["l"]))
    assert everything(ledger).height == 21


@pytest.mark.parametrize("content", [b"", b"cut", None])
def test_a_damaged_data_file_of_an_older_commit_is_named(
    ledger: DeltaLedger, table: Path, content: bytes | None
):
    commit(ledger, rows("n", ["k"]), rows("n", ["l"]))
    data = tables.data_files(DeltaTable(table))[0]
    path = table / data.path
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(LedgerError, match="data file") as caught:
        ledger.reader().materialized("n")
    assert (caught.value.code, caught.value.file) == ("ledger_damaged", str(path))


def test_a_log_is_listed_again_once_it_has_changed(
    ledger: DeltaLedger, table: Path, monkeypatch: pytest.MonkeyPatch
):
    commit(ledger, rows("n", ["k1"]))
    assert last_version(table) == 1
    listed: list[Path] = []
    listing = log._list_log
    monkeypatch.setattr(log, "_list_log", lambda table: listed.append(table) or listing(table))
    assert last_version(table) == 1 and not listed
    before = (table / "_delta_log").stat()
    log.commit_file(table, 2).write_bytes(log.commit_file(table, 1).read_bytes())
    os.utime(
        table / "_delta_log", ns=(before.st_atime_ns, before.st_mtime_ns)
    )  # in the same tick of the clock
    assert last_version(table) == 2 and last_version(table) == 2 and listed == [table]
    log.commit_file(table, 2).write_bytes(b"")
    with pytest.raises(LedgerError):
        last_version(table)


def test_a_ledger_that_took_the_place_of_another_is_read_anew(tmp_path: Path):
    """Restored from a backup, say, and of as many commits."""
    for name in "ab":
        ledger = DeltaLedger(tmp_path / name)
        commit(ledger, rows(name, ["k1"]), rows(name, ["k2"]))
        assert everything(ledger).height == 2
    (tmp_path / "a").rename(tmp_path / "aside")
    (tmp_path / "b").rename(tmp_path / "a")
    assert everything(DeltaLedger(tmp_path / "a"))["node"].to_list() == ["b", "b"]


def test_a_clock_that_was_set_back_does_not_change_the_order_of_commits(
    ledger: DeltaLedger, monkeypatch: pytest.MonkeyPatch
):
    for number, time_ns in enumerate((3_000_000, 2_000_000, 2_000_000)):
        monkeypatch.setattr(tables.time, "time_ns", lambda now=time_ns: now)
        commit(ledger, rows("n", [f"k{number}"]))
    assert everything(ledger)["key"].to_list() == ["k0", "k1", "k2"]


def test_what_replaces_files_is_on_the_disk_before_they_may_go(
    ledger: DeltaLedger, monkeypatch: pytest.MonkeyPatch
):
    commit(ledger, rows("n", ["k1"]), rows("n", ["k2"]))
    flushed: list[list[int]] = []
    monkeypatch.setattr(replacing, "flush_commits", lambda _, versions: flushed.append(list(versions)))
    gone = pl.DataFrame({"key": ["k1"], "run_hash": ["h1"], "run_id": ["r1"]})
    assert ledger.revise("n", empty(MOVED), gone)
    assert flushed == [[last_version(ledger.root / "materializations")]]

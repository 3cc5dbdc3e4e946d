"""Both stores keep the promises of `ports.PackStore`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from barca.errors import FragmentError, StoreError
from barca.io import leftovers, storage
from barca.io.footer import footer
from barca.io.memory import MemoryPackStore
from barca.io.storage import PACK_LISTING, FilePackStore
from barca.ports import PackStore

FRAME = pl.DataFrame({"key": ["a", "a", "b"], "x": [1, None, 3]}, schema={"key": pl.String, "x": pl.Int32})


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PackStore:
    return FilePackStore(tmp_path / "artifacts") if request.param == "disk" else MemoryPackStore()


def put(store: PackStore, path: str, frame: pl.DataFrame = FRAME) -> int:
    return store.write(path, frame, footer("n", path))


def overwrite(store: PackStore, path: str, change) -> None:
    """Change the bytes of a pack behind the store's back."""
    if isinstance(store, MemoryPackStore):
        content, written = store.packs[path]
        store.packs[path] = (change(content), written)
    else:
        file = store.root / path
        file.write_bytes(change(file.read_bytes()))


def read(store: PackStore, *paths: str, schema: pl.Schema | None = None) -> pl.DataFrame:
    return store.scan(paths, schema).collect(engine="in-memory")


def test_stamps_change_when_a_pack_is_written_anew(store: PackStore):
    put(store, "n/1.parquet")
    put(store, "n/2.parquet")
    before = store.stamps(["n/1.parquet", "n/2.parquet", "n/none.parquet"])
    assert list(before) == ["n/1.parquet", "n/2.parquet"]
    time.sleep(0.02)  # two writes of one size within a tick of the clock look alike
    put(store, "n/2.parquet")
    after = store.stamps(before)
    assert after["n/1.parquet"] == before["n/1.parquet"] and after["n/2.parquet"] != before["n/2.parquet"]
    store.remove(["n/1.parquet"])
    assert list(store.stamps(before)) == ["n/2.parquet"]


def test_a_pack_is_read_as_it_was_written(store: PackStore):
    size = put(store, "n/1.parquet")
    assert_frame_equal(read(store, "n/1.parquet"), FRAME)
    assert store.schema("n/1.parquet") == FRAME.schema
    assert store.metadata("n/1.parquet")["barca"] == footer("n", "n/1.parquet")["barca"]
    assert store.listing().select("path", "size_bytes").rows() == [("n/1.parquet", size)]


def test_a_sunk_pack_is_the_same(store: PackStore):
    size = store.sink("n/1.parquet", FRAME.lazy(), footer("n", "n/1.parquet"))
    assert_frame_equal(read(store, "n/1.parquet"), FRAME)
    assert store.listing()["size_bytes"].to_list() == [size]
    assert store.probe(["n/1.parquet"]) == []


def test_equal_frames_give_equal_files(store: PackStore):
    sizes = {put(store, "n/1.parquet"), put(store, "n/1.parquet", FRAME.clone())}
    assert len(sizes) == 1


def test_f13_a_row_group_holds_at_most_twenty_thousand_rows(tmp_path: Path):
    import pyarrow.parquet

    put(FilePackStore(tmp_path), "n/1.parquet", pl.DataFrame({"x": range(50_000)}))
    groups = pyarrow.parquet.ParquetFile(tmp_path / "n" / "1.parquet").metadata
    assert groups.num_row_groups >= 3
    assert max(groups.row_group(at).num_rows for at in range(groups.num_row_groups)) <= 20_000


def test_f13_odd_frames_round_trip(store: PackStore):
    frames = {
        "empty": FRAME.clear(),
        "null": pl.DataFrame({"n": [None, None]}),
        "alike": pl.DataFrame({"a": [1], "A": [2], "a ": [3]}),
        "nested": pl.DataFrame({"x": [[{"a": [1, None]}], None]}),
        "decimal": pl.DataFrame({"x": pl.Series(["1.50", None]).cast(pl.Decimal(10, 2))}),
        "categorical": pl.DataFrame({"x": pl.Series(["b", "a", "b"], dtype=pl.Categorical)}),
        "enum": pl.DataFrame({"x": pl.Series(["b"], dtype=pl.Enum(["b", "a"]))}),
        "wide": pl.DataFrame({f"c{at}": [at] for at in range(10_000)}),
        "large": pl.DataFrame({"x": ["é" * 2**20]}),
    }
    for name, frame in frames.items():
        put(store, f"n/{name}.parquet", frame)
        assert_frame_equal(read(store, f"n/{name}.parquet"), frame)
        assert store.schema(f"n/{name}.parquet") == frame.schema


def test_packs_are_scanned_in_the_order_asked_for(store: PackStore):
    for at in range(3):
        put(store, f"n/{at}.parquet", pl.DataFrame({"x": [at, at]}))
    found = read(store, "n/2.parquet", "n/0.parquet", "n/1.parquet")["x"].to_list()
    assert found == [2, 2, 0, 0, 1, 1]


def test_a_schema_bridges_lossless_differences(store: PackStore):
    put(store, "n/1.parquet", pl.DataFrame({"x": [1], "gone": [1]}, schema={"x": pl.Int32, "gone": pl.Int8}))
    put(store, "n/2.parquet", pl.DataFrame({"y": [0.5], "x": [2]}, schema={"y": pl.Float32, "x": pl.Int64}))
    put(store, "n/3.parquet", pl.DataFrame({"x": [None]}))
    schema = pl.Schema({"x": pl.Int64, "y": pl.Float64})
    found = read(store, "n/1.parquet", "n/2.parquet", "n/3.parquet", schema=schema)
    assert found.schema == schema
    assert found.rows() == [(1, None), (2, 0.5), (None, None)]


def test_no_packs_are_no_rows(store: PackStore):
    assert read(store, schema=FRAME.schema).schema == FRAME.schema
    assert read(store).shape == (0, 0)
    assert store.probe([]) == []
    assert store.listing().schema == PACK_LISTING


def test_writing_again_replaces_the_pack(store: PackStore):
    put(store, "n/1.parquet")
    assert read(store, "n/1.parquet").height == 3
    put(store, "n/1.parquet", FRAME.head(1))
    assert read(store, "n/1.parquet").height == 1
    assert store.listing().height == 1


def test_removed_packs_are_gone_and_may_be_gone_already(store: PackStore):
    put(store, "n/1.parquet")
    put(store, "n/2.parquet")
    store.probe(["n/1.parquet"])
    store.remove(["n/1.parquet", "n/never.parquet"])
    assert store.listing()["path"].to_list() == ["n/2.parquet"]
    assert store.probe(["n/1.parquet", "n/2.parquet"]) == ["n/1.parquet"]


def test_f9_a_missing_pack(store: PackStore):
    put(store, "n/1.parquet")
    for use in (lambda path: read(store, "n/1.parquet", path), store.schema, store.metadata):
        with pytest.raises(FragmentError, match="missing") as caught:
            use("n/2.parquet")
        assert (caught.value.code, caught.value.file) == ("fragment_missing", "n/2.parquet")


CUTS = {
    "empty": lambda content: b"",
    "one byte": lambda content: content[:1],
    "head": lambda content: content[:4],
    "half": lambda content: content[: len(content) // 2],
    "last byte": lambda content: content[:-1],
    "zeros": lambda content: bytes(len(content)),
    "footer": lambda content: content[:-200] + bytes(192) + content[-8:],
    "footer length": lambda content: content[:-8] + b"\xff\xff\xff\x7f" + content[-4:],
    "text": lambda content: b"PAR1 but not really PAR1",
    "front cut": lambda content: content[:4] + content[-600:],
}


@pytest.mark.parametrize("cut", list(CUTS))
def test_f9_a_cut_or_overwritten_pack(store: PackStore, cut: str):
    put(store, "n/1.parquet")
    put(store, "n/2.parquet")
    assert store.probe(["n/2.parquet", "n/1.parquet"]) == []
    overwrite(store, "n/1.parquet", CUTS[cut])
    if cut == "front cut" and store.probe(["n/1.parquet"]) == []:
        with pytest.raises((FragmentError, pl.exceptions.PolarsError)):
            read(store, "n/1.parquet")
        return
    assert store.probe(["n/2.parquet", "n/1.parquet", "n/1.parquet"]) == ["n/1.parquet"]
    for use in (lambda path: read(store, "n/2.parquet", path), store.schema, store.metadata):
        with pytest.raises(FragmentError) as caught:
            use("n/1.parquet")
        assert caught.value.file == "n/1.parquet"


def test_f9_another_pack_in_its_place(store: PackStore):
    put(store, "n/1.parquet")
    put(store, "m/1.parquet", FRAME.head(1))
    content = {}
    overwrite(store, "m/1.parquet", lambda other: content.setdefault("other", other))
    overwrite(store, "n/1.parquet", lambda mine: content["other"])
    assert store.probe(["n/1.parquet", "m/1.parquet"]) == ["n/1.parquet"]
    with pytest.raises(FragmentError, match="m/1.parquet") as caught:
        read(store, "n/1.parquet")
    assert caught.value.code == "fragment_swapped"


def test_a_parquet_file_of_someone_else(store: PackStore):
    store.write("n/1.parquet", FRAME, {})
    assert store.probe(["n/1.parquet"]) == ["n/1.parquet"]
    with pytest.raises(FragmentError, match="not a pack"):
        read(store, "n/1.parquet")


def test_a_pack_of_a_newer_layout_is_refused(store: PackStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("barca.io.footer.PACK_VERSION", 2)
    put(store, "n/1.parquet")
    monkeypatch.undo()
    with pytest.raises(FragmentError, match="newer barca") as caught:
        read(store, "n/1.parquet")
    assert (caught.value.code, caught.value.remediation) == ("fragment_newer", "upgrade barca")


BAD_PATHS = [
    "/etc/x.parquet",
    "../x.parquet",
    "n/../../x.parquet",
    "n//x.parquet",
    "./x.parquet",
    "",
    "n/x\x00",
    "a\\b",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_no_path_leaves_the_store(store: PackStore, path: str):
    for use in (
        lambda: put(store, path),
        lambda: store.sink(path, FRAME.lazy(), {}),
        lambda: store.scan([path]),
        lambda: store.schema(path),
        lambda: store.metadata(path),
        lambda: store.probe([path]),
        lambda: store.remove([path]),
    ):
        with pytest.raises(StoreError) as caught:
            use()
        assert caught.value.code == "store_path"


def test_f10_what_parquet_cannot_hold_leaves_nothing_behind(store: PackStore):
    with pytest.raises(pl.exceptions.PolarsError):
        put(store, "n/1.parquet", pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)}))
    with pytest.raises(ZeroDivisionError):
        store.sink("n/2.parquet", FRAME.lazy().map_batches(lambda frame: 1 / 0, schema=FRAME.schema), {})
    assert store.listing().height == 0
    if isinstance(store, FilePackStore):
        assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_what_a_sunk_query_raises_is_not_taken_for_the_stores_fault(store: PackStore, tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        store.sink("n/1.parquet", pl.scan_csv(tmp_path / "missing.csv", schema=FRAME.schema), {})


# --- on disk only -----------------------------------------------------------------------------------


def test_looking_creates_nothing(tmp_path: Path):
    store = FilePackStore(tmp_path / "artifacts")
    assert store.listing().height == 0
    assert store.probe(["n/1.parquet"]) == ["n/1.parquet"]
    assert store.sweep() == 0
    store.remove(["n/1.parquet"])
    assert list(tmp_path.iterdir()) == []


def test_a_store_pickles(tmp_path: Path):
    store = FilePackStore(tmp_path)
    put(store, "n/1.parquet")
    assert_frame_equal(read(pickle.loads(pickle.dumps(store)), "n/1.parquet"), FRAME)


def test_odd_directories_are_not_taken_for_patterns_or_columns(tmp_path: Path):
    store = FilePackStore(tmp_path / "x=1" / "[a]*?" / "artifacts")
    put(store, "n=2/k[1]*.parquet")
    put(store, "n=2/k1.parquet")
    assert_frame_equal(read(store, "n=2/k[1]*.parquet"), FRAME)


def test_a_footer_is_read_once_while_the_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = FilePackStore(tmp_path)
    put(store, "n/1.parquet")
    looked = []
    check = storage.check_pack
    monkeypatch.setattr(storage, "check_pack", lambda *a: (looked.append(a[0]), check(*a)))
    store.probe(["n/1.parquet"])
    store.scan(["n/1.parquet"])
    assert looked == ["n/1.parquet"]


def test_everything_is_flushed_before_its_name_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    order = []
    flush = storage.flush_file
    monkeypatch.setattr(
        storage,
        "flush_file",
        lambda path: (order.append((path.name[:8], (tmp_path / "n/1.parquet").exists())), flush(path)),
    )
    put(FilePackStore(tmp_path), "n/1.parquet")
    assert order == [(tmp_path.name[:8], False), (".staging", False), ("n", True)]


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(tmp_path: Path):
    script = f"""
import resource, signal, sys, os
import polars as pl
from pathlib import Path
from barca.errors import StoreError
from barca.io.storage import FilePackStore, write_atomically
store = FilePackStore(Path({str(tmp_path)!r}))
frame = pl.DataFrame({{"x": os.urandom(400_000).hex()}})
frame.lazy().collect(engine="streaming")
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
for use in (
    lambda: store.write("n/1.parquet", frame, {{}}),
    lambda: store.sink("n/2.parquet", frame.lazy(), {{}}),
    lambda: write_atomically(Path({str(tmp_path)!r}, "f"), bytes(100_000)),
):
    try:
        use()
    except StoreError as error:
        assert error.code == "store_write" and "could not be written" in error.message, error
    else:
        sys.exit("no error")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_packs_of_a_directory_by_name_and_when_one_was_written(store: PackStore):
    for path in ("n/2.parquet", "n/1.parquet", "n2/1.parquet"):
        put(store, path)
    assert store.names("n") == ["1.parquet", "2.parquet"] and store.names("n3") == []
    listed = store.listing()
    assert [store.modified_at(path) for path in listed["path"]] == listed["modified_at"].to_list()
    assert store.modified_at("n/3.parquet") is None
    for look in (store.names, store.modified_at):
        with pytest.raises(StoreError):
            look("../n")


def test_when_a_pack_was_written_is_told_the_same_of_one_and_of_all(tmp_path: Path):
    store = FilePackStore(tmp_path)
    put(store, "n/1.parquet")
    for nanoseconds in (1_796_046_492_440_686_999, 1_796_046_492_440_687_001, 1_796_046_492_999_999_999):
        os.utime(tmp_path / "n/1.parquet", ns=(nanoseconds, nanoseconds))
        at = store.modified_at("n/1.parquet")
        assert at == store.listing()["modified_at"][0]
        assert at is not None and at.microsecond == nanoseconds // 1000 % 1_000_000


def test_staging_files_are_swept_when_old_and_their_process_is_gone(tmp_path: Path):
    store = FilePackStore(tmp_path)
    put(store, "n/1.parquet")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    ancient = time.time() - 2 * leftovers.STAGING_MAX_AGE_SECONDS
    names = {
        f".staging-{dead.pid}-a": ancient,
        f".staging-{os.getpid()}-b": ancient,
        f".staging-{dead.pid}-c": time.time(),
    }
    for name, age in names.items():
        (tmp_path / "n" / name).write_bytes(b"PAR1")
        os.utime(tmp_path / "n" / name, (age, age))
    assert store.listing()["path"].to_list() == ["n/1.parquet"]
    assert store.sweep() == 1
    assert not (tmp_path / "n" / f".staging-{dead.pid}-a").exists()
    assert len(list((tmp_path / "n").iterdir())) == 3

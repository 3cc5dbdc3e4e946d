"""Collecting garbage: what stays can be read as it was stored, what goes goes in order."""

from __future__ import annotations

import datetime as dt
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barca.errors import LedgerError, StoreError
from barca.io.fragments import pack_keyed, pack_table, pack_values, read_keyed
from barca.io.garbage.choice import RESULTS, given_up, standing, to_repack
from barca.io.garbage.collect import collect, foreseen, tagged
from barca.io.garbage.repack import repack
from barca.io.ledger import DeltaLedger
from barca.io.memory import MemoryLedger, MemoryPackStore
from barca.io.tags import write_tag
from barca.io.scans import scan_fragments
from barca.io.storage import FilePackStore, node_directory
from barca.io.values import read_value
from barca.schemas import FRAGMENTS, HOLDINGS, MATERIALIZATIONS, MOVED
from tests.io.packing import work_keys
from tests.io.test_ledger import rows as ledger_rows

NODE = "flow.py:node"
LATER = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
LONG_AGO = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
DIMS = ("retailer",)
MANY_PACKS = 4
REPEATED_KEPT = 2


@pytest.fixture(autouse=True, scope="module")
def _small_numbers():
    """What needs many packs needs few here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("barca.io.garbage.choice.MANY_PACKS", MANY_PACKS)
        patch.setattr("barca.io.garbage.choice.REPEATED_KEPT", REPEATED_KEPT)
        yield


class World:
    """A ledger and a store, and what was put there: value by (node, key, run)."""

    def __init__(self, root: Path | None) -> None:
        self.ledger = DeltaLedger(root / "ledger") if root else MemoryLedger()
        self.store = FilePackStore(root / "artifacts") if root else MemoryPackStore()
        self.values: dict[tuple[str, str, str], Any] = {}
        self.runs = 0

    def run(self, values: dict[str, Any], version: str = "v1", node: str = NODE) -> str:
        """One call that gives each key its value; tables go to one pack, others to one pack."""
        self.runs += 1
        run_id = f"r{self.runs:04d}"
        keys = work_keys(*values).with_columns(run_hash=pl.lit(version) + pl.col("key"))
        path = f"{node_directory(node)}/{run_id}-b1.parquet"
        if all(isinstance(value, pl.DataFrame) for value in values.values()):
            frame = pl.concat([value.with_columns(retailer=pl.lit(key)) for key, value in values.items()])
            fragments = pack_table(self.store, path, node, frame, keys, DIMS)
        else:
            fragments, failures = pack_values(self.store, path, node, list(_hive(values).items()), keys, DIMS)
            assert not failures
        self.commit(node, run_id, fragments)
        for key, value in _hive(values).items():
            self.values[node, key, run_id] = value
        return run_id

    def observe(self, returned: dict[str, Any], node: str = "flow.py:source") -> None:
        """What a keyed source returned."""
        self.runs += 1
        run_id = f"r{self.runs:04d}"
        only = pl.DataFrame({"key": [""], "ordinal": [0], "run_hash": ["h"], "call": ["b1"]})
        path = f"{node_directory(node)}/{run_id}-b1.parquet"
        self.commit(node, run_id, pack_keyed(self.store, path, node, returned, only))

    def commit(self, node: str, run_id: str, fragments: pl.DataFrame) -> None:
        table = pl.concat(
            [
                ledger_rows(node, [row["key"]], **{name: row[name] for name in FRAGMENTS if name != "key"})
                for row in fragments.iter_rows(named=True)
            ]
        ).with_columns(run_id=pl.lit(run_id), created_at=pl.lit(self.now(), pl.Datetime("us", "UTC")))
        writer = self.ledger.writer(run_id)
        writer.append("materializations", table)
        writer.flush()

    def now(self) -> dt.datetime:
        """The time, which passes with every run."""
        return LONG_AGO + dt.timedelta(minutes=self.runs)

    def tag(self, name: str, moment: dt.datetime | None) -> None:
        self.runs += 1
        write_tag(self.ledger, f"t{self.runs:04d}", name, moment, None, self.now())

    def results(self, node: str = NODE) -> pl.DataFrame:
        found = self.ledger.reader().scan("materializations").collect()
        return found.filter((pl.col("node") == node) & (pl.col("status") == "success"))

    def check(self, node: str = NODE) -> None:
        """Every row that is there names a fragment with the value it had, under the digest it had."""
        for row in self.results(node).iter_rows(named=True):
            fragment = pl.DataFrame([{name: row[name] for name in FRAGMENTS}], schema=FRAGMENTS)
            stored = self.values[node, row["key"], row["run_id"]]
            value = read_value(self.store, fragment, None, DIMS)
            if isinstance(stored, pl.DataFrame):
                assert value.drop(DIMS, strict=False).equals(stored)
            else:
                assert value == stored

    def collect(self, **options: Any):
        before = options.pop("before", LATER)
        return collect(self.ledger, self.store, f"z{self.runs:04d}", before=lambda: before, **options)

    def packs(self) -> set[str]:
        return set(self.store.listing()["path"])


def _hive(values: dict[str, Any]) -> dict[str, Any]:
    return {f"retailer={key}": value for key, value in values.items()}


@pytest.fixture(params=["disk", "memory"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path if request.param == "disk" else None)


def table(*numbers: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"n": list(numbers), "text": [f"x{n}" * 5 for n in numbers]},
        schema={"n": pl.Int64, "text": pl.String},
    )


def test_nothing_goes_where_everything_is_asked_for(world: World):
    world.run({"a": {"n": 1}, "b": {"n": 2}})
    world.run({"a": {"n": 3}}, "v2")
    before = world.packs()
    collected = world.collect()
    assert (collected.results, collected.repacked, collected.deleted, collected.waiting) == (0, 0, 0, 0)
    assert world.packs() == before and collected.kept == 2
    world.check()


def test_an_empty_project_has_no_garbage(world: World):
    assert world.collect() == (0,) * 8
    assert foreseen(world.ledger, 1) == {"repeated": 0, "superseded": 0, "current": 0}


def test_packs_that_nothing_names_are_deleted_once_they_are_old(world: World):
    world.run({"a": 1})
    path = f"{node_directory(NODE)}/killed-b1.parquet"
    pack_values(world.store, path, NODE, [("retailer=a", 1)], work_keys("a"), DIMS)
    waits = world.collect(before=LONG_AGO)
    assert waits.deleted == 0 and waits.waiting == 1 and waits.waiting_bytes > 0
    goes = world.collect()
    assert goes.deleted == 1 and goes.deleted_bytes == waits.waiting_bytes and path not in world.packs()
    world.check()


def test_what_a_run_named_again_before_it_ended_stays(world: World):
    path = f"{node_directory(NODE)}/r0000-b1.parquet"
    fragments, _ = pack_values(world.store, path, NODE, [("retailer=a", 1)], work_keys("a"), DIMS)

    def a_run_ends():
        world.commit(NODE, "r0001", fragments)
        return LATER

    collected = collect(world.ledger, world.store, "z0001", before=a_run_ends)
    assert (collected.deleted, world.packs()) == (0, {path})


def stored(*results: tuple[str, str, int, int, str]) -> pl.DataFrame:
    """`RESULTS` of pack, key, row offset, bytes and format, each of another computation."""
    names = ("path", "key", "row_offset", "size_bytes", "format")
    rows = [
        {**dict(zip(names, result, strict=True)), "run_hash": f"h{at}"} for at, result in enumerate(results)
    ]
    schema = {name: MATERIALIZATIONS[name] for name in RESULTS}
    frame = pl.DataFrame(rows, schema={name: schema[name] for name in (*names, "run_hash")})
    return frame.with_columns(node=pl.lit(NODE), run_id=pl.lit("r1"), created_at=pl.lit(LONG_AGO)).select(
        RESULTS
    )


def test_packs_less_than_half_alive_are_packed_anew():
    listing = pl.DataFrame({"path": list("abcde"), "size_bytes": [100] * 5})
    kept = stored(
        ("a", "k=1", 0, 30, "table"), ("a", "k=2", 9, 19, "table"),  # 49 of 100
        ("b", "k=1", 0, 30, "table"), ("b", "k=2", 9, 20, "table"),  # half
        ("c", "k=1", 0, 40, "json"), ("c", "k=1", 0, 40, "json"),  # one fragment of two results
        ("d", "", 0, 10, "keyed"),  # a pack of its own
        ("gone", "k=1", 0, 10, "json"),
    )  # fmt: skip
    assert to_repack(kept, listing)["path"].to_list() == ["a", "c"]


def test_results_that_share_a_fragment_take_its_bytes_once():
    results = standing(
        stored(("a", "k=1", 0, 40, "json"), ("a", "k=1", 0, 40, "json"), ("a", "k=2", 1, 40, "json"))
    )
    assert results["standing"].to_list() == ["superseded", "current", "current"]
    assert given_up(results, 80).to_list() == [False, False, False]
    assert given_up(results, 79).to_list() == [True, True, False]


def test_what_a_tag_holds_takes_of_the_limit():
    results = standing(stored(("a", "k=1", 0, 40, "json"), ("a", "k=2", 1, 40, "json")), None, [LATER])
    assert results["standing"].to_list() == ["tagged", "tagged"]
    newer = standing(stored(("a", "k=3", 2, 40, "json")))
    both = pl.concat([results, newer])
    assert given_up(both, 120).to_list() == [False, False, False]
    assert given_up(both, 119).to_list() == [False, False, True]


def test_packs_that_were_moved_wait_also_where_it_came_to_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    for number in range(MANY_PACKS + 1):
        world.run({f"k{number}": number}, f"v{number}")
    before, revise = world.packs(), world.ledger.revise
    world.store.touch(before)
    began = world.store.listing()["modified_at"].max()

    def killed(*arguments):
        revise(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(world.ledger, "revise", killed)
    with pytest.raises(KeyboardInterrupt):
        world.collect()
    collected = world.collect(before=began + dt.timedelta(microseconds=1))
    assert (collected.deleted, collected.waiting) == (0, len(before))
    world.check()


@pytest.mark.parametrize("kind", ["values", "tables"])
def test_many_small_packs_become_one(world: World, kind: str):
    for number in range(MANY_PACKS + 1):
        value = table(*range(number % 4)) if kind == "tables" else {"n": number}
        world.run({f"k{number}": value}, f"v{number}")
    collected = world.collect()
    assert collected.repacked == collected.deleted == MANY_PACKS + 1
    assert len(world.packs()) == 1 and collected.kept == 1 and collected.results == 0
    world.check()
    assert world.collect().repacked == 0


def test_a_collection_keeps_to_its_time_and_to_so_many_bytes_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    for number in range(MANY_PACKS + 1):
        world.run({f"k{number}": number}, f"v{number}")
    two = int(world.store.listing()["size_bytes"].head(2).sum())
    monkeypatch.setattr("barca.io.garbage.collect.MOST_BYTES", two)
    assert world.collect(budget_seconds=0).repacked == 0
    assert world.collect().repacked == 2
    world.check()


def test_a_pack_larger_than_what_is_packed_at_once_is_packed_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("barca.io.garbage.collect.MOST_BYTES", 10)
    world.run({key: table(*range(40)) for key in "abcd"})
    dead = world.results().filter(pl.col("key") != "retailer=d").select("key", "run_hash", "run_id")
    world.ledger.revise(NODE, MOVED.to_frame(), dead)
    [large] = world.packs()
    collected = world.collect()
    assert (collected.repacked, collected.deleted, large in world.packs()) == (1, 1, False)
    world.check()


def test_few_small_packs_stay_as_they_are(world: World):
    for number in range(3):
        world.run({f"k{number}": number})
    assert world.collect().repacked == 0


def test_a_pack_that_is_half_dead_is_packed_anew(world: World):
    world.run({key: table(*range(40)) for key in "abcdefgh"})
    for number in range(REPEATED_KEPT + 1):  # every key but `h` again and again
        world.run({key: table(number) for key in "abcdefg"})
    before = world.results().filter(pl.col("run_id") == "r0001")
    assert before.height == 8
    collected = world.collect()
    assert collected.results == 7 and collected.repacked >= 1
    left = world.results().filter(pl.col("run_id") == "r0001")
    assert left["key"].to_list() == ["retailer=h"] and left["path"].item() not in set(before["path"])
    world.check()


def test_results_go_in_order_of_standing_and_age(world: World):
    world.run({"a": {"n": 1}, "b": {"n": 1}}, "v1")  # a is repeated, b superseded
    world.run({"a": {"n": 1}}, "v1")  # superseded
    world.run({"a": {"n": 2}, "b": {"n": 2}}, "v2")  # current
    total = int(world.results()["size_bytes"].sum())
    results = standing(world.results())
    assert results["standing"].to_list() == ["repeated", "superseded", "superseded", "current", "current"]
    # what goes is another only where some of the results just fit
    sums = {sum(some) for count in range(6) for some in combinations(results["size_bytes"].to_list(), count)}
    limits = sorted(sums | {one - 1 for one in sums if one}, reverse=True)
    orders = [tuple(given_up(results, limit).to_list()) for limit in limits]
    gone = [sum(order) for order in orders]
    assert gone[0] == 0 and gone[-1] == 5 and gone == sorted(gone)
    assert {tuple(at < count for at in range(5)) for count in gone} == set(orders)
    world.collect(limit_bytes=total - 1)
    assert world.results().height == 4
    world.collect(limit_bytes=1)
    assert world.results().height == 0 and world.packs() == set()
    assert world.collect().kept_bytes == 0


def test_what_is_foreseen_is_what_goes(world: World):
    world.run({"a": {"n": 1}, "b": {"n": 1}}, "v1")
    world.run({"a": {"n": 2}}, "v2")
    assert foreseen(world.ledger, None) == {"repeated": 0, "superseded": 0, "current": 0}
    assert foreseen(world.ledger, 1) == {"repeated": 0, "superseded": 1, "current": 2}
    assert world.collect(limit_bytes=1).results == 3


def test_of_a_source_the_newest_answers_are_kept(world: World):
    for number in range(REPEATED_KEPT + 5):
        world.observe({"a": number})
    collected = world.collect()
    assert collected.results == 4 and collected.deleted == 4 and collected.repacked == 0
    rows = world.results("flow.py:source")
    assert rows.height == REPEATED_KEPT + 1
    newest = read_keyed(world.store, rows.tail(1).select(list(FRAGMENTS)))
    assert newest["value"].to_list() == [str(REPEATED_KEPT + 4)]


def test_failures_stay(world: World):
    world.run({"a": 1})
    failed = ledger_rows(NODE, ["retailer=b"], status="failed", path=None, row_offset=None, rows=None)
    writer = world.ledger.writer("rf")
    writer.append("materializations", failed.with_columns(run_id=pl.lit("rf")))
    writer.flush()
    world.collect(limit_bytes=1)
    left = world.ledger.reader().scan("materializations").collect()
    assert left["status"].to_list() == ["failed"]


def test_tables_of_other_schemas_are_not_mixed(world: World):
    for number in range(MANY_PACKS + 2):
        wide = number % 2
        frame = pl.DataFrame({"n": [number]}, schema={"n": pl.Int32 if wide else pl.Int64})
        world.run({f"k{number}": frame}, f"v{number}")
    world.collect()
    assert len(world.packs()) == 2
    world.check()


def test_a_pack_that_cannot_be_read_is_left_to_the_runs(world: World):
    for number in range(MANY_PACKS + 1):
        world.run({f"k{number}": number}, f"v{number}")
    world.store.remove([world.results()["path"][0]])
    rows = world.results()
    assert world.collect().repacked == 0
    assert world.results().equals(rows)


def test_a_new_pack_that_lacks_rows_names_nothing(world: World, monkeypatch: pytest.MonkeyPatch):
    world.run({key: table(1, 2) for key in "ab"})
    fragments = world.results().select(list(FRAGMENTS))
    sink = type(world.store).sink
    monkeypatch.setattr(
        type(world.store), "sink", lambda self, path, frame, told: sink(self, path, frame.head(1), told)
    )
    with pytest.raises(StoreError, match="holds 1 rows in the place of 4"):
        repack(world.store, fragments, f"{node_directory(NODE)}/z")


def test_another_commit_meanwhile_leaves_everything_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    world = World(tmp_path)
    for number in range(MANY_PACKS + 1):
        world.run({f"k{number}": number}, f"v{number}")
    monkeypatch.setattr(
        "barca.io.ledger.replacing.revised", lambda rows, *_: (world.run({"late": 1}), rows)[1]
    )
    assert world.collect(before=LONG_AGO).repacked == 0
    monkeypatch.undo()
    world.check()
    assert world.collect().repacked == MANY_PACKS + 2
    world.check()


def test_a_column_may_have_any_name_where_some_rows_of_a_pack_move(world: World):
    names = ("row", "barca row", "row_offset", "key")
    world.run({key: pl.DataFrame(dict.fromkeys(names, [number])) for number, key in enumerate("abc")})
    kept = world.results().filter(pl.col("key") != "retailer=b")
    moved = repack(world.store, kept.select(list(FRAGMENTS)), f"{node_directory(NODE)}/z")
    table = scan_fragments(
        world.store, work_keys("a", "c").join(moved, on="key", maintain_order="left"), DIMS
    )
    assert table.collect(engine="in-memory").rows() == [("a", 0, 0, 0, 0), ("c", 2, 2, 2, 2)]


def test_a_fragment_without_rows_moves_too(world: World):
    world.run({"a": table(), "b": table(1), "c": table()})
    fragments = world.results().select(list(FRAGMENTS))
    moved = repack(world.store, fragments, f"{node_directory(NODE)}/z")
    assert moved.schema == MOVED
    assert sorted(zip(moved["key"], moved["rows"], moved["size_bytes"] > 0, strict=True)) == [
        ("retailer=a", 0, False),
        ("retailer=b", 1, True),
        ("retailer=c", 0, False),
    ]


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("run"), st.sets(st.sampled_from("abcd"), min_size=1), st.integers(0, 3), st.booleans()
        ),
        st.tuples(st.just("tag"), st.sampled_from("xy"), st.one_of(st.none(), st.integers(0, 9))),
        st.tuples(st.just("collect"), st.one_of(st.none(), st.integers(0, 3000)), st.booleans()),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(steps)
def test_whatever_happens_what_stays_is_what_was_stored(history: list[tuple[Any, ...]]):
    world = World(None)
    pinned: dict[str, pl.DataFrame] = {}
    for number, (kind, *rest) in enumerate(history):
        if kind == "run":
            keys, version, tables = rest
            value = table(*range(number % 5)) if tables else {"n": number}
            world.run({key: value for key in sorted(keys)}, f"v{version}")
            continue
        if kind == "tag":
            name, ago = rest
            moment = None if ago is None else world.now() - dt.timedelta(minutes=ago)
            world.tag(name, moment)
            before = world.results().filter(pl.col("created_at") <= (moment or LONG_AGO - DAY))
            gone = world.ledger.reader().scan("holdings").collect()
            if moment is not None:  # a key whose result of then is gone holds nothing that could be kept
                lost = gone.filter(pl.col("result_at") <= moment).select("key", created_at="result_at")
                before = pl.concat([before, lost], how="diagonal").sort("created_at", maintain_order=True)
            last = before.unique("key", keep="last", maintain_order=True)
            pinned[name] = last.drop_nulls("path").select("key", "run_hash", "run_id")
            continue
        limit, old = rest
        rows = world.results()
        collected = world.collect(limit_bytes=limit, before=LATER if old else LONG_AGO)
        left = world.results()
        assert left.height == rows.height - collected.results
        world.check()
        if limit is None:
            newest = rows.unique(["key", "run_hash"], keep="last")
            assert newest.join(left, on=["key", "run_hash", "run_id"], how="anti").is_empty()
        else:
            kept = rows.join(left, on=["key", "run_id"], how="semi")
            tagged = (
                rows.join(pl.concat(pinned.values()), on=["key", "run_id"], how="semi") if pinned else None
            )
            taken = 0 if tagged is None else int(tagged["size_bytes"].sum())
            assert int(kept["size_bytes"].sum()) <= max(limit, taken)
        for tag in pinned.values():
            assert tag.join(left, on=["key", "run_hash", "run_id"], how="anti").is_empty()
        if old:
            assert world.packs() == set(left["path"])


def test_what_a_tag_holds_stays_until_it_is_deleted(world: World):
    world.run({"a": {"n": 1}, "b": {"n": 1}}, "v1")
    world.tag("first", world.now())
    for version in ("v2", "v1", "v2"):  # repeated, superseded and current
        world.run({"a": {"n": 2}}, version)
    assert foreseen(world.ledger, 1) == {"repeated": 1, "superseded": 1, "current": 1}
    assert tagged(world.ledger)[0] == 2
    world.collect(limit_bytes=1)
    assert world.results()["run_id"].to_list() == ["r0001", "r0001"]
    world.check()
    world.tag("first", None)
    assert tagged(world.ledger) == (0, 0)
    world.collect(limit_bytes=1)
    assert world.results().is_empty() and not world.packs()


def test_a_return_to_an_earlier_result_makes_it_current_again(world: World):
    world.run({"a": {"n": 1}}, "v1")
    world.run({"a": {"n": 2}}, "v2")
    rows = world.results()
    back = pl.DataFrame(
        [(NODE, "retailer=a", "returned", "v1retailer=a", "r0003", None, LATER)],
        schema=HOLDINGS,
        orient="row",
    )
    assert standing(rows, back)["standing"].to_list() == ["current", "superseded"]
    left = back.with_columns(event=pl.lit("left"), run_hash=pl.lit(None, pl.String))
    assert standing(rows, left)["standing"].to_list() == ["superseded", "superseded"]


def test_what_went_left_a_trace(world: World):
    world.run({"a": {"n": 1}, "b": {"n": 1}}, "v1")
    world.collect(limit_bytes=1)
    traces = world.ledger.reader().scan("holdings").collect()
    assert traces["event"].to_list() == ["collected"] * 2
    assert traces["run_id"].to_list() == ["r0001"] * 2 and traces["result_at"].to_list() == [world.now()] * 2
    assert world.collect(limit_bytes=1).results == 0
    assert world.ledger.reader().scan("holdings").collect().height == 2


def test_who_collects_waits_for_who_makes_a_tag(world: World):
    world.run({"a": {"n": 1}}, "v1")
    with world.ledger.claim(0), pytest.raises(LedgerError) as caught:
        world.collect(limit_bytes=1, wait_seconds=0.1)
    assert caught.value.code == "claimed" and world.results().height == 1

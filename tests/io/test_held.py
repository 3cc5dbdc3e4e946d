"""What keys held at a moment, told from results and from what no result tells."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barca.errors import LedgerError
from barca.io.held import COLLECTED_AT, held_at
from barca.io.ledger import DeltaLedger
from barca.io.memory import MemoryLedger
from barca.ports import Ledger
from barca.schemas import HOLDINGS
from tests.io.test_ledger import rows as ledger_rows

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def at(minute: int) -> dt.datetime:
    return BEGIN + dt.timedelta(minutes=minute)


def results(*made: tuple[int, str, str]) -> pl.DataFrame:
    """Results by minute, key and run hash; the run is named by the minute."""
    columns = {"node": pl.String, "key": pl.String, "run_hash": pl.String, "run_id": pl.String}
    rows = [("n", key, run_hash, f"r{minute}", at(minute)) for minute, key, run_hash in made]
    return pl.DataFrame(rows, schema={**columns, "created_at": pl.Datetime("us", "UTC")}, orient="row")


def events(*told: tuple[int, str, str, str | None, int | None]) -> pl.DataFrame:
    """Events by minute, key, kind, run hash, and the minute of the result that was given up."""
    rows = [
        ("n", key, kind, run_hash, f"r{minute if made is None else made}", made and at(made), at(minute))
        for minute, key, kind, run_hash, made in told
    ]
    return pl.DataFrame(rows, schema=HOLDINGS, orient="row")


def test_what_was_given_up_is_told_in_its_place():
    known = results((1, "a", "x"), (9, "a", "z"))
    told = events((20, "a", "collected", "y", 5))
    held = held_at(known, told, at(6))
    assert held["run_hash"].to_list() == ["y"] and held[COLLECTED_AT].to_list() == [at(20)]
    assert held_at(known, told, at(4))[COLLECTED_AT].to_list() == [None]
    assert held_at(known, told)["run_hash"].to_list() == ["z"]


def test_a_trace_of_what_is_still_there_counts_for_nothing():
    held = held_at(results((5, "a", "x")), events((20, "a", "collected", "x", 5)))
    assert held[COLLECTED_AT].to_list() == [None]


steps = st.lists(
    st.tuples(
        st.sampled_from(["make", "return", "leave", "collect"]), st.sampled_from("ab"), st.sampled_from("xyz")
    ),
    max_size=14,
)


@given(steps)
def test_at_every_moment_it_is_what_was_held_then(history: list[tuple[str, str, str]]):
    made: list[tuple[int, str, str]] = []
    told: list[Any] = []
    gone: set[tuple[int, str, str]] = set()
    now: dict[str, tuple[int, str]] = {}
    states = []
    for minute, (kind, key, run_hash) in enumerate(history, 1):
        before = [one for one in made if one[1:] == (key, run_hash) and one not in gone]
        if kind == "make":
            made.append((minute, key, run_hash))
            now[key] = (minute, run_hash)
        elif kind == "return" and before:
            told.append((minute, key, "returned", run_hash, None))
            now[key] = (before[-1][0], run_hash)
        elif kind == "leave":
            told.append((minute, key, "left", None, None))
            now.pop(key, None)
        elif kind == "collect" and before and now.get(key) != (before[0][0], run_hash):
            gone.add(before[0])
            told.append((minute, key, "collected", run_hash, before[0][0]))
        states.append(dict(now))
    left = results(*(one for one in made if one not in gone))
    for minute, state in enumerate(states, 1):
        held = held_at(left, events(*told), at(minute))
        assert {row["key"]: row["run_id"] for row in held.iter_rows(named=True)} == {
            key: f"r{number}" for key, (number, _) in state.items()
        }
        lost = held.filter(pl.col(COLLECTED_AT).is_not_null())
        assert {
            (int(row["run_id"][1:]), row["key"], row["run_hash"]) for row in lost.iter_rows(named=True)
        } == {
            (number, key, run_hash)
            for key, (number, run_hash) in state.items()
            if (number, key, run_hash) in gone
        }


@pytest.fixture(params=["disk", "memory"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return DeltaLedger(tmp_path / "ledger") if request.param == "disk" else MemoryLedger()


def test_results_are_every_success_by_age(ledger: Ledger):
    assert ledger.reader().results("n").is_empty()
    writer = ledger.writer("r1")
    for status in ("success", "failed", "success"):
        writer.append("materializations", ledger_rows("n", ["k=1"], status=status, run_hash="h"))
        writer.flush()
    writer.append("materializations", ledger_rows("other", ["k=1"]))
    writer.flush()
    found = ledger.reader().results("n")
    assert found["status"].to_list() == ["success"] * 2 and found["node"].unique().to_list() == ["n"]
    assert ledger.reader().materialized("n").height == 1


def test_who_claims_keeps_others_waiting(ledger: Ledger):
    with ledger.claim(0):
        pass  # of a ledger that is not there nothing is made
    assert not isinstance(ledger, DeltaLedger) or not ledger.root.exists()
    writer = ledger.writer("r1")
    writer.append("materializations", ledger_rows("n", ["k=1"]))
    writer.flush()
    with ledger.claim(0), pytest.raises(LedgerError) as caught, ledger.claim(0.1):
        pass
    assert caught.value.code == "claimed"
    with ledger.claim(0):
        pass


def test_an_earlier_result_that_the_ledger_has_lost_is_not_another_one():
    known = results((1, "a", "x"), (2, "b", "z"))
    held = held_at(known, events((5, "a", "returned", "y", None)))
    assert dict(zip(held["key"], held["run_id"], strict=True)) == {"a": None, "b": "r2"}
    assert held.filter(pl.col("key") == "a")["run_hash"].item() == "y"

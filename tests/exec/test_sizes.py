"""How many keys, or calls, a work takes, and what is learned of those that ended."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import polars as pl
import pytest

from barca.exec.queues import Ready
from barca.exec.sizes import calls_of_next, keys_of_next, learn, patience, remembered, status_of
from barca.model import BatchesAuto, WorkerDied, WorkResult
from barca.plan.sizing import Measured, Sizing
from barca.schemas import MATERIALIZATIONS, empty


def queue(waiting: int, seconds_per_key: float | None):
    keys = pl.DataFrame({"key": [f"k{number}" for number in range(waiting)]})
    return SimpleNamespace(ready=deque([Ready(keys)]), sizing=None, seconds_per_key=seconds_per_key)


@pytest.mark.parametrize(
    ("waiting", "seconds_per_key", "sent"),
    [
        (1_000, None, 256),
        (10, None, 5),
        (10, 0.001, 10),  # quick ones are not worth a second worker
        (10, 0.2, 2),
        (10, 60.0, 1),
        (1_000_000, 0.00001, 25_000),
        (1_000, 0.0, 1_000),
    ],
)
def test_keys_are_shared_out_unless_they_are_quick(waiting, seconds_per_key, sent):
    assert keys_of_next(queue(waiting, seconds_per_key), workers=2) == sent


def test_earlier_runs_tell_how_long_a_call_takes():
    assert remembered(empty(MATERIALIZATIONS)) is None
    rows = pl.DataFrame(
        {"elapsed_seconds": [9.0] * 10 + [0.5] * 256}, schema_overrides={"elapsed_seconds": pl.Float64}
    )
    assert remembered(rows) == 0.5, "of the newest ones"


@pytest.mark.parametrize(
    ("total", "batched", "one_call", "in_flight", "seconds"),
    [
        (400, False, 0.02, 2, 5.0),
        (400, False, None, 1, 5.0),  # nothing is known of them yet: they may be quick
        (400, False, 30.0, 2, 1.0),  # one call a work: it has nothing that had ended
        (1, False, None, 1, 1.0),
        (400, True, None, 2, 1.0),  # each alone until one was timed
        (400, True, 0.02, 2, 5.0),
        (400, True, 30.0, 2, 1.0),
        (400, False, 0.02, 0, 1.0),
    ],
)
def test_an_interrupted_run_waits_longer_for_quick_calls_that_travel_together(
    total, batched, one_call, in_flight, seconds
):
    one = SimpleNamespace(
        total=total,
        batched=batched,
        seconds_per_key=one_call,
        seconds_per_call=one_call,
        in_flight=in_flight,
    )
    assert patience([one]) == seconds


@pytest.mark.parametrize(
    ("waiting", "seconds_per_call", "sent"),
    [
        (100, None, 1),
        (100, 0.02, 25),
        (100, 0.2, 2),
        (100, 60.0, 1),
        (10, 0.02, 10),  # not worth a second worker
        (10, 0.04, 5),
        (100, 0.0, 100),
    ],
)
def test_planned_calls_travel_together_once_they_turned_out_quick(waiting, seconds_per_call, sent):
    keys = pl.DataFrame({"key": [f"k{number}" for number in range(waiting)]})
    ready = deque([Ready(keys, sizes=(1,) * waiting)])
    assert calls_of_next(SimpleNamespace(ready=ready, seconds_per_call=seconds_per_call), workers=2) == sent


def test_calls_that_travel_together_have_so_many_keys_at_most():
    keys = pl.DataFrame({"key": [f"k{number:05d}" for number in range(50_000)]})
    ready = Ready(keys, sizes=(15_000, 9_000, 1_001, 24_999))
    taken = []
    while ready is not None:
        first, ready = ready.split(9)
        taken.append((first.sizes, first.keys.height, first.keys.item(0, "key")))
    assert taken == [
        ((15_000, 9_000), 24_000, "k00000"),
        ((1_001,), 1_001, "k24000"),
        ((24_999,), 24_999, "k25001"),
    ]


# --- batch="auto" -----------------------------------------------------------------------------------


def measured(*samples, **options):
    return Sizing(spec=BatchesAuto(), measured=Measured(samples=samples, **options))


@pytest.mark.parametrize(
    ("waiting", "sent"),
    [
        (100, 50),  # a share for each worker
        (30, 20),  # shares that are too short to be worth it are not made
        (1_000, 80),  # four times the largest that was measured
    ],
)
def test_measured_calls_are_shared_out_unless_they_are_brief(waiting, sent):
    one = queue(waiting, None)
    one.sizing = measured((10, 1.0, None), (20, 2.0, None))
    assert keys_of_next(one, workers=2) == sent


def work(keys, parent=None):
    return SimpleNamespace(keys=pl.DataFrame({"key": [f"k{n}" for n in range(keys)]}), parent=parent)


def ended(*statuses, error=None, **options):
    keys = pl.DataFrame(
        {"key": ["k"] * len(statuses), "status": statuses, "error_type": [error] * len(statuses)}
    )
    return WorkResult(outcomes=keys, fragments=keys, elapsed_seconds=0.4, **options)


DEATH = WorkerDied(reason="was killed", timed_out=False, exhausted=True, begun=None, elapsed_seconds=1.0)


def test_calls_that_run_out_halve_those_after_them_also_those_that_began_before():
    one = SimpleNamespace(sizing=measured())
    learn(one, work(100), DEATH)
    assert one.sizing.measured.most == 50
    learn(one, work(80), DEATH)
    assert one.sizing.measured.most == 25
    learn(one, work(4, parent="b1"), DEATH)
    assert one.sizing.measured.most == 25, "of a half it may be one key"


def test_what_calls_took_is_remembered_the_newest_hundred():
    one = SimpleNamespace(sizing=measured())
    for number in range(1, 121):
        learn(one, work(number), ended("success", max_rss_bytes=number))
    samples = one.sizing.measured.samples
    assert (len(samples), samples[0], samples[-1]) == (100, (21, 0.4, 21), (120, 0.4, 120))
    learn(one, work(7), ended("failed", error="ValueError", raised=True))
    assert one.sizing.measured.samples == samples, "of a call that failed nothing is learned"


def test_a_planned_call_took_its_part_of_the_works_time():
    one = SimpleNamespace(sizing=None)
    learn(one, work(4), ended("success", took=((0.1, None),) * 4))
    assert one.seconds_per_call == 0.1
    learn(one, work(4), ended("success"))
    assert one.seconds_per_call is None


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (ended("success"), "success"),
        (ended("failed", "success", error="MemoryError", raised=True), "exhausted"),
        (ended("failed", "success", error="MemoryError"), "failed"),  # a key alone: its value is at fault
        (ended("failed", error="ValueError", raised=True), "failed"),
        (DEATH, "exhausted"),
    ],
)
def test_calls_ran_out_where_all_of_them_did(result, status):
    assert status_of(result) == status

"""How many keys a call of `batch="auto"` takes."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from barca import asset, partitions
from barca.model import BatchesAuto
from barca.plan import build_plan
from barca.plan.sizing import FIRST_KEYS, GROWTH, Measured, Size, Sizing, growing_calls, next_size
from tests.plan.worlds import Planner, graph_of


def size_of(samples, *, most=None, target_seconds=10.0, max_memory=None, memory_limit=None):
    spec = BatchesAuto(target_seconds, max_memory)
    measured = Measured(tuple(samples), most)
    return next_size(Sizing(spec=spec, measured=measured, memory_limit=memory_limit))


def test_the_first_calls_are_small_and_the_reason_says_so():
    size = size_of([])
    assert (size.keys, size.limit) == (FIRST_KEYS, None)
    assert "nothing is measured yet" in size.why


def test_a_call_grows_by_a_factor_over_the_largest_that_was_measured():
    size = size_of([(8, 0.001, None)])
    assert size.keys == GROWTH * 8
    assert size.limit == 80_000
    assert size.why == "4 times the largest call measured, of 8 keys"


def test_time_limits_a_call_by_what_each_key_adds():
    # 1 s a call and 0.1 s a key
    size = size_of([(10, 2.0, None), (50, 6.0, None), (30, 4.0, None)])
    assert size.keys == 90
    assert size.why == "10 s a call, at 0.1 s a key"


def test_memory_limits_a_call_and_none_measured_lies_above_the_line():
    samples = [(100, 0.1, 300_000_000), (200, 0.1, 400_000_000), (100, 0.1, 320_000_000)]
    size = size_of(samples, max_memory=500_000_000)
    assert 280 <= size.keys <= 300
    assert "500 MB a call" in size.why
    assert size_of(samples, memory_limit=500_000_000) == size, (
        "the machine's share counts where none is given"
    )
    assert size_of(samples, max_memory=500_000_000, memory_limit=10**12) == size


def test_calls_of_one_size_are_taken_to_cost_nothing_but_keys():
    assert size_of([(10, 5.0, None), (10, 5.0, None)]).keys == 20


def grown(seconds, *, target=30.0, calls=12):
    """Sizes of calls one after the other, where a call of `n` keys takes `seconds(n)`."""
    samples = []
    for _ in range(calls):
        keys = size_of(samples, target_seconds=target).keys
        samples.append((keys, seconds(keys), None))
    return [keys for keys, _, _ in samples]


def test_a_large_cost_of_each_call_does_not_keep_calls_small():
    assert grown(lambda keys: 29 + keys / 1_024)[:5] == [8, 4, 32, 128, 512], "one size tells nothing of that"
    assert grown(lambda keys: 29 + keys / 1_024)[-1] in {1_023, 1_024}
    assert grown(lambda keys: 16 + keys / 64)[-1] in {895, 896}
    assert grown(lambda keys: 1 + keys)[-1] in {28, 29}
    assert grown(lambda keys: 3.75 * keys)[-1] in {7, 8}, "here it is the keys that cost"


def test_where_a_call_of_itself_takes_too_long_its_keys_may_take_the_time():
    sizes = grown(lambda keys: 128 + keys / 8)
    assert sizes[1] < 8, "before it is known"
    assert sizes[-1] in {239, 240}
    assert "a call takes 100 s of itself" in size_of([(10, 101, None), (90, 109, None)]).why


def test_calls_that_ran_out_limit_those_that_come():
    samples = [(100, 0.1, None), (50, 0.05, None)]
    assert size_of(samples).keys == 400
    assert (size_of(samples, most=120).keys, size_of(samples, most=120).limit) == (120, 120)
    assert "ran out of memory or time" in size_of(samples, most=120).why
    assert size_of([], most=4).keys == 4


def test_a_slow_key_is_a_call_of_its_own():
    assert size_of([(8, 800.0, None)]).keys == 1
    assert size_of([(1, 100.0, None), (2, 200.0, None)]).keys == 1


samples = st.lists(
    st.tuples(
        st.integers(1, 10_000),
        st.floats(0, 1e4, allow_nan=False),
        st.none() | st.integers(10**6, 10**11),
    ),
    max_size=20,
)


@given(samples, st.floats(0.01, 1e4), st.none() | st.integers(1, 10**12))
def test_a_size_is_always_at_least_one_and_within_its_bounds(given, seconds, memory):
    size = size_of(given, target_seconds=seconds, max_memory=memory)
    assert size.keys >= 1
    assert size.why
    if given:
        assert size.keys <= GROWTH * max(keys for keys, _, _ in given)
        assert size.limit is not None and size.keys <= size.limit


@given(samples, st.integers(1, 5_000))
def test_foretold_calls_cover_every_key_once_and_grow(given, keys):
    size = size_of(given)
    starts, last = growing_calls(size, keys)
    sizes = [after - before for before, after in zip(starts, [*starts[1:], starts[-1] + last], strict=True)]
    assert starts[0] == 0 and sizes[0] == size.keys
    assert sizes == sorted(sizes)
    assert size.limit is None or sizes[-1] <= max(size.limit, size.keys)
    assert all(bigger <= GROWTH * smaller for smaller, bigger in zip(sizes, sizes[1:], strict=False))


def test_foretold_calls_do_not_grow_past_what_limits_them():
    assert growing_calls(Size(8, 20, ""), 1_000) == ([0, 8], 20)


def test_the_plan_groups_keys_as_foretold_and_keeps_their_order():
    @asset(partitions={"k": partitions(range(1_000))}, batch="auto")
    def a(k: list[str]) -> dict: ...

    plan = build_plan(Planner(graph_of(a)).inputs("a")).nodes["a"]
    sizes = plan.calls.group_by("call", maintain_order=True).len().get_column("len").to_list()
    assert sizes == [8, 32, 128, 512, 320]
    assert plan.calls.get_column("ordinal").to_list() == list(range(1_000))
    assert plan.grouping == "batch=auto"
    assert plan.sizing is not None and plan.sizing.measured == Measured()
    assert isinstance(plan.calls, pl.DataFrame)

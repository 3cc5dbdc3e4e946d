"""The runner obeys a plan: what starts when, what is tried again, what is kept. Executor, ledger and clock
are fakes; no user code runs."""

from __future__ import annotations

import datetime as dt
import signal
from collections.abc import Callable

import polars as pl
import pytest

from barca import asset, batches, collect, partitions, partitions_from, sensor
from barca import schemas as s
from barca.errors import Cancelled, StoreError
from barca.exec.attempts import died_on
from barca.exec.queues import NodeQueue
from barca.exec.run_ports import NoSinks, RunPorts
from barca.exec.runner import Runner
from barca.exec.division import part_of
from barca.hashing import hash_text
from barca.model import FunctionRef, Work, WorkerDied, WorkResult
from barca.plan import build_plan
from barca.records import replace
from tests.plan.worlds import Planner, graph_of

Answer = Callable[[Work], WorkResult | WorkerDied]


def outcome_rows(keys, status="success", error=(None, None)):
    return pl.DataFrame(
        [
            {
                "key": key,
                "status": status,
                "error_type": error[0],
                "error_message": error[1],
                "attempts": 1,
                "elapsed_seconds": 0.1,
            }
            for key in keys
        ],
        schema=s.OUTCOMES,
    )


def fragment_rows(work, keys):
    rows = work.keys.filter(pl.col("key").is_in(list(keys)))
    return pl.DataFrame(
        {
            "key": rows["key"],
            "run_hash": rows["run_hash"],
            "format": "json",
            "path": f"{work.node}/{work.id}.parquet",
            "row_offset": 0,
            "rows": 1,
            "size_bytes": 1,
            "digest": hash_text(work.node),
        },
        schema=s.FRAGMENTS,
    )


def answer(work, *, failing=(), raised=False, begun=None):
    """A result in which `failing` keys fail; with `raised`, all of the call if any of them is in it."""
    keys = work.keys["key"].to_list() if begun is None else work.keys["key"].to_list()[:begun]
    bad = [key for key in keys if key in failing]
    if raised and bad and work.batched:
        bad = keys
    good = [key for key in keys if key not in bad]
    outcomes = pl.concat([outcome_rows(good), outcome_rows(bad, "failed", ("ValueError", "bad"))])
    return WorkResult(
        outcomes=outcomes.with_columns(pl.lit(work.attempt, pl.Int64).alias("attempts")),
        fragments=fragment_rows(work, good),
        elapsed_seconds=0.1,
        raised=raised and bool(bad) and work.batched,
        took=((0.1, None),) if work.batched and not bad else (),
    )


def came_of(*parts):
    """What came of a work of several calls."""
    nothing = {"outcomes": outcome_rows([]), "fragments": pl.DataFrame(schema=s.FRAGMENTS)}
    return WorkResult(**nothing, elapsed_seconds=0.1 * len(parts), parts=parts)


class FakePending:
    def __init__(self, work):
        self.work = work

    def cancel(self):
        raise AssertionError


class FakeExecutor:
    """Answers works one a `wait`, oldest first, by a function; remembers what was submitted."""

    def __init__(self, answers: Answer, workers: int = 2) -> None:
        self.answers = answers
        self.workers = workers
        self.waiting: list[FakePending] = []
        self.submitted: list[Work] = []
        self.called: list[Work] = []
        self.running: list[list[str]] = []
        self.shut = False

    def submit(self, work, keep=None):
        self.submitted.append(work)
        self.waiting.append(FakePending(work))
        self.running.append([pending.work.node for pending in self.waiting])
        assert len(self.waiting) <= self.workers
        return self.waiting[-1]

    def wait(self, timeout):
        if not self.waiting:
            CLOCK.time += timeout or 0
            return []
        if timeout == 0:  # the runner collects what has ended; nothing has
            return []
        pending = self.waiting.pop(0)
        return [(pending, self.answer(pending.work) if pending.work.calls else self.call(pending.work))]

    def call(self, work):
        self.called.append(work)
        return self.answers(work)

    def answer(self, work):
        """What came of a work of several calls, up to the first that failed."""
        parts = []
        for index in range(len(work.calls)):
            came = self.call(part_of(work, index))
            if isinstance(came, WorkerDied):
                return replace(came, begun=index + 1, finished=came_of(*parts))
            parts.append(came)
            if came.raised or (came.outcomes["status"] == "failed").any():
                break
        return came_of(*parts)

    def withdraw(self):
        """All that waits has begun."""

    def shutdown(self, *, cancel=False):
        self.shut = True


class FakeClock:
    time = 0.0

    def now(self):
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def monotonic(self):
        return self.time


CLOCK = FakeClock()


class FakeWriter:
    def __init__(self):
        self.tables: dict[str, list[pl.DataFrame]] = {}
        self.flushed = 0

    def append(self, table, rows):
        assert rows.schema == s.LEDGER_TABLES[table]
        self.tables.setdefault(table, []).append(rows)

    def flush(self):
        self.flushed += 1

    def rows(self, table):
        return pl.concat([s.empty(s.LEDGER_TABLES[table]), *self.tables.get(table, [])])


def make_work(*, id, plan, ready, calls, budget_seconds, held):
    definition = plan.node.definition
    return Work(
        id=id,
        run_id="run",
        node=plan.node.id,
        function=FunctionRef(plan.node.id, "/"),
        batched=definition.batch is not None,
        keys=ready.keys,
        dimensions=plan.node.dimensions,
        calls=calls,
        budget_seconds=budget_seconds,
        attempt=ready.attempt,
        parent=ready.parent,
    )


class Run:
    """One run of a planner's world through a fake executor."""

    def __init__(self, planner: Planner, *targets: str, answers: Answer = answer, workers=2, capacity=2):
        self.planner = planner
        self.plan = build_plan(planner.inputs(*targets))
        self.executor = FakeExecutor(answers, workers)
        self.writer = FakeWriter()
        self.events = []
        ports = RunPorts(
            publications=NoSinks(),
            executor=self.executor,
            writer=self.writer,
            clock=CLOCK,
            listener=self.events.append,
            replan=self.replan,
            make_work=make_work,
            capacity=capacity,
            meanwhile=lambda: None,
        )
        self.runner = Runner("run", self.plan, ports)

    def replan(self, settled, rows):
        inputs = replace(
            self.plan.inputs,
            settled=settled,
            keyed={node: frame for node, frame in self.planner.keyed.items() if node in settled},
            materialized={**self.plan.inputs.materialized, **rows},
        )
        self.plan = build_plan(inputs, self.plan)
        return self.plan

    def go(self):
        self.report = self.runner.run()
        return self

    def calls(self, node):
        """Sizes of the calls of a node, in the order made."""
        return [work.keys.height for work in self.executor.called if work.node == node]

    def attempts(self, node):
        rows = self.writer.rows("materializations").filter(pl.col("node") == node)
        return dict(rows.select("key", "attempts").rows())


def batched(batch, count, **options):
    @asset(partitions={"k": partitions([f"c{n:02d}" for n in range(count)])}, batch=batch, **options)
    def a(k: list[str]) -> dict: ...

    @asset(partitions={"k": partitions_from(a)}, batch=batch)
    def b(k: list[str], a: dict) -> dict: ...

    @asset(inputs={"every": collect(b)})
    def total(every: list) -> dict: ...

    return Planner(graph_of(a, b, total))


def single(count, **options):
    @asset(partitions={"k": partitions([f"c{n:02d}" for n in range(count)])}, **options)
    def a(k: str) -> dict: ...

    return Planner(graph_of(a))


def test_a_call_starts_once_its_own_keys_are_ready():
    run = Run(batched(10, 40), "total").go()
    order = [(work.node, work.keys.height) for work in run.executor.submitted]
    first_b = order.index(("b", 10))
    assert first_b < max(index for index, entry in enumerate(order) if entry[0] == "a")
    assert order[-1] == ("total", 1)
    assert run.report.status == "success"
    assert any({"a", "b"} <= set(running) for running in run.executor.running)


def test_a_planned_call_starts_whole_though_its_keys_become_ready_by_and_by():
    @asset(partitions={"k": partitions([f"c{n:02d}" for n in range(20)])}, batch=3)
    def a(k: list[str]) -> dict: ...

    @asset(partitions={"k": partitions_from(a)}, batch=10)
    def b(k: list[str], a: dict) -> dict: ...

    run = Run(Planner(graph_of(a, b)), "b", answers=lambda work: replace(answer(work), took=())).go()
    assert run.calls("a") == [3] * 6 + [2]
    assert run.calls("b") == [10, 10]
    assert [work.node for work in run.executor.submitted].index("b") < len(run.executor.submitted) - 1


def test_a_key_that_two_inputs_release_waits_for_neither():
    @asset(partitions={"k": partitions(["a", "b", "c"])})
    def x(k: str) -> int: ...

    @asset(partitions={"k": partitions_from(x)})
    def y(k: str) -> int: ...

    @asset(partitions={"k": partitions_from(x)}, inputs={"x": x, "y": y})
    def both(k: str, x: int, y: int) -> int: ...

    plan = build_plan(Planner(graph_of(x, y, both)).inputs("both"))
    queues = {name: NodeQueue(node_plan) for name, node_plan in plan.nodes.items()}
    keys = plan.nodes["x"].decision.select("key")
    for name in ("x", "y"):
        queues["both"].follow(queues[name])
    queues["both"].promote()
    assert not queues["both"].ready
    for name, released in (("x", keys.head(2)), ("y", keys.slice(1))):
        queues["both"].release(
            queues[name].plan.decision.join(released, on="key", how="semi", maintain_order="left")
        )
    queues["both"].promote()
    assert [ready.keys["key"].to_list() for ready in queues["both"].ready] == [["k=b"]]
    queues["both"].release(keys.head(1))
    queues["both"].promote()
    assert queues["both"].ready[1].keys["key"].to_list() == ["k=a"]
    assert queues["both"].waiting["key"].to_list() == ["k=c"]


def test_a_raised_call_is_halved_down_to_the_bad_key():
    run = Run(
        batched("all", 100),
        "b",
        answers=lambda w: answer(w, failing={"k=c42"} if w.node == "a" else (), raised=True),
    ).go()
    sizes = run.calls("a")
    assert sizes[:3] == [100, 50, 50]
    assert all(small <= (big + 1) // 2 for big, small in zip(sizes, sizes[1:]) if small < big)
    assert run.report.nodes["a"].failed["key"].to_list() == ["k=c42"]
    assert run.report.nodes["a"].ran == 99
    assert run.report.nodes["b"].ran == 99
    assert run.report.nodes["b"].blocked["key"].to_list() == ["k=c42"]
    assert run.report.failure.node == "a" and run.report.failure.key == "k=c42"


def test_a_key_that_fails_alone_uses_the_configured_attempts():
    tries = {}

    def answers(work):
        for key in work.keys["key"]:
            tries[key] = tries.get(key, 0) + 1
        failing = {"k=c07"} | ({"k=c04"} if tries.get("k=c04", 0) < 3 else set())
        return answer(work, failing=failing)

    run = Run(single(10, retries=3, retry_backoff=5.0), "a", answers=answers)
    before = CLOCK.time
    run.go()
    assert run.attempts("a") == {f"k=c{n:02d}": 3 if n in (4, 7) else 1 for n in range(10)}
    assert run.report.nodes["a"].failed["key"].to_list() == ["k=c07"]
    assert CLOCK.time - before >= 5.0 + 10.0, "the pause grows linearly"


def test_keys_that_fail_alone_in_a_batched_call_wait_and_run_again_together_without_the_others():
    run = Run(
        batched("all", 10, retries=3, retry_backoff=5.0),
        "a",
        answers=lambda w: answer(w, failing={"k=c03", "k=c07"} if w.attempt < 3 else {"k=c07"}),
    )
    before = CLOCK.time
    run.go()
    assert run.calls("a") == [10, 2, 2]
    assert run.report.nodes["a"].failed["key"].to_list() == ["k=c07"]
    assert CLOCK.time - before >= 5.0 + 10.0


def test_calls_that_fail_whole_wait_as_often_as_retries_says_and_are_halved_further_at_once():
    run = Run(
        batched("all", 16, retries=3, retry_backoff=5.0),
        "a",
        answers=lambda w: answer(w, failing={"k=c03"}, raised=True),
    )
    before = CLOCK.time
    run.go()
    assert run.report.nodes["a"].failed["key"].to_list() == ["k=c03"]
    assert len({size for size in run.calls("a")}) == 5, "16, 8, 4, 2, 1"
    assert CLOCK.time - before == pytest.approx(5.0 + 10.0, abs=1.0), (
        "before the second and the third attempt"
    )


def test_an_answer_without_form_is_not_asked_for_again():
    run = Run(
        batched("all", 10, retries=3),
        "a",
        answers=lambda w: replace(answer(w, failing={"k=c03"}, raised=True), malformed=True),
    ).go()
    assert run.calls("a") == [10]
    assert run.report.nodes["a"].failed.height == 10


PAIRS = [[f"k=c{n:02d}", f"k=c{n + 1:02d}"] for n in range(0, 24, 2)]


def first_calls(run):
    """Keys of the calls of `a`, in the order made, without those tried again."""
    return [
        work.keys["key"].to_list()
        for work in run.executor.called
        if work.attempt == 1 and work.node.endswith("a")
    ]


def test_calls_that_were_not_begun_are_made_next_and_all_are_counted():
    def fails(work):
        return answer(work, failing={"k=c07"}, raised=True)

    run = Run(batched(2, 24), "a", answers=fails, workers=1).go()
    assert first_calls(run) == PAIRS, "each once, in declared order"
    assert any(len(work.calls) > 1 for work in run.executor.submitted)
    assert run.report.nodes["a"].calls == 14
    rows = run.writer.rows("calls")
    assert rows.height == 14
    [whole] = rows.filter((pl.col("keys") == 2) & (pl.col("status") == "failed"))["call"]
    assert rows.filter(pl.col("keys") == 1)["parent"].to_list() == [whole] * 2


@pytest.mark.parametrize("recovered", [True, False])
def test_a_worker_that_dies_on_one_of_several_calls_leaves_the_others_to_be_made(recovered):
    class Executor(FakeExecutor):
        def answer(self, work):
            came = super().answer(work)
            lost = isinstance(came, WorkerDied) and not recovered
            return replace(came, finished=None) if lost else came

    def dies(work):
        if "k=c09" in work.keys["key"]:
            return WorkerDied(reason="ended", timed_out=False, begun=None, elapsed_seconds=0.1)
        return answer(work)

    run = Run(batched(2, 24), "a", workers=1)
    run.executor.__class__, run.executor.answers = Executor, dies
    run.go()
    again = [pair for pair in first_calls(run) if first_calls(run).count(pair) > 1]
    assert bool(again) is not recovered, "what could not be read of those before is called again"
    assert PAIRS[4] not in again
    assert sorted(map(tuple, {tuple(pair) for pair in first_calls(run)})) == [tuple(pair) for pair in PAIRS]
    assert run.report.nodes["a"].failed["key"].to_list() == ["k=c09"]
    assert run.report.nodes["a"].ran == 23


def test_keys_of_a_call_that_are_not_neighbours_are_one_call():
    groups = batches([["c00", "c02"], ["c01", "c03"]])
    run = Run(batched(groups, 4), "a").go()
    assert first_calls(run) == [["k=c00", "k=c02"], ["k=c01", "k=c03"]]


def test_keys_of_auto_calls_are_joined_and_cut_but_for_those_tried_again():
    plan = build_plan(batched("auto", 20).inputs("a"))
    queue = NodeQueue(plan.nodes["a"])
    queue.promote()
    [ready] = queue.ready
    again = replace(ready.slice(10), attempt=2, parent="b1")
    queue.ready.clear()
    queue.add([ready.slice(0, 5), ready.slice(5, 5), again])
    taken = [queue.take(8, 1).keys["key"].to_list() for _ in range(3)]
    assert taken == [[f"k=c{n:02d}" for n in part] for part in (range(8), range(8, 10), range(10, 20))]


def test_a_key_whose_worker_died_is_not_called_again_without_retries():
    def dies(work):
        if "k=c02" in work.keys["key"]:
            return WorkerDied(reason="ended", timed_out=False, begun=work.keys.height, elapsed_seconds=0.1)
        return answer(work)

    run = Run(single(3), "a", answers=dies, workers=1).go()
    assert run.report.nodes["a"].failed["key"].to_list() == ["k=c02"]
    assert run.attempts("a")["k=c02"] == 1
    assert sum("k=c02" in work.keys["key"] for work in run.executor.called) == 1


def test_a_dead_worker_names_its_key_and_the_others_run_again():
    def answers(work):
        keys = work.keys["key"].to_list()
        if "k=c03" in keys:
            begun = keys.index("k=c03") + 1
            return WorkerDied(reason="exit code 1", timed_out=False, begun=begun, elapsed_seconds=0.1)
        return answer(work)

    run = Run(single(6), "a", answers=answers, workers=1).go()
    assert run.report.nodes["a"].failed["key"].to_list() == ["k=c03"]
    assert run.report.nodes["a"].ran == 5
    row = run.writer.rows("materializations").filter(pl.col("status") == "failed").row(0, named=True)
    assert (row["error_type"], row["error_message"]) == ("WorkerDied", "the worker exit code 1")


def test_a_dead_worker_of_a_batched_call_is_found_by_halving():
    def answers(work):
        if "k=c13" in work.keys["key"].to_list():
            return WorkerDied(reason="exit code 1", timed_out=False, begun=None, elapsed_seconds=0.1)
        return answer(work)

    run = Run(batched(64, 64), "a", answers=answers).go()
    assert run.report.nodes["a"].failed["key"].to_list() == ["k=c13"]
    assert run.report.nodes["a"].ran == 63


def test_a_worker_that_always_dies_before_its_first_key_comes_to_an_end():
    died = WorkerDied(reason="exit code 1", timed_out=False, begun=0, elapsed_seconds=0.1)
    run = Run(single(3), "a", answers=lambda work: died, workers=1).go()
    assert run.report.nodes["a"].failed.height == 3


def test_keys_handed_back_run_later_and_none_twice():
    run = Run(single(30), "a", answers=lambda work: answer(work, begun=4), workers=1).go()
    assert run.report.nodes["a"].ran == 30
    keys = run.writer.rows("materializations")["key"].to_list()
    assert sorted(keys) == sorted(set(keys))


def test_failed_node_skips_what_reads_it_whole():
    run = Run(
        batched(10, 20), "total", answers=lambda w: answer(w, failing={"k=c00"} if w.node == "a" else ())
    ).go()
    assert run.report.nodes["total"].skipped == ("upstream_failed", "depends on 'b', which was skipped")
    assert run.calls("total") == []
    assert run.report.nodes["b"].ran == 19


def test_failed_sensor_skips_what_awaits_it(chain):
    run = Run(chain, "total", answers=lambda work: answer(work, failing={""})).go()
    assert {n: r.skipped for n, r in run.report.nodes.items() if r.skipped} == {
        "a": ("upstream_failed", "depends on 'source', which failed"),
        "b": ("upstream_failed", "depends on 'a', which was skipped"),
        "total": ("upstream_failed", "depends on 'b', which was skipped"),
    }
    assert run.report.status == "failed"


def test_sensor_first_then_what_it_decides(chain):
    run = Run(chain, "total").go()
    assert [work.node for work in run.executor.submitted][0] == "source"
    assert {n: r.ran for n, r in run.report.nodes.items()} == {"source": 1, "a": 3, "b": 3, "total": 1}


def test_independent_branch_does_not_wait_for_a_slow_decision():
    @sensor
    def source() -> dict: ...

    @asset(partitions={"k": partitions_from(source)})
    def a(k: str, source: str) -> dict: ...

    @asset(partitions={"k": partitions(["1"])})
    def other(k: str) -> dict: ...

    planner = Planner(graph_of(source, a, other))
    planner.returned("source", {"x": "1"})
    run = Run(planner, "a", "other").go()
    assert {"source", "other"} <= set(run.executor.running[1])


def test_two_parameters_of_one_source_wait_for_it_once():
    @asset(partitions={"k": partitions(["1", "2"])})
    def base(k: str) -> int: ...

    @asset(partitions={"k": partitions(["1", "2"])}, inputs={"x": base, "y": base})
    def both(k: str, x: int, y: int) -> int: ...

    run = Run(Planner(graph_of(base, both)), "both").go()
    assert {node: report.ran for node, report in run.report.nodes.items()} == {"base": 2, "both": 2}


def test_a_run_never_ends_quietly_with_keys_left(monkeypatch):
    monkeypatch.setattr("barca.exec.queues.NodeQueue.release", lambda queue, keys: None)
    with pytest.raises(StoreError, match="keys of `b` neither computed nor failed"):
        Run(batched(10, 20), "b").go()


def test_weight_limits_what_runs_at_once():
    run = Run(batched(1, 6, weight=2), "a", workers=4, capacity=5).go()
    assert max(len(running) for running in run.executor.running) == 2
    alone = Run(batched(1, 6, weight=9), "a", workers=4, capacity=5).go()
    assert max(len(running) for running in alone.executor.running) == 1
    assert alone.report.nodes["a"].ran == 6


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_run_keeps_what_ended(workers):
    """And what ends a little later: with two workers one is on its call when the interruption comes."""
    seen = []

    def answers(work):
        seen.append(work)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return replace(answer(work), took=())  # so that each is a work of its own

    run = Run(batched(5, 20), "a", answers=answers, workers=workers)
    with pytest.raises(Cancelled, match="every key that had finished is kept"):
        run.runner.run()
    assert run.executor.shut
    assert run.writer.flushed
    assert run.writer.rows("materializations").height == 5 * (1 + workers)


def test_ctrl_c_while_what_ended_is_recorded_waits_until_that_is_done(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    run = Run(batched(5, 20), "a")
    wait, succeeded = run.executor.wait, run.runner._journal.succeeded

    def two_at_once(timeout):
        return [*wait(timeout), *wait(timeout)]

    def interrupted(*arguments):
        monkeypatch.setattr(run.runner._journal, "succeeded", succeeded)
        signal.raise_signal(signal.SIGINT)
        succeeded(*arguments)

    monkeypatch.setattr(run.executor, "answers", lambda work: replace(answer(work), took=()))
    monkeypatch.setattr(run.executor, "wait", two_at_once)
    monkeypatch.setattr(run.runner._journal, "succeeded", interrupted)
    try:
        with pytest.raises(Cancelled):
            run.runner.run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(run.executor.called) == 2
    assert run.writer.rows("materializations").height == 10


def test_something_may_be_done_while_works_are_going(monkeypatch):
    run, going = Run(batched(5, 20), "a"), []
    ports = replace(run.runner._ports, meanwhile=lambda: going.append(len(run.executor.waiting)))
    run.runner._ports = ports
    run.go()
    assert going[0] > 0


@pytest.mark.parametrize(("begun", "key"), [(0, "k=c00"), (1, "k=c00"), (2, "k=c01"), (3, "k=c02")])
def test_the_key_that_a_worker_was_on_when_it_died(begun, key):
    keys = build_plan(single(3).inputs("a")).nodes["a"].decision
    assert died_on(keys, begun)["key"].to_list() == [key]


def test_definitions_and_calls_are_recorded_once_each():
    planner = batched(10, 20)
    run = Run(planner, "total").go()
    assert run.writer.rows("definitions")["node"].to_list() == ["a", "b", "total"]
    calls = run.writer.rows("calls")
    assert calls.height == len(run.executor.submitted)
    assert set(run.writer.rows("materializations")["call"]) == set(calls["call"])

"""How many keys, or calls, of a node the next work takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barca.exec.queues import CHUNK_KEYS
from barca.model import BatchesAuto, WorkerDied, WorkResult
from barca.plan.sizing import next_size
from barca.records import replace
from barca.schemas import ELAPSED_SECONDS, ERROR_TYPE, EXHAUSTED, STATUS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from barca.exec.queues import NodeQueue, Ready
    from barca.model import Work

BUDGET_SECONDS: Final = 0.5
"""Calls that travel together are handed back as far as they were not begun after so long."""

FIRST_CHUNK: Final = 256
"""At most so many, before any was timed."""

SPREAD_SECONDS: Final = 0.25
"""One-key calls that take less together go to one worker: another takes longer to start."""

SHARED_SECONDS: Final = 2.0
"""Calls of `batch="auto"` are not made shorter than this to give every worker one."""


def take_next(queue: NodeQueue, workers: int) -> Ready:
    """What to send next of a node of which something is ready."""
    return queue.take(keys_of_next(queue, workers), calls_of_next(queue, workers))


def keys_of_next(queue: NodeQueue, workers: int) -> int:
    """How many keys to send: one-key calls as the budget allows, batched ones as was measured.

    Args:
        queue: The node's; something of it is ready.
        workers: How many could share what is ready.
    """
    waiting = sum(entry.keys.height for entry in queue.ready)
    share = -(-waiting // workers)
    if queue.sizing is not None:
        size = next_size(queue.sizing).keys
        brief = replace(queue.sizing, spec=BatchesAuto(SHARED_SECONDS, queue.sizing.spec.max_memory))
        return min(size, max(share, next_size(brief).keys))
    if queue.seconds_per_key is None:
        return max(1, min(share, FIRST_CHUNK))
    if waiting * queue.seconds_per_key <= SPREAD_SECONDS:
        share = waiting
    affordable = int(BUDGET_SECONDS / max(queue.seconds_per_key, 1e-6))
    return max(1, min(share, affordable, CHUNK_KEYS))


def calls_of_next(queue: NodeQueue, workers: int) -> int:
    """How many planned batched calls to send together: as many as the budget allows, once one was timed.

    Args:
        queue: The node's; something of it is ready.
        workers: How many could share what is ready.
    """
    seconds = queue.seconds_per_call
    if seconds is None:
        return 1
    waiting = sum(max(1, len(entry.sizes)) for entry in queue.ready)
    share = waiting if waiting * seconds <= SPREAD_SECONDS else -(-waiting // workers)
    return max(1, min(share, int(BUDGET_SECONDS / max(seconds, 1e-6))))


def patience(queues: Iterable[NodeQueue]) -> float:
    """Seconds that works get to end in when the run is interrupted.

    Quick calls that travel together end soon, but for a busy machine, and nothing else holds what they have
    computed.
    """
    quick = any(_travels(queue) for queue in queues if queue.in_flight)
    return BUDGET_SECONDS * (10 if quick else 2)


def _travels(queue: NodeQueue) -> bool:
    """Whether a work of the node may be of several quick calls."""
    if queue.batched:
        return queue.seconds_per_call is not None and queue.seconds_per_call < BUDGET_SECONDS
    return queue.total > 1 and (queue.seconds_per_key or 0.0) < BUDGET_SECONDS


def remembered(rows: pl.DataFrame) -> float | None:
    """Seconds that a one-key call took in earlier runs; `None` where there was none.

    Args:
        rows: Stored rows of `schemas.MATERIALIZATIONS` of the node, or some of them, by age.
    """
    seconds = rows.get_column(ELAPSED_SECONDS).tail(FIRST_CHUNK).mean()
    return seconds if isinstance(seconds, float) else None


def status_of(result: WorkResult | WorkerDied) -> str:
    """The status of a call in the ledger."""
    if isinstance(result, WorkerDied):
        return EXHAUSTED if result.exhausted else "failed"
    if (result.outcomes.get_column(STATUS) == "success").all():
        return "success"
    out = result.raised and (result.outcomes.get_column(ERROR_TYPE) == MemoryError.__name__).any()
    return EXHAUSTED if out else "failed"


def learn(queue: NodeQueue, work: Work, result: WorkResult | WorkerDied) -> None:
    """Note what batched calls took, or that one of `batch="auto"` ran out; the next ones follow from it.

    Of what is tried again nothing is learned but what it took: it may run out for one of its keys.
    """
    sizing, status = queue.sizing, status_of(result)
    if sizing is None:
        took = result.took if isinstance(result, WorkResult) else ()
        queue.seconds_per_call = result.elapsed_seconds / len(took) if took else None
        return
    measured = sizing.measured
    if status == EXHAUSTED and work.parent is None:
        most = max(1, min(work.keys.height, measured.most or work.keys.height) // 2)
        queue.sizing = replace(sizing, measured=replace(measured, most=most))
    elif status == "success" and isinstance(result, WorkResult):
        sample = (work.keys.height, result.elapsed_seconds, result.max_rss_bytes)
        queue.sizing = replace(sizing, measured=replace(measured, samples=(*measured.samples, sample)[-100:]))

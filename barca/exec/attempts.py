"""What happens to keys whose call failed: again in smaller calls, again after a pause, or given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barca.exec.division import part_of
from barca.exec.queues import Ready
from barca.model import WorkResult
from barca.records import Record
from barca.schemas import KEY

if TYPE_CHECKING:
    import polars as pl

    from barca.model import Definition, Work, WorkerDied


class Next(Record):
    """What to do with failed keys.

    Attributes:
        again: Calls to make, each with its attempt number.
        delay: Seconds to wait before them.
        given_up: Whether the keys have failed for good; then `again` is empty.
    """

    again: tuple[Ready, ...] = ()
    delay: float = 0.0
    given_up: bool = False


def next_attempt(
    definition: Definition[..., object], work: Work, keys: pl.DataFrame, result: WorkResult | WorkerDied
) -> Next:
    """Decide about failed keys of one call.

    A batched call that failed as a whole is made again in two halves, down to single keys, whatever the
    node's `retries`: one bad key must not fail the others. A single key, and a key that failed alone,
    has `retries` attempts in all, those in larger calls counted. Attempts up to `retries` wait for
    `retry_backoff`, of whatever calls; halves beyond them look for the bad key and do not. A function whose
    answer has not the form of one gives no other when it is asked again.

    Args:
        definition: The node's.
        work: The call that failed.
        keys: Rows of `Work.keys`, those that failed.
        result: What became of the call.
    """
    if isinstance(result, WorkResult) and result.malformed:
        return Next(given_up=True)
    whole = result.raised if isinstance(result, WorkResult) else work.batched
    following = work.attempt + 1
    configured = work.attempt < definition.retries
    delay = definition.retry_backoff * work.attempt if configured else 0.0
    if whole and work.keys.height > 1:
        half = max(1, min((keys.height + 1) // 2, work.keys.height // 2))
        parts = (keys.slice(start, half) for start in range(0, keys.height, half))
        return Next(tuple(Ready(part, following, work.id) for part in parts), delay)
    if configured:
        return Next((Ready(keys, following, work.id),), delay)
    return Next(given_up=True)


def died_on(keys: pl.DataFrame, begun: int) -> pl.DataFrame:
    """The key that a worker of one-key calls was on when it died.

    A worker that died before its first key is taken to have died on it, so that one that always dies
    comes to an end.

    Args:
        keys: `Work.keys` of the work.
        begun: How many it began.

    Returns:
        The row of that key, with the columns of `keys`.
    """
    return keys.slice(max(begun, 1) - 1, 1)


def not_ended(work: Work, ended: pl.DataFrame) -> list[Ready]:
    """The one-key calls of a chunk that have not ended.

    Args:
        work: The chunk.
        ended: Frame with `key` of those that have.
    """
    if ended.height == work.keys.height:
        return []
    rest = work.keys.join(ended.select(KEY), on=KEY, how="anti", maintain_order="left")
    return [Ready(rest, work.attempt)]


def handed_back(work: Work, first: int, end: int | None = None) -> list[Ready]:
    """The batched calls of a work of several from one on, up to another, that were not begun."""
    count = len(work.calls[first:end])
    if not count:
        return []
    part = part_of(work, first, count)
    return [Ready(part.keys, work.attempt, sizes=tuple(keys for _, keys in part.calls))]

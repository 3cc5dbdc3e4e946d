"""Works of several calls taken apart, and results put together of their calls'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barca.exec.outcomes import outcome_rows
from barca.model import WorkResult
from barca.records import replace
from barca.schemas import FRAGMENTS, KEY, OUTCOMES, empty

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barca.exec.boundary import Failure
    from barca.model import Work, WorkerDied

NOTHING = empty(FRAGMENTS)
"""No results."""


def part_of(work: Work, first: int, count: int = 1) -> Work:
    """The work of some consecutive calls of a work of several."""
    chosen = work.calls[first : first + count]
    offset = sum(keys for _, keys in work.calls[:first])
    length = sum(keys for _, keys in chosen)
    inputs = tuple(
        replace(binding, fragments=binding.fragments.slice(offset, length))
        if binding.mode == "same_key"
        else binding
        for binding in work.inputs
    )
    return replace(
        work,
        id=chosen[0][0],
        keys=work.keys.slice(offset, length),
        calls=chosen if count > 1 else (),
        inputs=inputs,
    )


def parts_of(work: Work, result: WorkResult) -> Iterator[tuple[Work, WorkResult]]:
    """Each part of a result with the work that it is of; of a work of one call, these two."""
    if not work.calls:
        yield work, result
        return
    first = 0
    for part in result.parts:
        count = max(1, len(part.took))
        yield part_of(work, first, count), part
        first += count


def failed_result(work: Work, failure: Failure) -> WorkResult:
    """The result of a work whose every key failed for one reason."""
    if work.calls:
        parts = (part_of(work, index) for index in range(len(work.calls)))
        return result_of(tuple(failed_result(part, failure) for part in parts), 0.0)
    keys = work.keys.get_column(KEY).to_list()
    outcomes = outcome_rows(keys, dict.fromkeys(keys, failure), 0.0, work.attempt)
    return WorkResult(outcomes=outcomes, fragments=NOTHING, elapsed_seconds=0.0)


def own_death(death: WorkerDied) -> WorkerDied:
    """Of the death of a work's worker, what is of the call that it was on."""
    before = sum(part.elapsed_seconds for part in death.finished.parts) if death.finished is not None else 0.0
    elapsed_seconds = max(0.0, death.elapsed_seconds - before)
    return replace(death, begun=None, finished=None, elapsed_seconds=elapsed_seconds)


def result_of(parts: tuple[WorkResult, ...], elapsed_seconds: float) -> WorkResult:
    """The result of a work that is known by call."""
    return WorkResult(
        outcomes=empty(OUTCOMES), fragments=NOTHING, elapsed_seconds=elapsed_seconds, parts=parts
    )

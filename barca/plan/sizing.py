"""How many keys a call of `batch="auto"` takes: what earlier calls took in time and memory, against limits.

Calls are few, whatever the number of keys, so this is plain arithmetic over the last of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from barca.errors import plural
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca.model import BatchesAuto

FIRST_KEYS: Final = 8
"""Keys of a call before anything was measured."""

GROWTH: Final = 4
"""A call has at most so many times the keys of the largest that was measured: what is foretold further is
guessed."""

Sample: TypeAlias = tuple[int, float, int | None]
"""One call that succeeded: its keys, seconds, and peak memory in bytes."""

_MB: Final = 1_000_000


class Measured(Record):
    """What is known of earlier calls.

    Attributes:
        samples: Calls that succeeded.
        most: A call may have so many keys: larger ones ran out of memory or time; `None` where none did.
    """

    samples: tuple[Sample, ...] = ()
    most: int | None = None


class Sizing(Record, kw_only=True):
    """What sizes of calls rest on.

    Attributes:
        spec: The limits.
        measured: Earlier calls.
        memory_limit: Bytes of a call where `spec` names none; `None` is no limit.
    """

    spec: BatchesAuto
    measured: Measured = Measured()  # frozen
    memory_limit: int | None = None


class Size(Record):
    """How many keys the next call takes.

    Attributes:
        keys: So many.
        limit: How far it may grow as more is measured, as far as that is known.
        why: In words.
    """

    keys: int
    limit: int | None
    why: str


def next_size(sizing: Sizing) -> Size:
    """The size of the next call, and what limits it."""
    samples, most, spec = sizing.measured.samples, sizing.measured.most, sizing.spec
    if not samples:
        first = min(FIRST_KEYS, most or FIRST_KEYS)
        return Size(first, most, "nothing is measured yet: calls start small and grow")
    bounds = [_by_time([(keys, seconds) for keys, seconds, _ in samples], spec.target_seconds)]
    if most is not None:
        bounds.append((most, "calls of more keys ran out of memory or time"))
    memory = spec.max_memory or sizing.memory_limit
    peaks = [(keys, float(peak)) for keys, _, peak in samples if peak is not None]
    if memory is not None and peaks:
        fixed, each = _line(peaks)
        fixed = max(peak - each * keys for keys, peak in peaks)  # none of them lies above the line
        told = f"{_number(memory / _MB)} MB a call, at {_number(each / _MB)} MB a key"
        bounds.append((_within(memory, fixed, each), told))
    limit, why = min(bounds)
    largest = max(keys for keys, _, _ in samples)
    if limit > GROWTH * largest:
        return Size(
            GROWTH * largest, limit, f"{GROWTH} times the largest call measured, of {plural(largest, 'key')}"
        )
    return Size(limit, limit, why)


def _by_time(points: Sequence[tuple[int, float]], target: float) -> tuple[int, str]:
    """How many keys the seconds of calls allow, and why."""
    fixed, each = _line(points)
    sizes = {keys for keys, _ in points}
    if fixed > target:  # fewer keys would not help: a call costs that much whatever they are
        told = f"a call takes {_number(fixed)} s of itself; {_number(target)} s for its keys"
        return _within(target, 0.0, each), f"{told}, at {_number(each)} s each"
    keys = _within(target, fixed, each)
    if sizes == {keys}:  # as long as all calls have one size, what a call costs of itself cannot be told
        return max(keys // 2, 3 - keys), "another size tells what a call costs and what its keys add"
    return keys, f"{_number(target)} s a call, at {_number(each)} s a key"


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """What a call costs, and what each key adds: least squares, neither below zero.

    Calls of one size tell nothing about the fixed part: then all of it is taken to be the keys'.
    """
    keys = [float(x) for x, _ in points]
    costs = [y for _, y in points]
    middle, cost = sum(keys) / len(keys), sum(costs) / len(costs)
    spread = sum((x - middle) ** 2 for x in keys)
    if not spread:
        return 0.0, cost / middle
    each = max(0.0, sum((x - middle) * (y - cost) for x, y in zip(keys, costs, strict=True)) / spread)
    return max(0.0, cost - each * middle), each


def _within(limit: float, fixed: float, each: float) -> int:
    """How many keys stay within a limit; at least one."""
    if each <= 0:
        return 1 if fixed > limit else _BOUNDLESS
    return max(1, int(min(_BOUNDLESS, (limit - fixed) / each)))


_BOUNDLESS: Final = 10_000_000


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def growing_calls(size: Size, keys: int) -> tuple[list[int], int]:
    """How many keys run in which calls, if sizes grow as foretold.

    Returns:
        Positions at which the first calls begin, and the size of every call from the last of them on.
    """
    limit = size.limit or _BOUNDLESS
    starts, each = [0], size.keys
    while each < limit and starts[-1] + each < keys:
        starts.append(starts[-1] + each)
        each = min(each * GROWTH, limit)
    return starts, each

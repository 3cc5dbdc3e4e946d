"""What happens in a run, as values that listeners receive.

What steps print is not among them: workers write it to stderr and to the logs themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca._typing import NodeId


class RunStarted(Record):
    """A run began.

    Attributes:
        run_id: The run.
        target: Display text of the target.
    """

    run_id: str
    target: str


class NodePlanned(Record):
    """A node is decided: `total` keys, `will_run` of them in `calls` calls."""

    node: NodeId
    total: int
    will_run: int
    calls: int


class WorkStarted(Record):
    """A work of `keys` keys was handed to a worker."""

    node: NodeId
    work: str
    keys: int


class KeysDone(Record):
    """Keys ended: `succeeded` are stored, `failed` will not be tried again."""

    node: NodeId
    succeeded: int
    failed: int


class Retried(Record):
    """Keys of a call that failed are tried again.

    Attributes:
        node: The node.
        keys: Their number.
        attempt: Which attempt the next one is.
        delay_seconds: Time until then.
        message: Error of the first of them.
    """

    node: NodeId
    keys: int
    attempt: int
    delay_seconds: float
    message: str


class KeyFailed(Record):
    """One key ended in failure; `message` is its error. At most a few are sent per node."""

    node: NodeId
    key: str
    error_type: str
    message: str


class Warned(Record):
    """Something people should know; the run goes on."""

    message: str


class Noted(Record):
    """Something that was done besides the steps, and that people may want to know of."""

    message: str


class RunFinished(Record):
    """The run ended.

    Attributes:
        run_id: The run.
        status: `success`, `failed` or `cancelled`.
        elapsed_seconds: Wall time, planning included.
        counts: Keys by outcome: `ran`, `cached`, `failed`, `skipped`.
    """

    run_id: str
    status: str
    elapsed_seconds: float
    counts: Mapping[str, int]


Event: TypeAlias = (
    RunStarted | NodePlanned | WorkStarted | KeysDone | Retried | KeyFailed | Warned | Noted | RunFinished
)

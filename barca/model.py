"""The plain values everything else is made of: what a decorator recorded, and what a call is.

Nothing here imports Polars, so that `import barca` stays light; frames appear in annotations only.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar

from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    import polars as pl

    from barca._typing import Engine, Kind, NodeId, Serializer

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_NONE: Mapping[str, Any] = {}

# --- freshness --------------------------------------------------------------------------------------


class Always(Record):
    """The node runs in every run that needs it."""


class Manual(Record):
    """The node runs when it has no result yet or a refresh names it; never because something changed."""


class Schedule(Record):
    """The node is due by a cron expression; a plain run treats it like a node without freshness.

    Attributes:
        cron: Five-field cron expression.
        batch: Grouping of scheduled runs, as the `batch=` of a run.
    """

    cron: str
    batch: int | str | None = None


Freshness: TypeAlias = Always | Manual | Schedule


# --- partition and batch declarations ---------------------------------------------------------------


class Deferred:
    """An expression of a project file that is evaluated when planning needs it, once.

    Attributes:
        file: File the expression stands in.
        line: Its line.
        source: Its text.
    """

    __slots__ = ("_outcome", "_thunk", "_traceback", "file", "line", "source")

    def __init__(self, thunk: Callable[[], Any], *, file: str, line: int, source: str) -> None:
        self._thunk = thunk
        self._outcome: tuple[Any, BaseException | None] | None = None
        self._traceback: TracebackType | None = None
        self.file = file
        self.line = line
        self.source = source

    def evaluate(self) -> Any:
        """The expression's value; the same value, or the same exception, every time."""
        if self._outcome is None:
            try:
                self._outcome = (self._thunk(), None)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # SystemExit, and panics of native extensions, too
                self._outcome = (None, error)
                self._traceback = error.__traceback__
        value, failure = self._outcome
        if failure is not None:
            raise failure.with_traceback(self._traceback)  # raising grows it otherwise
        return value


class Partitions(Record):
    """Explicit keys of one dimension: strings in declared order, or an expression still to evaluate."""

    values: tuple[str, ...] | Deferred


class PartitionsFrom(Record):
    """The keys of another node, or the keys that a keyed source returns."""

    source: Definition[..., Any] | NodeId


class Collect(Record):
    """Every key of a partitioned node as one input."""

    source: Definition[..., Any] | NodeId


class Batches(Record):
    """Named groups of keys that run together.

    Attributes:
        groups: Display values (one dimension) or `{dimension: value}` per key; or still to evaluate.
        strict: Whether a key in no group is an error.
    """

    groups: tuple[tuple[Any, ...], ...] | Deferred
    strict: bool = False


class BatchesBy(Record):
    """Keys with equal labels run together.

    Attributes:
        label: Called with a key's value (one dimension) or `{dimension: value}`; returns a string or int.
        max_size: Groups are split into calls of at most so many keys.
    """

    label: Callable[[Any], str | int]
    max_size: int | None = None


class BatchesAuto(Record):
    """How many keys a call takes follows from the time and memory that earlier calls took.

    Attributes:
        target_seconds: A call shall take no longer.
        max_memory: Bytes that its worker may take up; `None` is a share of half the machine's memory.
    """

    target_seconds: float = 30.0
    max_memory: int | None = None


BatchSpec: TypeAlias = "int | Literal['all'] | Batches | BatchesBy | BatchesAuto"
InputRef: TypeAlias = "Definition[..., Any] | NodeId | Collect"


class SinkSpec(Record):
    """One `@sink` as declared; `compact_files` and `vacuum_hours` are of Delta tables, in no hash."""

    path: str
    serializer: str | None = None
    partition_by: tuple[str, ...] = ()
    rows_per_file: int | None = None
    format: Literal["delta"] | None = None
    compact_files: int | None = None
    vacuum_hours: int | None = None


class Place(Record):
    """A line of a file."""

    file: str
    line: int


# --- definitions ------------------------------------------------------------------------------------


class Definition(Record, Generic[P, R_co], kw_only=True, eq=False):
    """A decorated function: still callable as the plain function, frozen, registered nowhere.

    Attributes:
        function: The plain function.
        kind: `asset`, `task` or `sensor`.
        name: Replaces the node id when given.
        inputs: Parameter to input.
        partitions: Dimension (a parameter) to its keys, in declared order.
        batch: How keys are grouped into calls; `None` is one key a call, with a scalar parameter.
        serializer: Forces a fragment format.
        freshness: When a result counts as fresh besides its run hash.
        timeout_seconds: Limit of one call, in seconds; `None` is no limit.
        retries: Attempts in all.
        retry_backoff: Seconds before the second attempt; grows linearly.
        env: Names of environment variables that count as input.
        weight: Share of the run's capacity one call takes.
        cutoff: Whether consumers fold in this node's digests instead of its run hashes.
        deterministic: Whether equal inputs give equal results; if not, consumers fold in digests too.
        engine: Engine that collects a returned LazyFrame; `None` is the project's, else `in-memory`.
        description: Free text.
        tags: Free labels.
        sinks: Declared sinks, outermost first.
        file: File of the decorated function.
        line: Line of the first decorator.
    """

    function: Callable[P, R_co]
    kind: Kind
    name: str | None = None
    inputs: Mapping[str, InputRef] = _NONE
    partitions: Mapping[str, Partitions | PartitionsFrom] = _NONE
    batch: BatchSpec | None = None
    serializer: Serializer | None = None
    freshness: Freshness | None = None
    timeout_seconds: float | None = 300
    retries: int = 1
    retry_backoff: float = 0.0
    env: tuple[str, ...] = ()
    weight: int = 1
    cutoff: bool = False
    deterministic: bool = True
    engine: Engine | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    sinks: tuple[SinkSpec, ...] = ()
    file: str
    line: int

    def __post_init__(self) -> None:
        # functools.update_wrapper assigns attributes, which a record refuses
        copied: dict[str, Any] = {
            name: getattr(self.function, name, None) for name in functools.WRAPPER_ASSIGNMENTS
        }
        self.__dict__.update(copied, __wrapped__=self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the plain function."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name or self.function.__qualname__} at {self.file}:{self.line}>"


# --- fingerprints -----------------------------------------------------------------------------------


class Fingerprint(Record):
    """Identity of a node's definition.

    Attributes:
        hash: Definition hash, 32 hexadecimal digits.
        components: What it is made of, each with a hash of its own, so that a change can be named:
            `function`, `arguments`, `helper util.py:clean`, `constant util.py:RATE`, ...
        source: Normalised source of the function and its cone, for showing differences.
        warnings: What could not be followed, and environment reads nobody declared.
    """

    hash: str
    components: Mapping[str, str]
    source: str
    warnings: tuple[str, ...] = ()


# --- calls: what travels to a worker and back -------------------------------------------------------

InputMode: TypeAlias = Literal["whole", "same_key", "collect", "value"]


class InputBinding(Record):
    """What one parameter of a call receives, as a description: frames and references, never data.

    Attributes:
        parameter: Name of the parameter.
        source: Node the input comes from.
        mode: `whole` (an unpartitioned node's value), `same_key` (the call's keys of a partitioned node),
            `collect` (every key), `value` (the call's keys of a keyed source).
        fragments: Frame of `schemas.FRAGMENTS` with, for `same_key`, one row per key of the work; for
            `value`, the one row of the source's keyed fragment.
        dimensions: Dimensions of the source, declared order.
        template: For `collect` of no keys, the row of an older fragment, whose schema the empty table takes.
    """

    parameter: str
    source: NodeId
    mode: InputMode
    fragments: pl.DataFrame
    dimensions: tuple[str, ...] = ()
    template: pl.DataFrame | None = None


class FunctionRef(Record):
    """How a worker finds a function: a project file and a name in it, or a pickle of a notebook function.

    Attributes:
        node: Node id.
        root: Project root directory, absolute.
        file: Project file, absolute; `None` when pickled.
        name: Name of the definition among the module's globals.
        pickled: cloudpickle bytes of the definition.
        definition_hash: Of the definition planned; a worker that loads another one refuses the work.
        imported: Digest of what the file, and those that it imports, held when they were imported, or that
            one was edited since. Where a worker finds another, it looks at the definition.
    """

    node: NodeId
    root: str
    file: str | None = None
    name: str | None = None
    pickled: bytes | None = None
    definition_hash: str | None = None
    imported: str | None = None


class Work(Record, kw_only=True):
    """A unit handed to an executor: consecutive calls of one node, batched ones or one-key ones.

    Attributes:
        id: Unique in the run; names packs and progress files.
        run_id: The run.
        node: Node id.
        function: Where the worker finds the function.
        batched: Whether the function takes lists of keys.
        keys: Frame of `schemas.WORK_KEYS` plus `dim:` columns, in the order of the calls.
        dimensions: The node's dimensions in declared order.
        inputs: One binding per filled parameter.
        keyed: Whether the result is what gives other nodes their keys.
        gives: Dimensions that take their keys from the result.
        before: Frame of `schemas.FRAGMENTS`, one row: the newest such result, which stands for an equal one.
        serializer: Forced format.
        engine: Engine that collects a returned LazyFrame.
        timeout_seconds: Per call.
        calls: Of several batched calls, the id of each and how many keys it has; else empty: one call under
            the work's own id.
        budget_seconds: Of several calls, the worker hands back what it has not begun after so long.
        attempt: 1 for the first.
        parent: The work that failed before, of whose keys this one is.
        env: Environment variables set around the call.
    """

    id: str
    run_id: str
    node: NodeId
    function: FunctionRef
    batched: bool
    keys: pl.DataFrame
    dimensions: tuple[str, ...]
    inputs: tuple[InputBinding, ...] = ()
    keyed: bool = False
    gives: tuple[str, ...] = ()
    before: pl.DataFrame | None = None
    serializer: Serializer | None = None
    engine: Engine = "in-memory"
    timeout_seconds: float | None = 300
    budget_seconds: float | None = None
    attempt: int = 1
    parent: str | None = None
    env: Mapping[str, str] = _NONE
    calls: tuple[tuple[str, int], ...] = ()


class WorkResult(Record, kw_only=True):
    """What came back of a `Work`.

    Attributes:
        outcomes: Frame of `schemas.OUTCOMES`: one row per key that was begun. Keys of the work that
            have no row were handed back unstarted.
        fragments: Frame of `schemas.FRAGMENTS`: one row per key with status `success`.
        elapsed_seconds: Of the work.
        raised: Whether a batched call failed as a whole (it raised, or its answer named other keys), so
            that its failed keys are tried again in smaller calls.
        malformed: Whether it answered with what is no answer to any keys, so that none is tried again.
        max_rss_bytes: Peak resident memory while it ran, or `None` where it cannot be read.
        published: Frame of `schemas.PUBLISHED`: what was written to sinks.
        warnings: For people, e.g. a column that was left out.
        parts: What came of each of several batched calls, in their order, as far as they were begun; then
            the other fields are of no key. A part may be of consecutive calls that all went well.
        took: Of such a part, what each of its calls took: seconds, and the peak memory as above.
    """

    outcomes: pl.DataFrame
    fragments: pl.DataFrame
    elapsed_seconds: float
    published: pl.DataFrame | None = None
    raised: bool = False
    malformed: bool = False
    max_rss_bytes: int | None = None
    warnings: tuple[str, ...] = ()
    parts: tuple[WorkResult, ...] = ()
    took: tuple[tuple[float, int | None], ...] = ()


class WorkerDied(Record, kw_only=True):
    """A worker ended, or was ended, without an answer.

    Attributes:
        reason: How it ended: `exit code 3`, `killed by signal 9 (SIGKILL)`, `timed out after 300 s`.
        timed_out: Whether it was ended for its timeout.
        begun: How many of the work's calls were begun; the last was running. `None` for a single batched
            call. 0: it died before the first.
        elapsed_seconds: Until it was noticed.
        finished: What the calls that had ended came to, as far as it could be kept.
        exhausted: Whether it ended for want of memory or time, as far as that can be told.
    """

    reason: str
    timed_out: bool
    begun: int | None
    elapsed_seconds: float
    finished: WorkResult | None = None
    exhausted: bool = False

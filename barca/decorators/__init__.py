"""The decorators: `asset`, `task`, `sensor` and `sink`.

Each turns a plain function into a frozen `model.Definition`, which stays callable as the function was.
Nothing is registered anywhere; `discovery` finds definitions where Python itself keeps them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from barca.decorators.arguments import check_arguments, check_sink, check_sinks
from barca.errors import DefinitionError
from barca.model import Definition, Place, SinkSpec
from barca.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barca._typing import Engine, Kind, NodeId, Serializer
    from barca.model import BatchSpec, Collect, Freshness, Partitions, PartitionsFrom

__all__ = ["asset", "sensor", "sink", "task"]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="Callable[..., Any]")

SINKS_ATTRIBUTE = "__barca_sinks__"
"""Where `@sink` leaves its specification on a plain function, for the `@asset` above it."""


@overload
def asset(function: Callable[P, R], /) -> Definition[P, R]: ...
@overload
def asset(
    *,
    name: str | None = None,
    inputs: Mapping[str, Definition[..., Any] | NodeId | Collect] | None = None,
    partitions: Mapping[str, Partitions | PartitionsFrom] | None = None,
    batch: BatchSpec | None = None,
    serializer: Serializer | None = None,
    freshness: Freshness | type[Freshness] | None = None,
    timeout_seconds: float | None = 300,
    retries: int = 1,
    retry_backoff: float = 0.0,
    env: Sequence[str] = (),
    weight: int = 1,
    cutoff: bool = False,
    deterministic: bool = True,
    engine: Engine = "in-memory",
    description: str | None = None,
    tags: Sequence[str] = (),
) -> Callable[[Callable[P, R]], Definition[P, R]]: ...
def asset(function: Any = None, /, **arguments: Any) -> Any:
    """A result that is computed when what it is made from changed, and kept.

    Use it bare (`@asset`) or with keyword arguments (`@asset(retries=3)`).

    Args:
        function: The function, when used bare.
        **arguments: See below.

    Keyword Args:
        name: Replaces the node id `path/file.py:function`.
        inputs: Parameter to a decorated function, a node id, or `collect(...)`.
        partitions: Dimension, which is a parameter, to `partitions([...])` or `partitions_from(...)`.
        batch: Keys per call: a positive integer, `"all"`, `"auto"`, `batches(...)`, `batches_by(...)` or
            `batches_auto(...)`; `None` is one, and then the parameter is one key instead of a list of keys.
        serializer: Forces how the result is stored: `table`, `json` or `pickle`.
        freshness: `Always()`, `Manual()` or `Schedule(...)`.
        timeout_seconds: Limit of one call, in seconds; `None` is no limit.
        retries: Attempts in all.
        retry_backoff: Seconds before the second attempt; grows linearly.
        env: Names of environment variables that count as input.
        weight: Share of the run's capacity that one call takes.
        cutoff: Whether readers rerun only when this result's content changed.
        deterministic: Whether equal inputs give equal results.
        engine: Engine that collects a returned LazyFrame: `in-memory` (reproducible) or `streaming`; without
            it what `barca.toml` says.
        description: Free text.
        tags: Free labels.

    Raises:
        DefinitionError: An argument does not exist or does not fit, or the function's parameters don't.

    Examples:
        >>> @asset
        ... def greeting() -> str:
        ...     return "hello"
        >>> greeting()
        'hello'
    """
    return _decorate("asset", function, arguments)


@overload
def task(function: Callable[P, R], /) -> Definition[P, R]: ...
@overload
def task(
    *,
    name: str | None = None,
    inputs: Mapping[str, Definition[..., Any] | NodeId | Collect] | None = None,
    partitions: Mapping[str, Partitions | PartitionsFrom] | None = None,
    batch: BatchSpec | None = None,
    serializer: Serializer | None = None,
    freshness: Freshness | type[Freshness] | None = None,
    timeout_seconds: float | None = 300,
    retries: int = 1,
    retry_backoff: float = 0.0,
    env: Sequence[str] = (),
    weight: int = 1,
    engine: Engine = "in-memory",
    description: str | None = None,
    tags: Sequence[str] = (),
) -> Callable[[Callable[P, R]], Definition[P, R]]: ...
def task(function: Any = None, /, **arguments: Any) -> Any:
    """Something to do, each time a run asks for it: send a report, copy a file.

    Takes what `asset` takes, without `cutoff` and `deterministic`.

    Raises:
        DefinitionError: An argument does not exist or does not fit, or the function's parameters don't.
    """
    return _decorate("task", function, arguments)


@overload
def sensor(function: Callable[P, R], /) -> Definition[P, R]: ...
@overload
def sensor(
    *,
    name: str | None = None,
    partitions: Mapping[str, Partitions | PartitionsFrom] | None = None,
    serializer: Serializer | None = None,
    freshness: Freshness | type[Freshness] | None = None,
    timeout_seconds: float | None = 300,
    retries: int = 1,
    retry_backoff: float = 0.0,
    env: Sequence[str] = (),
    weight: int = 1,
    description: str | None = None,
    tags: Sequence[str] = (),
) -> Callable[[Callable[P, R]], Definition[P, R]]: ...
def sensor(function: Any = None, /, **arguments: Any) -> Any:
    """Looks at the outside world in every run; what reads it runs when it saw something else.

    Takes what `asset` takes, without `inputs`, `batch`, `cutoff`, `deterministic` and `engine`.

    Raises:
        DefinitionError: An argument does not exist or does not fit, or the function's parameters don't.
    """
    return _decorate("sensor", function, arguments)


def _decorate(kind: Kind, function: Any, arguments: dict[str, Any]) -> Any:
    frame = sys._getframe(2)  # noqa: SLF001 - the decorator's line, for its errors
    here = Place(frame.f_code.co_filename, frame.f_lineno)
    if function is not None:
        return _define(kind, function, arguments, here)

    def decorator(function: Callable[P, R]) -> Definition[P, R]:
        return _define(kind, function, arguments, here)

    return decorator


def _define(
    kind: Kind, function: Callable[P, R], arguments: Mapping[str, Any], here: Place
) -> Definition[P, R]:
    # imports `inspect`, which a project file that imports barca may do without
    from barca.decorators.functions import check_function, check_parameters, source_of

    check_function(kind, function, here)
    checked = check_arguments(kind, function.__qualname__, arguments, here)
    source = source_of(function, here)
    definition = Definition(
        function=function,
        kind=kind,
        sinks=tuple(getattr(function, SINKS_ATTRIBUTE, ())),
        file=source.file,
        line=source.line,
        **checked,
    )
    if definition.sinks and kind != "asset":
        raise _sink_misplaced(f"the {kind} `{function.__qualname__}`", here)
    check_sinks(definition, here)
    check_parameters(definition, here)
    return definition


def sink(
    *path: str,
    serializer: str | None = None,
    partition_by: Sequence[str] = (),
    rows_per_file: int | None = None,
    format: str | None = None,  # noqa: A002 - what people call it
    compact_files: int | None = None,
    vacuum_hours: int | None = None,
    **unknown: Any,
) -> Callable[[C], C]:
    """Also publish an asset's result to a place of your own; stacks under `@asset`.

    Args:
        *path: Exactly one: a local path or a URI. Ending in `/` it is a dataset with a directory per key.
        serializer: `parquet`, `csv`, `json`, `ndjson`, `ipc` or `pickle`; otherwise the path's extension
            decides.
        partition_by: Columns that add directory levels to a dataset, or that partition a Delta table.
        rows_per_file: Rows of a dataset's Parquet files at most.
        format: `delta` for one Delta table of every key.
        compact_files: Delta: small files are merged once there are more than so many; 50 by default.
        vacuum_hours: Delta: files that left the table so long ago are deleted; 168 by default.
        **unknown: Refused.

    Raises:
        DefinitionError: An argument does not exist or does not fit, or what is decorated is not an asset.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - the decorator's line, for its errors
    here = Place(frame.f_code.co_filename, frame.f_lineno)
    given = {
        "serializer": serializer,
        "partition_by": partition_by,
        "rows_per_file": rows_per_file,
        "format": format,
        "compact_files": compact_files,
        "vacuum_hours": vacuum_hours,
    }
    spec = check_sink(path, {**given, **unknown}, here)

    def decorator(function: C) -> C:
        return cast("C", _publish(function, spec, here))

    return decorator


def _publish(function: Any, spec: SinkSpec, here: Place) -> Any:
    if isinstance(function, Definition):
        if function.kind != "asset":
            raise _sink_misplaced(f"the {function.kind} `{function.function.__qualname__}`", here)
        sunk: Definition[..., Any] = replace(function, sinks=(spec, *function.sinks))
        check_sinks(sunk, here)
        return sunk
    if not callable(function) or isinstance(function, type):
        raise _sink_misplaced(f"`{function!r}`", here)
    setattr(function, SINKS_ATTRIBUTE, (spec, *getattr(function, SINKS_ATTRIBUTE, ())))
    return function


def _sink_misplaced(what: str, here: Place) -> DefinitionError:
    return DefinitionError(
        f"@sink publishes the result of an asset, not {what}",
        code="sink_misplaced",
        remediation="put @asset above @sink, and @sink above the function",
        file=here.file,
        line=here.line,
    )

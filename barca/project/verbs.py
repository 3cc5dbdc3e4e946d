"""`barca.get`, `scan`, `run`, `plan` and `status`: one-off calls of a `Project`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

from barca.errors import UsageError
from barca.events import Warned
from barca.model import Definition
from barca.project.facade import Project
from barca.project.request import as_list

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import polars as pl

    from barca.events import Event
    from barca.ports import Listener
    from barca.project.forecast import Forecast
    from barca.project.lookback import Lookback
    from barca.project.moments import When
    from barca.project.request import Target, Targets
    from barca.project.results import Result
    from barca.project.state import Status


def _project(
    target: Targets,
    files: tuple[str | Path, ...],
    env: str | Mapping[str, str] | None = None,
    listener: Listener | None = None,
) -> Project:
    """The project of the files, or of the function objects that are targets."""
    functions = [one for one in as_list(target) if isinstance(one, Definition)]
    if functions and files:
        raise UsageError("give function objects or files, not both", code="target")
    if functions:
        return Project.of(functions, env=env, listener=listener)
    return Project(files=files, env=env, listener=listener)


class _Told:
    """Hands on what a run warned of, as Python warnings of the line that called barca, once it has ended."""

    def __init__(self) -> None:
        self._messages: dict[str, None] = {}

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, Warned):
            self._messages[event.message] = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for message in self._messages:
            warnings.warn(message, UserWarning, stacklevel=4)  # here, a verb, barca's own name for it


def _value(result: Result | Lookback) -> Any:
    if result.error is not None:
        result.error.show_step()
        raise result.error
    return result.value


def get(
    target: Targets = None,
    *files: str | Path,
    env: str | Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """See `barca.get`."""
    with _Told() as told:
        return _value(_project(target, files, env, told).get(target, **options))


def run(
    task: Target,
    *files: str | Path,
    env: str | Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """See `barca.run`."""
    with _Told() as told:
        return _value(_project(task, files, env, told).run(task, **options))


def scan(
    target: Target,
    *files: str | Path,
    env: str | Mapping[str, str] | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """See `barca.scan`: the dimension columns (String) first, then the node's own."""
    if len(as_list(target)) != 1:
        raise UsageError("barca.scan takes exactly one target", code="target")
    with _Told() as told:
        return _project(target, files, env, told).scan(target, **options)


def plan(
    target: Targets = None,
    *files: str | Path,
    env: str | Mapping[str, str] | None = None,
    **options: Any,
) -> Forecast:
    """See `barca.plan`."""
    return _project(target, files, env).plan(target, **options)


def stats(
    target: Target, *files: str | Path, env: str | Mapping[str, str] | None = None, **options: Any
) -> dict[str, Any]:
    """See `barca.stats`."""
    return _project(target, files, env).stats(target, **options)


def status(target: Targets = None, *files: str | Path, env: str | Mapping[str, str] | None = None) -> Status:
    """See `barca.status`."""
    return _project(target, files, env).status(target)


def sql(
    query: str,
    *files: str | Path,
    params: Mapping[str, Any] | None = None,
    env: str | Mapping[str, str] | None = None,
    as_of: When | None = None,
) -> pl.LazyFrame:
    """See `barca.sql`: the columns are the query's."""
    return Project(files=files, env=env).sql(query, params, as_of=as_of)

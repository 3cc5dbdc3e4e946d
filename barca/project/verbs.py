"""`barca.get`, `scan`, `run`, `plan` and `status`: one-off calls of a `Project`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.errors import UsageError
from barca.model import Definition
from barca.project.facade import Project
from barca.project.request import as_list

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import polars as pl

    from barca.ports import Executor
    from barca.project.forecast import Forecast
    from barca.project.request import Target, Targets
    from barca.project.results import Result
    from barca.project.state import Status


def _project(
    target: Targets,
    files: tuple[str | Path, ...],
    executor: str | Executor | None = None,
    env: str | Mapping[str, str] | None = None,
) -> Project:
    """The project of the files, or of the function objects that are targets."""
    functions = [one for one in as_list(target) if isinstance(one, Definition)]
    if functions and files:
        raise UsageError("give function objects or files, not both", code="target")
    if functions:
        return Project.of(functions, executor=executor, env=env)
    return Project(files=files, executor=executor, env=env)


def _value(result: Result) -> Any:
    if result.error is not None:
        raise result.error
    return result.value


def get(
    target: Targets = None,
    *files: str | Path,
    executor: str | Executor | None = None,
    env: str | Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """See `barca.get`."""
    return _value(_project(target, files, executor, env).get(target, **options))


def run(
    task: Target,
    *files: str | Path,
    executor: str | Executor | None = None,
    env: str | Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """See `barca.run`."""
    return _value(_project(task, files, executor, env).run(task, **options))


def scan(
    target: Target,
    *files: str | Path,
    executor: str | Executor | None = None,
    env: str | Mapping[str, str] | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """See `barca.scan`."""
    if len(as_list(target)) != 1:
        raise UsageError("barca.scan takes exactly one target", code="target")
    return _project(target, files, executor, env).scan(target, **options)


def plan(
    target: Targets = None,
    *files: str | Path,
    env: str | Mapping[str, str] | None = None,
    **options: Any,
) -> Forecast:
    """See `barca.plan`."""
    return _project(target, files, env=env).plan(target, **options)


def stats(
    target: Target, *files: str | Path, env: str | Mapping[str, str] | None = None, **options: Any
) -> dict[str, Any]:
    """See `barca.stats`."""
    return _project(target, files, env=env).stats(target, **options)


def status(target: Targets = None, *files: str | Path, env: str | Mapping[str, str] | None = None) -> Status:
    """See `barca.status`."""
    return _project(target, files, env=env).status(target)

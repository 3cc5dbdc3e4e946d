"""Settings of a project: `barca.toml` and the environment variables that override it.

`[execution]` holds `pool_size` (worker processes; `BARCA_POOL_SIZE`), `capacity` (weight that may run at
once), `executor` (`"processes"` or `"inline"`; `BARCA_EXECUTOR`) and `engine` (`"in-memory"` or
`"streaming"`). A table `[env.prod]` holds the variables that `--env prod` sets.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from barca._typing import Engine
from barca.errors import UsageError, did_you_mean
from barca.records import EMPTY, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FILE_NAME = "barca.toml"

ExecutorName: TypeAlias = Literal["inline", "processes"]


class Config(Record, kw_only=True):
    """Settings of a project.

    Attributes:
        pool_size: Worker processes.
        capacity: Weight of calls that may run at once.
        executor: Where calls run; `None` leaves it to the shell (processes on the command line, inline
            for function objects).
        engine: Engine that collects returned LazyFrames, for nodes that do not choose; `None` is in-memory.
        environments: Name of an environment to the variables it sets.
        file: The `barca.toml` that was read, if any.
    """

    pool_size: int
    capacity: int
    executor: ExecutorName | None = None
    engine: Engine | None = None
    environments: Mapping[str, Mapping[str, str]] = EMPTY
    file: Path | None = None

    def environment(self, name: str) -> Mapping[str, str]:
        """The variables of `[env.NAME]`.

        Raises:
            UsageError: There is no such table.
        """
        if name in self.environments:
            return self.environments[name]
        raise UsageError(
            f"there is no environment `{name}`",
            code="unknown_environment",
            file=str(self.file) if self.file else None,
            remediation=f"{did_you_mean(name, self.environments)}; declare it in {FILE_NAME} as [env.{name}]",
        )


def find_root(start: Path) -> Path:
    """The project root: the nearest directory upward that holds `barca.toml`, else `start` itself."""
    start = start.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / FILE_NAME).is_file()), start)


def read_config(root: Path, variables: Mapping[str, str] | None = None) -> Config:
    """The settings of the project at `root`.

    Args:
        root: Project root.
        variables: Environment variables; `None` is the process's.

    Raises:
        UsageError: `barca.toml` does not parse, has an unknown key or a wrong type, or an overriding
            variable does not fit.
    """
    variables = os.environ if variables is None else variables
    file = root / FILE_NAME
    table = _parsed(file) if file.is_file() else {}
    place = str(file)
    _check_known("top level", table, ("execution", "env"), place)
    execution = _table("execution", table.get("execution", {}), place)
    _check_known("[execution]", execution, ("pool_size", "capacity", "executor", "engine"), place)
    pool_size = _pool_size(execution, variables, place)
    executor = _executor(execution, variables, place)
    capacity = _positive("[execution] capacity", execution.get("capacity", pool_size), place)
    engine = _choice("[execution] engine", execution.get("engine"), get_args(Engine), place)
    environments = {
        name: _environment(name, values, place)
        for name, values in _table("env", table.get("env", {}), place).items()
    }
    return Config(
        pool_size=pool_size,
        capacity=capacity,
        executor=executor,
        engine=engine,
        environments=environments,
        file=file if file.is_file() else None,
    )


def available_cores() -> int:
    """Cores this process may use: its affinity, and the CPU quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cpu_quota()
    return max(1, min(cores, math.ceil(quota)) if quota else cores)


def _cpu_quota() -> float | None:
    """Cores that the control group grants; `None` without a limit, or where there are no control groups."""
    try:
        allowed, _, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").partition(" ")
        return None if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError):
        return None


def _pool_size(execution: Mapping[str, Any], variables: Mapping[str, str], place: str) -> int:
    override = variables.get("BARCA_POOL_SIZE")
    if override:
        if not override.isascii() or not override.isdigit() or int(override) < 1:
            raise UsageError(
                f"BARCA_POOL_SIZE is a whole number of at least 1, not `{override}`", code="config"
            )
        return int(override)
    cores = available_cores()
    if "pool_size" in execution:
        return _positive("[execution] pool_size", execution["pool_size"], place)
    return min(cores, _positive("[execution] capacity", execution.get("capacity", cores), place))


def _executor(execution: Mapping[str, Any], variables: Mapping[str, str], place: str) -> ExecutorName | None:
    override = variables.get("BARCA_EXECUTOR")
    chosen: ExecutorName | None = (
        _choice("BARCA_EXECUTOR", override, get_args(ExecutorName), None)
        if override
        else _choice("[execution] executor", execution.get("executor"), get_args(ExecutorName), place)
    )
    return chosen


def _parsed(file: Path) -> dict[str, Any]:
    """What the file says: mostly nothing, as it marks the root, and then no parser is needed."""
    try:
        text = file.read_text("utf-8")
        if not text or text.isspace():
            return {}
        import tomllib

        return tomllib.loads(text)
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"it is not valid TOML: {error}", code="config", file=str(file)) from error


def _check_known(where: str, table: Mapping[str, Any], known: Iterable[str], place: str) -> None:
    for key in table:
        if key not in known:
            raise UsageError(
                f"{where} has no key `{key}`",
                code="config",
                file=place,
                remediation=did_you_mean(key, known),
            )


def _table(name: str, value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"`{name}` is a table, not `{value!r}`", code="config", file=place)
    return value


def _positive(name: str, value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(
            f"{name} is a whole number of at least 1, not `{value!r}`", code="config", file=place
        )
    return value


def _choice(name: str, value: Any, choices: tuple[str, ...], place: str | None) -> Any:
    if value is None or value in choices:
        return value
    raise UsageError(
        f"{name} cannot be `{value!r}`",
        code="config",
        file=place,
        remediation=did_you_mean(str(value), choices),
    )


def _environment(name: str, values: Any, place: str) -> dict[str, str]:
    variables = _table(f"env.{name}", values, place)
    for variable, value in variables.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UsageError(
                f"[env.{name}] {variable} is a text or a number, not `{value!r}`",
                code="config",
                file=place,
                remediation=f'write {variable} = "..."',
            )
    return {variable: str(value) for variable, value in variables.items()}

"""barca: decorate plain functions, compute only what changed, per partition key.

    import barca
    from barca import asset

    @asset
    def answer() -> int:
        return 42

    barca.get(answer)

Importing barca loads neither Polars nor the command line; what needs them is loaded when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.decorators import asset, sensor, sink, task
from barca.errors import BarcaError, Failed
from barca.model import Always, Manual, Schedule
from barca.partitions import batches, batches_auto, batches_by, collect, partitions, partitions_from

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from barca.project import Project
    from barca.project.forecast import Forecast
    from barca.project.state import Status

__version__ = "1.0.0a1"

__all__ = [
    "Always",
    "BarcaError",
    "Failed",
    "Manual",
    "Project",
    "Schedule",
    "asset",
    "batches",
    "batches_auto",
    "batches_by",
    "collect",
    "get",
    "partitions",
    "partitions_from",
    "plan",
    "run",
    "scan",
    "sensor",
    "sink",
    "sql",
    "stats",
    "status",
    "task",
]


def get(target: Any = None, *files: str | Path, **options: Any) -> Any:
    """Compute what is stale and return values.

    Args:
        target: A name, a node id, a decorated function, or a list of these; `None` is every asset and
            sensor.
        *files: Project files to read; none is every file under the project root that imports barca.
        **options: `partition`, `batch`, `refresh`, `refresh_all`, `cascade`, `executor`, `env`, `progress`.
            Or `as_of`, a run id, a tag or a time (`"2026-11-30 14:00"`, `"3 days ago"`, a datetime): what was
            held then is read, and nothing run; of the others only `partition` and `env` go with it.

    Returns:
        The value of an unpartitioned target. Of a partitioned one, a dict of display key to value, in key
        order. Of several targets, a dict of target to these.

    Warns:
        UserWarning: What planning could not follow, and files that were left out because they do not load.

    Raises:
        BarcaError: The target does not exist, a step failed, or more than 1,000 keys would be returned.
    """
    from barca import project

    return project.get(target, *files, **options)


def scan(target: Any, *files: str | Path, **options: Any) -> pl.LazyFrame:
    """Compute what is stale and return one lazy table over every selected key of the target.

    Args:
        target: A name, a node id or a decorated function.
        *files: As for `get`.
        **options: As for `get`.

    Returns:
        A LazyFrame: the dimensions as String columns first, then the columns of the results.

    Raises:
        BarcaError: The target does not exist, a step failed, or its results are not tables.
    """
    from barca import project

    return project.scan(target, *files, **options)


def run(task: Any, *files: str | Path, **options: Any) -> Any:
    """Run a task, after computing what is stale of what it reads.

    Args:
        task: A name, a node id or a decorated function.
        *files: As for `get`.
        **options: As for `get`, but for `as_of`.

    Returns:
        The task's value, as `get` returns it.

    Raises:
        BarcaError: The task does not exist, or a step failed.
    """
    from barca import project

    return project.run(task, *files, **options)


def status(target: Any = None, *files: str | Path, **options: Any) -> Status:
    """The state of every node; nothing is computed.

    Args:
        target: A name, a node id, a decorated function, or a list of these; `None` is every node.
        *files: As for `get`.
        **options: `env`.

    Raises:
        BarcaError: The target does not exist.
    """
    from barca import project

    return project.status(target, *files, **options)


def stats(target: Any, *files: str | Path, **options: Any) -> dict[str, Any]:
    """What the calls of a node took, by their size, and the `batch=` that this suggests.

    Args:
        target: A name, a node id or a decorated function.
        *files: As for `get`.
        **options: `target_seconds` and `max_memory`, as of `batches_auto`; `env`.

    Returns:
        What `barca stats NODE --json` prints.

    Raises:
        BarcaError: The target does not exist.
    """
    from barca import project

    return project.stats(target, *files, **options)


def sql(query: str, *files: str | Path, params: Any = None, **options: Any) -> pl.LazyFrame:
    """A query over what nodes hold now, up to date or not; nothing is run.

    Each node is a view: of its function's name, or of its id in double quotes where two share the name. Its
    columns are the dimensions, as String, then those of its results; of results that are no tables, `value`.
    Only files of nodes that the query names are read, and of them what it asks for, when it is collected.

        barca.sql("SELECT shop, SUM(units) AS units FROM sales GROUP BY shop").collect()
        barca.sql("SELECT * FROM sales WHERE week > :week", params={"week": 7}).collect()

    Args:
        query: `SELECT`, `WITH` or `EXPLAIN`, in the SQL of Polars.
        *files: As for `get`.
        params: Values for `:name` in the query: texts, numbers, booleans, dates, `None`, or lists for `IN`.
        **options: `env`; `as_of`, as for `get`, for what nodes held then.

    Raises:
        BarcaError: The query does anything but read, is no SQL, or names what is no node, has no result, or
            is no table.
    """
    from barca import project

    return project.sql(query, *files, params=params, **options)


def plan_target(target: Any = None, *files: str | Path, **options: Any) -> Forecast:
    """What `get` would do, and why; nothing is computed. `barca.plan` is this function.

    Args:
        target: As for `get`.
        *files: As for `get`.
        **options: As for `get`, but for `as_of`.

    Raises:
        BarcaError: The target does not exist.
    """
    from barca import project

    return project.plan(target, *files, **options)


if TYPE_CHECKING:
    plan = plan_target  # a module that can be called, for which type checkers have no name


def __getattr__(name: str) -> Any:
    """What is loaded when it is first used."""
    import importlib

    if name == "Project":
        return importlib.import_module("barca.project").Project
    if name == "plan":
        return importlib.import_module("barca.plan")
    raise AttributeError(f"module `barca` has no attribute `{name}`")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""What each decorator accepts, argument by argument."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from barca._typing import Engine, Serializer
from barca.decorators.places import is_nowhere, uri_of
from barca.errors import DefinitionError, did_you_mean
from barca.model import (
    Always,
    Batches,
    BatchesAuto,
    BatchesBy,
    Collect,
    Definition,
    Manual,
    Partitions,
    PartitionsFrom,
    Schedule,
    SinkSpec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barca._typing import Kind
    from barca.model import Place

_UNFIT_LEVEL = r"(?s)[._].*|.*[/\\=%?\x00-\x1f].*"
"""Names that some reader of Hive directories does not find: pyarrow leaves out those that begin with `_`."""

SINK_SERIALIZERS = ("parquet", "csv", "json", "pickle", "ndjson", "ipc")
DATASET_SERIALIZERS = ("parquet", "csv", "json", "ndjson")


def check_arguments(kind: Kind, function: str, arguments: Mapping[str, Any], here: Place) -> dict[str, Any]:
    """The arguments in the form `model.Definition` keeps them.

    Raises:
        DefinitionError: One does not exist, or its value does not fit.
    """
    accepted = ACCEPTED[kind]
    checked: dict[str, Any] = {}
    for argument, value in arguments.items():
        if argument not in accepted:
            raise unknown_argument(kind, function, argument, accepted, here)
        try:
            checked[argument] = _CHECKS[argument](value)
        except _Unfit as unfit:
            raise DefinitionError(
                f"`{function}`: {argument}= of @{kind} takes {unfit.expected}, not {unfit.given}",
                code="argument_value",
                remediation=unfit.remediation,
                file=here.file,
                line=here.line,
            ) from None
    return checked


def unknown_argument(
    decorator: str, function: str | None, argument: str, accepted: Iterable[str], here: Place
) -> DefinitionError:
    """The error for an argument that a decorator does not have."""
    prefix = f"`{function}`: " if function else ""
    return DefinitionError(
        f"{prefix}@{decorator} has no argument `{argument}`",
        code="unknown_argument",
        remediation=did_you_mean(argument, accepted, limit=20),
        file=here.file,
        line=here.line,
    )


def check_sink(path: tuple[Any, ...], arguments: Mapping[str, Any], here: Place) -> SinkSpec:
    """One `@sink` as declared.

    Raises:
        DefinitionError: An argument does not exist, does not fit, or does not go with the others.
    """
    for argument in arguments:
        if argument not in _SINK_CHECKS:
            raise unknown_argument("sink", None, argument, _SINK_CHECKS, here)
    one = path[0] if len(path) == 1 and isinstance(path[0], str) and "\0" not in path[0] else ""
    if not one.strip():
        given = ", ".join(repr(part) for part in path) or "none"
        raise DefinitionError(
            f"@sink takes exactly one path, by position; given: {given}",
            code="argument_value",
            remediation='write @sink("exports/orders.parquet"); everything else is a keyword',
            file=here.file,
            line=here.line,
        )
    if is_nowhere(one):
        raise DefinitionError(
            f'@sink("{one}") names no file or directory of its own',
            code="argument_value",
            remediation='write a name: @sink("exports/orders.parquet"), @sink("exports/orders/")',
            file=here.file,
            line=here.line,
        )
    try:
        spec = SinkSpec(one, **{name: _SINK_CHECKS[name](value) for name, value in arguments.items()})
        _check_combination(spec)
    except _Unfit as unfit:
        raise DefinitionError(
            f'@sink("{one}") takes {unfit.expected}, not {unfit.given}',
            code="argument_value",
            remediation=unfit.remediation,
            file=here.file,
            line=here.line,
        ) from None
    return spec


def _check_combination(spec: SinkSpec) -> None:
    """Refuse arguments that the kind of sink has no use for."""
    dataset, delta = spec.path.endswith("/") and spec.format is None, spec.format == "delta"
    if delta and spec.serializer is not None:
        raise _Unfit('no serializer= beside format="delta"', spec.serializer, "a Delta table is Parquet")
    if spec.partition_by and not (dataset or delta):
        raise _Unfit("partition_by= for datasets only", spec.partition_by, "end the path with `/`")
    if spec.rows_per_file is not None and (not dataset or spec.serializer not in {None, "parquet"}):
        raise _Unfit("rows_per_file= for Parquet datasets only", spec.rows_per_file, "end the path with `/`")
    if dataset and spec.serializer not in {None, *DATASET_SERIALIZERS}:
        choices = ", ".join(f'"{choice}"' for choice in DATASET_SERIALIZERS)
        raise _Unfit(f"one of {choices} for a dataset", spec.serializer)
    for name in ("compact_files", "vacuum_hours"):
        if getattr(spec, name) is not None and not delta:
            raise _Unfit(f"{name}= for Delta tables only", getattr(spec, name), 'add format="delta"')


def check_sinks(definition: Definition[..., Any], here: Place) -> None:
    """Make sure that the sinks of a definition go with each other and with its dimensions.

    Raises:
        DefinitionError: Two have one path, or one is partitioned by a dimension, or by what no directory
            can be named after.
    """
    paths = [uri_of(spec.path) or posixpath.normpath(spec.path) for spec in definition.sinks]
    for spec, path in zip(definition.sinks, paths, strict=True):
        repeated = [name for name in spec.partition_by if name in definition.partitions]
        if repeated:
            problem = f"cannot be partitioned by `{repeated[0]}`, which is a dimension of the asset"
            fix = "leave it out: a dataset has a level for each dimension anyway"
        elif paths.count(path) > 1:
            problem, fix = "stands there twice", "give each sink a path of its own"
        elif unfit := _unfit_level(spec, definition.partitions):
            problem, fix = unfit
        else:
            continue
        name = definition.name or definition.function.__qualname__
        raise DefinitionError(
            f'`{name}`: @sink("{spec.path}") {problem}',
            code="argument_value",
            remediation=fix,
            file=here.file,
            line=here.line,
        )


def _unfit_level(spec: SinkSpec, dimensions: Iterable[str]) -> tuple[str, str] | None:
    """What is wrong with the names of the levels of directories of a sink, and what to do."""
    by = list(spec.partition_by)
    levels = [*dimensions, *by] if spec.path.endswith("/") and spec.format is None else by
    for place, name in enumerate(levels):
        if re.fullmatch(_UNFIT_LEVEL, name):
            return (
                f"cannot have directories for `{name}`: readers of such directories do not find its values",
                "rename it: it may not begin with `_` or `.`, nor have `/`, `\\`, `=`, `%`, `?` in it",
            )
        other = next((other for other in levels[:place] if other.lower() == name.lower()), None)
        if other is not None:
            return f"has the levels `{other}` and `{name}`, which readers take for one", "rename one of them"
    return None


class _Unfit(Exception):
    """A value that does not fit: what was expected, what was given, how to write it."""

    def __init__(self, expected: str, value: Any, remediation: str | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.given = f"the {type(value).__name__} `{value!r}`"
        self.remediation = remediation


def _one_of(*choices: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise _Unfit(
                "one of " + ", ".join(f'"{choice}"' for choice in choices),
                value,
                did_you_mean(str(value), choices),
            )
        return value

    return check


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _positive_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _Unfit("a whole number of at least 1", value)
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _Unfit("a number of seconds", value)
    return value


def _timeout(value: Any) -> float:
    if _number(value) <= 0:
        raise _Unfit("a positive number of seconds", value, "write None for no limit")
    return float(value)


def _backoff(value: Any) -> float:
    if _number(value) < 0:
        raise _Unfit("a number of seconds of at least 0", value)
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Unfit("True or False", value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unfit("a text", value)
    return value


def _node_name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or set(value) & set(",[]\n"):
        raise _Unfit("a name without commas and brackets", value)
    return value


def _names(what: str) -> Callable[[Any], tuple[str, ...]]:
    def check(value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            raise _Unfit(f"a list of {what}", value, f'write ["{value}"]')
        if not isinstance(value, Sequence) or not all(isinstance(name, str) and name for name in value):
            raise _Unfit(f"a list of {what}", value)
        return tuple(dict.fromkeys(value))

    return check


def _columns(value: Any) -> tuple[str, ...]:
    names = _names("column names")(value)
    if len(names) < len(value):
        raise _Unfit("each column once", value)
    return names


def _freshness(value: Any) -> Any:
    if value is Always or value is Manual:
        return value()
    if not isinstance(value, Always | Manual | Schedule):
        raise _Unfit(
            "Always(), Manual() or Schedule(...)", value, 'for a cron expression write Schedule("0 6 * * *")'
        )
    return value


def _inputs(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _Unfit("a dict of parameter to input", value, 'write inputs={"parameter": that_function}')
    for parameter, ref in value.items():
        if not isinstance(parameter, str):
            raise _Unfit("parameter names as keys", parameter)
        if isinstance(ref, Definition | Collect) or (isinstance(ref, str) and ref):
            continue
        expected = f"a decorated function, a node id or collect(...) for `{parameter}`"
        fix = None
        if isinstance(ref, Partitions | PartitionsFrom):
            fix = "partitions(...) and partitions_from(...) belong in partitions="
        elif callable(ref):
            fix = f"decorate `{getattr(ref, '__name__', ref)}` with @asset, @task or @sensor"
        raise _Unfit(expected, ref, fix)
    return dict(value)


def _partitions(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _Unfit(
            "a dict of dimension to keys", value, 'write partitions={"parameter": partitions([...])}'
        )
    for dimension, declared in value.items():
        if not isinstance(dimension, str) or not dimension.isidentifier():
            raise _Unfit("parameter names as dimensions", dimension)
        if isinstance(declared, Partitions | PartitionsFrom):
            continue
        fix = "write partitions([...])"
        if isinstance(declared, Definition):
            fix = f"write partitions_from({declared.function.__name__})"
        raise _Unfit(f"partitions([...]) or partitions_from(...) for `{dimension}`", declared, fix)
    return dict(value)


def _batch(value: Any) -> Any:
    if isinstance(value, str) and value == "auto":
        return BatchesAuto()
    fits = isinstance(value, Batches | BatchesBy | BatchesAuto) or (isinstance(value, str) and value == "all")
    if fits or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    fix = None
    if isinstance(value, list | tuple):
        fix = "for named groups write batches([[...], [...]])"
    elif callable(value):
        fix = "for groups by label write batches_by(function)"
    elif value == "none":
        fix = 'leave batch= out for one key per call; "none" is for a run\'s --batch'
    raise _Unfit(
        'a positive whole number, "all", "auto", batches(...), batches_by(...) or batches_auto(...)',
        value,
        fix,
    )


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": _optional(_node_name),
    "inputs": lambda value: {} if value is None else _inputs(value),
    "partitions": lambda value: {} if value is None else _partitions(value),
    "batch": _optional(_batch),
    "serializer": _optional(_one_of(*get_args(Serializer))),
    "freshness": _optional(_freshness),
    "timeout_seconds": _optional(_timeout),
    "retries": _positive_int,
    "retry_backoff": _backoff,
    "env": _names("names of environment variables"),
    "weight": _positive_int,
    "cutoff": _flag,
    "deterministic": _flag,
    "engine": _one_of(*get_args(Engine)),
    "description": _optional(_text),
    "tags": _names("labels"),
}

_SINK_CHECKS: dict[str, Callable[[Any], Any]] = {
    "serializer": _optional(_one_of(*SINK_SERIALIZERS)),
    "partition_by": _columns,
    "rows_per_file": _optional(_positive_int),
    "format": _optional(_one_of("delta")),
    "compact_files": _optional(_positive_int),
    "vacuum_hours": _optional(_positive_int),
}

ACCEPTED: dict[Kind, tuple[str, ...]] = {
    "asset": tuple(_CHECKS),
    "task": tuple(name for name in _CHECKS if name not in {"cutoff", "deterministic"}),
    "sensor": tuple(
        name for name in _CHECKS if name not in {"inputs", "batch", "cutoff", "deterministic", "engine"}
    ),
}
"""Arguments of each decorator."""

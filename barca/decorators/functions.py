"""What a decorated function must look like: its kind, its parameters, their annotations."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from barca.errors import DefinitionError, did_you_mean
from barca.model import Collect, Definition, PartitionsFrom, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from barca._typing import Kind

_SCALARS = frozenset({"str", "int", "float", "bool", "bytes", "date", "datetime.date"})
"""Annotations of one key, as text, for those that cannot be evaluated while the file is being read."""


_SILENT = (inspect.Parameter.empty, Any, object)


def source_of(function: Callable[..., Any], here: Place) -> Place:
    """Where the function itself is written, below decorators of any kind."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Place(code.co_filename, code.co_firstlineno) if code else here


def check_function(kind: Kind, function: Any, here: Place) -> None:
    """Refuse what is not a plain function.

    Raises:
        DefinitionError: A class, an instance, an already decorated function, or a coroutine.
    """
    if isinstance(function, Definition):
        raise _error(
            f"`{function.function.__qualname__}` already is the {function.kind} at "
            f"{function.file}:{function.line}",
            f"use one of @asset, @task and @sensor; remove @{kind} or @{function.kind}",
            here,
        )
    plain = inspect.unwrap(function) if callable(function) else function
    if isinstance(function, type) or not hasattr(plain, "__code__"):
        raise _error(
            f"@{kind} decorates a function, not the {type(function).__name__} `{function!r}`",
            f"arguments are keywords, as in @{kind}(name=...); anything else that can be called goes into a "
            "function of its own",
            here,
        )
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        raise _error(
            f"`{function.__qualname__}` is an async function",
            "write it as a plain `def`; inside, run a coroutine with asyncio.run(...)",
            here,
        )


def check_parameters(definition: Definition[..., Any], here: Place) -> None:
    """Check the function's parameters against what fills them, as far as one function shows it.

    Raises:
        DefinitionError: A dimension or input that is not a parameter, a parameter that nothing fills, or
            an annotation that contradicts `batch=`.
    """
    function = definition.function
    name = function.__qualname__
    parameters = inspect.signature(function).parameters
    _check_sources(definition, parameters, name, here)
    _check_filled(definition, parameters, name, here)
    if definition.batch is not None and not definition.partitions:
        raise _error(
            f"`{name}` has batch= but no partitions=: there are no keys to group",
            "remove batch=, or declare the keys in partitions=",
            here,
        )
    if definition.batch is None and inspect.isgeneratorfunction(inspect.unwrap(function)):
        raise _error(
            f"`{name}` is a generator function",
            "return the result; only a function with batch= may yield results key by key",
            here,
        )
    for dimension in definition.partitions:
        if dimension in parameters:
            _check_annotation(definition, parameters[dimension], here)


def _check_sources(
    definition: Definition[..., Any], parameters: Mapping[str, inspect.Parameter], name: str, here: Place
) -> None:
    """Every dimension and input is a parameter, once, and can be given by name."""
    catches_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    named = {
        parameter.name
        for parameter in parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    for what, sources in (("dimension", definition.partitions), ("input", definition.inputs)):
        for source in sources:
            if source in named or (catches_all and source not in parameters):
                continue
            if source in parameters:
                raise _error(
                    f"the {what} `{source}` of `{name}` can't be given by name",
                    f"make `{source}` an ordinary parameter, without `*` or `/`",
                    here,
                )
            raise _error(
                f"the {what} `{source}` is not a parameter of `{name}`",
                f"add the parameter, or rename the {what}: {did_you_mean(source, named)}",
                here,
            )
    both = next((source for source in definition.inputs if source in definition.partitions), None)
    if both is not None:
        raise _error(
            f"`{both}` of `{name}` is in partitions= and in inputs=",
            "a parameter is filled by one of them; rename one",
            here,
        )
    derived = [isinstance(declared, PartitionsFrom) for declared in definition.partitions.values()]
    if any(derived) and len(derived) > 1:
        dimensions = ", ".join(f"`{dimension}`" for dimension in definition.partitions)
        raise _error(
            f"partitions_from(...) must be the only dimension of a node; `{name}` has {dimensions}",
            "use one partitions_from(...), or declare every dimension with partitions([...])",
            here,
        )


def _check_filled(
    definition: Definition[..., Any], parameters: Mapping[str, inspect.Parameter], name: str, here: Place
) -> None:
    filled = {*definition.partitions, *definition.inputs}
    unfilled = [
        parameter.name
        for parameter in parameters.values()
        if parameter.name not in filled
        and parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    # the source of the keys fills one more parameter, named after it; the graph knows that name
    allowed = 1 if _gives_a_value(definition) else 0
    if len(unfilled) > allowed:
        ways = "make it a dimension in partitions=, or give it a default"
        if definition.kind != "sensor":
            ways = f'name its input: inputs={{"{unfilled[allowed]}": ...}}, {ways}'
        raise _error(f"nothing fills the parameter `{unfilled[allowed]}` of `{name}`", ways, here)


def _gives_a_value(definition: Definition[..., Any]) -> bool:
    read = [ref for ref in definition.inputs.values() if not isinstance(ref, Collect)]
    return any(
        isinstance(declared, PartitionsFrom) and declared.source not in read
        for declared in definition.partitions.values()
    )


def _check_annotation(definition: Definition[..., Any], parameter: inspect.Parameter, here: Place) -> None:
    """With `batch=` a dimension's parameter is a list of keys, without it one key."""
    annotation = _evaluated(parameter.annotation, definition.function)
    shape = _shape(annotation)
    name, dimension = definition.function.__qualname__, parameter.name
    written = inspect.formatannotation(annotation)
    if definition.batch is not None and shape == "scalar":
        raise _error(
            f"`{name}` has batch=, so `{dimension}` is a list of keys, but it is annotated `{written}`",
            f"annotate it `{dimension}: list[str]` and answer for each key, or remove batch=",
            here,
        )
    if definition.batch is None and shape == "list":
        raise _error(
            f"`{name}` has no batch=, so `{dimension}` is one key, but it is annotated `{written}`",
            f'annotate it `{dimension}: str`, or group keys into calls with batch="all" or batch=100',
            here,
        )
    if not _takes_text(annotation):
        form = "str" if definition.batch is None else "list[str]"
        raise _error(
            f"keys are strings, but `{dimension}` of `{name}` is annotated `{written}`",
            f"annotate it `{dimension}: {form}`, and convert inside the function what is no text",
            here,
        )


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    """The annotation as an object; text where it names what is not defined (yet)."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, inspect.unwrap(function).__globals__)  # noqa: S307 - as typing.get_type_hints
    except Exception:
        return annotation


def _shape(annotation: Any) -> str | None:
    """`scalar`, `list`, or `None` where the annotation does not say."""
    origin = get_origin(annotation) or annotation
    if isinstance(annotation, str):
        return "scalar" if annotation in _SCALARS else None
    if origin in (Union, UnionType):
        shapes = {_shape(member) for member in get_args(annotation) if member is not type(None)}
        return shapes.pop() if len(shapes) == 1 else None
    if origin is Annotated:
        return _shape(get_args(annotation)[0])
    if origin is Literal:
        return "scalar"
    return _shape_of_class(origin) if _says_something(origin) else None


def _says_something(annotation: Any) -> TypeGuard[type]:
    """Whether it is a class that a value can be checked against.

    `Any`, type variables, protocols and a missing annotation (a class) say nothing.
    """
    return (
        isinstance(annotation, type)
        and annotation not in _SILENT
        and not getattr(annotation, "_is_protocol", False)
    )


def _takes_text(annotation: Any) -> bool:
    """Whether a key, or where the annotation is a list each key in it, may be a string."""
    if isinstance(annotation, str):
        return annotation not in _SCALARS - {"str"}
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Literal:
        return any(isinstance(value, str) for value in arguments)
    if origin is Annotated:
        return _takes_text(arguments[0])
    if origin in (Union, UnionType) or (arguments and _shape(annotation) == "list"):
        return any(_takes_text(member) for member in arguments if member not in (type(None), Ellipsis))
    return (
        not _says_something(origin)
        or _shape(annotation) == "list"
        or issubclass(str, origin)
        or issubclass(origin, str)
    )


def _shape_of_class(annotation: type) -> str:
    if issubclass(annotation, str | bytes):
        return "scalar"
    return "list" if issubclass(annotation, Sequence) or issubclass(list, annotation) else "scalar"


def _error(message: str, remediation: str, here: Place) -> DefinitionError:
    return DefinitionError(message, remediation=remediation, file=here.file, line=here.line)

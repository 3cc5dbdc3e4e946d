"""Whether what a parameter would receive is what its annotation asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barca.errors import InputError
from barca.io.annotations import admits, table_form
from barca.io.records import NotATable
from barca.io.tables import is_table
from barca.io.values import formed
from barca.partitions import display_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca.model import InputBinding, Work


@dataclass(frozen=True, slots=True)
class Telling:
    """Errors of an input that are raised inside say which parameter of which node cannot be given."""

    work: Work
    binding: InputBinding
    annotation: Any

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, InputError):
            raise of_parameter(error, self.work, self.binding, self.annotation) from error


def of_parameter(error: InputError, work: Work, binding: InputBinding, annotation: Any) -> InputError:
    """The error, said for the parameter concerned."""
    annotated = "" if annotation is None else f", annotated `{_written(annotation)}`,"
    fields: dict[str, Any] = {**error.fields(), "node": work.node}
    message = f"the parameter `{binding.parameter}` of `{work.node}`{annotated} cannot be given: "
    return InputError(message + error.message, **fields)


def require_list(annotation: Any) -> None:
    """Refuse an annotation that is neither a list nor a table, of a parameter that collects.

    Raises:
        InputError: It is.
    """
    _require(annotation, list, "collect() gives a list of every key's value")


def require_dict(annotation: Any) -> None:
    """Refuse an annotation that is neither a dict nor a table, of a parameter of a batched call.

    Raises:
        InputError: It is.
    """
    _require(annotation, dict, "a call with batch= is given a dict of key to value")


def unfit(annotation: Any, values: Sequence[Any]) -> set[type]:
    """The types among values that an annotation does not take. It need not say that a value can be `None`."""
    if annotation is None:
        return set()
    return {kind for kind in set(map(type, values)) - {type(None)} if not admits(annotation, kind)}


def fitted(binding: InputBinding, annotation: Any, value: Any, key: str) -> Any:
    """A value that an annotation does not take as it is, as what it asks for: records as a table.

    Raises:
        InputError: It cannot be given as that.
    """
    form = table_form(annotation)
    where = f" for `{display_text(key)}`" if key else ""
    if form is None or is_table(value):
        what = "a table" if is_table(value) else f"a `{type(value).__qualname__}`"
        reason = f"`{binding.source}` returned {what}{where}"
    else:
        try:
            return formed(value, form, annotation)
        except NotATable as error:
            reason = f"what `{binding.source}` returned{where} is no table: {error.why}"
    raise InputError(
        reason,
        code="annotation",
        node=binding.source,
        key=display_text(key) if key else None,
        remediation=f"annotate {_instead(value)}, or nothing to be given what was returned",
    )


def fit_all(binding: InputBinding, annotation: Any, values: list[Any], keys: Sequence[str]) -> list[Any]:
    """Values of keys, each `fitted`.

    Raises:
        InputError: One cannot be given as annotated.
    """
    wrong = unfit(annotation, values)
    if not wrong:
        return values
    return [
        fitted(binding, annotation, value, key) if type(value) in wrong else value
        for key, value in zip(keys, values, strict=True)
    ]


def _require(annotation: Any, kind: type, given: str) -> None:
    if annotation is not None and not admits(annotation, kind):
        name = kind.__name__
        raise InputError(
            given,
            code="annotation",
            remediation=f"annotate `{name}`, `pl.DataFrame` or another table over the keys, or nothing",
        )


def _instead(value: Any) -> str:
    if is_table(value):
        return "`pl.DataFrame`, another table, or `list[dict]` for its rows"
    return f"`{type(value).__qualname__}`"


def _written(annotation: Any) -> str:
    """An annotation as people write it."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        library = annotation.__module__.partition(".")[0]
        return annotation.__qualname__ if library == "builtins" else f"{library}.{annotation.__qualname__}"
    return str(annotation).replace("typing.", "")

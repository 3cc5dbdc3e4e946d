"""Whether what a parameter would receive is what its annotation asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barca.errors import InputError
from barca.io.annotations import admits, table_form
from barca.io.records import NotATable
from barca.io.tables import is_table
from barca.io.values import formed
from barca.partitions import display_text
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barca.model import InputBinding, Work


NO_ONE_TABLE: Final = frozenset(("not_tabular", "schema_clash", "dimension_column"))
"""Codes of errors that say that results of keys are not to be had as one table."""

_SHAPES: Final = {"collect": "list[T]", "same_key": "dict[str, T]"}
"""How a parameter asks for each key's value, by how it reads them, where it may ask for one table too."""


class Telling(Record):
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
    if error.code in NO_ONE_TABLE and (shape := _SHAPES.get(binding.mode)):
        fields["remediation"] = (
            f"{error.remediation}; or annotate `{shape}`, or nothing, for each key's value"
        )
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


def fitted(binding: InputBinding, annotation: Any, value: Any, key: str, shape: str = "T") -> Any:
    """A value that an annotation does not take as it is, as what it asks for: records as a table.

    Args:
        binding: Of the parameter.
        annotation: What it asks for, of each value.
        value: What was returned.
        key: For which key; empty without any.
        shape: How an annotation of the parameter holds that of a value, `T`.

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
        remediation=f"annotate {_instead(value, shape)}, or nothing to be given what was returned",
    )


def fit_all(
    binding: InputBinding, annotation: Any, values: list[Any], keys: Iterable[str], shape: str = "T"
) -> list[Any]:
    """Values of keys, each `fitted`.

    Raises:
        InputError: One cannot be given as annotated.
    """
    wrong = unfit(annotation, values)
    if not wrong:
        return values
    return [
        fitted(binding, annotation, value, key, shape) if type(value) in wrong else value
        for key, value in zip(keys, values, strict=True)
    ]


def _require(annotation: Any, kind: type, given: str) -> None:
    if annotation is not None and not admits(annotation, kind):
        name = kind.__name__
        raise InputError(
            given,
            code="annotation",
            remediation=(
                f"annotate `{name}`, or nothing; or, where its results are tables, `pl.DataFrame` or "
                "another table"
            ),
        )


def _instead(value: Any, shape: str) -> str:
    """What an annotation could say, `shape` around it."""
    if is_table(value):
        frame, rows = (shape.replace("T", kind) for kind in ("pl.DataFrame", "list[dict]"))
        return f"`{frame}`, another table, or `{rows}` for its rows"
    return f"`{shape.replace('T', type(value).__qualname__)}`"


def _written(annotation: Any) -> str:
    """An annotation as people write it."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        library = annotation.__module__.partition(".")[0]
        if (annotation.__module__, annotation.__qualname__) == ("pyarrow._dataset", "Dataset"):
            library = "pyarrow.dataset"
        return annotation.__qualname__ if library == "builtins" else f"{library}.{annotation.__qualname__}"
    return str(annotation).replace("typing.", "")

"""What a parameter's annotation asks for. Types are matched by module and name, so that no library is
imported before a value of its kind is made; annotations may be text that nothing resolves.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

TableForm: TypeAlias = Literal["polars", "lazy", "arrow", "dataset", "pandas", "duckdb"]

_FORMS: Final[dict[tuple[str, str], TableForm]] = {
    ("polars", "DataFrame"): "polars",
    ("polars", "LazyFrame"): "lazy",
    ("pyarrow", "Table"): "arrow",
    ("pyarrow", "Dataset"): "dataset",
    ("pandas", "DataFrame"): "pandas",
    ("duckdb", "DuckDBPyRelation"): "duckdb",
    ("_duckdb", "DuckDBPyRelation"): "duckdb",
}
_ALIASES: Final = {"pl": "polars", "pa": "pyarrow", "ds": "pyarrow", "pd": "pandas"}
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
_BARE: Final[dict[str, TableForm]] = {name: form for (_, name), form in reversed(_FORMS.items())}
_ITEMS: Final = (list, tuple, Sequence, typing.Sequence, typing.Iterable)
_ALIKE: Final = ((int, float), (list, tuple))
_MAPPINGS: Final = (dict, Mapping, typing.Mapping)


def parameter_annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotation of each annotated parameter; the text itself where it cannot be resolved."""
    raw = dict(getattr(function, "__annotations__", {}))
    raw.pop("return", None)
    try:
        resolved = typing.get_type_hints(function)
    except Exception:
        scope = getattr(function, "__globals__", {})
        return {name: _resolved(value, scope) for name, value in raw.items()}
    return {name: resolved.get(name, value) for name, value in raw.items()}


def return_annotation(function: Callable[..., Any]) -> Any:
    """The annotation of what a function returns, the text itself where it cannot be resolved, or `None`."""
    raw = getattr(function, "__annotations__", {}).get("return")
    return _resolved(raw, getattr(function, "__globals__", {}))


def table_form(annotation: Any) -> TableForm | None:
    """The first table type that an annotation names: itself, in an Optional, in a union, as text."""
    if isinstance(annotation, str):
        return next(filter(None, map(_form_of_name, _NAME.findall(_outside_brackets(annotation)))), None)
    if isinstance(annotation, typing.ForwardRef):
        return table_form(annotation.__forward_arg__)
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return table_form(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return next(filter(None, map(table_form, typing.get_args(annotation))), None)
    module, name = getattr(annotation, "__module__", ""), getattr(annotation, "__name__", "")
    return _FORMS.get((str(module).partition(".")[0], str(name)))


def admits(annotation: Any, kind: type) -> bool:
    """Whether values of a type can be given where an annotation stands, as far as the annotation says.

    One number may stand for another, a tuple for a list, and a plain value for one of a class made from it:
    what is stored as JSON does not tell them apart.
    """
    if isinstance(annotation, str | typing.ForwardRef):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        return _text_admits(text, kind)
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return admits(typing.get_args(annotation)[0], kind)
    if origin in (typing.Union, types.UnionType):
        return any(admits(option, kind) for option in typing.get_args(annotation))
    wanted = dict if typing.is_typeddict(annotation) else origin or annotation
    if wanted is Any or not isinstance(wanted, type):
        return True  # says nothing, or lists literals
    try:
        alike = any(issubclass(kind, family) and issubclass(wanted, family) for family in _ALIKE)
        return alike or issubclass(kind, wanted) or issubclass(wanted, kind)
    except TypeError:  # a protocol that cannot be asked
        return True


def _text_admits(text: str, kind: type) -> bool:
    if (form := table_form(text)) is not None:
        return table_form(kind) == form
    if mapping_value(text)[0]:
        return issubclass(kind, Mapping)
    return issubclass(kind, list | tuple) or not list_item(text)[0]


def mapping_value(annotation: Any) -> tuple[bool, Any]:
    """Whether an annotation is a mapping (`dict[str, T]`), and its `T`, `None` where it says none."""
    return _container(
        annotation, _MAPPINGS, r"(?:typing\.|t\.)?(?:dict|Dict|Mapping)(?:\[(?:[^,\[\]]+),(.*)\])?"
    )


def list_item(annotation: Any) -> tuple[bool, Any]:
    """Whether an annotation is a sequence (`list[T]`), and its `T`, `None` where it says none."""
    return _container(annotation, _ITEMS, r"(?:typing\.|t\.)?(?:list|List|Sequence|Iterable)(?:\[(.*)\])?")


def _container(annotation: Any, origins: tuple[Any, ...], pattern: str) -> tuple[bool, Any]:
    if isinstance(annotation, str):
        found = re.fullmatch(pattern, annotation.replace(" ", ""))
        return (False, None) if found is None else (True, found[1])
    if annotation in origins:
        return True, None
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        options = (_container(option, origins, pattern) for option in typing.get_args(annotation))
        return next((option for option in options if option[0]), (False, None))
    if origin not in origins:
        return False, None
    items = [item for item in typing.get_args(annotation) if item is not Ellipsis]
    return True, items[-1] if items else None


def _resolved(value: Any, scope: dict[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    try:
        found = eval(value, scope)  # noqa: S307  # the user's own annotation, as typing would evaluate it
    except Exception:
        return value
    return _resolved(found, scope) if found != value else found  # quoted twice: by hand and by the future


def _form_of_name(name: str) -> TableForm | None:
    module, _, last = name.rpartition(".")
    root = module.partition(".")[0]
    return _FORMS.get((_ALIASES.get(root, root), last)) if module else _BARE.get(last)


def _outside_brackets(text: str) -> str:
    """The text of an annotation without what its containers hold; Optional and Union hold options."""
    text = re.sub(r"\b(?:typing\.|t\.)?(?:Optional|Union|Annotated)\[", "(", text)
    while (shorter := re.sub(r"\w[\w.]*\[[^\[\]]*\]", "", text)) != text:
        text = shorter
    return text

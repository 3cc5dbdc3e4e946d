"""Canonical text of plain values: constants, default arguments, closure cells."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import logging
import os
import re
import sys
import types
import typing
import uuid
import zoneinfo
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

from barca.fingerprint.normalise import HIDDEN, holds_password, looks_secret
from barca.hashing import encode
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Encoded: TypeAlias = tuple[str, tuple[object, ...]]
"""A value's text, and the functions, classes and modules in it, in the order they stand."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, type(...), type(NotImplemented))
_BY_TEXT = frozenset(
    {
        dt.date,
        dt.timedelta,
        dt.timezone,
        uuid.UUID,
        decimal.Decimal,
        fractions.Fraction,
        range,
        zoneinfo.ZoneInfo,
    }
)
_SUBCLASSED: tuple[Any, ...] = (str, int, float, bytes)
_CALLABLE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ModuleType,
    type,
)


class Unencodable(Exception):
    """A value that has no stable text."""


class ValueEncoder:
    """Encodes values of one module.

    Args:
        root: Absolute project root; paths below it are written relative to the module's directory, so that
            a project may stand anywhere.
        folder: Directory of the module, or `None`.
        is_project: Whether a class is the project's, so that its instances are taken apart.
    """

    def __init__(self, root: str, folder: str | None, is_project: Callable[[type], bool]) -> None:
        self._root = root
        self._folder = folder
        self._is_project = is_project
        self._open: set[int] = set()

    def encode(self, value: object) -> Encoded:
        """The value's canonical text.

        Raises:
            Unencodable: Some part of it has no stable text, or it contains itself.
        """
        if id(value) in self._open and not isinstance(value, _PLAIN):
            raise Unencodable("it contains itself")
        self._open.add(id(value))
        try:
            return self._encode(value)
        except RecursionError:
            raise Unencodable("it is nested too deeply") from None
        finally:
            self._open.discard(id(value))

    def _encode(self, value: object) -> Encoded:
        if is_reference(value):
            return encode([("ref", reference_name(value))]), (value,)
        for method in (
            self._plain,
            self._standard,
            self._container,
            self._callable,
            self._type_form,
            self._foreign,
            self._instance,
        ):
            encoded = method(value)
            if encoded is not None:
                return encoded
        raise Unencodable(f"a value of type `{type_name(type(value))}` has no stable text")

    # --- one method per family ------------------------------------------------------------------------

    def _plain(self, value: object) -> Encoded | None:
        kind = type(value)
        if kind not in _PLAIN:
            return None
        if isinstance(value, str):
            text = self._relative(value)
        elif isinstance(value, bytes | bytearray):
            text = bytes(value).hex()
        elif kind is int:
            text = hex(value)  # type: ignore[arg-type]
        else:
            text = repr(value)
        return encode([(kind.__name__, text)]), ()

    def _standard(self, value: Any) -> Encoded | None:
        encoded: Encoded | None = None
        if isinstance(value, enum.Enum):
            encoded = self._parts("enum", [type(value), value.name or value.value])
        elif isinstance(value, re.Pattern):
            encoded = self._parts("pattern", [value.pattern, value.flags])
        elif isinstance(value, PurePath):
            encoded = encode([("path", self._relative(value.as_posix()))]), ()
        elif isinstance(value, logging.Logger | logging.LoggerAdapter):
            encoded = encode([("logger", "")]), ()  # what is logged is no result
        elif isinstance(value, dt.datetime | dt.time):
            bare = value.replace(tzinfo=None)
            encoded = self._parts("date", [repr(bare), value.fold, value.tzinfo])
        elif type(value) in _BY_TEXT:
            encoded = encode([(type(value).__name__.lower(), str(value))]), ()
        return encoded

    def _container(self, value: Any) -> Encoded | None:
        if isinstance(value, tuple | list | collections.deque):
            return self._sequence(value)
        encoded: Encoded | None = None
        if isinstance(value, set | frozenset):
            members = sorted((self.encode(item) for item in value), key=lambda member: member[0])
            encoded = _join("set" if isinstance(value, set) else "frozenset", members)
        elif isinstance(value, dict | types.MappingProxyType):
            items = dict.items(value) if isinstance(value, dict) else value.items()
            pairs = [part for pair in items for part in pair]
            plain = type(value) in {dict, collections.OrderedDict, types.MappingProxyType}
            factory = [value.default_factory] if isinstance(value, collections.defaultdict) else []
            encoded = (
                self._parts("dict", pairs)
                if plain
                else self._parts("mapping", [type(value), *factory, *pairs])
            )
        elif isinstance(value, array.array):
            encoded = encode([("array", value.typecode), ("data", value.tobytes().hex())]), ()
        elif isinstance(value, slice):
            encoded = self._parts("slice", [value.start, value.stop, value.step])
        return encoded

    def _sequence(self, value: Any) -> Encoded:
        base = next(kind for kind in (tuple, list, collections.deque) if isinstance(value, kind))
        items = list(base.__iter__(value))
        if type(value) is base:
            return self._parts(base.__name__, items)
        return self._parts("sequence", [type(value), *items])

    def _callable(self, value: Any) -> Encoded | None:
        encoded: Encoded | None = None
        if isinstance(value, functools.partial):
            keywords = [part for pair in sorted(value.keywords.items()) for part in pair]
            encoded = self._parts("partial", [value.func, value.args, keywords])
        elif isinstance(value, types.MethodType):
            encoded = self._parts("method", [value.__func__, value.__self__])
        elif isinstance(value, property):
            encoded = self._parts("property", [value.fget, value.fset, value.fdel])
        elif isinstance(value, classmethod | staticmethod):
            encoded = self._parts(type(value).__name__, [value.__func__])
        elif isinstance(value, functools.cached_property | functools.partialmethod):
            encoded = self._parts("descriptor", [type(value), value.func])
        elif isinstance(value, types.CodeType):
            encoded = self.code(value)
        return encoded

    def _type_form(self, value: Any) -> Encoded | None:
        """Types as they stand in annotations: `list[int]`, `int | None`, type variables."""
        encoded: Encoded | None = None
        origin = typing.get_origin(value)
        if isinstance(value, types.UnionType) or origin is typing.Union:
            encoded = self._parts("union", typing.get_args(value))
        elif origin is not None:
            encoded = self._parts("generic", [origin, *typing.get_args(value)])
        elif isinstance(value, typing.TypeVar):
            encoded = self._parts("typing", [value.__name__, value.__bound__, *value.__constraints__])
        elif isinstance(value, typing.ForwardRef):
            encoded = self._parts("typing", [value.__forward_arg__])
        elif isinstance(value, typing.NewType):
            encoded = self._parts("typing", [value.__name__, value.__supertype__])
        elif isinstance(value, typing._SpecialForm):  # noqa: SLF001 - it has no public name
            encoded = self._parts("typing", [str(value)])
        return encoded

    def _foreign(self, value: object) -> Encoded | None:
        """Values of Polars and NumPy, if those are loaded."""
        package = type(value).__module__.partition(".")[0]
        if package == "polars":
            return self._polars(value)
        if package == "numpy":
            numpy = sys.modules["numpy"]
            if isinstance(value, numpy.ndarray | numpy.generic) and not value.dtype.hasobject:
                parts = [value.dtype.str, list(value.shape), value.tobytes()]
                return self._parts("numpy", parts)
            if isinstance(value, numpy.dtype):
                return encode([("numpy dtype", value.str)]), ()
        return None

    def _polars(self, value: Any) -> Encoded | None:
        polars = sys.modules["polars"]
        if isinstance(value, polars.DataType):
            return encode([("dtype", repr(value))]), ()
        if isinstance(value, polars.Expr):
            text = value.meta.serialize(format="json")
            if "AnonymousFunction" in text or "PythonUdf" in text:
                raise Unencodable("an expression with a Python function in it has no stable text")
            return encode([("expr", text)]), ()
        return None

    def _instance(self, value: object) -> Encoded | None:
        """An instance of a dataclass, a record, a class of the project, or a subclass of a plain type."""
        kind = type(value)
        bases = [base for base in _SUBCLASSED if isinstance(value, base)]
        if not (
            bases or dataclasses.is_dataclass(kind) or isinstance(value, Record) or self._is_project(kind)
        ):
            return None
        plain = [base.__new__(base, value) for base in bases[:1]]
        state = [part for pair in sorted(_state(value).items()) for part in pair]
        return self._parts("instance", [kind, *plain, *state])

    # --- help -----------------------------------------------------------------------------------------

    def code(self, code: types.CodeType) -> Encoded:
        """A code object, for functions whose source nobody kept; it changes with the Python version."""
        names = [code.co_name, *code.co_names, *code.co_varnames, *code.co_freevars]
        counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
        return self._parts("code", [names, counts, code.co_code, list(code.co_consts)])

    def _parts(self, tag: str, items: Iterable[object]) -> Encoded:
        return _join(tag, [self.encode(item) for item in items])

    def _relative(self, text: str) -> str:
        """The text with the place where the project stands taken out of it."""
        if len(self._root) < 2 or self._root not in text:
            return text
        rest = text.removeprefix(self._root)
        if rest != text and rest[:1] in {"", "/", os.sep}:
            return "<here>" + Path(os.path.relpath(text, self._folder or self._root)).as_posix()
        return re.sub(rf"{re.escape(self._root)}(?![\w.-])", "<root>", text)


def is_reference(value: object) -> bool:
    """Whether a value is code that the cone follows by itself: a function, class, module or definition."""
    if isinstance(value, _CALLABLE):
        return not (isinstance(value, types.BuiltinFunctionType) and _receiver(value) is not None)
    return is_definition(value) or (callable(value) and wrapped(value) is not None)


def is_definition(value: object) -> bool:
    """Whether a value is what barca's decorators return, told by its shape."""
    return type(value).__name__ == "Definition" and type(value).__module__ == "barca.model"


def prefers_source(value: object) -> bool:
    """Whether the statement that makes a value says more, and more stably, than the value itself."""
    kind = type(value)
    is_expression = kind.__module__.startswith("polars.") and kind.__name__ == "Expr"
    return is_expression or kind.__name__ == "TypeAliasType"


def outside_name(value: Any) -> str:
    """The name under which code outside of the project counts."""
    module = getattr(value, "__module__", None) or type(value).__module__
    name = (
        getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__
    )
    if isinstance(value, types.ModuleType):
        return value.__name__
    if module.startswith("polars."):
        module = "polars"  # where Polars keeps its code changes between versions
    return f"{module}.{name}"


def type_name(kind: type) -> str:
    """`module.qualname`, without the module for Python's own names."""
    module = getattr(kind, "__module__", None)
    return kind.__qualname__ if module in {None, "builtins"} else f"{module}.{kind.__qualname__}"


def wrapped(value: object) -> object:
    """The function that a wrapping object stands for (`functools.wraps`, `lru_cache`), or `None`."""
    try:
        return vars(value).get("__wrapped__")
    except Exception:
        return None  # no attributes of its own, or a proxy that stands for nothing now


def _receiver(value: types.BuiltinFunctionType) -> object:
    """What a built-in method is bound to, if that is a value and not its module or class."""
    owner = getattr(value, "__self__", None)
    return None if owner is None or isinstance(owner, types.ModuleType | type) else owner


def reference_name(value: object) -> str:
    """A name that orders references within a set; what they lead to is hashed by the node's edges."""
    return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))


def _state(value: object) -> dict[str, object]:
    """An instance's own attributes, read without running any code of its class."""
    state: dict[str, object] = {}
    for base in type(value).__mro__:
        for name, slot in base.__dict__.items():
            if isinstance(slot, types.MemberDescriptorType) and not name.startswith("__"):
                try:
                    state.setdefault(name, slot.__get__(value))
                except AttributeError:
                    continue  # a slot that was never filled
    try:
        state |= object.__getattribute__(value, "__dict__")
    except AttributeError:
        return state
    return state


def _join(tag: str, items: Sequence[Encoded]) -> Encoded:
    text = encode([("type", tag), *(("item", item) for item, _ in items)])
    return text, tuple(part for _, parts in items for part in parts)


# --- for people ---------------------------------------------------------------------------------------


def show(value: object, limit: int = 2000) -> str:
    """A plain value as Python writes it, sets sorted, secret-looking entries hidden; else its type."""
    text = _show(value, 8)
    return text if len(text) <= limit else f"{text[:limit]}..."


def _show(value: Any, depth: int) -> str:
    kind = type(value)
    text = f"<{type_name(kind)}>"
    if isinstance(value, str):
        text = HIDDEN if holds_password(value) else repr(str(value))
    elif kind in _PLAIN or kind.__module__ in {"datetime", "decimal", "fractions", "uuid"}:
        text = repr(value)
    elif is_reference(value):
        text = reference_name(value)
    elif depth and kind is dict:
        text = "{" + ", ".join(_show_pair(key, item, depth) for key, item in value.items()) + "}"
    elif depth and kind in _BRACKETS:
        items = [_show(item, depth - 1) for item in value]
        brackets = _BRACKETS[kind]
        text = brackets[0] + ", ".join(sorted(items) if kind in {set, frozenset} else items) + brackets[1]
    return text


_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}


def _show_pair(key: Any, value: Any, depth: int) -> str:
    secret = isinstance(key, str) and looks_secret(key)
    return f"{_show(key, 0)}: {HIDDEN if secret else _show(value, depth - 1)}"

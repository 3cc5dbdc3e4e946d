"""Frozen values with named fields.

Like frozen dataclasses, for people and type checkers alike. But `dataclasses` imports `inspect` and compiles
text for every class, which takes longer than everything else that every file of a project, every command and
every worker waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Mapping

R = TypeVar("R", bound="Record")

EMPTY: Final[Mapping[Any, Any]] = {}
"""The default of fields that hold mappings. Nobody writes to it: it is everybody's."""


@dataclass_transform(frozen_default=True)
class Record:
    """A value whose fields are the annotations of its class and those it extends, defaults given there.

    Class arguments:
        kw_only: Whether fields are given by name only.
        eq: Whether two values with equal fields are equal; else each is equal to itself alone.
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()
    _required: ClassVar[frozenset[str]] = frozenset()
    _kw_only: ClassVar[bool] = False

    def __init_subclass__(cls, *, kw_only: bool = False, eq: bool = True) -> None:
        super().__init_subclass__()
        fields = (*cls.__match_args__, *cls.__annotations__)
        cls.__match_args__ = tuple(dict.fromkeys(fields))  # type: ignore[misc]
        cls._required = frozenset(name for name in cls.__match_args__ if not hasattr(cls, name))
        cls._kw_only = kw_only
        if not eq:
            cls.__eq__ = object.__eq__  # type: ignore[method-assign]
            cls.__hash__ = object.__hash__  # type: ignore[method-assign]

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = self.__match_args__
        given = {**dict(zip(fields, values, strict=False)), **named}
        if len(values) > (0 if self._kw_only else len(fields)) or len(given) < len(values) + len(named):
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields)}, each once, not {values!r}")
        if unknown := given.keys() - fields:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        if missing := self._required - given.keys():
            raise TypeError(f"{type(self).__name__} needs {', '.join(sorted(missing))}")
        self.__dict__.update({name: given[name] if name in given else getattr(self, name) for name in fields})
        self.__post_init__()

    def __post_init__(self) -> None:
        """What a class does once its fields are set."""

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"cannot assign to `{name}`: a {type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete `{name}`: a {type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({fields})"


def replace(record: R, **changes: Any) -> R:
    """A record with some fields changed."""
    return type(record)(**fields_of(record) | changes)


def fields_of(record: Record) -> dict[str, Any]:
    """A record's fields and what they hold, in order."""
    return {name: getattr(record, name) for name in record.__match_args__}

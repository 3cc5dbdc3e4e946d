"""What a batched function answered, sorted by key and checked against the keys of its call.

It may return a dict, a table with the dimensions as columns, or yield pairs of key and value, dicts and
tables. Keys are matched by their string form.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import Failed, OutputError, did_you_mean, plural
from barca.io.apart import apart, frame_apart
from barca.io.tables import (
    Unconvertible,
    is_streamed,
    is_table,
    is_uncomputed,
    text_form,
    to_frame,
    unstorable_column,
)
from barca.partitions import display_text
from barca.schemas import KEY, dimension, dimensions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barca.io.spool import Spool
    from barca.model import Work

SHOWN: Final = 5

MALFORMED: Final = frozenset(("batch_output", "no_dimension_column", "dimension_type"))
"""Codes of errors that say that an answer has not the form of one, whatever the keys are."""

ACCEPTED: Final = (
    "return a dict of key to value, or a table with the dimensions as columns; or yield such dicts and "
    "tables, or pairs of key and value"
)


@dataclass(slots=True)
class Answer:
    """What came back for the keys of one batched call.

    Attributes:
        values: Key (Hive form) to value.
        failed: Key to the reason, where the function said `Failed`.
        table: The one table that was returned; it answers for every key of the call.
        spool: The same on the disk, where the node asks for the streaming engine.
        yielded: Tables that a generator gave, each with the keys that it has rows of.
    """

    values: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    table: pl.DataFrame | None = None
    spool: Spool | None = None
    yielded: list[tuple[pl.DataFrame, list[str]]] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Whether it is one table in memory, or values."""
        return self.spool is None and not self.yielded


class Sorter:
    """Takes the answers of one call, piece by piece.

    Args:
        work: The call.
        spool: Takes a table that shall be computed piece by piece.
    """

    def __init__(self, work: Work, spool: Spool) -> None:
        self._work = work
        self._spool = spool
        self._names = work.dimensions
        self._given: set[str] = set()
        self._yielded: pl.DataFrame | None = None
        self.answer = Answer()

    def take(self, returned: Any) -> None:
        """Take what the function returned.

        Raises:
            OutputError: It is no answer, or has keys that the call has not, or a key twice.
        """
        if isinstance(returned, Mapping):
            self._take_values(returned.items())
        elif self._work.engine == "streaming" and is_streamed(returned):
            self._spool.fill(returned)
            self.answer.spool = self._spool
        elif is_table(returned):
            self.answer.table = self._framed(returned)
        else:
            raise self._no_answer("returned", returned)

    @cached_property
    def _by_form(self) -> dict[str, str]:
        """What may stand for a key in a dict, to the key; tables do without."""
        return _key_forms(self._work)

    @property
    def waiting(self) -> bool:
        """Whether something came in that `drain` would give."""
        return bool(self.answer.values or self.answer.yielded)

    def drain(self) -> Answer:
        """What came in, to be stored; the failures stay."""
        came = self.answer
        self.answer = Answer(failed=came.failed)
        return came

    def finish(self) -> None:
        """A generator came to its end: after tables, keys that none of them had have no rows."""
        if self._yielded is not None:
            without = [key for key in self._work.keys.get_column(KEY) if key not in self._given]
            self.answer.yielded.append((self._yielded, without))

    def take_piece(self, piece: Any) -> None:
        """Take what a generator yielded.

        Raises:
            OutputError: As `take`.
        """
        if isinstance(piece, Mapping):
            self._take_values((name, self._as_it_is_now(value)) for name, value in piece.items())
        elif is_table(piece):
            self._take_table(frame_apart(self._framed(piece)))
        elif isinstance(piece, tuple) and len(piece) == 2:
            self._take_values([(piece[0], self._as_it_is_now(piece[1]))])
        else:
            raise self._no_answer("yielded", piece)

    def _as_it_is_now(self, value: Any) -> Any:
        """A value that was yielded: the function may go on to fill the same object again."""
        if isinstance(value, Failed):
            return value
        if is_uncomputed(value):
            try:
                return to_frame(value, self._work.engine)
            except Exception:  # storing it tells what is wrong, for its key alone
                return value
        return apart(value, self._work.serializer)

    def _framed(self, table: Any) -> pl.DataFrame:
        try:
            return to_frame(table, self._work.engine)
        except Unconvertible as error:
            raise unstorable_column(self._work.node, None, error.column, error.why) from error

    def _take_values(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        values, given, by_form = self.answer.values, self._given, self._by_form
        extra: list[str] = []
        for name, value in pairs:
            form = name if type(name) is str else _form(name)
            key = by_form.get(form)
            if key is None:
                extra.append(self._shown(name))
                continue
            if key in given:
                raise self._twice(key)
            given.add(key)
            if isinstance(value, Failed):
                self.answer.failed[key] = value.reason
            else:
                values[key] = value
        if extra:
            raise self._extra(extra)

    def _take_table(self, frame: pl.DataFrame) -> None:
        """Note a yielded table and whose rows it has."""
        by = dimensions(self._names)
        texts = frame.select(self._key_text(frame, name) for name in self._names).unique(maintain_order=True)
        keys = self._work.keys.select(KEY, *by)
        own = texts.join(keys, on=by, how="left", maintain_order="left")
        extra = own.filter(pl.col(KEY).is_null()).select(by)
        if extra.height:
            raise self._extra([self._shown(values) for values in extra.iter_rows()])
        found = own.get_column(KEY).to_list()
        if twice := self._given.intersection(found):
            raise self._twice(min(twice))
        self._given.update(found)
        self.answer.yielded.append((frame, found))
        self._yielded = frame.clear()

    def _key_text(self, frame: pl.DataFrame, name: str) -> pl.Expr:
        text = text_form(name, frame.schema[name]) if name in frame.columns else None
        if text is None:
            raise self._error(
                f"yielded a table without a column `{name}` of keys",
                "no_dimension_column",
                f"keep the dimension as a column; {did_you_mean(name, frame.columns)}",
            )
        return text.alias(dimension(name))

    def _shown(self, name: Any) -> str:
        """A key that the call has not, as people read it."""
        values = name if isinstance(name, tuple) else (name,)
        if len(values) != len(self._names):
            return str(name)
        pairs = zip(self._names, values, strict=True)
        return ",".join(f"{part}={'null' if value is None else value}" for part, value in pairs)

    def _extra(self, extra: Sequence[str]) -> OutputError:
        shown = ", ".join(f"`{name}`" for name in extra[:SHOWN])
        more = f" and {len(extra) - SHOWN} more" if len(extra) > SHOWN else ""
        keys = self._work.keys.get_column(KEY)
        valid = ", ".join(f"`{display_text(key)}`" for key in keys.head(SHOWN))
        return self._error(
            f"answered for {shown}{more}, which the call was not asked for",
            "extra_key",
            f"answer for the call's {plural(keys.len(), 'key')} only, such as {valid}; keys are matched as "
            "strings",
        )

    def _twice(self, key: str) -> OutputError:
        return self._error(
            f"answered twice for `{display_text(key)}`",
            "key_twice",
            "give each key once; keys are compared as strings (1 is `1`)",
        )

    def _no_answer(self, how: str, given: Any) -> OutputError:
        if isinstance(given, Failed):
            what = f"{how} Failed({given.reason!r}) without a key"
            return self._error(what, "batch_output", "return {key: Failed(...)}, or raise it for all keys")
        return self._error(f"{how} {_a(given)}", "batch_output", ACCEPTED)

    def _error(self, what: str, code: str, remediation: str) -> OutputError:
        node = self._work.node
        return OutputError(f"`{node}` {what}", code=code, node=node, remediation=remediation)


def _key_forms(work: Work) -> dict[str, str]:
    """What may stand for a key in a dict, to the key: its raw value; of several dimensions, also texts."""
    keys = work.keys.get_column(KEY).to_list()
    raw = work.keys.select(dimensions(work.dimensions))
    if len(work.dimensions) == 1:
        return dict(zip(raw.to_series().to_list(), keys, strict=True))
    forms = dict(zip(keys, keys, strict=True))
    for key, values in zip(keys, raw.iter_rows(), strict=True):
        forms[_form(values)] = key
        forms.setdefault(display_text(key), key)
    return forms


def _form(name: Any) -> str:
    """The string form of a key in an answer; of a tuple, its values' forms in declared order."""
    if isinstance(name, tuple):
        return "\0".join(_form(value) for value in name)
    if isinstance(name, dt.datetime):
        return name.isoformat(" ")
    return str(name)


def _a(value: Any) -> str:
    return "nothing" if value is None else f"a value of type `{type(value).__qualname__}`"

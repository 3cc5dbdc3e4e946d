"""Calls of one key each, a chunk of them in one work, stored together."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import Failed
from barca.exec.binding import bind_each
from barca.exec.boundary import Failure, describe
from barca.exec.calling import Calling
from barca.exec.capture import end_lines
from barca.exec.storing import store_each, store_keyed
from barca.io.apart import apart
from barca.io.plain import SCALARS
from barca.io.tables import Unconvertible, is_uncomputed, to_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barca.exec.boundary import Alarm
    from barca.exec.capture import Recorder
    from barca.model import Definition


class EachCalling(Calling):
    """A work of one-key calls."""

    def _take(self, finished: Iterable[tuple[Any, float]]) -> None:
        self._elapsed = elapsed = list[float]()
        values: list[tuple[str, Any]] = []
        for key, (came, seconds) in zip(self._keys, finished, strict=False):
            self._came(key, came, values)
            self._begun.append(key)
            elapsed.append(seconds)
        self._store_values(values)

    def _call(self, definition: Definition[..., Any], recorder: Recorder, alarm: Alarm) -> None:
        inputs = bind_each(self._work, definition, self._store)
        for key, error in inputs.failures.items():
            self._failures[key] = describe(error)
        function = partial(definition.function, **inputs.shared)
        names = tuple(inputs.columns)
        rows = zip(*inputs.columns.values(), strict=True) if names else iter([()] * len(self._keys))
        values: list[tuple[str, Any]] = []
        elapsed: list[float] = []
        self._elapsed = elapsed
        self._begun = []
        deadline = time.perf_counter() + (self._work.budget_seconds or float("inf"))
        begin = self._means.progress.begin if self._means.progress is not None else None
        came: Any = None
        try:
            for index, (key, row) in enumerate(zip(self._keys, rows, strict=True)):
                started = time.perf_counter()
                if index and (started > deadline or not self._kept(came, elapsed[-1])):
                    break
                if begin is not None:
                    begin(index)
                came = self._failures.get(key)
                if came is None:
                    recorder.key = key
                    came = self._call_one(function, dict(zip(names, row, strict=True)), alarm)
                    if recorder.open_line:
                        end_lines()
                    self._came(key, came, values)
                self._begun.append(key)
                elapsed.append(time.perf_counter() - started)
        except self._interruption:
            self.interrupted = True
        recorder.key = None
        self._untimed(len(self._begun) - 1)
        self._store_values(values)

    def _call_one(self, function: Callable[..., Any], arguments: dict[str, Any], alarm: Alarm) -> Any:
        """What one call returned, a table as a frame, or its `Failure`."""
        try:
            if alarm.active:
                alarm.start()
            value = function(**arguments)
            kind = type(value)
            if isinstance(value, Failed):
                return Failure("Failed", value.reason)
            if kind not in SCALARS:
                value = self._as_it_is_now(value)
            if alarm.active:
                alarm.stop()
        except self._interruption:
            raise
        except BaseException as error:
            return describe(error)
        else:
            return value
        finally:
            if alarm.active:
                alarm.stop()

    def _as_it_is_now(self, value: Any) -> Any:
        """What a call returned, computed, and as no later call changes it."""
        if type(value) not in _COMPUTED and is_uncomputed(value):
            with suppress(Unconvertible):  # storing it tells which column it is
                value = to_frame(value, self._work.engine)
        return apart(value, self._work.serializer) if len(self._keys) > 1 else value

    def _kept(self, came: Any, elapsed_seconds: float) -> bool:
        return self._means.spill is None or self._means.spill.keep(came, elapsed_seconds)

    def _came(self, key: str, came: Any, values: list[tuple[str, Any]]) -> None:
        if type(came) is Failure:
            self._failures[key] = came
        else:
            values.append((key, came))

    def _store_values(self, values: list[tuple[str, Any]]) -> None:
        if not values:
            return
        if self._work.keyed:
            self._keep(store_keyed(self._work, self._store, values[0][1]))
        else:
            self._keep(store_each(self._work, self._store, values))


_COMPUTED = frozenset((dict, list, tuple, pl.DataFrame))
"""Types whose values need no computing before they are stored."""

"""Publishing the results of a work to the sinks of its node, in the worker that stored them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.exec.boundary import Failure
from barca.io.annotations import return_annotation
from barca.io.sinks import Publication, publish, targets_of
from barca.schemas import KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca.model import Definition, Work
    from barca.ports import PackStore


class Publisher:
    """Writes what is stored of a work to its node's file and dataset sinks.

    Args:
        work: The work.
        definition: Of its node.
        store: Holds the packs.

    Attributes:
        done: What came of it so far.
    """

    def __init__(self, work: Work, definition: Definition[..., Any], store: PackStore) -> None:
        self._targets = targets_of(definition.sinks, work.node, work.dimensions, work.function.root)
        self._annotation = value_annotation(definition)
        self._store = store
        self.done = Publication()

    def publish(self, fragments: pl.DataFrame) -> pl.DataFrame:
        """Write keys, given their `schemas.FRAGMENTS`; returns those that every sink took."""
        if not self._targets:
            return fragments
        publish(self._targets, self._store, fragments, self._annotation, self.done)
        if not self.done.failures:
            return fragments
        return fragments.filter(~pl.col(KEY).is_in(list(self.done.failures)))

    def failures(self) -> dict[str, Failure]:
        """By key, why sinks did not take it."""
        return {key: failure_of(messages) for key, messages in self.done.failures.items()}


def value_annotation(definition: Definition[..., Any]) -> Any:
    """What one key's value is annotated as; a batched function's annotation says nothing of one key."""
    return None if definition.batch is not None else return_annotation(definition.function)


def failure_of(messages: Sequence[str]) -> Failure:
    """Why a key failed that has a result, and sinks that could not be written."""
    return Failure("SinkError", "; ".join(messages))

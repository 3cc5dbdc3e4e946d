"""What a project can tell of the results it has, without running anything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barca.project.request import only_target, selection_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from barca.project.current import Current
    from barca.project.preview import Preview
    from barca.project.request import Selection, Target


class Reading(ABC):
    """The part of `Project` that reads current results: of each key what is up to date, else the newest."""

    @abstractmethod
    def _current(self) -> Current:
        """What nodes hold at this moment."""

    def head(self, target: Target, rows: int = 10, *, partition: Selection = None) -> Preview:
        """The first rows of what a node holds now, up to date or not; nothing is run."""
        from barca.project.preview import preview

        current = self._current()
        return preview(current, only_target(current.graph, target, "head"), rows, selection_of(partition))

    def sql(self, query: str, params: Mapping[str, Any] | None = None) -> pl.LazyFrame:
        """A query over what nodes hold now, each a view of its name; see `barca.sql`.

        The columns are those of the query.
        """
        from barca.project.queries import run_query

        return run_query(self._current(), query, params or {})

    def export(self, target: Target, place: str | Path, **options: Any) -> dict[str, Any]:
        """Write what a node holds now to files; `format`, `partition`, `overwrite` as for `barca export`."""
        from barca.project.exporting import export

        current = self._current()
        return export(current, only_target(current.graph, target, "export"), Path(place), **options)

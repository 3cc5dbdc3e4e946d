"""What a project can tell of the results it has and had, without running anything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barca.io.runs import read_markers
from barca.project.past import history, run_details, runs_table
from barca.project.prints import printed, step_of
from barca.project.request import as_list, selection_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from barca.graph import Graph
    from barca.ports import Ledger, LedgerReader
    from barca.project.comparison import Comparison
    from barca.project.current import Current
    from barca.project.earlier import Earlier
    from barca.project.lookback import Lookback
    from barca.project.moments import Moment, When
    from barca.project.preview import Preview
    from barca.project.request import Selection, Target, Targets

STORE = ".barca"


class Reading(ABC):
    """The part of `Project` that reads: what nodes hold now or held once, what runs did.

    Of each key that is what is up to date, else the newest there is. `as_of` names a moment of the past: a
    tag, a run's id or its beginning, a date or datetime, or a text such as `"2026-11-30 14:00"` or
    `"3 days ago"`. A time without a zone is in this machine's.
    """

    @abstractmethod
    def _graph(self) -> Graph:
        """The nodes."""

    @abstractmethod
    def _current(self) -> Current:
        """What nodes hold at this moment."""

    @abstractmethod
    def _markers(self) -> Path:
        """Directory of the markers of runs."""

    @abstractmethod
    def _open_ledger(self) -> Ledger:
        """The ledger."""

    def _reader(self) -> LedgerReader:
        return self._open_ledger().reader()

    def _runs(self, reader: LedgerReader) -> pl.DataFrame:
        return runs_table(reader, read_markers(self._markers()))

    # --- results --------------------------------------------------------------------------------------

    def head(
        self, target: Target, rows: int = 10, *, partition: Selection = None, as_of: When | None = None
    ) -> Preview:
        """The first rows of what a node holds, up to date or not; nothing is run."""
        from barca.project.preview import preview

        current = self._at(as_of)
        return preview(current, current.find(target, "head"), rows, selection_of(partition))

    def sql(
        self, query: str, params: Mapping[str, Any] | None = None, *, as_of: When | None = None
    ) -> pl.LazyFrame:
        """A query over what nodes hold, each a view of its name; see `barca.sql`.

        The columns are those of the query.
        """
        from barca.project.queries import run_query

        return run_query(self._at(as_of), query, params or {})

    def export(
        self, target: Target, place: str | Path, *, as_of: When | None = None, **options: Any
    ) -> dict[str, Any]:
        """Write what a node holds to files; `format`, `partition`, `overwrite` as for `barca export`."""
        from barca.project.exporting import export

        current = self._at(as_of)
        return export(current, current.find(target, "export"), Path(place), **options)

    def look_back(self, targets: Targets, as_of: When, *, partition: Selection = None) -> Lookback:
        """What targets held at a moment of the past; nothing is run.

        Args:
            targets: Names, ids or decorated functions; `None` is every asset and sensor that held something.
            as_of: The moment.
            partition: Dimension to values; only these keys.

        Raises:
            UsageError: There is no such moment, or a target held nothing then.
            FragmentError: What a selected key held is gone.
        """
        from barca.project.lookback import Lookback

        earlier = self._earlier(as_of)
        nodes = [earlier.find(target, "get") for target in as_list(targets)] or earlier.every()
        return Lookback(earlier, nodes, selection_of(partition), f"{STORE}/artifacts")

    def diff(self, target: Target, *, partition: Selection = None, on: Sequence[str] = ()) -> Comparison:
        """A key's current result against the one before it: rows added, removed and changed.

        Args:
            target: A name, id or decorated function.
            partition: Selects one key of a partitioned node.
            on: Columns that tell rows apart; without any they are looked for.

        Raises:
            UsageError: Not one key is selected, or it has no result before the current one.
        """
        from barca.project.comparison import compare_results

        current = self._current()
        return compare_results(current.find(target, "diff"), current, selection_of(partition), on)

    def _at(self, as_of: When | None) -> Current:
        return self._current() if as_of is None else self._earlier(as_of)

    def _earlier(self, as_of: When) -> Earlier:
        from barca.project.earlier import Earlier

        now = self._current()
        when = self.moment(as_of)
        return Earlier(
            graph=now.graph,
            reader=now.reader,
            store=now.store,
            planned=now.planned,
            moment=when,
            states={},
        )

    def moment(self, as_of: When) -> Moment:
        """The moment that `as_of` means.

        Raises:
            UsageError: There is no such tag, run or time.
        """
        from barca.project.moments import find_moment

        return find_moment(as_of, self._reader(), read_markers(self._markers()))

    # --- tags -----------------------------------------------------------------------------------------

    def tag(self, name: str, as_of: When | None = None) -> dict[str, Any]:
        """Pin what is held at a moment, now without any, so that `gc` keeps it; `name` then is an `as_of`.

        Returns:
            The tag, as one of `tags`.

        Raises:
            UsageError: The name is none or is taken, there is no such moment, or nothing was held then.
        """
        from barca.project.tagging import make_tag

        return make_tag(self._open_ledger(), lambda: read_markers(self._markers()), name, as_of)

    def untag(self, name: str) -> None:
        """Delete a tag: what it pinned goes as other results do.

        Raises:
            SelectionError: There is no such tag.
        """
        from barca.project.tagging import delete_tag

        delete_tag(self._open_ledger(), name)

    def tags(self) -> list[dict[str, Any]]:
        """The tags, by moment: `tag, at, run_id, created_at, keys, gone, bytes`, JSON-writable.

        `gone` of the `keys` that were held had been collected before there was a tag.
        """
        from barca.project.tagging import list_tags

        return list_tags(self._reader())

    # --- runs -----------------------------------------------------------------------------------------

    def history(
        self,
        run_id: str | None = None,
        *,
        limit: int | None = 20,
        status: str | None = None,
        target: str | None = None,
        as_of: When | None = None,
    ) -> dict[str, Any]:
        """Newest runs, with `as_of` those that had begun by then; or one run with its steps and calls.

        The values are JSON-writable.

        Raises:
            SelectionError: No run has the id.
        """
        reader = self._reader()
        runs = self._runs(reader)
        if run_id is not None:
            return run_details(reader, runs, run_id)
        until = None if as_of is None else self.moment(as_of).at
        return history(runs, limit=limit, status=status, target=target, until=until)

    def logs(
        self, run_id: str | None = None, *, step: str | None = None, stream: str | None = None
    ) -> list[dict[str, Any]]:
        """Lines that the steps of a run printed, oldest first.

        Without an id it is the newest run; where `step` is named, the newest that ran it.

        Args:
            run_id: The run, or the beginning of its id.
            step: `NODE` or `NODE[KEY]`; a batched call's lines are found from any of its keys, and from the
                name it is shown by, `NODE[2 keys]`.
            stream: `stdout` or `stderr`.

        Raises:
            SelectionError: No such run, node, key or call.
        """
        reader = self._reader()
        chosen = step_of(self._graph(), step)
        logs = self._markers().with_name("logs")
        return printed(logs, reader, self._runs(reader), run_id, chosen, stream)

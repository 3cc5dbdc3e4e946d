"""Reading the ledger at one version."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Final

import polars as pl

from barca.errors import LedgerError
from barca.io.ledger.commits import snapshot
from barca.io.ledger.log import last_version
from barca.io.ledger.tables import delta_errors
from barca.io.rows import PARTITION_COLUMNS, TABLE_ORDER, check_node, newest, successes
from barca.schemas import KEY, LEDGER_TABLES, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from barca.io.ledger.tables import DataFile
    from barca.ports import TableName

_FILE: Final = "barca file"
_ROWS: Final[TableName] = "materializations"

SMALL_BYTES: Final = 2**16
"""Data files of at most so many bytes stay in memory, for a process that reads the ledger again and again."""

_read: set[Path] = set()
"""Ledgers that this process has read: a command reads one once, and would gain nothing."""

MOST_HELD: Final = 1_000
"""So many of them."""

_held: dict[str, pl.DataFrame] = {}
"""Their rows by path: what is written once is never changed, and no name comes twice."""


class DeltaReader:
    """A `LedgerReader` pinned to the version each table had when it was made.

    It creates nothing; a table that does not exist has no rows. Files of its versions are kept for a day
    after they were compacted.

    Raises:
        LedgerError: A table's log is damaged.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._again = root in _read
        _read.add(root)
        self._versions = {table: last_version(root / table) for table in TABLE_ORDER}
        self._files = cache(self._list_files)

    def scan(self, table: TableName) -> pl.LazyFrame:
        """Every row of a table, in `schemas.LEDGER_TABLES[table]`, older commits first.

        Raises:
            LedgerError: The table cannot be read.
        """
        files = self._files(table)
        if not files:
            return empty(LEDGER_TABLES[table]).lazy()
        return self._scan_files(table, files).select(list(LEDGER_TABLES[table]))

    def materialized(self, node: str) -> pl.DataFrame:
        """Successful rows of `schemas.MATERIALIZATIONS` for a node, the last per (key, run_hash), by age.

        Raises:
            LedgerError: The table cannot be read.
            UsageError: A node id that no ledger can hold.
        """
        return self.materialized_many([node])[node]

    def materialized_many(
        self, nodes: Iterable[str], keys: Mapping[str, pl.Series] | None = None
    ) -> dict[str, pl.DataFrame]:
        """`materialized` of each node, read together; see `ports.LedgerReader`."""
        wanted = keys or {}
        rows = dict.fromkeys(nodes, empty(LEDGER_TABLES[_ROWS]))
        asked = [node for node in rows if node not in wanted or wanted[node].len()]
        found = self._files_of(asked) if asked else {}
        scans = [self._results(node, files).filter(_among(wanted.get(node))) for node, files in found.items()]
        if scans:
            with delta_errors(self._root / _ROWS, "read"):
                frames = pl.collect_all(scans, engine="in-memory")
            rows |= {node: newest(frame) for node, frame in zip(found, frames, strict=True)}
        return rows

    def results(self, node: str) -> pl.DataFrame:
        """Every successful row of `schemas.MATERIALIZATIONS` of a node that is still there, by age.

        Raises:
            LedgerError: The table cannot be read.
            UsageError: A node id that no ledger can hold.
        """
        files = self._files_of([node]).get(node)
        if files is None:
            return empty(LEDGER_TABLES[_ROWS])
        with delta_errors(self._root / _ROWS, "read"):
            return self._results(node, files).collect(engine="in-memory")

    def latest(self, nodes: Iterable[str]) -> dict[str, pl.DataFrame]:
        """Per node the successful row of `schemas.MATERIALIZATIONS` that was committed last; none, no row."""
        rows = dict.fromkeys(nodes, empty(LEDGER_TABLES[_ROWS]))
        for node, files in self._files_of(list(rows)).items():
            for file in reversed(files):
                with delta_errors(self._root / _ROWS, "read"):
                    rows[node] = self._results(node, [file]).tail(1).collect(engine="in-memory")
                if rows[node].height:
                    break
        return rows

    def _files_of(self, nodes: Sequence[str]) -> dict[str, list[DataFile]]:
        """Data files of the rows of each node that has any, older commits first."""
        files: dict[str, list[DataFile]] = {node: [] for node in nodes}
        for node in files:
            check_node(node)
        for file in self._files(_ROWS):
            if file.node in files:
                files[file.node].append(file)
        return {node: held for node, held in files.items() if held}

    def _results(self, node: str, files: Sequence[DataFile]) -> pl.LazyFrame:
        """Successful rows of `schemas.MATERIALIZATIONS` of a node in data files of it."""
        return self._scan_files(_ROWS, files, node).filter(successes())

    def _list_files(self, table: TableName) -> list[DataFile]:
        """The files of a table at the pinned version, each there and whole."""
        version = self._versions[table]
        if version is None:
            return []
        path = self._root / table
        files = snapshot(path, version).files
        for file in files:
            data = path / file.path
            if not data.exists() or data.stat().st_size != file.size:
                raise LedgerError(
                    f"the ledger table `{table}` is damaged: its data file `{data}` is missing or cut short",
                    code="ledger_damaged",
                    remediation="restore the file, or go on without it by `barca doctor --repair`; "
                    "what it recorded is computed again",
                    file=str(data),
                )
        return files

    def _scan_files(
        self, table: TableName, files: Sequence[DataFile], node: str | None = None
    ) -> pl.LazyFrame:
        """The rows of data files, in their order; in a process that goes on, small files are read here.

        Args:
            table: The table.
            files: Its files.
            node: Of all of them, where that is known.
        """
        columns = list(LEDGER_TABLES[table])
        return pl.concat(
            self._small(table, list(run)) if small else self._scan(table, list(run), node).select(columns)
            for small, run in groupby(files, key=lambda file: self._again and file.size <= SMALL_BYTES)
        )

    def _small(self, table: TableName, files: Sequence[DataFile]) -> pl.LazyFrame:
        """The rows of small files: those that this process has not read before are read together."""
        by_name = {str(self._root / table / file.path): file for file in files}
        found = {name: rows for name in by_name if (rows := _held.get(name)) is not None}
        if new := [file for name, file in by_name.items() if name not in found]:
            with delta_errors(self._root / table, "read"):
                rows = self._scan(table, new).collect(engine="in-memory")
            if len(_held) > MOST_HELD:
                _held.clear()
            parts = rows.partition_by(_FILE, as_dict=True, include_key=False)
            read = {name: part for (name,), part in parts.items()}
            found.update(read)
            _held.update(read)
        return pl.concat(
            [empty(LEDGER_TABLES[table]), *(found[name] for name in by_name if name in found)]
        ).lazy()

    def _scan(self, table: TableName, files: Sequence[DataFile], node: str | None = None) -> pl.LazyFrame:
        """The rows of data files, in their order; without a node, with the path of each.

        The directories' names are not parsed: where a project stands below a directory called `x=1`, that
        would be taken for a column.
        """
        partition = PARTITION_COLUMNS.get(table)
        columns = LEDGER_TABLES[table]
        paths = [str(self._root / table / file.path) for file in files]
        rows = pl.scan_parquet(
            paths,
            schema={name: dtype for name, dtype in columns.items() if name != partition},
            include_file_paths=_FILE if node is None else None,
            missing_columns="insert",
            extra_columns="ignore",
            glob=False,
            hive_partitioning=False,
        )
        if partition is None:
            return rows.select(*columns, _FILE)
        if node is not None:
            return rows.with_columns(pl.lit(node).alias(partition)).select(list(columns))
        nodes = [file.node for file in files]
        named = pl.col(_FILE).replace_strict(paths, nodes, return_dtype=pl.String)
        return rows.with_columns(named.alias(partition)).select(*columns, _FILE)


def _among(keys: pl.Series | None) -> pl.Expr:
    """Whether a row's key is one of these; true of each row where every key is wanted.

    Rows mostly stand by key, and of a range, unlike a list, Polars sees which parts of a file have none.
    """
    if keys is None:
        return pl.lit(value=True)
    lowest, highest = pl.lit(keys.min(), pl.String), pl.lit(keys.max(), pl.String)
    return pl.col(KEY).is_between(lowest, highest) & pl.col(KEY).is_in(keys.implode())

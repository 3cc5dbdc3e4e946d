"""A Delta table as its files: opened at its newest version, changed by one commit that nobody outran."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import polars as pl

from barca.io.ledger.log import flush_commits
from barca.io.packs import is_panic
from barca.io.sinks.credentials import storage_options
from barca.io.sinks.delta.types import schema_from_json, schema_json
from barca.io.sinks.hive import texts
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    from barca.io.sinks.targets import Target

PROPERTIES: Final[dict[str, str | None]] = {"delta.checkpointInterval": "20"}
"""Properties of new tables."""

_BOUNDS: Final = ("min.", "max.")
_PARTITION: Final = "partition."


class Outrun(Exception):
    """Another process committed first; nothing was changed."""


class DataFile(Record):
    """A file of a table.

    Attributes:
        path: Relative to the table.
        size: Bytes.
        partition: Values of the partition columns, as text.
        stats: Delta statistics, JSON; empty for files read from the log.
        bounds: Least and greatest value of columns, as far as the log knows them.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]
    stats: str = ""
    bounds: Mapping[str, tuple[Any, Any]] | None = None

    @property
    def place(self) -> tuple[tuple[str, str | None], ...]:
        """The partition, to compare by."""
        return tuple(sorted(self.partition.items()))


class Table:
    """Where a Delta table is, or will be.

    Args:
        target: The sink.
    """

    def __init__(self, target: Target) -> None:
        self.local = target.local_path if target.uri is None else None
        self.uri = str(self.local) if target.uri is None else target.uri
        self.options = {} if target.uri is None else storage_options(target.uri)
        self._by = list(target.spec.partition_by)

    def open(self) -> Snapshot | None:
        """The newest version; `None` when there is no table.

        Raises:
            DeltaError: It cannot be read.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with no_panics():
            try:
                return Snapshot(self, DeltaTable(self.uri, storage_options=self.options or None))
            except TableNotFoundError:
                return None

    def create(self, schema: Mapping[str, pl.DataType], files: Sequence[DataFile]) -> None:
        """Make the table, its first version holding files.

        Raises:
            Outrun: Another process made it.
        """
        from deltalake import Schema
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import create_table_with_add_actions

        if self.local is not None:
            self.local.mkdir(parents=True, exist_ok=True)
        try:
            with no_panics():
                create_table_with_add_actions(
                    self.uri,
                    Schema.from_json(schema_json(schema)),
                    [_add(file) for file in files],
                    partition_by=self._by or None,
                    configuration=PROPERTIES,
                    storage_options=self.options or None,
                )
        except DeltaError as error:
            if self.open() is not None:
                raise Outrun from error
            raise
        self.flush(0)

    def holds(self, files: Sequence[DataFile]) -> bool:
        """Whether the newest version has some of the files.

        It has where a commit came to be and the answer was lost: another try at it then meets itself.
        """
        newest, written = self.open(), {file.path for file in files}
        return newest is not None and any(file.path in written for file in newest.files)

    def scan(self, paths: Sequence[str], path_column: str | None = None) -> pl.LazyFrame:
        """The columns that stand in files; `path_column` is the place of each row's file, see `places`."""
        return pl.scan_parquet(
            self.places(paths),
            glob=False,
            hive_partitioning=False,
            include_file_paths=path_column,
            storage_options=self.options or None,
        )

    def places(self, paths: Sequence[str]) -> list[str]:
        """Where files are."""
        return [f"{self.uri}/{path}" for path in paths]

    def flush(self, version: int) -> None:
        """Have a commit on the disk before returning, where there is one."""
        if self.local is not None:
            flush_commits(self.local, [version])


class Snapshot:
    """A table at one version."""

    def __init__(self, table: Table, handle: DeltaTable) -> None:
        self._table = table
        self.handle = handle
        self.version: int = handle.version()

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """Its columns, in types of Polars.

        Raises:
            Lossy: A type that barca never writes.
        """
        return schema_from_json(self.handle.schema().to_json())

    @property
    def partition_by(self) -> list[str]:
        """Its partition columns."""
        return list(self.handle.metadata().partition_columns)

    @cached_property
    def files(self) -> list[DataFile]:
        """Its files."""
        actions = pl.DataFrame(self.handle.get_add_actions(flatten=True))
        found = []
        partitions = texts(actions, [name for name in actions.columns if name.startswith(_PARTITION)])
        partitions.columns = [name.removeprefix(_PARTITION) for name in partitions.columns]
        for number, row in enumerate(actions.iter_rows(named=True)):
            partition = partitions.row(number, named=True) if partitions.width else {}
            bounds = {
                name.removeprefix("min."): (value, row.get(name.replace("min.", "max.", 1)))
                for name, value in row.items()
                if name.startswith(_BOUNDS[0])
            }
            found.append(DataFile(unquote(row["path"]), row["size_bytes"], partition, bounds=bounds))
        return found

    def allow(self, schema: Mapping[str, pl.DataType]) -> None:
        """Have the table's protocol know the types of a schema, by a commit of its own where it does not.

        Without it, a table gets times without zones that no reader opens again: delta-rs sees to it where
        a table is made, and not where a commit changes its schema.

        Raises:
            Outrun: Another process committed since.
        """
        from deltalake import TableFeatures
        from deltalake.exceptions import DeltaError

        known = self.handle.protocol().writer_features or []
        if "timestampNtz" in known or '"timestamp_ntz"' not in schema_json(schema):
            return
        try:
            with no_panics():
                self.handle.alter.add_feature(
                    TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True
                )
        except DeltaError as error:
            self._raise_outrun(error)
            raise
        self._table.flush(self.version + 1)
        if self.handle.version() != self.version + 1:
            raise Outrun
        self.version += 1

    def commit(
        self,
        schema: Mapping[str, pl.DataType],
        added: Sequence[DataFile],
        removed: Sequence[DataFile] | None,
        *,
        data_change: bool = True,
    ) -> None:
        """Add and remove files in one commit that directly follows this version.

        Args:
            schema: Of the table from now on.
            added: New files, which are there.
            removed: Files to remove; `None` is all of them, which is needed where the schema changes.
            data_change: Whether the rows are others than before.

        Raises:
            Outrun: Another process committed since.
        """
        from deltalake import CommitProperties, Schema
        from deltalake.exceptions import DeltaError

        actions: list[Any] = [_remove(file, data_change=data_change) for file in removed or ()]
        actions += [_add(file, data_change=data_change) for file in added]
        try:
            with no_panics():
                self.handle.create_write_transaction(
                    actions,
                    "overwrite" if removed is None else "append",
                    Schema.from_json(schema_json(schema)),
                    self.partition_by or None,
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
        except DeltaError as error:
            self._raise_outrun(error)
            raise
        self._table.flush(self.version + 1)

    def _raise_outrun(self, error: DeltaError) -> None:
        newest = self._table.open()
        if newest is not None and newest.version != self.version:
            raise Outrun("another process committed first, time and again") from error


def _add(file: DataFile, *, data_change: bool = True) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(
        file.path, file.size, dict(file.partition), time.time_ns() // 10**6, data_change, file.stats
    )


def _remove(file: DataFile, *, data_change: bool) -> Any:
    from deltalake.transaction import RemoveAction

    return RemoveAction(
        path=file.path,
        data_change=data_change,
        deletion_timestamp=time.time_ns() // 10**6,
        size=file.size,
        partition_values=dict(file.partition),
    )


@contextmanager
def no_panics() -> Iterator[None]:
    """Turn a panic of delta-rs, which is no `Exception`, into one."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if is_panic(error):
            raise RuntimeError(str(error)) from error
        raise

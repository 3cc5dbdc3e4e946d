"""A ledger and a store of packs in memory: for tests, examples and runs that leave nothing behind.

They keep every promise that the ones on disk keep, the errors included, and count what was done to them.
"""

from __future__ import annotations

import tempfile
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from barca.errors import FragmentError
from barca.io.appending import Batch, GroupedWriter
from barca.io.locks import claimed
from barca.io.packs import (
    CAST_OPTIONS,
    WRITE_OPTIONS,
    check_pack,
    missing,
    pack_metadata,
    pack_schema,
)
from barca.io.rows import check_node, newest, revised, successes
from barca.io.storage import MODIFIED_AT, PACK_LISTING, check_path
from barca.schemas import KEY, LEDGER_TABLES, NODE, PATH, SIZE_BYTES, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from barca.ports import TableName

# --- ledger -----------------------------------------------------------------------------------------


class MemoryLedger:
    """A `Ledger` that lives as long as the object.

    Attributes:
        commits: Every commit, oldest first: its table and rows.
    """

    def __init__(self) -> None:
        self.commits: list[tuple[TableName, pl.DataFrame]] = []
        self._claim = threading.Lock()

    def reader(self) -> MemoryReader:
        """A reader of what has been committed so far."""
        return MemoryReader(tuple(self.commits))

    def writer(self, run_id: str) -> MemoryWriter:
        """A writer that appends to `commits`."""
        return MemoryWriter(run_id, self.commits)

    def maintain(self, budget_seconds: float) -> None:
        """Nothing: memory needs no compacting, and `commits` stays as it was made."""

    def vacuum(self, before: datetime) -> None:
        """Nothing: there are no files."""

    @contextmanager
    def claim(self, wait_seconds: float) -> Iterator[None]:
        """Keep others meanwhile from giving up results, and from pinning them; see `ports.Ledger`.

        Raises:
            LedgerError: They took longer.
        """
        if not self._claim.acquire(timeout=wait_seconds):
            raise claimed(wait_seconds)
        try:
            yield
        finally:
            self._claim.release()

    def revise(self, node: str, moved: pl.DataFrame, dropped: pl.DataFrame) -> bool:
        """Give up results of a node and name the new places of others; see `ports.Ledger.revise`."""
        found = False
        for number, (table, rows) in enumerate(self.commits):
            own = pl.col(NODE) == node
            if table == "materializations" and (held := rows.filter(own)).height:
                found = True
                self.commits[number] = table, pl.concat([rows.filter(~own), revised(held, moved, dropped)])
        return found


class MemoryReader:
    """A `LedgerReader` of the commits it was given."""

    def __init__(self, commits: tuple[tuple[TableName, pl.DataFrame], ...]) -> None:
        self._commits = commits

    def scan(self, table: TableName) -> pl.LazyFrame:
        """Every row of a table, in `schemas.LEDGER_TABLES[table]`, older commits first."""
        return self._rows(table).lazy()

    def materialized(self, node: str) -> pl.DataFrame:
        """Successful rows of `schemas.MATERIALIZATIONS` for a node, the last per (key, run_hash), by age.

        Raises:
            UsageError: A node id that no ledger can hold.
        """
        return newest(self.results(node))

    def results(self, node: str) -> pl.DataFrame:
        """Every successful row of `schemas.MATERIALIZATIONS` of a node that is still there, by age.

        Raises:
            UsageError: A node id that no ledger can hold.
        """
        check_node(node)
        return self._rows("materializations").filter((pl.col(NODE) == node) & successes())

    def materialized_many(
        self, nodes: Iterable[str], keys: Mapping[str, pl.Series] | None = None
    ) -> dict[str, pl.DataFrame]:
        """`materialized` of each node; see `ports.LedgerReader`."""
        rows = {node: self.materialized(node) for node in nodes}
        return rows | {
            node: rows[node].filter(pl.col(KEY).is_in(wanted.implode()))
            for node, wanted in (keys or {}).items()
            if node in rows
        }

    def latest(self, nodes: Iterable[str]) -> dict[str, pl.DataFrame]:
        """Per node the successful row of `schemas.MATERIALIZATIONS` that was committed last; none, no row."""
        rows = self._rows("materializations").filter(successes())
        return {node: rows.filter(pl.col(NODE) == node).tail(1) for node in nodes}

    def _rows(self, table: TableName) -> pl.DataFrame:
        frames = [rows for name, rows in self._commits if name == table]
        return pl.concat([empty(LEDGER_TABLES[table]), *frames])


class MemoryWriter(GroupedWriter):
    """A `LedgerWriter` that groups as the one on disk does."""

    def __init__(self, run_id: str, commits: list[tuple[TableName, pl.DataFrame]]) -> None:
        super().__init__(run_id)
        self._commits = commits

    def commit(self, batch: Batch) -> None:
        """Append the batch."""
        self._commits.append((batch.table, batch.rows))


# --- packs ------------------------------------------------------------------------------------------


class MemoryPackStore:
    """A `PackStore` that lives as long as the object.

    Attributes:
        packs: Path to the content of its file and the time it was written.
    """

    def __init__(self) -> None:
        self.packs: dict[str, tuple[bytes, datetime]] = {}

    def write(self, path: str, frame: pl.DataFrame, metadata: dict[str, str]) -> int:
        """Write a pack; see `ports.PackStore`. Returns its size in bytes.

        Raises:
            StoreError: The path leaves the store.
            polars.exceptions.PolarsError: Parquet cannot hold the frame.
        """
        check_path(path)
        file = BytesIO()
        frame.write_parquet(file, metadata=metadata, **WRITE_OPTIONS)
        return self._keep(path, file)

    def sink(self, path: str, frame: pl.LazyFrame, metadata: dict[str, str]) -> int:
        """As `write`, from the streaming engine; what the query raises passes through.

        See `ports.PackStore`.
        """
        check_path(path)
        file = BytesIO()
        frame.sink_parquet(file, metadata=metadata, engine="streaming", **WRITE_OPTIONS)
        return self._keep(path, file)

    def _keep(self, path: str, file: BytesIO) -> int:
        self.packs[path] = (file.getvalue(), datetime.now(UTC))
        return len(self.packs[path][0])

    def scan(self, paths: Sequence[str], schema: pl.Schema | None = None) -> pl.LazyFrame:
        """One lazy scan over packs; with `schema`, missing columns are null and others left out.

        Raises:
            FragmentError: A pack is missing, unreadable, or not the one that was written.
        """
        if not paths:
            return pl.LazyFrame(schema=schema)
        return pl.scan_parquet(
            [self._content(path) for path in paths],
            schema=schema,
            missing_columns="insert",
            extra_columns="ignore",
            cast_options=CAST_OPTIONS,
            glob=False,
            hive_partitioning=False,
        )

    def schema(self, path: str) -> pl.Schema:
        """The schema of a pack, from its footer."""
        return pack_schema(path, self._content(path))

    def metadata(self, path: str) -> dict[str, str]:
        """The key-value metadata of a pack, from its footer."""
        return pack_metadata(path, self._content(path))

    def probe(self, paths: Sequence[str]) -> list[str]:
        """Of the paths, those that can't be read as the packs that were written there, each once."""
        broken = []
        for path in dict.fromkeys(paths):
            try:
                self._content(path)
            except FragmentError:
                broken.append(path)
        return broken

    def stamps(self, paths: Iterable[str]) -> dict[str, str]:
        """Of each pack that is there, when it was written."""
        return {path: str(self.packs[path][1]) for path in paths if path in self.packs}

    def _content(self, path: str) -> bytes:
        """The content of a pack, once it is sure that it is the one written there."""
        check_path(path)
        if path not in self.packs:
            raise missing(path)
        content = self.packs[path][0]
        check_pack(path, content)
        return content

    def remove(self, paths: Sequence[str]) -> None:
        """Delete packs; those already gone are passed over."""
        for path in paths:
            check_path(path)
            self.packs.pop(path, None)

    def touch(self, paths: Iterable[str]) -> None:
        """Stamp packs as modified now; those that are gone are passed over."""
        for path in self.packs.keys() & set(paths):
            self.packs[path] = (self.packs[path][0], datetime.now(UTC))

    def files(self, paths: Sequence[str]) -> None:
        """Packs in memory are no files."""

    @property
    def scratch(self) -> Path:
        """The machine's directory for temporary files."""
        return Path(tempfile.gettempdir())

    def sweep(self) -> int:
        """Nothing is staged in memory: 0."""
        return 0

    def names(self, directory: str) -> list[str]:
        """Names of the packs in a directory of the store, sorted."""
        check_path(directory)
        inside = f"{directory}/"
        return sorted(path.removeprefix(inside) for path in self.packs if path.startswith(inside))

    def modified_at(self, path: str) -> datetime | None:
        """When a pack was written, or stamped as modified; `None` where it is gone."""
        check_path(path)
        return self.packs[path][1] if path in self.packs else None

    def listing(self) -> pl.DataFrame:
        """Every pack, sorted by path, as a frame of `PACK_LISTING`."""
        rows = {
            PATH: list(self.packs),
            SIZE_BYTES: [len(content) for content, _ in self.packs.values()],
            MODIFIED_AT: [written for _, written in self.packs.values()],
        }
        return pl.DataFrame(rows, schema=PACK_LISTING).sort(PATH)

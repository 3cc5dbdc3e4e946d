"""The seams: Protocols that the planner's callers, the runner and the tests share.

`barca.io` implements the stores twice, on disk and in memory; `barca.exec` implements the executors. Reading
and appending are different types: what decides gets a reader, what runs gets a writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from pathlib import Path

    import polars as pl

    from barca.events import Event
    from barca.model import Work, WorkerDied, WorkResult

TableName: TypeAlias = Literal[
    "materializations", "runs", "calls", "definitions", "publications", "holdings", "tags"
]


class LedgerReader(Protocol):
    """A ledger at one pinned version; what it returns never changes while it lives."""

    def scan(self, table: TableName) -> pl.LazyFrame:
        """Every row of a table, in `schemas.LEDGER_TABLES[table]`, older commits first."""
        ...

    def materialized(self, node: str) -> pl.DataFrame:
        """Successful rows of `schemas.MATERIALIZATIONS` for a node, the last per (key, run_hash).

        Sorted by age: for each key, the last row is its newest result.
        """
        ...

    def materialized_many(
        self, nodes: Iterable[str], keys: Mapping[str, pl.Series] | None = None
    ) -> dict[str, pl.DataFrame]:
        """`materialized` of each node, read together.

        Args:
            nodes: Node ids.
            keys: Per node, the only keys whose rows are wanted, String; of a node that is missing, all.

        Returns:
            Per node rows of `schemas.MATERIALIZATIONS`, sorted by age.
        """
        ...

    def results(self, node: str) -> pl.DataFrame:
        """Every successful row of `schemas.MATERIALIZATIONS` of a node that is still there, sorted by age."""
        ...

    def latest(self, nodes: Iterable[str]) -> dict[str, pl.DataFrame]:
        """Per node the successful row of `schemas.MATERIALIZATIONS` that was committed last; none, no row."""
        ...


class LedgerWriter(Protocol):
    """Appends; groups what it is given into few commits."""

    def append(self, table: TableName, rows: pl.DataFrame) -> None:
        """Queue rows of `schemas.LEDGER_TABLES[table]`; committed once enough, or old enough."""
        ...

    def flush(self) -> None:
        """Commit what is queued, durably, before returning. Never loses rows: on error they stay queued."""
        ...


class Ledger(Protocol):
    """Both sides of one ledger, and what keeps it small."""

    def reader(self) -> LedgerReader:
        """A reader pinned to the newest version."""
        ...

    def writer(self, run_id: str) -> LedgerWriter:
        """A writer whose appends are idempotent within the run."""
        ...

    def maintain(self, budget_seconds: float) -> None:
        """Compact, checkpoint and vacuum where thresholds say so, for at most so long."""
        ...

    def vacuum(self, before: datetime) -> None:
        """Delete files that the newest version does without, replaced or never committed before then."""
        ...

    def claim(self, wait_seconds: float) -> AbstractContextManager[None]:
        """Keep others meanwhile from giving up results, and from pinning them.

        Args:
            wait_seconds: How long to wait for those who do.

        Raises:
            LedgerError: With the code `claimed`: they took longer.
        """
        ...

    def revise(self, node: str, moved: pl.DataFrame, dropped: pl.DataFrame) -> bool:
        """Give up results of a node and name the new places of others, in one commit.

        Args:
            node: Node id.
            moved: `schemas.MOVED`.
            dropped: `key, run_hash, run_id: String` of successful rows of `schemas.MATERIALIZATIONS`.

        Returns:
            Whether it was done: not where the node has no rows, or another process committed meanwhile.
        """
        ...


class PackStore(Protocol):
    """Where packs live. Paths are relative, with `/` separators: `<node>/<id>.parquet`."""

    def write(self, path: str, frame: pl.DataFrame, metadata: dict[str, str]) -> int:
        """Write a pack whole and durably: staged, flushed, renamed.

        Args:
            path: Of the pack.
            frame: The dimensions as String columns, then the user's columns, of any type that Parquet holds.
            metadata: For its footer, see `barca.io.footer`.

        Returns:
            Its size in bytes.
        """
        ...

    def sink(self, path: str, frame: pl.LazyFrame, metadata: dict[str, str]) -> int:
        """As `write`, columns too, from the streaming engine."""
        ...

    def scan(self, paths: Sequence[str], schema: pl.Schema | None = None) -> pl.LazyFrame:
        """One lazy scan over packs, in the order of `paths`, each with its rows in their order.

        Args:
            paths: Packs to read.
            schema: Columns wanted; missing ones are null and others left out. Default: of the first pack.

        Raises:
            FragmentError: A pack is missing, unreadable, or not the one that was written.
        """
        ...

    def schema(self, path: str) -> pl.Schema:
        """The schema of a pack, from its footer."""
        ...

    def metadata(self, path: str) -> dict[str, str]:
        """The key-value metadata of a pack, from its footer."""
        ...

    def probe(self, paths: Sequence[str]) -> list[str]:
        """Of the paths, those that can't be read as the packs that were written there."""
        ...

    def stamps(self, paths: Iterable[str]) -> dict[str, str]:
        """Of each pack that is there, a text that is another once its file is written anew or altered."""
        ...

    def remove(self, paths: Sequence[str]) -> None:
        """Delete packs; those already gone are passed over."""
        ...

    def touch(self, paths: Iterable[str]) -> None:
        """Stamp packs as modified now; those that are gone are passed over."""
        ...

    def files(self, paths: Sequence[str]) -> list[Path] | None:
        """The files that packs are, in their order; `None` where they are none."""
        ...

    @property
    def scratch(self) -> Path:
        """A directory for files of passage, named with `storage.STAGING_PREFIX`; it may not exist yet."""
        ...

    def sweep(self) -> int:
        """Remove what killed writers left under staging names; returns how many files."""
        ...

    def names(self, directory: str) -> list[str]:
        """Names of the packs in a directory, sorted: of one node."""
        ...

    def modified_at(self, path: str) -> datetime | None:
        """When a pack was written or touched, aware, UTC; `None` where it is gone."""
        ...

    def listing(self) -> pl.DataFrame:
        """Every pack: `path: String, size_bytes: Int64, modified_at: Datetime(us, UTC)`."""
        ...


class Pending(Protocol):
    """A work on its way.

    Attributes:
        work: The work.
    """

    work: Work

    def cancel(self) -> None:
        """Stop it, even while it runs."""
        ...


class Keep(Protocol):
    """Takes what a call that goes on has stored already."""

    def __call__(self, fragments: pl.DataFrame, elapsed_seconds: float, /, *, commit: bool = False) -> None:
        """Take it.

        Args:
            fragments: Frame of `schemas.FRAGMENTS` of keys of the call, each given once.
            elapsed_seconds: Since the call began.
            commit: Whether it must be durable when this returns, because `wait` may not return for long.
        """
        ...


class Executor(Protocol):
    """Runs works. Not thread-safe: one runner drives it.

    Attributes:
        workers: How many works run at a time, at most.
    """

    workers: int

    def submit(self, work: Work, keep: Keep | None = None) -> Pending:
        """Start a work, or queue it behind the `workers` that run.

        Args:
            work: The work.
            keep: Told what a call stores before it ends, in the course of `wait`; its result then has only
                the rest. Without it everything is in the result.
        """
        ...

    def wait(self, timeout: float | None) -> Sequence[tuple[Pending, WorkResult | WorkerDied]]:
        """The works that ended since the last call; waits up to `timeout` seconds for the first.

        Ends works that run past their timeout. Never raises for what a work did.
        """
        ...

    def withdraw(self) -> None:
        """Forget the works whose calls have not begun."""
        ...

    def shutdown(self, *, cancel: bool = False) -> None:
        """End the workers; with `cancel`, without waiting for what runs."""
        ...


class Clock(Protocol):
    """The time, as an input."""

    def now(self) -> datetime:
        """The current time, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        ...


class Listener(Protocol):
    """Receives what happens in a run."""

    def __call__(self, event: Event, /) -> None:
        """Must return quickly and never raise."""
        ...

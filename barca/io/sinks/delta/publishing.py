"""Putting keys in the place of what a Delta table held of them, in one commit."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from barca.decorators.places import MARKER
from barca.io.columns import exactly
from barca.io.scans import scan_fragments
from barca.io.sinks.delta.rows import FILE_ROWS, RowWriter
from barca.io.sinks.delta.table import Outrun, Table, no_panics
from barca.io.sinks.delta.types import Conversion, Lossy, convert, widened
from barca.io.sinks.delta.upkeep import tidy
from barca.io.sinks.depots import depot_of
from barca.io.sinks.marker import Marker, claim
from barca.io.sinks.targets import Refused, described
from barca.io.sinks.writing import attempt
from barca.io.unify import conform
from barca.partitions import parse_key
from barca.records import Record
from barca.schemas import KEY, ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from barca.io.sinks.delta.table import DataFile
    from barca.io.sinks.depots import Depot
    from barca.io.sinks.targets import Target
    from barca.ports import PackStore

CONTENTION_SECONDS: Final = 60.0
"""How long a commit is tried again while others commit."""

_FILE: Final = "barca file"


class Change(Record, kw_only=True):
    """What a run changes in a table.

    Attributes:
        fragments: `schemas.FRAGMENTS` with `dim:` columns of the keys to put there.
        departed: Keys to remove, Hive form.
        whole: Whether nothing of what the table holds stays.
        stays: Whether the table should hold other keys, which stay.
    """

    fragments: pl.DataFrame
    departed: Sequence[str]
    whole: bool
    stays: bool


class Gone(Exception):
    """A table that should be there, and hold keys that stay, is not; nothing was written."""


def publish_delta(target: Target, store: PackStore, change: Change) -> Sequence[str]:
    """Commit a change; readers see the table before it or after it.

    Args:
        target: The sink.
        store: Holds the packs.
        change: What changes.

    Returns:
        What readers should know of the types, where the commit set them.

    Raises:
        Gone: There is no table, and keys that it should hold were to stay.
        Refused: The prefix is not the sink's, or the table has keys of other dimensions.
        Lossy: A column cannot be written without loss; nothing was written.
        Exception: Whatever the store or delta-rs raises; the table is as it was.
    """
    depot = depot_of(target)
    found, own = claim(target, depot), Marker.of(target)
    if found is not None and set(found.dimensions) != set(own.dimensions) and not change.whole:
        raise Refused(
            f"the Delta table {target.path} has keys of {_names(found.dimensions)}, and now should have "
            f"those of {_names(own.dimensions)}; run the asset whole, without --partition, to write every one"
        )
    table = Table(target)
    if change.stays and table.open() is None:
        raise Gone(
            f"the Delta table {target.path} is gone; run the asset whole, without --partition, to write it "
            "again"
        )
    with depot.staging() as staging:
        notes = _committed(lambda: _Attempt(target, store, change, table, depot, staging), table)
        if found not in (None, own):
            depot.write(MARKER, own.content())
        try:
            tidy(target, table, depot, staging)
        except Exception as error:
            notes = [*notes, f"the table has the new rows, and was not tidied up: {described(error)}"]
    return notes


def _committed(new_attempt: Callable[[], _Attempt], table: Table) -> Sequence[str]:
    """Try until nobody commits in between; returns what readers should know of new types."""
    deadline = time.monotonic() + CONTENTION_SECONDS
    while True:
        made = new_attempt()
        try:
            with no_panics():
                made.run()
        except Outrun:
            if table.holds(made.files):
                return made.notes
            made.undo()
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.05, 0.5))  # noqa: S311 -- spreads writers, guards nothing
        except BaseException:
            if not made.committing:  # or it may have come to be: what it names must be there
                made.undo()
            raise
        else:
            return made.notes


def _names(dimensions: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in dimensions) or "no dimension"


class _Attempt:
    """One try to commit a change on top of the newest version.

    Attributes:
        notes: What readers should know of new types.
        committing: Whether the commit was begun.
    """

    def __init__(
        self,
        target: Target,
        store: PackStore,
        change: Change,
        table: Table,
        depot: Depot,
        staging: Path,
    ) -> None:
        self._change = change
        self._store = store
        self._table = table
        self._dimensions = target.dimensions
        self._by = target.spec.partition_by
        self._snapshot = table.open()
        self._depot = depot
        self._staging = staging
        self._writer = RowWriter(depot, staging, target.dimensions, self._by)
        self.notes: list[str] = []
        self.committing = False
        if self._snapshot is not None and self._snapshot.partition_by != list(self._by):
            raise Refused(
                f"the Delta table {target.path} is partitioned by {self._snapshot.partition_by}; point the "
                "sink at a new prefix to partition it otherwise"
            )

    @property
    def files(self) -> Sequence[DataFile]:
        """What was written."""
        return self._writer.files

    def run(self) -> None:
        """Check, write, commit."""
        if self._change.fragments.is_empty() and self._snapshot is None:
            return
        renewed = self._change.whole and not self._change.fragments.is_empty()
        there: Mapping[str, pl.DataType] = {}
        if self._snapshot is not None and not renewed:
            there = self._snapshot.schema
        new = scan_fragments(self._store, self._change.fragments, self._dimensions)
        found = new.collect_schema()
        conversion = convert(found, there or (self._snapshot.schema if self._snapshot else {}))
        self._check_values(new, conversion)
        schema = widened(there, conversion.schema) if there else conversion.schema
        if self._snapshot is None:
            self._write_new(found, conversion, schema)
            self._writer.finish()
            self.notes, self.committing = conversion.notes, True
            self._table.create(schema, self.files)
            return
        changed = list(schema.items()) != list(self._snapshot.schema.items())
        if changed:
            self._snapshot.allow(schema)
        touched = [] if self._change.whole else self._touched(everything=changed)
        for file in touched:
            self._keep(file, self._snapshot.schema, schema)
        self._write_new(found, conversion, schema)
        self._writer.finish()
        removed = None if self._change.whole or changed else touched
        if removed is None or removed or self.files:
            self.notes, self.committing = conversion.notes if changed else [], True
            self._snapshot.commit(schema, self.files, removed)

    def undo(self) -> None:
        """Remove the files of a commit that did not come to be."""
        for file in self.files:
            self._depot.remove_file(file.path)

    def _check_values(self, new: pl.LazyFrame, conversion: Conversion) -> None:
        for name, trial in conversion.trials.items():
            problem = attempt(
                partial(new.select(trial).select(pl.all().null_count()).collect, engine="streaming")
            )
            if problem is not None:
                dtype = conversion.schema[name]
                raise Lossy(f"column `{name}` holds values that {dtype} has no room for: {problem}")
        if not conversion.checks:
            return
        found = new.select(check.alias(name) for name, (check, _) in conversion.checks.items())
        for name, bad in found.collect(engine="streaming").row(0, named=True).items():
            if bad:
                raise Lossy(f"column `{name}` {conversion.checks[name][1]}; cast it, or leave it out")

    # --- rows ---------------------------------------------------------------------------------------

    def _write_new(self, found: pl.Schema, conversion: Conversion, schema: Mapping[str, pl.DataType]) -> None:
        """The rows of the keys, some keys at a time."""
        if self._change.fragments.is_empty():
            return
        target = pl.Schema(schema)
        chunks = self._change.fragments.sort(KEY).with_columns(
            (pl.col(ROWS).cum_sum() // FILE_ROWS).alias("chunk")
        )
        for chunk in chunks.partition_by("chunk", include_key=False, maintain_order=True):
            rows = scan_fragments(self._store, chunk, self._dimensions)
            whole = conform(rows, rows.collect_schema(), found).select(conversion.columns)
            self._writer.add(conform(whole, pl.Schema(conversion.schema), target).collect(engine="in-memory"))

    def _keep(
        self, file: DataFile, old: Mapping[str, pl.DataType], schema: Mapping[str, pl.DataType]
    ) -> None:
        """The rows of a file that stay."""
        held = {name: dtype for name, dtype in old.items() if name not in self._by}
        wanted = {name: dtype for name, dtype in schema.items() if name not in self._by}
        rows = self._table.scan([file.path]).join(
            self._keys().lazy(), on=list(self._dimensions), how="anti", maintain_order="left"
        )
        kept = conform(rows.select(exactly(list(held))), pl.Schema(held), pl.Schema(wanted))
        self._writer.add_to([file.partition[name] for name in self._by], kept.collect(engine="in-memory"))

    def _touched(self, *, everything: bool) -> list[DataFile]:
        """The files that hold rows of the keys; or all."""
        assert self._snapshot is not None
        files = self._snapshot.files
        if everything or not files:
            return files
        keys = self._keys()
        first = keys.get_column(self._dimensions[0])
        candidates = [file for file in files if _may_hold(file, first)]
        if not candidates:
            return []
        hit = (
            self._table.scan([file.path for file in candidates], _FILE)
            .select(_FILE, *self._dimensions)
            .join(keys.lazy(), on=list(self._dimensions), how="semi", maintain_order="left")
            .select(pl.col(_FILE).unique())
            .collect(engine="streaming")
            .to_series()
            .to_list()
        )
        places = self._table.places([file.path for file in candidates])
        return [file for file, place in zip(candidates, places, strict=True) if place in hit]

    def _keys(self) -> pl.DataFrame:
        """The keys whose rows leave the table: those that are replaced, and those that departed."""
        replaced = self._change.fragments.get_column(KEY).to_list()
        values = [parse_key(key) for key in (*replaced, *self._change.departed)]
        of_this_shape = [value for value in values if set(value) == set(self._dimensions)]
        return pl.DataFrame(
            {name: [value[name] for value in of_this_shape] for name in self._dimensions},
            schema=dict.fromkeys(self._dimensions, pl.String),
        )


def _may_hold(file: DataFile, values: pl.Series) -> bool:
    low, high = (file.bounds or {}).get(values.name, (None, None))
    if low is None or high is None:
        return True
    return bool(values.is_between(low, high).any())

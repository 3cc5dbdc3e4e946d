"""Storing the answers of a work as packs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.io.fragments import pack_keyed, pack_table, pack_values
from barca.io.storage import node_directory
from barca.records import Record
from barca.schemas import FRAGMENTS, KEY, empty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca.errors import OutputError
    from barca.exec.output import Answer
    from barca.io.spool import Spool
    from barca.model import Work
    from barca.ports import PackStore


class Stored(Record):
    """What was stored.

    Attributes:
        fragments: `schemas.FRAGMENTS`.
        failures: Keys whose value cannot be stored, with the error.
    """

    fragments: pl.DataFrame
    failures: Sequence[tuple[str, OutputError]] = ()


def pack_path(work: Work, part: str = "") -> str:
    """Path of a pack of a work; works are numbered within their run, so the run is part of the name."""
    return f"{node_directory(work.node)}/{work.run_id}-{work.id}{part}.parquet"


def store_keyed(work: Work, store: PackStore, returned: Any) -> Stored:
    """Store what a keyed source returned."""
    return Stored(
        pack_keyed(
            store,
            pack_path(work),
            work.node,
            returned,
            work.keys,
            dimensions=work.gives,
            engine=work.engine,
            before=work.before,
        )
    )


def store_each(work: Work, store: PackStore, values: Sequence[tuple[str, Any]]) -> Stored:
    """Store what one-key calls that ran together returned, in packs that they share."""
    return _values(work, store, "", values)


def store_answer(work: Work, store: PackStore, answer: Answer, part: str = "") -> Stored:
    """Store what a batched call answered.

    Args:
        work: The call.
        store: Receives the packs.
        answer: What it answered, or what it has yielded so far.
        part: Tells the packs of one part of the answer from those of another.

    Raises:
        OutputError: A table cannot be stored, or holds rows of no key of the call.
    """
    if answer.spool is not None:
        return Stored(_spooled(work, store, answer.spool))
    if answer.table is not None:
        return Stored(_table(work, store, part, answer.table, work.keys))
    packs: list[pl.DataFrame] = []
    failures: Sequence[tuple[str, OutputError]] = []
    if answer.values:
        stored = _values(work, store, part, list(answer.values.items()))
        packs, failures = [stored.fragments], stored.failures
    for number, (frame, keys) in enumerate(_tables(work, answer)):
        packs.append(_table(work, store, f"{part}-t{number}", frame, keys))
    return Stored(pl.concat(packs) if packs else empty(FRAGMENTS), failures)


def _spooled(work: Work, store: PackStore, spool: Spool) -> pl.DataFrame:
    """A pack per part of a table that lies on the disk."""
    packs = [
        # rows of no key are told with the keys that there are
        _table(work, store, f"-s{number}", rows, own if own.height or rows.is_empty() else work.keys)
        for number, (rows, own) in enumerate(spool.parts(work.keys))
    ]
    return pl.concat(packs)


def _tables(work: Work, answer: Answer) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yielded tables of one schema as one table, each with its keys (`schemas.WORK_KEYS`)."""
    groups: dict[Any, tuple[list[pl.DataFrame], list[str]]] = {}
    for frame, keys in answer.yielded:
        frames, all_keys = groups.setdefault(tuple(frame.schema.items()), ([], []))
        frames.append(frame)
        all_keys += keys
    return [(pl.concat(frames), _some(work, keys)) for frames, keys in groups.values() if keys]


def _some(work: Work, keys: Sequence[str]) -> pl.DataFrame:
    chosen = pl.DataFrame({KEY: keys}, schema={KEY: pl.String})
    return work.keys.join(chosen, on=KEY, how="semi", maintain_order="left")


def _table(work: Work, store: PackStore, part: str, frame: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    path = pack_path(work, part)
    return pack_table(store, path, work.node, frame, keys, work.dimensions, engine=work.engine)


def _values(work: Work, store: PackStore, part: str, values: Sequence[tuple[str, Any]]) -> Stored:
    fragments, failures = pack_values(
        store,
        pack_path(work, part),
        work.node,
        values,
        work.keys,
        work.dimensions,
        serializer=work.serializer,
        engine=work.engine,
    )
    return Stored(fragments, failures)

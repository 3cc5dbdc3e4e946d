"""Tags: names for moments; what keys held at them stays."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import SelectionError, UsageError, did_you_mean
from barca.io.held import COLLECTED_AT, held_at
from barca.io.rows import successes
from barca.io.tags import read_tags, write_tag
from barca.project.announcing import new_run_id
from barca.project.log import log
from barca.project.moments import Moment, find_moment
from barca.schemas import AT, CREATED_AT, KEY, NODE, PATH, ROW_OFFSET, RUN_HASH, RUN_ID, SIZE_BYTES, TAG

if TYPE_CHECKING:
    from collections.abc import Callable

    from barca.ports import Ledger, LedgerReader
    from barca.project.moments import When

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
"""What a tag may be called: nothing that a run id or a time could be taken for."""

WAIT_SECONDS: Final = 60.0
"""How long to wait for who collects garbage, or makes another tag."""

_COLUMNS: Final = (NODE, KEY, RUN_HASH, RUN_ID, PATH, ROW_OFFSET, SIZE_BYTES, CREATED_AT)


def make_tag(
    ledger: Ledger, markers: Callable[[], pl.DataFrame], name: str, when: When | None
) -> dict[str, Any]:
    """Pin what is held at a moment, now without any: garbage collection leaves it alone from here on.

    Returns:
        As one of `list_tags`.

    Raises:
        UsageError: The name is none or is taken, there is no such moment, or nothing was held then.
        LedgerError: The ledger is damaged, claimed by another process, or cannot be written to.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"`{name}` cannot be the name of a tag",
            code="tag_name",
            remediation="begin it with a letter; at most 64 letters A-Z and a-z, digits, `.`, `_` and `-`",
        )
    with ledger.claim(WAIT_SECONDS):
        reader = ledger.reader()
        taken = read_tags(reader).filter(pl.col(TAG) == name)
        if taken.height:
            raise UsageError(
                f"there is a tag `{name}` already, {_moment(taken)}",
                code="tag_exists",
                remediation=f"choose another name, or delete it first: `barca tag {name} --delete`",
            )
        now = dt.datetime.now(dt.UTC)
        moment = Moment(at=now) if when is None else find_moment(when, reader, markers())
        told = _told(name, moment.at, moment.run_id, now, _results(reader))
        if not told["keys"]:
            raise UsageError(
                f"nothing was held as of {moment}",
                code="no_result",
                remediation="name a moment after the first run; `barca history` lists runs",
            )
        write_tag(ledger, new_run_id(now), name, moment.at, moment.run_id, now)
    log("tag %s made as of %s", name, moment)
    return told


def delete_tag(ledger: Ledger, name: str) -> None:
    """Give a tag up: what it pinned goes as other results do.

    Raises:
        SelectionError: There is no such tag.
        LedgerError: The ledger is damaged, claimed by another process, or cannot be written to.
    """
    with ledger.claim(WAIT_SECONDS):
        names = read_tags(ledger.reader()).get_column(TAG).to_list()
        if name not in names:
            raise SelectionError(
                f"there is no tag `{name}`", code="unknown_tag", remediation=did_you_mean(name, names)
            )
        now = dt.datetime.now(dt.UTC)
        write_tag(ledger, new_run_id(now), name, None, None, now)
    log("tag %s deleted", name)


def list_tags(reader: LedgerReader) -> list[dict[str, Any]]:
    """The tags, by moment: `tag`, `at`, `run_id`, `created_at`; `keys` that were held, `gone`, how many of
    them were collected before there was a tag, and the `bytes` of the others.
    """
    tags = read_tags(reader).sort(AT, maintain_order=True)
    if tags.is_empty():
        return []
    results = _results(reader)
    return [
        _told(row[TAG], row[AT], row[RUN_ID], row[CREATED_AT], results) for row in tags.iter_rows(named=True)
    ]


def _results(reader: LedgerReader) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = reader.scan("materializations").filter(successes()).select(_COLUMNS)
    return rows.collect(engine="in-memory"), reader.scan("holdings").collect(engine="in-memory")


def _told(
    name: str,
    at: dt.datetime,
    run_id: str | None,
    created_at: dt.datetime,
    results: tuple[pl.DataFrame, pl.DataFrame],
) -> dict[str, Any]:
    held = held_at(*results, at)
    there = held.filter(pl.col(COLLECTED_AT).is_null())
    size = there.unique([PATH, ROW_OFFSET, KEY], maintain_order=False).get_column(SIZE_BYTES).sum()
    return {
        "tag": name,
        "at": at.isoformat(),
        "run_id": run_id,
        "created_at": created_at.isoformat(),
        "keys": held.height,
        "gone": held.height - there.height,
        "bytes": int(size or 0),
    }


def _moment(tag: pl.DataFrame) -> str:
    return f"as of {Moment(at=tag.item(0, AT), run_id=tag.item(0, RUN_ID))}"

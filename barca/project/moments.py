"""Moments of the past, as people name them: a tag, a run, a time."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import polars as pl

from barca.errors import SelectionError, UsageError, did_you_mean
from barca.io.tags import read_tags
from barca.project.past import find_run, runs_table
from barca.records import Record
from barca.schemas import AT, CREATED_AT, RUN_ID, STATUS, TAG

if TYPE_CHECKING:
    from barca.ports import LedgerReader

SAMPLES: Final = "`2026-11-30`, `2026-11-30 14:00`, `2026-11-30T14:00:00Z`, `2h`, `3 days ago`"

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?:\s+ago)?", re.IGNORECASE)
_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3_600),
    **dict.fromkeys(("d", "day"), 86_400),
    **dict.fromkeys(("w", "week"), 604_800),
}


class Moment(Record, kw_only=True):
    """A moment of the past.

    Attributes:
        at: When, UTC: what happened then counts.
        run_id: The run after which it is, if a run or a tag of one names it.
        tag: The tag that names it.
        local: Whether it was given without a zone, and taken for this machine's.
    """

    at: dt.datetime
    run_id: str | None = None
    tag: str | None = None
    local: bool = False

    def __str__(self) -> str:
        """As people read it: the time, and what names it."""
        named = [f"tag {self.tag}"] if self.tag else []
        named += [f"after run {self.run_id}"] if self.run_id else []
        shown = f"{self.at:%Y-%m-%d %H:%M:%S} UTC"
        if self.local:
            own = self.at.astimezone()
            named.append(f"{own:%Y-%m-%d %H:%M:%S} in this machine's zone, UTC{own:%z}")
        return f"{shown} ({', '.join(named)})" if named else shown

    def to_dict(self) -> dict[str, Any]:
        """`at` (ISO), `run_id`, `tag`."""
        return {"at": self.at.isoformat(), "run_id": self.run_id, "tag": self.tag}


When: TypeAlias = str | dt.date | dt.datetime | Moment
"""What names a moment: a tag, a run id or its beginning, a time as text, a date or datetime; or itself."""


def find_moment(when: When, reader: LedgerReader, markers: pl.DataFrame) -> Moment:
    """The moment that somebody means.

    Args:
        when: What names it.
        reader: The ledger: it has the runs and the tags.
        markers: Of runs that have not ended.

    Raises:
        SelectionError: There is no such run or tag, or the run goes on.
        UsageError: It is nothing of that, or in the future.
    """
    if isinstance(when, Moment):
        return when
    if isinstance(when, dt.date):
        return _of_time(when, str(when))
    if not isinstance(when, str):
        raise _unknown(when, [])
    name = when.strip()
    tags = read_tags(reader)
    tagged = tags.filter(pl.col(TAG) == name)
    if tagged.height:
        return Moment(at=tagged.item(0, AT), run_id=tagged.item(0, RUN_ID), tag=name)
    if (time := _parsed(name)) is not None:
        return time
    runs = runs_table(reader, markers)
    if name and runs.get_column(RUN_ID).str.starts_with(name).any():
        return after_run(runs, find_run(runs, name), reader)
    raise _unknown(when, [*tags.get_column(TAG), *runs.get_column(RUN_ID).head(5)])


def after_run(runs: pl.DataFrame, run_id: str, reader: LedgerReader) -> Moment:
    """The moment at which a run had ended; of a killed one, of the last thing it left.

    Raises:
        SelectionError: It goes on.
    """
    run = runs.row(by_predicate=pl.col(RUN_ID) == run_id, named=True)
    if run[STATUS] == "running":
        raise SelectionError(
            f"run `{run_id}` is still going",
            code="run_going",
            remediation="name a run that has ended, or a time",
        )
    at = run["finished_at"]
    if at is None:
        rows = reader.scan("materializations").filter(pl.col(RUN_ID) == run_id)
        at = rows.select(pl.col(CREATED_AT).max()).collect(engine="in-memory").item() or run["started_at"]
    return Moment(at=at, run_id=run_id)


def _parsed(text: str) -> Moment | None:
    """A time as text; `None` where it is none."""
    ago = _AGO.fullmatch(text)
    unit = _UNITS.get(ago[2].lower()) if ago else None
    if ago is not None and unit is not None:
        try:
            return Moment(at=dt.datetime.now(dt.UTC) - dt.timedelta(seconds=float(ago[1]) * unit))
        except OverflowError:
            return Moment(at=dt.datetime.min.replace(tzinfo=dt.UTC))
    if "-" not in text:  # `20261130` may be the beginning of a run's id
        return None
    try:
        return _of_time(dt.datetime.fromisoformat(text), text)
    except ValueError:
        return None


def _of_time(time: dt.date, given: str) -> Moment:
    """A date is its beginning; what has no zone is in this machine's."""
    full = time if isinstance(time, dt.datetime) else dt.datetime.combine(time, dt.time())
    local = full.tzinfo is None
    try:
        at = full.astimezone(dt.UTC)
    except (OverflowError, OSError, ValueError):  # before the first day or after the last that there is
        at = full.replace(tzinfo=dt.UTC)
    if at > dt.datetime.now(dt.UTC):
        raise UsageError(
            f"`{given}` is in the future" + (f", {at:%Y-%m-%d %H:%M:%S} UTC" if local else ""),
            code="as_of",
            remediation="leave it out for what is held now; a time without a zone is in this machine's",
        )
    return Moment(at=at, local=local)


def _unknown(when: object, known: list[str]) -> UsageError:
    hint = f"a time is written like {SAMPLES}"
    if known and isinstance(when, str):
        hint = f"{did_you_mean(when, known, limit=6)}; {hint}"
    return UsageError(
        f"`{when}` is no tag, run or time",
        code="as_of",
        remediation=f"{hint}; `barca tag` lists tags, `barca history` runs",
    )

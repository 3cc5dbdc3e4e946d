"""Naming what differs between a stale key's run hash and the one of its newest result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from barca.frames import where
from barca.hashing import hash_text
from barca.lookup import among, lookup
from barca.plan.decide import newest
from barca.schemas import CHANGED, CHANGES, DEFINITION_HASH, ENV_HASH, INPUT_HASHES, KEY, RUN_HASH, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barca.model import Fingerprint

_OLD = "old:"
_NAMES = "names:"
_COMPARED = (RUN_HASH, DEFINITION_HASH, ENV_HASH, INPUT_HASHES)


def env_marks(env: Mapping[str, str | None]) -> str:
    """Declared environment variables as a JSON object of name to a short hash of the value.

    Enough to name the one that changed; too short to find a value by.
    """
    return json.dumps(
        {name: None if value is None else hash_text(value)[:8] for name, value in sorted(env.items())}
    )


def with_changed(
    stale: pl.DataFrame,
    rows: pl.DataFrame,
    fingerprint: Fingerprint,
    env: Mapping[str, str | None],
    labels: Sequence[str],
    definitions: pl.DataFrame,
) -> pl.DataFrame:
    """Stale keys with `changed: List(String)`: null for keys that never ran.

    Args:
        stale: Keys with `run_hash` and `input_hashes`.
        rows: The node's rows of `schemas.MATERIALIZATIONS`, sorted by age.
        fingerprint: Of the node now.
        env: Its environment variables now.
        labels: Names of the entries of `input_hashes`.
        definitions: The node's rows of `schemas.DEFINITIONS`.

    Returns:
        `key, changed`, for keys with an older result.
    """
    # few keys run of many that are stored, so the history is cut down to theirs first
    last = newest(among(rows, stale))
    old = [last.get_column(name).alias(_OLD + name) for name in _COMPARED]
    table = pl.DataFrame([last.get_column(KEY), *old])
    both = lookup(stale[[KEY, RUN_HASH, INPUT_HASHES]], table, [column.name for column in old])
    both = where(both, both.get_column(RUN_HASH) != both.get_column(_OLD + RUN_HASH))
    if both.is_empty():
        return empty(CHANGES)
    both = _named(both, DEFINITION_HASH, lambda old: _components(old, fingerprint, definitions))
    both = _named(both, ENV_HASH, lambda old: _variables(old, env_marks(env)))
    names = [_NAMES + DEFINITION_HASH, _NAMES + ENV_HASH]
    return both.select(KEY, pl.concat_list(*names, _inputs(labels)).alias(CHANGED))


def _named(both: pl.DataFrame, column: str, names: Callable[[str], list[str]]) -> pl.DataFrame:
    """Names for each distinct old value beside it: there are few, one per edit of code or environment."""
    distinct = both.get_column(_OLD + column).unique().sort()
    table = pl.DataFrame(
        [(value, names(value)) for value in distinct if value is not None],
        schema={_OLD + column: pl.String, _NAMES + column: pl.List(pl.String)},
        orient="row",
    )
    return lookup(both, table, [_NAMES + column], on=_OLD + column)


def _components(old_hash: str, fingerprint: Fingerprint, definitions: pl.DataFrame) -> list[str]:
    if old_hash == fingerprint.hash:
        return []
    stored = definitions.filter(pl.col(DEFINITION_HASH) == old_hash).get_column("components")
    if stored.is_empty():
        return ["definition"]
    before = json.loads(stored[-1])
    now = fingerprint.components
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name)) or ["definition"]


def _variables(old: str, new: str) -> list[str]:
    before, now = json.loads(old), json.loads(new)
    return [f"env {name}" for name in sorted({*before, *now}) if before.get(name, "") != now.get(name, "")]


def _inputs(labels: Sequence[str]) -> pl.Expr:
    """Labels of the entries that differ; with another number of entries, the inputs as such changed."""
    same_shape = pl.col(_OLD + INPUT_HASHES).list.len() == len(labels)
    named = [
        pl.when(
            same_shape
            & (
                pl.col(INPUT_HASHES).list.get(index, null_on_oob=True)
                != pl.col(_OLD + INPUT_HASHES).list.get(index, null_on_oob=True)
            )
        ).then(pl.lit(label))
        for index, label in enumerate(labels)
    ]
    named.append(pl.when(~same_shape).then(pl.lit("inputs")))
    return pl.concat_list(named).list.drop_nulls()

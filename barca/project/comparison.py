"""A key's current result against the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import FragmentError, SelectionError, UsageError, did_you_mean
from barca.graph import short_name
from barca.io.compare import Difference, as_rows, compare
from barca.io.values import read_value
from barca.partitions import display_keys, display_text, parse_key
from barca.plan.keys import narrow
from barca.project.selection import SAMPLE, valid_values
from barca.records import Record
from barca.schemas import (
    CREATED_AT,
    DIGEST,
    FORMAT,
    FRAGMENTS,
    KEY,
    NODE,
    ROWS,
    RUN_HASH,
    RUN_ID,
    STATUS,
    dimension,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca.graph import Node
    from barca.ports import PackStore
    from barca.project.current import Current

SHOWN_ROWS: Final = 20
"""At most so many rows of each kind are listed."""

_SIDE: Final = (RUN_ID, CREATED_AT, RUN_HASH, DIGEST, FORMAT, ROWS)


class Comparison(Record):
    """A key's current result against the one before it.

    Attributes:
        node: Node id.
        key: Display form; `None` for an unpartitioned node.
        current: The ledger's row of the current result.
        previous: The ledger's row of the result before it.
        difference: What differs.
    """

    node: str
    key: str | None
    current: Mapping[str, Any]
    previous: Mapping[str, Any]
    difference: Difference

    def to_dict(self) -> dict[str, Any]:
        """The counts, and the first rows of each kind, as JSON-writable values."""
        found = self.difference
        kinds = {"added": found.added, "removed": found.removed, "changed": found.changed}
        return {
            "target": self.node,
            "key": self.key,
            "current": _side(self.current),
            "previous": _side(self.previous),
            "on": list(found.on),
            "columns": found.columns,
            **{name: frame.height for name, frame in kinds.items()},
            "unchanged": found.unchanged,
            "rows": {name: frame.head(SHOWN_ROWS).to_dicts() for name, frame in kinds.items()},
        }

    def _repr_html_(self) -> str:
        from barca.render.html import comparison_html

        return comparison_html(self.to_dict())


def compare_results(
    node: Node,
    current: Current,
    selection: Mapping[str, Sequence[str]],
    on: Sequence[str],
) -> Comparison:
    """The current result of one key, compared with the newest other one.

    Args:
        node: The node.
        current: Tells which results a run would serve, and reads them.
        selection: Dimension to values; leaves one key.
        on: Columns that tell rows apart; without any they are looked for.

    Raises:
        UsageError: Not exactly one key has results, or it has one result only.
        FragmentError: A result is gone.
    """
    # every success: a sensor, or what was refreshed, has several under one run hash
    successes = (pl.col(NODE) == node.id) & (pl.col(STATUS) == "success")
    rows = current.reader.scan("materializations").filter(successes).collect(engine="in-memory")
    keys = rows.select(KEY).unique(maintain_order=True)
    chosen = _one_key(node, keys, selection)
    own = rows.filter(pl.col(KEY) == chosen)
    # code that is as it was before has its old result, with nothing newer in the ledger
    now = own.filter(pl.col(RUN_HASH).eq_missing(pl.lit(current.served(node, chosen)))).tail(1)
    now = now if now.height else own.tail(1)
    # equal content computed again is no other result
    others = own.filter(pl.col(DIGEST).ne_missing(now.item(0, DIGEST)))
    if others.is_empty():
        raise UsageError(
            f"`{_named(node, chosen)}` has one result, so that there is none before it",
            code="diff_single",
            node=node.id,
            key=display_text(chosen) or None,
            remediation="results that are equal count as one; there is something to compare once it changed",
        )
    before = others.tail(1)
    older, newer = (_read(node, current.store, row) for row in (before, now))
    return Comparison(
        node=node.id,
        key=display_text(chosen) or None,
        current=now.row(0, named=True),
        previous=before.row(0, named=True),
        difference=compare(older, newer, on),
    )


def _one_key(node: Node, keys: pl.DataFrame, selection: Mapping[str, Sequence[str]]) -> str:
    """The key that is selected of those with results."""
    name = short_name(node.id)
    if keys.is_empty():
        raise UsageError(
            f"`{name}` has no result yet",
            code="diff_single",
            node=node.id,
            remediation=f"run `barca get {name}`",
        )
    chosen = keys
    if node.partitioned or selection:
        values = [parse_key(key) for key in keys.get_column(KEY)]
        columns = {dim: [value.get(dim) for value in values] for dim in node.dimensions}
        _check_values(node, columns, selection)
        chosen = narrow(
            keys.with_columns(pl.Series(dimension(dim), found, pl.String) for dim, found in columns.items()),
            selection,
        )
    if chosen.height != 1:
        some = display_keys((chosen if chosen.height else keys).get_column(KEY).sort().head(SAMPLE))
        several = ", each dimension by itself," if len(node.dimensions) > 1 else ","
        problem = f"{chosen.height:,} keys of `{name}` with results are selected; a comparison is of one"
        raise UsageError(
            problem if chosen.height else f"no key of `{name}` with a result has these values together",
            code="diff_key",
            node=node.id,
            remediation=f"select one with --partition{several} of {', '.join(f'`{key}`' for key in some)}",
        )
    return str(chosen.item(0, KEY))


def _check_values(
    node: Node, columns: Mapping[str, Sequence[str | None]], selection: Mapping[str, Sequence[str]]
) -> None:
    """Make sure that a result has each dimension and value that is selected.

    Raises:
        SelectionError: None has.
    """
    name = short_name(node.id)
    for dim, values in selection.items():
        if dim not in columns:
            raise SelectionError(
                f"`{name}` has no dimension `{dim}`",
                code="unknown_dimension",
                node=node.id,
                remediation=did_you_mean(dim, columns)
                if columns
                else "leave --partition out: it has one result",
            )
        found = sorted({value for value in columns[dim] if value is not None})
        wrong = sorted(set(values).difference(found), key=list(values).index)
        if wrong:
            raise SelectionError(
                f"`{wrong[0]}` is not a key of `{dim}` that `{name}` has a result of",
                code="unknown_key",
                node=node.id,
                remediation=valid_values(dim, wrong[0], found, columns),
            )


def _read(node: Node, store: PackStore, row: pl.DataFrame) -> pl.DataFrame:
    try:
        return as_rows(read_value(store, row.select(list(FRAGMENTS)), None, node.dimensions))
    except FragmentError as error:
        raise FragmentError(
            f"the result of `{_named(node, row.item(0, KEY))}` of run {row.item(0, RUN_ID)} is gone: "
            f"{error.message}",
            code=error.code,
            node=node.id,
            file=error.file,
            remediation="only results whose files are still there can be compared",
        ) from error


def _named(node: Node, key: str) -> str:
    return f"{short_name(node.id)}[{display_text(key)}]" if key else short_name(node.id)


def _side(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name].isoformat() if name == CREATED_AT else row[name] for name in _SIDE}

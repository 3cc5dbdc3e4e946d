"""Rules for ledger rows that hold for every ledger, on disk and in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import polars as pl

from barca.errors import LedgerError, UsageError
from barca.frames import where
from barca.schemas import (
    KEY,
    LEDGER_TABLES,
    NODE,
    OUTCOME_STATUSES,
    PATH,
    ROW_OFFSET,
    RUN_HASH,
    RUN_ID,
    SIZE_BYTES,
    STATUS,
    WAS,
    WAS_OFFSET,
)

if TYPE_CHECKING:
    from barca.ports import TableName

TABLE_ORDER: Final[tuple[TableName, ...]] = (
    "definitions",
    "materializations",
    "calls",
    "publications",
    "holdings",
    "tags",
    "runs",
)
"""The order in which tables are committed together: a run's row comes when all it tells of is there."""

PARTITION_COLUMNS: Final[dict[TableName, str]] = {"materializations": NODE}
"""Tables that keep a directory per value of a column."""

_MAX_NAME_BYTES: Final = 255
_NULL_MARKER: Final = "__HIVE_DEFAULT_PARTITION__"


def partition_directory(node: str) -> str:
    """The directory of a node's rows: `node=<percent-encoded id>`."""
    return f"{NODE}={quote(node, safe='', errors='strict')}"


def check_node(node: str) -> None:
    """Make sure that a ledger can hold the rows of a node of this id.

    Raises:
        UsageError: The id is empty, too long for a directory name, not text, or what Hive writes for null.
    """
    try:
        excess = len(partition_directory(node)) - _MAX_NAME_BYTES
    except UnicodeEncodeError:
        reason = "it holds characters that are not Unicode text"
    else:
        if node and node != _NULL_MARKER and excess <= 0:
            return
        reason = (
            f"it is {excess} bytes too long for a directory name of {_MAX_NAME_BYTES} bytes, "
            "in which `/`, `:` and each byte of non-ASCII characters take 3"
            if excess > 0
            else "it is empty or a reserved word"
        )
    raise UsageError(
        f"the node id {node!r} cannot stand in the ledger: {reason}",
        code="node_name",
        remediation="give the node a short `name=`",
        node=node,
    )


def conform(table: TableName, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows in exactly the columns and dtypes of `schemas.LEDGER_TABLES[table]`.

    Raises:
        LedgerError: A column is missing, unknown, or cannot be cast without loss.
        UsageError: As `check_node`.
    """
    schema = LEDGER_TABLES[table]
    if set(rows.columns) != set(schema):
        missing = sorted(set(schema) - set(rows.columns))
        unknown = sorted(set(rows.columns) - set(schema))
        raise LedgerError(
            f"rows for the ledger table `{table}` have wrong columns: missing {missing}, unknown {unknown}",
            code="ledger_rows",
        )
    try:
        exact = pl.DataFrame([rows.get_column(name).cast(dtype) for name, dtype in schema.items()])
    except pl.exceptions.PolarsError as error:
        raise LedgerError(
            f"rows for the ledger table `{table}` have the wrong dtypes: {error}", code="ledger_rows"
        ) from error
    partition = PARTITION_COLUMNS.get(table)
    if partition is not None:
        for value in exact[partition].unique().to_list():
            check_node(value or "")
    return exact


def successes() -> pl.Expr:
    """Whether a row of `schemas.MATERIALIZATIONS` is of a stored result."""
    return pl.col(STATUS) == OUTCOME_STATUSES[0]


def newest(rows: pl.DataFrame) -> pl.DataFrame:
    """Of rows of `schemas.MATERIALIZATIONS` in order of age, the last per (key, run_hash), in that order.

    Few keys have several rows; only those are compared, found by a hash of the key that may take in more.
    """
    repeated = rows.select(pl.col(KEY).hash().is_duplicated()).to_series()
    if not repeated.any():
        return rows
    several = where(rows[[KEY, RUN_HASH]], repeated)
    last = several.select(pl.struct(KEY, RUN_HASH).is_last_distinct()).to_series()
    return rows if last.all() else where(rows, (~repeated).scatter(repeated.arg_true(), last))


def revised(rows: pl.DataFrame, moved: pl.DataFrame, dropped: pl.DataFrame) -> pl.DataFrame:
    """Rows of `schemas.MATERIALIZATIONS` of a node, in their order, after `ports.Ledger.revise`.

    Args:
        rows: The rows; columns they lack are not needed here.
        moved: `schemas.MOVED`.
        dropped: `key, run_hash, run_id: String` of successes.
    """
    gone = dropped.with_columns(pl.lit(OUTCOME_STATUSES[0]).alias(STATUS))
    kept = rows.join(gone, on=[KEY, RUN_HASH, RUN_ID, STATUS], how="anti", maintain_order="left")
    places = moved.select(
        KEY,
        RUN_HASH,
        pl.col(WAS).alias(PATH),
        pl.col(WAS_OFFSET).alias(ROW_OFFSET),
        *(pl.col(name).alias(f"new {name}") for name in _PLACE),
    )
    found = kept.join(places, on=[KEY, RUN_HASH, PATH, ROW_OFFSET], how="left", maintain_order="left")
    return found.with_columns(pl.coalesce(f"new {name}", name).alias(name) for name in _PLACE).select(
        rows.columns
    )


_PLACE: Final = (PATH, ROW_OFFSET, SIZE_BYTES)

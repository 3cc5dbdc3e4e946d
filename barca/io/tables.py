"""Tables of any library as Polars frames, and what Parquet cannot hold of them.

Other libraries are looked up among the loaded modules, never imported: a value can only be of a library that
somebody imported.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import OutputError
from barca.io.columns import exact
from barca.io.dtypes import holds, struct_fields
from barca.partitions import display_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barca._typing import Engine, NodeId

_FOREIGN = {
    "pyarrow": ("Table", "RecordBatch", "RecordBatchReader"),
    "pyarrow.dataset": ("Dataset",),
    "pandas": ("DataFrame",),
    "duckdb": ("DuckDBPyRelation",),
}


class Unconvertible(Exception):
    """A table of another library that Polars cannot take over.

    Attributes:
        column: The column concerned.
        why: Goes on after its name.
    """

    def __init__(self, column: str, why: str) -> None:
        super().__init__(f"column `{column}` {why}")
        self.column = column
        self.why = why


def is_table(value: Any) -> bool:
    """Whether a value is a table: of Polars, Arrow, pandas or DuckDB."""
    return isinstance(value, pl.DataFrame | pl.LazyFrame) or _library_of(value) is not None


def is_uncomputed(value: Any) -> bool:
    """Whether a value is a table that is computed when it is read, by code that belongs to the step."""
    return isinstance(value, pl.LazyFrame) or _library_of(value) in ("duckdb", "pyarrow.dataset", "pyarrow")


def is_streamed(value: Any) -> bool:
    """Whether a value is a table that can be computed piece by piece."""
    return isinstance(value, pl.LazyFrame) or _library_of(value) in ("duckdb", "pyarrow.dataset")


def to_frame(table: Any, engine: Engine) -> pl.DataFrame:
    """A table as a Polars frame; what the library raises while it computes the table passes through.

    A pandas index is kept, as first columns, where its levels have names.

    Args:
        table: A value that `is_table`.
        engine: Collects a LazyFrame.

    Raises:
        Unconvertible: A column of a pandas or Arrow table.
    """
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect(engine=engine)
    library = _library_of(table)
    if library == "pandas":
        return _from_pandas(table)
    if library == "duckdb":
        return _framed(table.pl())
    if library == "pyarrow.dataset":
        return _framed(pl.from_arrow(table.to_table()))
    return _from_arrow(table)


def _from_pandas(table: Any) -> pl.DataFrame:
    try:
        return pl.from_pandas(table, include_index=any(name is not None for name in table.index.names))
    except Exception:
        for place, name in enumerate(table.columns):
            column = table.iloc[:, [place]].reset_index(drop=True)
            kind = f"pandas dtype {column.dtypes.iloc[0]}"
            _convert(str(name), kind, partial(pl.from_pandas, column))
        _refuse_repeated(map(str, table.columns))
        raise


def _from_arrow(table: Any) -> pl.DataFrame:
    try:
        return _framed(pl.from_arrow(table))
    except Exception:
        if hasattr(table, "select"):  # a reader of batches has given away what it had
            for place, column in enumerate(table.schema):
                alone = partial(pl.from_arrow, table.select([place]))
                _convert(column.name, f"Arrow type {column.type}", alone)
            _refuse_repeated(table.schema.names)
        raise


def _convert(name: str, kind: str, conversion: Callable[[], object]) -> None:
    try:
        conversion()
    except Exception as error:
        raise Unconvertible(name, f"of the {kind} cannot be converted: {error}") from error


def _refuse_repeated(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Unconvertible(name, "stands in it more than once")
        seen.add(name)


def unstorable(schema: pl.Schema) -> tuple[str, str] | None:
    """The first column that Parquet cannot hold and why, or `None`."""
    for name, dtype in schema.items():
        if holds(dtype, lambda inner: isinstance(inner, pl.Object)):
            return name, "holds Python objects (dtype Object)"
        if holds(dtype, lambda inner: isinstance(inner, pl.Struct) and not struct_fields(inner)):
            return name, "is a struct without fields"
    return None


def unstorable_column(node: NodeId, key: str | None, column: str, why: str) -> OutputError:
    """The error of a column that no pack can hold.

    Args:
        node: Node id.
        key: Hive form of the key, or `None` where the table is of no key alone.
        column: Its name.
        why: Goes on after its name.
    """
    whose = "" if key is None else f" for `{display_text(key)}`" if key else " for its only key"
    return OutputError(
        f"`{node}` returned{whose} a table that cannot be stored: column `{column}` {why}",
        code="unstorable_column",
        node=node,
        key=None if key is None else display_text(key),
        remediation=f"cast or drop `{column}` before returning the table",
    )


def text_form(name: str, dtype: pl.DataType) -> pl.Expr | None:
    """A column's values as keys write them, or `None` where values of the type are no keys."""
    column = exact(name)
    if isinstance(dtype, pl.Datetime):
        return column.dt.to_string("%Y-%m-%d %H:%M:%S%.f" + ("%:z" if dtype.time_zone else ""))
    if isinstance(dtype, pl.Time):
        return column.dt.to_string("%H:%M:%S%.f")
    if dtype.is_nested() or isinstance(dtype, pl.Object | pl.BaseExtension | pl.Duration):
        return None
    return column.cast(pl.String, strict=not isinstance(dtype, pl.Binary))


def _library_of(value: Any) -> str | None:
    return _library(type(value))  # type: ignore[arg-type]  # mypy: a type is Hashable, an Any type is not


@lru_cache(maxsize=256)
def _library(kind: type) -> str | None:
    """The library that a type is a table of; a type that exists has its library loaded already."""
    for name, types in _FOREIGN.items():
        module = sys.modules.get(name)
        if module is not None and issubclass(kind, tuple(getattr(module, part) for part in types)):
            return name
    return None


def _framed(table: pl.DataFrame | pl.Series) -> pl.DataFrame:
    return table if isinstance(table, pl.DataFrame) else table.to_frame()

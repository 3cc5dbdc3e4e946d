"""One schema for tables whose schemas drifted apart, when nothing is lost by it.

Types meet in a wider one: integers in a wider integer, floats in a wider float, an integer and a float in
Float64, Categorical and Enum of different categories in String, a column of nulls in whatever the other is,
nested types element by element, structs field by field. Types that meet nowhere (text and numbers, dates and
datetimes, different time zones) are a clash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from barca.io.columns import exact, fields_of
from barca.io.dtypes import element_type, map_entry, struct_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SIGNED: Final[dict[int, pl.DataType]] = {
    8: pl.Int8(),
    16: pl.Int16(),
    32: pl.Int32(),
    64: pl.Int64(),
    128: pl.Int128(),
}
_UNSIGNED: Final[dict[int, pl.DataType]] = {
    8: pl.UInt8(),
    16: pl.UInt16(),
    32: pl.UInt32(),
    64: pl.UInt64(),
    128: pl.UInt128(),
}
_FLOATS: Final[tuple[pl.DataType, ...]] = (pl.Float16(), pl.Float32(), pl.Float64())
_UNITS: Final = ("ns", "us", "ms")
_DECIMAL_DIGITS: Final = 38


class SchemaClash(Exception):
    """Two schemas that no schema covers.

    Attributes:
        column: The column whose types meet nowhere.
        first: Position of one schema, with its type of the column.
        second: Position of the other.
        types: Their types.
    """

    def __init__(self, column: str, first: int, second: int, types: tuple[pl.DataType, pl.DataType]) -> None:
        super().__init__(column, first, second, types)
        self.column = column
        self.first = first
        self.second = second
        self.types = types


def unify(schemas: Sequence[pl.Schema]) -> pl.Schema:
    """The schema that covers all.

    Args:
        schemas: Oldest first. Columns stand in the order of the newest; those it lacks follow.

    Raises:
        SchemaClash: Types of a column meet nowhere.
    """
    unified: dict[str, pl.DataType] = {}
    for position in reversed(range(len(schemas))):
        for name, dtype in schemas[position].items():
            if name not in unified:
                unified[name] = dtype
                continue
            wider = common_type(unified[name], dtype)
            if wider is None:
                raise _clash(schemas, name, position)
            unified[name] = wider
    return pl.Schema(unified)


def conform(frame: pl.LazyFrame, schema: pl.Schema, target: pl.Schema) -> pl.LazyFrame:
    """The frame in the columns and types of a schema that covers its own.

    Args:
        frame: Any rows.
        schema: Of `frame`.
        target: What `unify` made of it and others.
    """
    if list(schema.items()) == list(target.items()):
        return frame
    return frame.select(
        _conformed(exact(name), schema[name], dtype).alias(name)
        if name in schema
        else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in target.items()
    )


def common_type(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    """The type that holds the values of both, or `None`."""
    if one == other or isinstance(other, pl.Null):
        return one
    if isinstance(one, pl.Null):
        return other
    if one.is_numeric() and other.is_numeric():
        return _common_number(one, other)
    texts = (pl.String, pl.Categorical, pl.Enum)
    if isinstance(one, texts) and isinstance(other, texts):
        return pl.String()
    if one.is_nested() and other.is_nested():
        return _common_nested(one, other)
    return _common_time(one, other)


def _common_number(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    if isinstance(one, pl.Decimal) and isinstance(other, pl.Decimal):
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        return pl.Decimal(min(digits, _DECIMAL_DIGITS), scale)  # the query fails where a number is too long
    if one.is_float() and other.is_float():
        return max(one, other, key=_FLOATS.index)
    if one.is_integer() and other.is_integer():
        return _common_integer(one, other)
    return None if isinstance(one, pl.Decimal) or isinstance(other, pl.Decimal) else pl.Float64()


def _common_integer(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    signed = [dtype for dtype in (one, other) if dtype.is_signed_integer()]
    unsigned = [dtype for dtype in (one, other) if dtype.is_unsigned_integer()]
    if not unsigned:
        return _SIGNED[max(map(_bits, signed))]
    if not signed:
        return _UNSIGNED[max(map(_bits, unsigned))]
    return _SIGNED.get(max(_bits(signed[0]), 2 * _bits(unsigned[0])))


def _bits(dtype: pl.DataType) -> int:
    return next(bits for family in (_SIGNED, _UNSIGNED) for bits, own in family.items() if own == dtype)


def _common_time(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    if isinstance(one, pl.Duration) and isinstance(other, pl.Duration):
        return pl.Duration(min(one.time_unit, other.time_unit, key=_UNITS.index))
    if isinstance(one, pl.Datetime) and isinstance(other, pl.Datetime) and one.time_zone == other.time_zone:
        return pl.Datetime(min(one.time_unit, other.time_unit, key=_UNITS.index), one.time_zone)
    return None


def _common_nested(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    if isinstance(one, pl.Struct) and isinstance(other, pl.Struct):
        return _common_struct(one, other)
    if isinstance(one, pl.Map) and isinstance(other, pl.Map):
        entry = common_type(map_entry(one), map_entry(other))
        return None if entry is None or one.key != other.key else pl.Map(*dict(struct_fields(entry)).values())
    lists = (pl.List, pl.Array)
    if not isinstance(one, lists) or not isinstance(other, lists):
        return None
    inner = common_type(element_type(one), element_type(other))
    if inner is None:
        return None
    if isinstance(one, pl.Array) and isinstance(other, pl.Array) and one.shape[0] == other.shape[0]:
        return pl.Array(inner, one.shape[0])
    return pl.List(inner)


def _common_struct(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    fields: dict[str, pl.DataType] = dict(struct_fields(one))
    for name, dtype in struct_fields(other):
        wider = common_type(fields[name], dtype) if name in fields else dtype
        if wider is None:
            return None
        fields[name] = wider
    return pl.Struct(fields)


def _conformed(value: pl.Expr, dtype: pl.DataType, target: pl.DataType) -> pl.Expr:
    """A cast that also adds fields to structs, at every level."""
    if dtype == target:
        return value
    if isinstance(target, pl.Struct) and isinstance(dtype, pl.Struct):
        own = fields_of(value, dtype)
        fields = [
            _conformed(*own[name], inner).alias(name)
            if name in own
            else pl.lit(None, dtype=inner).alias(name)
            for name, inner in struct_fields(target)
        ]
        return pl.when(value.is_not_null()).then(pl.struct(fields))
    if isinstance(target, pl.List) and isinstance(dtype, pl.List | pl.Array):
        elements = value.arr.to_list() if isinstance(dtype, pl.Array) else value
        return elements.list.eval(_conformed(pl.element(), element_type(dtype), element_type(target)))
    return value.cast(target)


def _clash(schemas: Iterable[pl.Schema], column: str, position: int) -> SchemaClash:
    """The clash of the schema at `position` with a newer one."""
    with_column = [(place, schema[column]) for place, schema in enumerate(schemas) if column in schema]
    dtype = dict(with_column)[position]
    newer = [(place, other) for place, other in with_column if place > position]
    direct = [(place, other) for place, other in newer if common_type(dtype, other) is None]
    place, other = (direct or newer)[0]
    return SchemaClash(column, place, position, (other, dtype))

"""Looking into Polars types: what nested ones hold, and a text for each that names it for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import polars as pl

from barca.hashing import field

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars._typing import PolarsDataType


_NAMES: Final[dict[type[pl.DataType], str]] = {
    pl.Null: "null",
    pl.Boolean: "boolean",
    pl.Int8: "int8",
    pl.Int16: "int16",
    pl.Int32: "int32",
    pl.Int64: "int64",
    pl.Int128: "int128",
    pl.UInt8: "uint8",
    pl.UInt16: "uint16",
    pl.UInt32: "uint32",
    pl.UInt64: "uint64",
    pl.UInt128: "uint128",
    pl.Float16: "float16",
    pl.Float32: "float32",
    pl.Float64: "float64",
    pl.Decimal: "decimal",
    pl.String: "string",
    pl.Binary: "binary",
    pl.Categorical: "categorical",
    pl.Enum: "enum",
    pl.Date: "date",
    pl.Time: "time",
    pl.Datetime: "datetime",
    pl.Duration: "duration",
    pl.List: "list",
    pl.Array: "array",
    pl.Struct: "struct",
    pl.Map: "map",
}


def element_type(dtype: pl.DataType) -> pl.DataType:
    """The type of a List's elements, or of those of an Array's outermost dimension."""
    return _instance(cast("pl.List | pl.Array", dtype).inner)


def struct_fields(dtype: pl.DataType) -> list[tuple[str, pl.DataType]]:
    """Names and types of a Struct's fields."""
    return [(part.name, _instance(part.dtype)) for part in cast("pl.Struct", dtype).fields]


def map_entry(dtype: pl.DataType) -> pl.DataType:
    """The Struct of `key` and `value` that a Map's entries are."""
    mapping = cast("pl.Map", dtype)
    return pl.Struct({"key": mapping.key, "value": mapping.value})


def storage_type(dtype: pl.DataType) -> pl.DataType:
    """The type that an Extension's values are stored as."""
    return _instance(cast("pl.BaseExtension", dtype).ext_storage())


def _instance(dtype: PolarsDataType) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype


def holds(dtype: pl.DataType, wanted: Callable[[pl.DataType], bool]) -> bool:
    """Whether the type, or one it is made of, is wanted."""
    return wanted(dtype) or any(holds(inner, wanted) for inner in _parts(dtype))


def _parts(dtype: pl.DataType) -> list[pl.DataType]:
    if isinstance(dtype, pl.List | pl.Array):
        return [element_type(dtype)]
    if isinstance(dtype, pl.Struct):
        return [inner for _, inner in struct_fields(dtype)]
    if isinstance(dtype, pl.Map):
        return [map_entry(dtype)]
    if isinstance(dtype, pl.BaseExtension):
        return [storage_type(dtype)]
    return []


def dtype_text(dtype: pl.DataType) -> str:
    """The canonical text of a type, independent of how Polars writes it.

    Names, categories and time zones are length-prefixed, so that no two types share a text.
    """
    if isinstance(dtype, pl.Struct):
        details = [field("field", name) + dtype_text(inner) for name, inner in struct_fields(dtype)]
    else:
        details = [*_parameters(dtype), *map(dtype_text, _parts(dtype))]
    name = "extension" if isinstance(dtype, pl.BaseExtension) else _NAMES[type(dtype)]
    return f"{name}({''.join(details)})" if details else name


def _parameters(dtype: pl.DataType) -> list[str]:
    """What a type is told apart by besides its name and the types it is made of."""
    if isinstance(dtype, pl.Datetime | pl.Duration):
        zone = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
        return [field("unit", dtype.time_unit), *([field("zone", zone)] if zone else [])]
    if isinstance(dtype, pl.Decimal):
        return [field("precision", str(dtype.precision)), field("scale", str(dtype.scale))]
    if isinstance(dtype, pl.Enum):
        return [field("category", category) for category in dtype.categories]
    if isinstance(dtype, pl.Array):
        return [field("width", str(dtype.shape[0]))]
    if isinstance(dtype, pl.BaseExtension):
        return [field("name", dtype.ext_name()), field("metadata", dtype.ext_metadata() or "")]
    return []

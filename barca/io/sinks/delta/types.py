"""Which types a Delta table has for the columns of results, and what is refused because it would be lost."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.io.columns import exact
from barca.io.dtypes import element_type, struct_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SAME: Final[dict[str, pl.DataType]] = {
    "string": pl.String(),
    "byte": pl.Int8(),
    "short": pl.Int16(),
    "integer": pl.Int32(),
    "long": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "boolean": pl.Boolean(),
    "date": pl.Date(),
    "binary": pl.Binary(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
}
_WIDENED: Final[dict[pl.DataType, pl.DataType]] = {
    pl.UInt8(): pl.Int16(),
    pl.UInt16(): pl.Int32(),
    pl.UInt32(): pl.Int64(),
    pl.UInt64(): pl.Int64(),
    pl.Float16(): pl.Float32(),
}
_SIGNED: Final = (pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64())
_FLOATS: Final = (pl.Float32(), pl.Float64())
_MOST_DIGITS: Final = 38
_LARGEST: Final = 2**63 - 1


class Lossy(TypeError):
    """A column that a Delta table cannot hold without loss."""


@dataclass(slots=True)
class Conversion:
    """A table's columns in types of Delta.

    Attributes:
        schema: The types.
        columns: How each column gets its type.
        notes: What readers should know, e.g. `column c: Enum is written as String`.
        checks: By column, whether some value would be lost, and why.
        trials: Nested columns whose conversion fails where a value inside of one would be lost.
    """

    schema: dict[str, pl.DataType] = field(default_factory=dict)
    columns: list[pl.Expr] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    checks: dict[str, tuple[pl.Expr, str]] = field(default_factory=dict)
    trials: dict[str, pl.Expr] = field(default_factory=dict)


def convert(schema: Mapping[str, pl.DataType], known: Mapping[str, pl.DataType]) -> Conversion:
    """How a table is written.

    Args:
        schema: Of the table.
        known: Of the Delta table that is there, which types the columns without any.

    Raises:
        Lossy: A column cannot be written without loss.
    """
    _refuse_alike(schema, "columns")
    conversion = Conversion()
    for name, dtype in schema.items():
        own = _typed(dtype, known.get(name))
        target = _target(name, own)
        conversion.schema[name] = target
        column = exact(name)
        if isinstance(own, pl.Datetime) and own.time_zone not in {None, "UTC"}:
            column = column.dt.convert_time_zone("UTC")
        conversion.columns.append(column.cast(target).alias(name))
        if target != own and not (isinstance(own, pl.Datetime) and own.time_zone in {None, "UTC"}):
            conversion.notes.append(f"column `{name}`: {_short(own)} is written as {_short(target)}")
        _add_check(conversion, name, own)
        if own.is_nested() and _narrows(own):
            conversion.trials[name] = conversion.columns[-1]
    return conversion


def _refuse_alike(names: Iterable[str], what: str) -> None:
    folded: dict[str, str] = {}
    for name in names:
        if folded.setdefault(name.lower(), name) != name:
            raise Lossy(f"{what} `{folded[name.lower()]}` and `{name}` are one to Delta, which ignores case")


def _typed(dtype: pl.DataType, known: pl.DataType | None) -> pl.DataType:
    """The type, its parts that hold missing values only taking the types that a table has for them."""
    if known is None:
        return dtype
    if isinstance(dtype, pl.Null):
        return known
    if isinstance(dtype, pl.List) and isinstance(known, pl.List):
        return pl.List(_typed(element_type(dtype), element_type(known)))
    if isinstance(dtype, pl.Struct) and isinstance(known, pl.Struct):
        fields = dict(struct_fields(known))
        return pl.Struct({name: _typed(inner, fields.get(name)) for name, inner in struct_fields(dtype)})
    return dtype


def _add_check(conversion: Conversion, name: str, dtype: pl.DataType) -> None:
    column = exact(name)
    if isinstance(dtype, pl.UInt64):
        conversion.checks[name] = (
            (column > _LARGEST).any(),
            "holds integers beyond the 64 bits that Delta has",
        )
    elif isinstance(dtype, pl.Datetime) and dtype.time_unit == "ms":
        conversion.checks[name] = (
            (column.to_physical().abs() > _LARGEST // 1000).any(),
            "holds times further away than 64 bits of microseconds reach",
        )
    elif isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns":
        bad = (column.to_physical() % 1000 != 0).any()
        conversion.checks[name] = bad, "holds nanoseconds, and Delta has microseconds"


def _narrows(dtype: pl.DataType) -> bool:
    """Whether some value of a type, or inside of it, may have no room in the type that Delta has for it."""
    if isinstance(dtype, pl.List | pl.Array):
        return _narrows(element_type(dtype))
    if isinstance(dtype, pl.Struct):
        return any(_narrows(inner) for _, inner in struct_fields(dtype))
    return isinstance(dtype, pl.UInt64) or (isinstance(dtype, pl.Datetime) and dtype.time_unit == "ms")


def _target(name: str, dtype: pl.DataType, where: str = "") -> pl.DataType:
    if dtype in _SAME.values() or (isinstance(dtype, pl.Decimal) and dtype.precision <= _MOST_DIGITS):
        return dtype
    if dtype in _WIDENED:
        return _WIDENED[dtype]
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return pl.String()
    if isinstance(dtype, pl.Datetime) and not (where and (dtype.time_unit == "ns" or dtype.time_zone)):
        return pl.Datetime("us", "UTC" if dtype.time_zone else None)
    if isinstance(dtype, pl.List | pl.Array):
        return pl.List(_target(name, element_type(dtype), f"{where}[]"))
    if isinstance(dtype, pl.Struct):
        fields = struct_fields(dtype)
        _refuse_alike((own for own, _ in fields), f"in `{name}` the fields")
        return pl.Struct({own: _target(name, inner, f"{where}.{own}") for own, inner in fields})
    why = (
        "it holds missing values only, and so no type"
        if isinstance(dtype, pl.Null)
        else "Delta has no such type"
    )
    place = f", `{name}{where}` of it," if where else ""
    raise Lossy(f"column `{name}`{place} is {_short(dtype)}: {why}; cast it, or leave it out")


def _short(dtype: pl.DataType) -> str:
    return "Enum" if isinstance(dtype, pl.Enum) else str(dtype)


# --- tables that are there --------------------------------------------------------------------------


def widened(there: Mapping[str, pl.DataType], new: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The schema that holds both the rows of a table and new ones.

    Integers meet in the wider integer, floats in the wider float, decimals in one that holds the digits of
    both, lists and structs by what they hold. Columns, and fields of structs, that one side lacks are null
    there. Nothing else is widened.

    Raises:
        Lossy: Types of a column meet nowhere.
    """
    schema = dict(there)
    for name, dtype in new.items():
        old = schema.setdefault(name, dtype)
        wider = _wider(old, dtype)
        if wider is None:
            raise Lossy(
                f"column `{name}` is {dtype}, and {old} in the table; cast it to {old}, or change every key "
                "at once"
            )
        schema[name] = wider
    _refuse_alike(schema, "columns")
    return schema


def _wider(old: pl.DataType, new: pl.DataType) -> pl.DataType | None:
    if old == new:
        return old
    for family in (_SIGNED, _FLOATS):
        if old in family and new in family:
            return max(old, new, key=family.index)
    if isinstance(old, pl.Decimal) and isinstance(new, pl.Decimal):
        scale = max(old.scale, new.scale)
        digits = max(old.precision - old.scale, new.precision - new.scale) + scale
        return pl.Decimal(digits, scale) if digits <= _MOST_DIGITS else None
    return _wider_nested(old, new)


def _wider_nested(old: pl.DataType, new: pl.DataType) -> pl.DataType | None:
    if isinstance(old, pl.List) and isinstance(new, pl.List):
        inner = _wider(element_type(old), element_type(new))
        return None if inner is None else pl.List(inner)
    if isinstance(old, pl.Struct) and isinstance(new, pl.Struct):
        fields = dict(struct_fields(old))
        for name, dtype in struct_fields(new):
            wider = _wider(fields.get(name, dtype), dtype)
            if wider is None:
                return None
            fields[name] = wider
        _refuse_alike(fields, "the fields")
        return pl.Struct(fields)
    return None


def schema_json(schema: Mapping[str, pl.DataType]) -> str:
    """A schema as Delta writes it."""
    return json.dumps(_struct(schema))


def _struct(fields: Mapping[str, pl.DataType]) -> dict[str, Any]:
    columns = [
        {"name": name, "type": _delta_type(dtype), "nullable": True, "metadata": dict[str, str]()}
        for name, dtype in fields.items()
    ]
    return {"type": "struct", "fields": columns}


def _delta_type(dtype: pl.DataType) -> str | dict[str, Any]:
    if isinstance(dtype, pl.List):
        return {"type": "array", "elementType": _delta_type(element_type(dtype)), "containsNull": True}
    if isinstance(dtype, pl.Struct):
        return _struct(dict(struct_fields(dtype)))
    if isinstance(dtype, pl.Decimal):
        return f"decimal({dtype.precision},{dtype.scale})"
    return next(name for name, own in _SAME.items() if own == dtype)


def schema_from_json(text: str) -> dict[str, pl.DataType]:
    """The inverse of `schema_json`.

    Raises:
        Lossy: A type that `convert` never writes.
    """
    return {column["name"]: _polars_type(column["type"]) for column in json.loads(text)["fields"]}


def _polars_type(text: str | dict[str, Any]) -> pl.DataType:
    if isinstance(text, dict):
        if text["type"] == "array":
            return pl.List(_polars_type(text["elementType"]))
        if text["type"] == "struct":
            return pl.Struct({own["name"]: _polars_type(own["type"]) for own in text["fields"]})
    elif text in _SAME:
        return _SAME[text]
    elif match := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", text):
        return pl.Decimal(int(match[1]), int(match[2]))
    raise Lossy(f"the table that is there has a column of type {text}, which barca never writes")

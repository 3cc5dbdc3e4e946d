"""Whose each row of a table is: telling the keys of a call by the dimension columns of its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.errors import OutputError, did_you_mean, plural
from barca.io.tables import text_form
from barca.partitions import display_text
from barca.schemas import KEY, dimension

if TYPE_CHECKING:
    from barca._typing import NodeId
    from barca.io.packing import Shelf

_SHOWN = 5


def row_owners(shelf: Shelf, frame: pl.DataFrame) -> pl.Series:
    """The position of each row's key on the shelf.

    Args:
        shelf: Holds the keys.
        frame: What the function returned, with a column for each dimension of a type that `text_form` knows.

    Returns:
        `UInt32`, one for each row: the position in `Shelf.keys`.

    Raises:
        OutputError: A dimension has no column, or rows are of no key of the call.
    """
    if not shelf.dimensions:
        return pl.repeat(0, frame.height, dtype=pl.UInt32, eager=True)
    texts = frame.select(
        _key_text(shelf.node, frame.schema, name).alias(dimension(name)) for name in shelf.dimensions
    )
    by = texts.columns
    places = shelf.keys.select(by).with_row_index("owner")
    # rows mostly come key by key in the order of the keys, which is told faster than it is joined
    told = texts.to_series() if len(by) == 1 else texts.to_struct()
    own = places.get_column(by[0]) if len(by) == 1 else places.select(by).to_struct()
    if told.len() == own.len() and told.equals(own):
        return places.get_column("owner")
    runs = told.rle().struct
    if runs.field("value").equals(own):
        return places.get_column("owner").repeat_by(runs.field("len")).explode(empty_as_null=False)
    owner = texts.join(places, on=by, how="left", maintain_order="left").get_column("owner")
    if owner.null_count():
        raise _extra_keys(shelf, frame.schema, texts.filter(owner.is_null()))
    return owner


def _key_text(node: NodeId, schema: pl.Schema, name: str) -> pl.Expr:
    if name not in schema:
        raise OutputError(
            f"`{node}` returned a table without a column `{name}`, by which its rows would be told apart",
            code="no_dimension_column",
            node=node,
            remediation=f"keep the dimension as a column; {did_you_mean(name, schema.names())}",
        )
    text = text_form(name, schema[name])
    if text is None:
        raise OutputError(
            f"`{node}` returned a table whose column `{name}` holds no keys but values of {schema[name]}",
            code="dimension_type",
            node=node,
            remediation=f"let `{name}` hold the keys of the call, as strings or as what they were made of",
        )
    return text


def _extra_keys(shelf: Shelf, schema: pl.Schema, extra: pl.DataFrame) -> OutputError:
    distinct = extra.unique(maintain_order=True)
    shown = [
        ",".join(
            f"{name}={'null' if value is None else value}" for name, value in zip(names, row, strict=True)
        )
        for names in [shelf.dimensions]
        for row in distinct.head(_SHOWN).iter_rows()
    ]
    more = f" and {distinct.height - _SHOWN} more" if distinct.height > _SHOWN else ""
    types = ", ".join(f"`{name}` is {schema[name]}" for name in shelf.dimensions)
    valid = ", ".join(f"`{display_text(key)}`" for key in shelf.keys.get_column(KEY).head(_SHOWN))
    return OutputError(
        f"`{shelf.node}` returned {plural(extra.height, 'row')} for no key of the call: "
        f"{', '.join(shown)}{more}",
        code="extra_key",
        node=shelf.node,
        remediation=(
            f"return rows of the call's {plural(shelf.keys.height, 'key')} only, such as {valid}; values are "
            f"matched by their string form ({types})"
        ),
    )

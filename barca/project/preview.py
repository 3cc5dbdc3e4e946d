"""A look at what a node holds: the first rows of its current results, or the first of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barca.errors import InputError
from barca.partitions import display_text
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from barca.graph import Node
    from barca.project.current import Current


class Preview(Record, kw_only=True):
    """The beginning of what a node holds.

    Attributes:
        node: Node id.
        keys: Number of its keys that have a result, of those that were asked for.
        frame: The first rows: the dimensions as String columns, then those of the results; `None` where the
            results are no tables.
        values: Of results that are no tables, display key to value, the first keys; the only key is `""`.
    """

    node: str
    keys: int
    frame: pl.DataFrame | None = None
    values: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """`target`, `keys`, and `columns` and `rows` of a table, or `values`."""
        told: dict[str, Any] = {"target": self.node, "keys": self.keys}
        if self.frame is None:
            return {**told, "values": dict(self.values or {})}
        columns = [{"name": name, "dtype": str(dtype)} for name, dtype in self.frame.schema.items()]
        return {**told, "columns": columns, "rows": self.frame.to_dicts()}

    def _repr_html_(self) -> str:
        from barca.render.html import values_html

        return self.frame._repr_html_() if self.frame is not None else values_html(self.values or {})


def preview(current: Current, node: Node, rows: int, selection: Mapping[str, Sequence[str]]) -> Preview:
    """The first rows of the current results of a node, or its first values.

    Raises:
        UsageError: There is no result, or none of a selected key.
        FragmentError: A file of the store is missing or damaged.
    """
    held = current.held(node, selection)
    try:
        frame = current.first_rows(node, held, rows)
    except InputError:
        values = current.values(node, held.head(rows))
        shown = {display_text(key): value for key, value in values.items()}
        return Preview(node=node.id, keys=held.height, values=shown)
    return Preview(node=node.id, keys=held.height, frame=frame)

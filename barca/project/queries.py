"""SQL over current results: each node is a view, read when a query names it."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import InputError, SelectionError, UsageError, did_you_mean
from barca.graph import short_name
from barca.io.packs import is_panic
from barca.project.binding import bind, without_comments
from barca.schemas import FORMAT, KEY, VALUE, dimension

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barca.graph import Graph, Node
    from barca.project.current import Current

_READING: Final = ("SELECT", "WITH", "EXPLAIN", "FROM", "VALUES")
_NO_VIEW: Final = re.compile(r"relation '(.*?)' was not found", re.DOTALL)


def run_query(current: Current, query: str, params: Mapping[str, Any]) -> pl.LazyFrame:
    """A query over current results, lazy: only the packs of nodes that it names are looked at.

    Args:
        current: What nodes hold.
        query: `SELECT`, `WITH` or `EXPLAIN` in the SQL of Polars. A node is a view of its function's name, or
            of its id in double quotes: the dimensions as String columns, then the columns of its results.
        params: Values for `:name` in the query.

    Raises:
        UsageError: It does anything but read, is no SQL, or names what is no node or has no result.
        InputError: The results of a node that it names are no table.
        FragmentError: A file of the store is missing or damaged.
    """
    _require_reading(query)
    bound = bind(query, params)
    views: dict[str, pl.LazyFrame] = {}
    while True:
        missing: list[str] = []
        found: pl.LazyFrame | None = computed(partial(_resolved, bound, dict(views)), missing)
        if found is not None:
            return found
        node = _node_of(current, missing[0])
        views[missing[0]] = view(current, node, current.held(node))


def _resolved(query: str, views: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
    found = pl.SQLContext(views).execute(query, eager=False)
    found.collect_schema()  # names are looked up no earlier
    return found


def computed(action: Callable[[], Any], missing: list[str] | None = None) -> Any:
    """What a step of a query gives.

    Args:
        action: The step.
        missing: Takes the name of a view that there is none of yet; the answer is then `None`.

    Raises:
        UsageError: Polars refused the query.
    """
    try:
        return action()
    except (pl.exceptions.PolarsError, OSError) as error:
        told = str(error).strip()
        if missing is not None and (match := _NO_VIEW.match(told)):
            missing.append(match[1])
            return None
        raise _refused(told) from error
    except BaseException as error:
        if is_panic(error):
            raise _refused(str(error)) from error
        raise


def view(current: Current, node: Node, held: pl.DataFrame) -> pl.LazyFrame:
    """Results as one table; values that are no tables as a column `value` beside their keys.

    Args:
        current: What nodes hold.
        node: A node.
        held: Results of it, as `Current.held` gives them.

    Raises:
        InputError: They are no table.
        FragmentError: A file of the store is missing or damaged.
    """
    try:
        return current.table(node, held)
    except InputError:
        if set(held.get_column(FORMAT)) - {"json", "keyed"}:
            raise
        values = current.values(node, held)
        keys = held.select(pl.col(dimension(name)).alias(name) for name in node.dimensions)
        if not node.partitioned and isinstance(mapping := values[""], dict) and node.keyed:
            values = mapping
            keys = pl.DataFrame({node.gives[0] if len(node.gives) == 1 else KEY: list(mapping)})
        try:
            column = pl.Series(VALUE, list(values.values()))
        except (TypeError, pl.exceptions.PolarsError):  # of several types
            column = None
        if column is None or column.dtype == pl.Object or VALUE in keys.columns:
            raise
        return pl.LazyFrame([*keys.get_columns(), column])


def view_names(graph: Graph) -> list[str]:
    """What nodes are called in a query: the function's name, or the id in quotes where several share it."""
    short = [short_name(node_id) for node_id in graph.nodes]
    return [
        name if short.count(name) == 1 else f'"{node_id}"'
        for node_id, name in zip(graph.nodes, short, strict=True)
    ]


def _node_of(current: Current, name: str) -> Node:
    """The node that a query calls so; upper and lower case may differ, as elsewhere in SQL."""
    try:
        return current.node(name)
    except SelectionError as error:
        near = [node_id for node_id in current.graph.nodes if short_name(node_id).lower() == name.lower()]
        if error.code == "unknown_target" and len(near) == 1:
            return current.node(near[0])
        hint = error.remediation or ""
        if error.code == "unknown_target":
            hint = did_you_mean(name, view_names(current.graph), limit=30)
        else:
            hint = hint.replace("`", '"') + ", in double quotes"
        raise SelectionError(
            f"the query reads `{name}`, and {error.message}", code=error.code, remediation=hint
        ) from None


def _require_reading(query: str) -> None:
    """Refuse what is no query.

    Raises:
        UsageError: It begins with something else than `SELECT`, `WITH` or `EXPLAIN`.
    """
    first = re.match(r"[\s(]*(\w*)", without_comments(query))
    word = first[1] if first else ""
    if word.upper() not in _READING:
        raise UsageError(
            f"`{word.upper()}` is no query: results can be read, not changed"
            if word
            else "the query is empty",
            code="query_not_reading",
            remediation="begin it with SELECT, WITH or EXPLAIN",
        )


def _refused(told: str) -> UsageError:
    what, _, rest = told.partition("\n\n")
    guess = re.match(r'Did you mean "(.*?)"\?', rest)
    return UsageError(
        f"the query cannot be computed: {what}",
        code="query",
        remediation=f"did you mean `{guess[1]}`?" if guess else "queries are written in the SQL of Polars",
    )

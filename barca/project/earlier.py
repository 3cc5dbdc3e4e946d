"""What nodes held at a moment of the past, also those that are no more, or hold other keys now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.errors import FragmentError, LoadError, SelectionError, UsageError, plural
from barca.graph import Node, short_name
from barca.io.held import COLLECTED_AT, held_at
from barca.io.rows import successes
from barca.model import Definition
from barca.partitions import display_text, parse_key
from barca.project.current import Current, keys_of, selected
from barca.records import replace
from barca.schemas import (
    CREATED_AT,
    EVENT,
    FRAGMENTS,
    HOLDING_EVENTS,
    KEY,
    NODE,
    ORDINAL,
    PATH,
    RESULT_AT,
    RUN_ID,
    dimensions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca._typing import NodeId
    from barca.project.moments import Moment
    from barca.project.request import Target

SHOWN_GONE = 5
"""At most so many keys whose results are gone are named."""


class Earlier(Current, kw_only=True):
    """What the nodes of a project held at a moment; nothing is run, and no code of the project read for it.

    A node has the dimensions that its keys had then. Nodes that the project does not have any more are found
    by name or id too.

    Attributes:
        moment: The moment.
        states: What has been read already: per node what its keys held.
    """

    moment: Moment
    states: dict[NodeId, pl.DataFrame]

    def find(self, target: Target, verb: str) -> Node:
        """The only target of a verb, as it was then.

        Raises:
            UsageError: There is and was no such node, or several targets are named.
        """
        if isinstance(target, str) and "," not in target:
            return self.node(target.strip())
        return self._then(Current.find(self, target, verb))

    def node(self, name: str) -> Node:
        """The node of a name or id, as it was then.

        Raises:
            UsageError: There is and was none, or several have the name.
        """
        try:
            return self._then(self.graph.nodes[self.graph.find(name)])
        except (LoadError, SelectionError) as error:
            former = self._former(name) if error.code != "ambiguous_target" else []
            if len(former) > 1:
                raise SelectionError(
                    f"`{name}` was the name of {len(former)} nodes as of {self.moment}",
                    code="ambiguous_target",
                    remediation="name one of " + ", ".join(f"`{node_id}`" for node_id in former),
                ) from error
            if not former:
                raise
            return self._then(
                Node(
                    former[0],
                    Definition(function=_gone, kind="asset", name=former[0], file="", line=0),
                    (),
                    (),
                )
            )

    def every(self) -> list[Node]:
        """Every asset and sensor of the project that held something.

        Raises:
            UsageError: None did.
        """
        nodes = [node for node in self.graph.nodes.values() if node.kind != "task"]
        if there := [self._then(node) for node in nodes if self._state(node.id).height]:
            return there
        raise UsageError(
            f"nothing was held as of {self.moment}",
            code="no_result",
            remediation="name a moment after the first run; `barca history` lists runs",
        )

    def held(self, node: Node, selection: Mapping[str, Sequence[str]] | None = None) -> pl.DataFrame:
        """What each key of a node held.

        Args:
            node: The node, as `node` or `find` give it.
            selection: Dimension to values; only these keys.

        Returns:
            `schemas.FRAGMENTS` with the `dim:` columns and `ordinal`, by key.

        Raises:
            SelectionError: A dimension that the node did not have, or a value that no key had.
            UsageError: It held nothing.
            FragmentError: What a selected key held is gone.
        """
        state = self._state(node.id)
        if state.is_empty():
            raise self._nothing(node)
        keys = keys_of(node.dimensions, state)
        found = selected(node, keys.join(state, on=KEY, how="inner", maintain_order="left"), selection or {})
        self._require_there(node, found)
        return found.select(*FRAGMENTS, *dimensions(node.dimensions), ORDINAL)

    def _then(self, node: Node) -> Node:
        """A node with the dimensions that its keys had: those of the newest of its results."""
        state = self._state(node.id)
        names = set(parse_key(state.item(-1, KEY))) if state.height else set(node.dimensions)
        return node if names == set(node.dimensions) else replace(node, dimensions=tuple(sorted(names)))

    def _state(self, node_id: NodeId) -> pl.DataFrame:
        if node_id not in self.states:
            events = self.reader.scan("holdings").filter(pl.col(NODE) == node_id)
            self.states[node_id] = held_at(
                self.reader.results(node_id), events.collect(engine="in-memory"), self.moment.at
            )
        return self.states[node_id]

    def _former(self, name: str) -> list[NodeId]:
        """Ids of nodes of a name, or the node of an id, that had results by then."""
        rows = self.reader.scan("materializations").filter(successes())
        gone = self.reader.scan("holdings").filter(pl.col(EVENT) == HOLDING_EVENTS[2])
        found = (
            pl.concat([rows.select(NODE, CREATED_AT), gone.select(NODE, pl.col(RESULT_AT).alias(CREATED_AT))])
            .filter(pl.col(CREATED_AT) <= self.moment.at)
            .select(pl.col(NODE).unique().sort())
            .collect(engine="in-memory")
        )
        ids: list[NodeId] = found.get_column(NODE).to_list()
        return [name] if name in ids else [node_id for node_id in ids if short_name(node_id) == name]

    def _nothing(self, node: Node) -> UsageError:
        name = short_name(node.id)
        rows = self.reader.results(node.id).select(CREATED_AT, RUN_ID)
        first = rows.sort(CREATED_AT).head(1)
        hint = f"it has none yet: run `barca get {name}`"
        if first.height:
            at, run_id = first.row(0)
            hint = f"its first one there is was made by run {run_id}, {at:%Y-%m-%d %H:%M:%S} UTC"
        others = [other for other in self._former(name) if other != node.id]
        if others:
            hint = f"`{others[0]}` had one then; {hint}"
        return UsageError(
            f"`{name}` held no result as of {self.moment}", code="no_result", node=node.id, remediation=hint
        )

    def _require_there(self, node: Node, found: pl.DataFrame) -> None:
        """Make sure that what keys held can be read.

        Raises:
            FragmentError: Of some of them it is gone.
        """
        paths = found.get_column(PATH).drop_nulls().unique().sort().to_list()
        lost = self.store.probe(paths) if paths else []
        gone = found.filter(pl.col(PATH).is_null() | pl.col(PATH).is_in(lost))
        if gone.is_empty():
            return
        named = [
            _told(short_name(node.id), *row)
            for row in gone.head(SHOWN_GONE).select(KEY, RUN_ID, COLLECTED_AT, PATH).iter_rows()
        ]
        more = f", and {plural(gone.height - SHOWN_GONE, 'more key')}" if gone.height > SHOWN_GONE else ""
        some = "select other keys with --partition, or name" if gone.height < found.height else "name"
        raise FragmentError(
            f"what `{short_name(node.id)}` held as of {self.moment} is gone: {', '.join(named)}{more}",
            code="result_gone",
            node=node.id,
            key=display_text(gone.item(0, KEY)) or None,
            remediation=f"{some} a later moment; `barca tag` keeps what is held at a moment from `barca gc`",
        )


def _told(name: str, key: str, run_id: str | None, collected_at: object, path: str | None) -> str:
    """What became of a result."""
    if run_id is None:
        return f"the ledger has lost that of {name}[{display_text(key)}]" if key else "the ledger has lost it"
    result = f"{name}[{display_text(key)}] of run {run_id}" if key else f"the result of run {run_id}"
    if path is None:
        return f"{result} was collected by gc on {collected_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{result} lay in `{path}`, which is missing or damaged"


def _gone() -> None:
    """Stands for the function of a node that is no more."""

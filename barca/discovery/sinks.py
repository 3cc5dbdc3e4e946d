"""Making sure that no two sinks of a project write to one place, and none over the project itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barca.decorators.places import place_of, uri_of
from barca.errors import DefinitionError
from barca.graph import short_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from barca.graph import Graph, Node
    from barca.model import SinkSpec

_STORE = ".barca"


@dataclass(frozen=True, slots=True)
class _Sink:
    """A sink and where it leads."""

    node: Node
    spec: SinkSpec
    place: str

    @property
    def owns_prefix(self) -> bool:
        """Whether everything below its place is its own."""
        return self.spec.format == "delta" or self.spec.path.endswith("/")

    @property
    def told(self) -> str:
        """The sink, and where its asset is declared."""
        definition = self.node.definition
        return (
            f'@sink("{self.spec.path}") of `{short_name(self.node.id)}` ({definition.file}:{definition.line})'
        )

    def refusal(self, problem: str, remediation: str) -> DefinitionError:
        """The error for it."""
        definition = self.node.definition
        return DefinitionError(
            f"{self.told} {problem}",
            code="sink_place",
            node=self.node.id,
            file=definition.file,
            line=definition.line,
            remediation=remediation,
        )


def check_places(graph: Graph, root: Path) -> Graph:
    """The graph, its sinks looked at.

    Args:
        graph: Of a project.
        root: Of the project, without links.

    Raises:
        DefinitionError: Two sinks lead to one place, or one into the prefix of another; or one leads to a
            file that declares nodes, into barca's store, or to a directory that holds the project.
    """
    sinks = [
        _Sink(node, spec, place_of(spec.path, root))
        for node in graph.nodes.values()
        for spec in node.definition.sinks
    ]
    if not sinks:
        return graph
    _check_project(sinks, graph, root)
    taken: dict[str, _Sink] = {}
    for sink in sinks:
        other = taken.setdefault(sink.place, sink)
        if other is not sink:
            raise sink.refusal(
                f"writes to the same place as {other.told}", "give each sink a path of its own"
            )
    for sink in sinks:
        for above in _above(sink.place):
            outer = taken.get(above)
            if outer is not None and outer.owns_prefix:
                raise sink.refusal(
                    f"is inside of {outer.told}, which owns everything below its path",
                    "point one of them elsewhere",
                )
    return graph


def _check_project(sinks: list[_Sink], graph: Graph, root: Path) -> None:
    sources = {os.path.realpath(node.definition.file) for node in graph.nodes.values()}
    store = str(root / _STORE)
    for sink in sinks:
        if uri_of(sink.spec.path) is not None:
            continue
        if sink.place in sources:
            raise sink.refusal("would replace a file that declares nodes", "give it a path of its own")
        if store in (sink.place, *_above(sink.place)):
            raise sink.refusal(f"is inside of barca's own store, {store}", "point it elsewhere")
        if sink.owns_prefix and sink.place in (str(root), *_above(str(root))):
            raise sink.refusal("would own the directory of the project", "point it to one of its own")


def _above(place: str) -> Iterator[str]:
    """The places that a place is inside of, the nearest first."""
    while (end := place.rfind("/" if "://" in place else os.sep)) > 0:
        place = place[:end]
        yield place

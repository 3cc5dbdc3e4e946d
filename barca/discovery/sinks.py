"""Making sure that no two sinks of a project write to one place, and none over the project itself."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from barca.decorators.places import place_of, uri_of
from barca.errors import DefinitionError
from barca.graph import misfit, short_name, shown_file
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from barca.graph import Graph, Node
    from barca.model import SinkSpec

_STORE = ".barca"


class _Sink(Record):
    """A sink and where it leads."""

    node: Node
    spec: SinkSpec
    root: Path

    @cached_property
    def place(self) -> str:
        """Where it leads."""
        return place_of(self.spec.path, self.root)

    @property
    def owns_prefix(self) -> bool:
        """Whether everything below its place is its own."""
        return self.spec.format == "delta" or self.spec.path.endswith("/")

    @cached_property
    def names(self) -> _Names | None:
        """The files of its keys; `None` where it is one file or prefix."""
        if self.owns_prefix or not self.node.partitioned:
            return None
        name = PurePosixPath(self.spec.path)
        above = place_of(self.spec.path.removesuffix(name.name) or ".", self.root)
        return _Names(f"{above.rstrip('/')}/{name.stem}", name.suffix, self.node)

    @property
    def told(self) -> str:
        """The sink, and where its asset is declared."""
        definition = self.node.definition
        file = shown_file(definition.file, self.root.as_posix())
        return f'@sink("{self.spec.path}") of `{short_name(self.node.id)}` ({file}:{definition.line})'

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


class _Names(Record):
    """The files that a sink has for keys: `{stem}_{dimension}_{value}{suffix}`."""

    stem: str
    suffix: str
    node: Node

    @property
    def beginning(self) -> str:
        """What all of them begin with."""
        return f"{self.stem}_{self.node.dimensions[0]}_"

    def may_meet(self, sink: _Sink) -> bool:
        """Whether a sink, which begins so too, may write the file of a key, as far as keys are known."""
        if sink.names is not None:
            return sink.names.suffix == self.suffix
        value = "([A-Za-z0-9.~%-]*)" if len(self.node.dimensions) > 1 else "([A-Za-z0-9._~%-]*)"
        marks = "".join(f"_{re.escape(name)}_{value}" for name in self.node.dimensions)
        found = re.fullmatch(f"{re.escape(self.stem)}{marks}{re.escape(self.suffix)}", sink.place)
        return found is not None and all(
            self._may_have(name, unquote(text))
            for name, text in zip(self.node.dimensions, found.groups(), strict=True)
        )

    def _may_have(self, dimension: str, value: str) -> bool:
        declared = self.node.explicit.get(dimension)
        return declared is None or not isinstance(declared.values, tuple) or value in declared.values


def check_places(graph: Graph, root: Path) -> Graph:
    """The graph, without the nodes of sinks that lead where they must not, which become load errors.

    Those are two sinks that lead to one place, or one into the prefix of another, or to what may be a file of
    a key of another; and one that leads to a file that declares nodes, into barca's store, or to a directory
    that holds the project.

    Args:
        graph: Of a project.
        root: Of the project, without links.
    """
    sinks = [_Sink(node, spec, root) for node in graph.nodes.values() for spec in node.definition.sinks]
    lost: set[str] = set()
    errors = []
    for nodes, error in (*_over_the_project(sinks, graph, root), *_shared(sinks), *_nested(sinks)):
        own = list(dict.fromkeys(node.id for node in nodes if node.id not in lost))
        lost.update(own)
        if own:
            errors.append(misfit(own, error, root.as_posix()))
    return graph.without(errors) if errors else graph


def _over_the_project(
    sinks: Sequence[_Sink], graph: Graph, root: Path
) -> Iterator[tuple[tuple[Node, ...], DefinitionError]]:
    sources = {os.path.realpath(node.definition.file) for node in graph.nodes.values()}
    sources |= {os.path.realpath(root / broken.file) for broken in graph.load_errors}
    store = str(root / _STORE)
    for sink in sinks:
        if uri_of(sink.spec.path) is not None:
            continue
        if sink.place in sources:
            problem = "would replace a file that declares nodes", "give it a path of its own"
        elif store in (sink.place, *_above(sink.place)):
            problem = f"is inside of barca's own store, {store}", "point it elsewhere"
        elif sink.owns_prefix and sink.place in (str(root), *_above(str(root))):
            problem = "would own the directory of the project", "point it to one of its own"
        else:
            continue
        yield (sink.node,), sink.refusal(*problem)


def _shared(sinks: Sequence[_Sink]) -> Iterator[tuple[tuple[Node, ...], DefinitionError]]:
    """Sinks that lead to one place, or may for some key."""
    taken: dict[str, _Sink] = {}
    for sink in sinks:
        other = taken.setdefault(sink.place, sink)
        if other is not sink:
            yield (
                (other.node, sink.node),
                sink.refusal(f"writes to the same place as {other.told}", "give each sink a path of its own"),
            )
    yield from _shared_by_keys(sinks)


def _shared_by_keys(sinks: Sequence[_Sink]) -> Iterator[tuple[tuple[Node, ...], DefinitionError]]:
    named = sorted(
        ((sink.names.beginning if sink.names else sink.place, sink) for sink in sinks),
        key=lambda entry: entry[0],
    )
    for keyed in sinks:
        names = keyed.names
        if names is None:
            continue
        for position in range(bisect_left(named, names.beginning, key=lambda entry: entry[0]), len(named)):
            beginning, sink = named[position]
            if not beginning.startswith(names.beginning):
                break
            if sink is not keyed and names.may_meet(sink):
                problem = f"may write to the same file as {keyed.told}, which has one for each key"
                yield (keyed.node, sink.node), sink.refusal(problem, "give one of them another name")


def _nested(sinks: Sequence[_Sink]) -> Iterator[tuple[tuple[Node, ...], DefinitionError]]:
    """Sinks inside of what others own."""
    owners = {sink.place: sink for sink in sinks if sink.owns_prefix}
    for sink in sinks:
        outer = next((owners[above] for above in _above(sink.place) if above in owners), None)
        if outer is not None:
            problem = f"is inside of {outer.told}, which owns everything below its path"
            yield (outer.node, sink.node), sink.refusal(problem, "point one of them elsewhere")


def _above(place: str) -> Iterator[str]:
    """The places that a place is inside of, the nearest first."""
    while (end := place.rfind("/" if "://" in place else os.sep)) > 0:
        place = place[:end]
        yield place

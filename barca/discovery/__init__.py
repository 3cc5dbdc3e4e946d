"""From files, or function objects, to a frozen graph."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from barca.discovery.broken import broken_file
from barca.discovery.files import find_files
from barca.discovery.keys import evaluate_groups, evaluate_partitions
from barca.discovery.loader import NESTED_RUN, Importer, refuse_nested
from barca.discovery.nodes import (
    Owners,
    held,
    main_file,
    newest,
    node_id,
    project_modules,
    same_file,
    sources,
)
from barca.discovery.refs import function_ref, load_function
from barca.discovery.sinks import check_places
from barca.graph import BrokenFile, Graph, build_graph, short_name
from barca.model import Collect, Definition, PartitionsFrom
from barca.records import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from barca._typing import NodeId

__all__ = ["discover", "evaluate_groups", "evaluate_partitions", "function_ref", "graph_of", "load_function"]


def discover(root: Path, files: Sequence[Path | str] = ()) -> Graph:
    """The graph of a project's files.

    In a notebook, and where Python is asked, what was defined there is part of it, unless files are named.
    Files are imported once in a process, and again when they, or what they import, changed. A file that
    cannot be imported is a load error that names its nodes, and so is a node that does not fit to the others,
    or whose sinks lead where those of others do; the rest of the project works.

    Args:
        root: Project root.
        files: Files and folders to read; none is every file under the root that imports barca.

    Raises:
        UsageError: A file does not exist; or discovery is called by a file that it imports.
    """
    root = root.resolve()
    refuse_nested()
    importer = Importer.of(root)
    importer.refresh()
    reader = _Reader(importer, named=bool(files))
    for file in find_files(root, files):
        reader.read(file)
    definitions = reader.definitions()
    if not files and main_file() is None:
        definitions += _cells(root, {node_id for node_id, _ in definitions})
    return check_places(build_graph(definitions, reader.broken, root.as_posix()), root)


def graph_of(targets: Sequence[Definition[..., Any]], root: Path) -> Graph:
    """The graph of decorated functions and everything they read, from a script or a notebook.

    A cell that ran again counts with its newest functions, also for what was decorated before.

    Args:
        targets: Decorated functions.
        root: Project root, which ids are relative to.

    Raises:
        UsageError: It is called by a file that is being imported.
        DefinitionError: The nodes do not fit together.
    """
    root = root.resolve()
    refuse_nested()
    cone = _Cone(root)
    graph = check_places(build_graph(cone.walk(targets), root=root.as_posix()), root)
    for broken in graph.load_errors:
        raise broken.raised(broken.nodes[0])
    return graph.giving(cone.dimensions_given())


def _cells(root: Path, known: set[NodeId]) -> list[tuple[NodeId, Definition[..., Any]]]:
    """What cells define and what that reads, with ids, without what the project's files hold as well."""
    cone = _Cone(root)
    typed = [each for _, each in held(sys.modules["__main__"]) if each.function.__module__ == "__main__"]
    found = cone.walk(typed[::-1])  # which takes the last one first
    return [(name, cone.by_ids(each)) for name, each in found if name not in known]


class _Reader:
    """Imports files and gathers what they define."""

    def __init__(self, importer: Importer, *, named: bool) -> None:
        self.broken: list[BrokenFile] = []
        self._named = named
        self._importer = importer
        self._modules: dict[Path, ModuleType | None] = {}

    def read(self, file: Path) -> None:
        """Import a file, or note that it can't be imported.

        A script that calls barca and declares nothing is no part of the project, unless files were named.
        """
        if file in self._modules:
            return
        self._modules[file] = None
        if file == main_file():
            self._modules[file] = sys.modules["__main__"]
            return
        try:
            self._modules[file] = self._importer.load(file)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # user code: also SystemExit, and panics of native extensions
            broken = broken_file(self._importer.root, file, error)
            if broken.nodes or self._named or getattr(error, "code", None) != NESTED_RUN:
                self.broken.append(broken)

    def definitions(self) -> list[tuple[NodeId, Definition[..., Any]]]:
        """What the files that were read define, and what that reads, with their ids."""
        root = self._importer.root
        owners = self._owners()
        found: dict[int, Definition[..., Any]] = {}
        waiting: list[Definition[..., Any]] = []
        done: set[Path] = set()
        while True:
            files = [file for file in self._modules if file not in done]
            if not files and not waiting:
                return [(node_id(root, owners, each), each) for each in found.values()]
            if files:
                owners = self._owners()
            for file in files:
                done.add(file)
                module = self._modules[file]
                for _, definition in held(module) if module else ():
                    if same_file(owners.place(definition)[0], str(file)):
                        waiting.append(definition)
            for definition in waiting:
                found[id(definition)] = definition
            waiting = self._read_by(waiting, found)

    def _owners(self) -> Owners:
        loaded = [(str(file), each.module) for file, each in self._importer.loaded.items()]
        main = main_file()
        running = [(str(main), sys.modules["__main__"])] if main in self._modules else []
        return Owners([*loaded, *running])

    def _read_by(
        self, definitions: Sequence[Definition[..., Any]], found: Mapping[int, Definition[..., Any]]
    ) -> list[Definition[..., Any]]:
        """What the definitions read that is not found yet; reads the files that ids name."""
        above: dict[int, Definition[..., Any]] = {}
        for definition in definitions:
            for ref in sources(definition):
                if isinstance(ref, Definition):
                    if id(ref) not in found:
                        above[id(ref)] = ref
                    continue
                file = (self._importer.root / ref.rpartition(":")[0]).resolve()
                if file.suffix == ".py" and file.is_file():
                    self.read(file)
        return list(above.values())


class _Cone:
    """Walks from decorated functions to everything they read."""

    def __init__(self, root: Path) -> None:
        self._root = root
        modules = list(project_modules(root))
        self._owners = Owners(modules)
        self._named: dict[str, Definition[..., Any]] = {}
        for _, module in reversed(modules):
            for _, definition in held(module):
                found = node_id(root, self._owners, definition)
                self._named |= {short_name(found): definition, found: definition}

    def walk(self, targets: Sequence[Definition[..., Any]]) -> list[tuple[NodeId, Definition[..., Any]]]:
        """Ids and definitions, what is read before its readers."""
        found: dict[int, Definition[..., Any]] = {}
        waiting = [newest(target) for target in targets]
        while waiting:
            definition = waiting.pop()
            if id(definition) not in found:
                found[id(definition)] = definition
                waiting += [ref for ref in map(self._resolved, sources(definition)) if ref is not None]
        return [(self._id(definition), self._rewired(definition)) for definition in found.values()]

    def dimensions_given(self) -> dict[NodeId, tuple[str, ...]]:
        """For each source of keys the dimensions that take them from it, also where nobody asks for these."""
        given: dict[NodeId, dict[str, None]] = {}
        for definition in dict.fromkeys(map(newest, self._named.values())):
            for dimension, declared in definition.partitions.items():
                if isinstance(declared, PartitionsFrom):
                    source = declared.source
                    found = self._id(newest(source)) if isinstance(source, Definition) else source
                    given.setdefault(found, {})[dimension] = None
        return {source: tuple(names) for source, names in given.items()}

    def by_ids(self, definition: Definition[..., Any]) -> Definition[..., Any]:
        """The definition, naming what it reads by ids, each the one of the newest."""

        def named(ref: Definition[..., Any] | NodeId) -> NodeId:
            return self._id(newest(ref)) if isinstance(ref, Definition) else ref

        inputs = {
            parameter: Collect(named(ref.source)) if isinstance(ref, Collect) else named(ref)
            for parameter, ref in definition.inputs.items()
        }
        partitions = {
            dimension: PartitionsFrom(named(declared.source))
            if isinstance(declared, PartitionsFrom)
            else declared
            for dimension, declared in definition.partitions.items()
        }
        return replace(definition, inputs=inputs, partitions=partitions)

    def _id(self, definition: Definition[..., Any]) -> NodeId:
        return node_id(self._root, self._owners, definition)

    def _rewired(self, definition: Definition[..., Any]) -> Definition[..., Any]:
        """The definition, reading the newest of what it reads."""
        if all(newest(ref) is ref for ref in sources(definition) if isinstance(ref, Definition)):
            return definition
        return self.by_ids(definition)

    def _resolved(self, ref: Definition[..., Any] | NodeId) -> Definition[..., Any] | None:
        if isinstance(ref, Definition):
            return newest(ref)
        file, _, _ = ref.rpartition(":")
        path = (self._root / file).resolve()
        if ref not in self._named and path.suffix == ".py" and path.is_file():
            module = Importer.of(self._root).load(path)
            self._named |= {f"{file}:{name}": definition for name, definition in held(module)}
        return self._named.get(ref)

"""Resolves names in loaded code: what a module's namespace and a closure's cells really hold."""

from __future__ import annotations

import ast
import builtins
import functools
import os
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from barca.fingerprint.nodes import CodeNode, External, NodeKind, Problem, Target
from barca.fingerprint.normalise import Decorated
from barca.fingerprint.sources import SourceFile, session_cells
from barca.fingerprint.static import MODULE_NAMES, StaticCone, elsewhere_warning, literal_text
from barca.fingerprint.values import is_reference
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca.fingerprint.sources import Project
    from barca.fingerprint.uses import Use

Namespace: TypeAlias = "dict[str, Any]"
Found: TypeAlias = "Sequence[Target | Problem]"


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """Where some code stands.

    Attributes:
        path: File, or name of a notebook cell.
        namespace: The module's globals.
        cells: Closure variables by name.
    """

    path: str
    namespace: Namespace
    cells: dict[str, Any] = field(default_factory=dict)


class Home(Record, eq=False):
    """Where a constant is defined.

    Attributes:
        name: Its name there.
        place: The module it is defined in.
        source: The file or cell that defines it, if it could be found.
        statements: What binds or fills it there.
    """

    name: str
    place: Place
    source: SourceFile | None
    statements: tuple[ast.stmt, ...]


class Follower(Protocol):
    """Gives the nodes of what a name turned out to be."""

    project: Project
    static: StaticCone
    namespaces: dict[str, Namespace]
    """Globals of loaded modules by file, as they were found."""

    def follow(self, value: Any, kind: NodeKind = "helper") -> Target:
        """The node of a function, class, module or definition."""
        ...

    def constant(self, value: Any, home: Home, *, from_source: bool) -> CodeNode:
        """The node of a module-level value."""
        ...


class LiveResolver:
    """Resolves the names of code that is loaded."""

    def __init__(self, follower: Follower, place: Place) -> None:
        self._follower = follower
        self._project = follower.project
        self._static = follower.static
        self._place = place

    def resolve(self, use: Use) -> Found:
        """See `nodes.Resolver`."""
        if use.imported is not None:
            return self._static.imported(use.imported, use.chain[1:], self._place.path)
        kind: NodeKind = "decorator" if use.where == "decorator" else "helper"
        name, rest = use.chain[0], use.chain[1:]
        if name in self._place.cells:
            value = self._place.cells[name]
            return self._module(value, rest, kind) if isinstance(value, types.ModuleType) else []
        return self._name(self._place, name, rest, kind)

    def is_lost(self, use: Use) -> bool:
        """Whether a name stood in a function that has returned, out of reach by now."""
        name = use.chain[0]
        known = name in self._place.cells or name in self._place.namespace or hasattr(builtins, name)
        return use.imported is None and not known

    def literal(self, argument: ast.expr | None) -> str | None:
        """See `nodes.Resolver`."""
        if isinstance(argument, ast.Name):
            value = self._place.cells.get(argument.id, self._place.namespace.get(argument.id))
            return value if isinstance(value, str) else None
        return literal_text(argument)

    def _name(self, place: Place, name: str, rest: tuple[str, ...], kind: NodeKind) -> Found:
        if name in MODULE_NAMES:
            return []
        if name not in place.namespace:
            return self._missing(place, name, rest)
        value = place.namespace[name]
        origin = self._origin(place, name)
        if isinstance(value, types.ModuleType):
            outside = origin.name if isinstance(origin, External) else None
            return self._module(value, rest, kind, outside)
        if is_reference(value) and (target := self._code(value, origin, kind)) is not None:
            return [target]
        if isinstance(origin, External):
            return [External(".".join((origin.name, *rest)))]
        home = origin or Home(name, place, None, ())
        return [self._follower.constant(value, home, from_source=False)]

    def _code(self, value: Any, origin: Home | External | None, kind: NodeKind) -> Target | None:
        """The target of a function or class; `None` for an outside one that its import names best."""
        target = self._follower.follow(value, kind)
        if isinstance(target, CodeNode):
            return target
        if isinstance(origin, Home) and not all(isinstance(one, Decorated) for one in origin.statements):
            # made by outside code from what its statement says, such as `clean = retry(3)(_clean)`
            return self._follower.constant(value, origin, from_source=True)
        return None if isinstance(origin, External) and not (target.follows or target.warning) else target

    def _missing(self, place: Place, name: str, rest: tuple[str, ...]) -> Found:
        """A name that the namespace does not hold: Python's own, or bound in a branch that did not run."""
        if hasattr(builtins, name):
            return [External(f"builtins.{name}")]
        source = self._project.source(place.path)
        found = self._static.name(place.path, source, name, rest) if source is not None else []
        return found or [Problem(f"the name `{name}` was not found")]

    def _module(
        self, module: types.ModuleType, rest: tuple[str, ...], kind: NodeKind, outside: str | None = None
    ) -> Found:
        """What attributes of a loaded module lead to; the whole module when there are none."""
        path = module_path(module)
        origin = self._project.origin(path) if path else "library"
        if origin != "project":
            name = ".".join((outside or module.__name__, *rest))
            warning = elsewhere_warning(name) if origin == "elsewhere" else None
            return [External(name, warning=warning)]
        if not rest:
            return [self._follower.follow(module)]
        if not path.endswith(".py") and not Path(path).is_dir():
            name = ".".join((module.__name__, *rest))
            return [External(name, warning=f"uses `{name}`, whose Python source was not found")]
        return self._attribute(module, path, rest, kind)

    def _attribute(self, module: types.ModuleType, path: str, rest: tuple[str, ...], kind: NodeKind) -> Found:
        space = vars(module)
        below = sys.modules.get(f"{module.__name__}.{rest[0]}")
        if rest[0] in space:
            return self._name(Place(path, space), rest[0], rest[1:], kind)
        if below is not None:
            return self._module(below, rest[1:], kind)
        if "__getattr__" in space:
            return [self._follower.follow(space["__getattr__"])]
        return self._static.module(path, rest)

    def _origin(self, place: Place, name: str) -> Home | External | None:
        """Where a name of a namespace comes from, through imports; `None` when that cannot be told."""
        found = self._static.home(place.path, name)
        if found is None and self._project.origin(place.path) == "session":
            cells = (cell for cell in session_cells() if name in cell.bindings)
            found = next((home for cell in cells if (home := self._static.home(cell.path, name))), None)
        if found is None or isinstance(found, External):
            return found
        path, name = found
        source = self._project.source(path)
        space = self._namespace(path)
        if source is None or space is None:
            return None
        return Home(name, Place(path, space), source, tuple(source.bindings.get(name, ())))

    def _namespace(self, path: str) -> Namespace | None:
        """The globals of the loaded module of a file; cells all share the namespace at hand."""
        if path == self._place.path or self._project.origin(path) == "session":
            return self._place.namespace
        known = self._follower.namespaces
        if path not in known:
            for module in list(sys.modules.values()):
                file = getattr(module, "__file__", None)
                if isinstance(file, str) and file.endswith(Path(path).name) and module_path(module) == path:
                    known[path] = vars(module)
        return known.get(path)


def module_path(module: types.ModuleType) -> str:
    """The file of a module, the directory of a package without one, or an empty text."""
    path = getattr(module, "__file__", None)
    if not isinstance(path, str):
        paths = list(getattr(module, "__path__", ()))
        path = paths[0] if paths else ""
    return _real(path) if path else ""


@functools.cache
def _real(path: str) -> str:
    return os.path.realpath(path)

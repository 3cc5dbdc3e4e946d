"""Follows what a live function rests on: through its globals, closure, defaults, decorators and classes."""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import sys
import types
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barca.fingerprint import locate
from barca.fingerprint.live import Home, LiveResolver, Namespace, Place, module_path
from barca.fingerprint.nodes import CodeNode, External, NodeKind, Target, fill, note, note_external
from barca.fingerprint.normalise import HIDDEN, Decorated, is_sensitive, looks_secret
from barca.fingerprint.pickles import pickle_hash
from barca.fingerprint.sources import session_cells
from barca.fingerprint.static import (
    WRITTEN,
    StaticCone,
    elsewhere_warning,
    fill_definition,
    fill_module,
    fill_statements,
)
from barca.fingerprint.uses import analyse
from barca.fingerprint.values import (
    Unencodable,
    ValueEncoder,
    is_definition,
    is_reference,
    outside_name,
    prefers_source,
    show,
    type_name,
    wrapped,
)
from barca.hashing import hash_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barca.fingerprint.sources import Project


class Cone:
    """Builds nodes, each once, and completes them one after the other so that code may go in circles.

    Args:
        project: The project's files.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.static = StaticCone(project, self._later)
        self.namespaces: dict[str, Namespace] = {}
        self._encoders: dict[str, ValueEncoder] = {}
        self._pending: deque[tuple[CodeNode, Callable[[], object]]] = deque()
        self._targets: dict[int, tuple[object, Target]] = {}
        self._constants: dict[tuple[str, int, int], tuple[object, CodeNode]] = {}

    def settle(self) -> None:
        """Complete every node that was reached; what goes wrong in one is a warning of that node."""
        while self._pending:
            node, complete = self._pending.popleft()
            try:
                complete()
            except Exception as error:
                note(node, f"could not be analysed ({type(error).__name__}: {error}); its whole file counts")
                node.own = hash_fields([("kind", node.kind), ("name", node.name), ("file", self._text(node))])

    def _text(self, node: CodeNode) -> str:
        path = Path(self.project.root) / node.file
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def _later(self, node: CodeNode, complete: Callable[[], object]) -> None:
        self._pending.append((node, complete))

    # --- what a value leads to ------------------------------------------------------------------------

    def follow(self, value: Any, kind: NodeKind = "helper") -> Target:
        """The node of a function, class, module or definition, or its name when it is not the project's."""
        if is_definition(value):
            return self.follow(value.function, kind)
        known = self._targets.get(id(value))
        if known is not None:
            return known[1]
        self._targets[id(value)] = (value, External(outside_name(value)))  # ends circles through outside code
        target = self._target(value, kind)
        self._targets[id(value)] = (value, target)
        return target

    def _target(self, value: Any, kind: NodeKind) -> Target:
        if isinstance(value, types.FunctionType):
            return self._function(value, kind)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.ModuleType):
            path = module_path(value)
            source = self.project.source(path) if path and self.project.origin(path) == "project" else None
            if source is None:
                return External(outside_name(value))
            node = CodeNode("module", self.project.label(path))
            resolver = LiveResolver(self, Place(path, vars(value)))
            self._later(node, lambda: fill_module(node, source, resolver))
            return node
        if wrapped(value) is not None:
            return External(type_name(type(value)), self._inside(value))
        return External(outside_name(value))

    def _function(self, function: types.FunctionType, kind: NodeKind) -> Target:
        path = _real(locate.code_path(function))
        origin = self.project.origin(path)
        module_file = function.__globals__.get("__file__")
        if origin == "session" and isinstance(module_file, str):
            home = self.project.origin(_real(module_file))
            origin = origin if home == "project" else home
        if origin in {"library", "elsewhere"}:
            name = outside_name(function)
            warning = elsewhere_warning(name) if origin == "elsewhere" else None
            return External(name, self._inside(function), warning)
        node = CodeNode(kind, function.__code__.co_qualname, self.project.label(path))
        self._later(node, lambda: self._fill_function(node, function, path))
        return node

    def _class(self, kind: type) -> Target:
        home = locate.class_home(kind)
        path = _real(home[0]) if home else ""
        origin = self.project.origin(path)
        if home is None or origin in {"library", "elsewhere"}:
            name = outside_name(kind)
            return External(name, warning=elsewhere_warning(name) if origin == "elsewhere" else None)
        node = CodeNode("class", kind.__qualname__, self.project.label(path))
        place = Place(path, home[1], locate.class_cells(kind))
        self._later(node, lambda: self._fill_class(node, kind, place))
        return node

    def _inside(self, value: Any) -> tuple[CodeNode, ...]:
        """Project code that an outside wrapper runs: what it wraps, closes over or has registered."""
        candidates = [wrapped(value)]
        if isinstance(value, types.FunctionType):
            candidates += locate.cells(value).values()
        registry = vars(value).get("registry")
        if isinstance(registry, types.MappingProxyType):
            candidates += registry.values()
        nodes: dict[int, CodeNode] = {}
        for candidate in candidates:
            parts = candidate if isinstance(candidate, list | tuple) else (candidate,)
            for part in parts:
                if isinstance(part, types.FunctionType) and locate.is_generated(part):
                    continue
                if part is not None and is_reference(part) and not isinstance(part, types.ModuleType):
                    nodes |= {id(node): node for node in _nodes(self.follow(part))}
        return tuple(nodes.values())

    # --- functions ------------------------------------------------------------------------------------

    def _fill_function(self, node: CodeNode, function: types.FunctionType, path: str) -> None:
        source = self.project.source(path)
        code = function.__code__
        tree, fits = locate.find_function(source, code) if source is not None else (None, True)
        place = Place(path, function.__globals__, locate.cells(function))
        resolver = LiveResolver(self, place)
        if tree is None:
            self._fill_code(node, code, place)
        else:
            if not fits:
                note(
                    node,
                    "its file changed since it was loaded; load it again (restart the notebook or process)",
                )
            uses = fill_definition(node, tree, resolver, skip=lambda use: use.where == "default")
            self._add_namespaces(node, uses.attributes)
        for name, value, expression in locate.defaults(function, tree):
            self._add_default(node, name, value, expression, place)
        self._add_cells(node, place)

    def _fill_code(self, node: CodeNode, code: types.CodeType, place: Place) -> None:
        """A function whose source nobody kept counts by its compiled code."""
        note(
            node, "its source was not found; its compiled code counts, which changes with the Python version"
        )
        try:
            text, _ = self._encoder(place).code(code)
        except Unencodable as failure:
            note(node, f"its constants cannot be hashed: {failure}")
            text = code.co_code.hex()
        names = sorted(set(locate.code_names(code)) & place.namespace.keys())
        tree = ast.parse("\n".join(names))
        fill(node, tree, analyse(tree).names, LiveResolver(self, place), [("code", text)])
        node.text = f"<no source for {node.name}>"

    def _add_default(
        self, node: CodeNode, name: str, value: Any, expression: ast.expr | None, place: Place
    ) -> None:
        default = CodeNode("default", f"{node.name} {name}", node.file)
        node.edges.append((f"default {name}", default))
        with contextlib.suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            # a literal is taken as written, so that a mutable default which calls fill stays the same
            value = ast.literal_eval(expression) if expression is not None else value
        try:
            self._fill_value(default, name, value, place)
        except Unencodable as failure:
            note(
                node,
                f"the default of `{name}` cannot be hashed ({failure}); its expression counts instead",
            )
            if expression is None:
                default.own = hash_fields([("kind", "default"), ("type", type_name(type(value)))])
            else:
                fill(default, expression, analyse(expression).names, LiveResolver(self, place))

    def _add_cells(self, node: CodeNode, place: Place) -> None:
        for name, value in sorted(place.cells.items()):
            if isinstance(value, types.ModuleType):
                continue  # followed attribute by attribute
            self._add_closure(node, name, value, place)

    def _add_closure(self, node: CodeNode, name: str, value: Any, place: Place) -> None:
        """Count the value of a closure variable."""
        carried = CodeNode("closure", f"{node.name} {name}", node.file)
        node.edges.append((f"closure {name}", carried))
        try:
            self._fill_value(carried, name, value, place)
        except Unencodable as failure:
            pickled = pickle_hash(value, self._is_project)
            counts = (
                "only its type counts"
                if pickled is None
                else "its pickle counts, which may change for no reason"
            )
            note(node, f"the closure variable `{name}` has no stable hash ({failure}); {counts}")
            carried.own = hash_fields(
                [("kind", "closure"), ("type", type_name(type(value))), ("pickle", pickled or "")]
            )

    def _add_namespaces(self, node: CodeNode, attributes: Iterable[str]) -> None:
        """Follow Polars namespaces that the project registered, such as `frame.mine.clean()`."""
        polars = sys.modules.get("polars")
        if polars is None:
            return
        kinds = [getattr(polars, name, None) for name in ("Expr", "LazyFrame", "DataFrame", "Series")]
        for kind in kinds:
            for name in sorted(vars(kind).keys() & set(attributes)) if kind is not None else ():
                registered = getattr(vars(kind)[name], "_ns", None)
                if isinstance(registered, type):
                    node.edges += [(f"namespace {name}", one) for one in _nodes(self.follow(registered))]

    # --- classes --------------------------------------------------------------------------------------

    def _fill_class(self, node: CodeNode, kind: type, place: Place) -> None:
        source = self.project.source(place.path)
        tree = locate.find_class(source, kind) if source is not None else None
        resolver = LiveResolver(self, place)
        statements = source.bindings.get(kind.__name__, []) if source is not None else []
        made_inside = "<locals>" in kind.__qualname__
        if tree is not None:
            # what such a class takes from the function around it is gone; its attributes still hold it
            uses = fill_definition(node, tree, resolver, skip=resolver.is_lost if made_inside else None)
            self._add_namespaces(node, uses.attributes)
        elif statements:
            fill_statements(node, statements, resolver)
        else:
            note(node, "its source was not found; its attributes and methods count")
            node.own = hash_fields([("kind", "class"), ("name", kind.__qualname__)])
        if made_inside or (tree is None and not statements):
            self._add_attributes(node, kind, tree, place)
        for order, base in enumerate(kind.__bases__):
            node.edges += [(f"base {order:03}", one) for one in _nodes(self.follow(base))]
        for name, function in locate.named_functions(kind):
            inside = tree is not None and _real(locate.code_path(function)) == place.path
            if not (inside and tree is not None and _within(tree, function.__code__.co_firstlineno)):
                node.edges += [(f"member {name}", one) for one in _nodes(self.follow(function))]
        self._add_cells(node, place)

    def _add_attributes(self, node: CodeNode, kind: type, tree: ast.ClassDef | None, place: Place) -> None:
        """Count the attributes that a class holds now, besides methods and the like."""
        names = locate.assigned_names(tree) if tree is not None else vars(kind).keys()
        for name in sorted(names & vars(kind).keys()):
            value = vars(kind)[name]
            if not name.startswith("_") and not isinstance(value, types.FunctionType | property):
                self._add_closure(node, name, value, place)

    # --- values ---------------------------------------------------------------------------------------

    def constant(self, value: Any, home: Home, *, from_source: bool) -> CodeNode:
        """The node of a module-level value.

        Args:
            value: What the name holds now.
            home: Where it is defined.
            from_source: Whether the statements that make it count instead of the value.
        """
        key = (home.name, id(home.place.namespace), id(value))
        if key not in self._constants:
            node = CodeNode("constant", home.name, self.project.label(home.place.path))
            self._constants[key] = (value, node)
            self._later(node, lambda: self._fill_constant(node, value, home, from_source))
        return self._constants[key][1]

    def _fill_constant(self, node: CodeNode, value: Any, home: Home, from_source: bool) -> None:
        resolver = LiveResolver(self, home.place)
        changed = self._is_written(home)
        if changed:
            note(node, WRITTEN)
        failure = ""
        if not home.statements or not (from_source or changed or prefers_source(value)):
            try:
                sensitive = home.source is not None and is_sensitive(home.name, home.source.bindings)
                self._fill_value(node, home.name, value, home.place, hide=sensitive)
            except Unencodable as error:
                failure = str(error)
            else:
                self._note_reads(node, home, resolver)
                return
        if not home.statements:
            note(node, f"cannot be hashed ({failure}) and its definition was not found; only its type counts")
            node.own = hash_fields([("kind", "constant"), ("type", type_name(type(value)))])
            return
        if failure and not all(isinstance(one, Decorated) for one in home.statements):
            note(node, f"cannot be hashed by value ({failure}); the statements that define it count instead")
        fill_statements(node, home.statements, resolver)

    def _is_written(self, home: Home) -> bool:
        if home.source is None:
            return False
        if self.project.origin(home.place.path) != "session":
            return home.name in self.static.written(home.source)
        return any(home.name in self.static.written(cell) for cell in session_cells())

    def _note_reads(self, node: CodeNode, home: Home, resolver: LiveResolver) -> None:
        """Environment variables that a constant's definition reads when its module is imported."""
        readers = (os, os.environ, os.getenv)
        for statement in home.statements:
            for use in analyse(statement).names:
                if any(home.place.namespace.get(use.chain[0]) is reader for reader in readers):
                    for target in resolver.resolve(use):
                        if isinstance(target, External):
                            note_external(node, target, use, resolver)

    def _fill_value(self, node: CodeNode, name: str, value: Any, place: Place, *, hide: bool = False) -> None:
        """Complete a node from a value.

        Raises:
            Unencodable: The value has no stable text.
        """
        try:
            text, references = self._encoder(place).encode(value)
        except Unencodable:
            raise
        except Exception as error:
            raise Unencodable(f"{type(error).__name__}: {error}") from error
        fields = [("kind", node.kind), ("value", text)]
        for order, reference in enumerate(references):
            target = self.follow(reference)
            if isinstance(target, External):
                fields.append(("external", target.name))
                if target.warning:
                    note(node, target.warning)
            node.edges += [(f"item {order:06}", one) for one in _nodes(target)]
        node.own = hash_fields(fields)
        node.text = f"{name} = {HIDDEN if hide or looks_secret(name) else show(value)}"

    def _encoder(self, place: Place) -> ValueEncoder:
        if place.path not in self._encoders:
            folder = str(Path(place.path).parent) if self.project.origin(place.path) == "project" else None
            self._encoders[place.path] = ValueEncoder(self.project.root, folder, self._is_project)
        return self._encoders[place.path]

    def _is_project(self, kind: type) -> bool:
        return isinstance(self.follow(kind), CodeNode)


def _nodes(target: Target) -> tuple[CodeNode, ...]:
    return (target,) if isinstance(target, CodeNode) else target.follows


@functools.cache
def _real(path: str) -> str:
    return path if path.startswith("<") or not Path(path).exists() else os.path.realpath(path)


def _within(tree: ast.ClassDef, line: int) -> bool:
    return tree.lineno <= line <= (tree.end_lineno or tree.lineno)

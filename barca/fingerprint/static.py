"""Follows names by reading files alone, for code that is imported inside a function's body.

Whether such a module happens to be imported already must not change a hash, so it is always read and never
looked at alive.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from barca.fingerprint.nodes import CodeNode, External, NodeKind, Problem, Target, fill, note
from barca.fingerprint.normalise import Decorated, decorators, readable, without_decorators
from barca.fingerprint.uses import Imported, Use, analyse, imports
from barca.fingerprint.values import Unencodable, ValueEncoder
from barca.hashing import hash_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barca.fingerprint.nodes import Resolver
    from barca.fingerprint.sources import FunctionNode, Project, SourceFile
    from barca.fingerprint.uses import Uses

Found: TypeAlias = "list[Target | Problem]"

MODULE_NAMES = frozenset(
    {"__name__", "__file__", "__doc__", "__package__", "__spec__", "__loader__", "__path__", "__builtins__",
     "__class__", "__debug__", "__annotations__", "__dict__", "__module__", "__qualname__"}
)  # fmt: skip
"""Names that Python gives every module or class; what they hold says where code stands, not what it does."""


class StaticCone:
    """Nodes of code that is read and not imported.

    Args:
        project: The project's files.
        later: Completes a node once the one at hand is done, so that code may go in circles.
    """

    def __init__(self, project: Project, later: Callable[[CodeNode, Callable[[], object]], None]) -> None:
        self._project = project
        self._later = later
        self._nodes: dict[tuple[str, str], CodeNode] = {}
        self._open: set[tuple[str, str, tuple[str, ...]]] = set()
        self._written: dict[int, tuple[SourceFile, set[str]]] = {}

    def imported(self, imported: Imported, rest: tuple[str, ...], importer: str) -> Found:
        """What an import statement and the attributes taken from it lead to."""
        path = self._project.find_module(imported.module, imported.level, importer)
        chain = rest if imported.name is None else (imported.name, *rest)
        if path is not None:
            return self.module(path, chain)
        name = ".".join(("." * imported.level + imported.module, *chain))
        if imported.level:
            return [Problem(f"imports `{name}`, which was not found")]
        return [External(name, warning=outside_warning(self._project, imported.module))]

    def module(self, path: str, chain: tuple[str, ...]) -> Found:
        """What attributes of a module lead to; the whole module when there are none."""
        source = self._project.source(path) if path.endswith(".py") else None
        if not chain:
            return [self._whole_module(path, source)] if source is not None else []
        found = self.name(path, source, chain[0], chain[1:]) if source is not None else []
        if found:
            return found
        folder = Path(path) if source is None else Path(path).parent
        if source is None or Path(path).name == "__init__.py":
            below = self._project.find_module(chain[0], 1, str(folder / "__init__.py"))
            if below is not None:
                return self.module(below, chain[1:])
        if source is not None and "__getattr__" in source.bindings:
            return self.name(path, source, "__getattr__", ())
        return [Problem(f"`{chain[0]}` was not found in `{self._project.label(path)}`")]

    def name(self, path: str, source: SourceFile, name: str, rest: tuple[str, ...]) -> Found:
        """What a module-level name leads to, through every statement that may bind it; empty if none does.

        Imports that lead back here, as `from . import sub` in a package's `__init__` does, add nothing.
        """
        key = (path, name, rest)
        if key in self._open:
            return []
        self._open.add(key)
        try:
            return self._bound(path, source, name, rest)
        finally:
            self._open.discard(key)

    def _bound(self, path: str, source: SourceFile, name: str, rest: tuple[str, ...]) -> Found:
        found: Found = []
        plain: list[ast.stmt] = []
        for statement in source.bindings.get(name, ()):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                for bound, imported in imports(statement):
                    if bound == name:
                        found += self.imported(imported, rest, path)
            elif isinstance(statement, Decorated):
                found.append(self._definition(path, source, statement))
            else:
                plain.append(statement)
        if plain:
            found.append(self._constant(path, source, name, plain))
        if not found and not name.startswith("_"):
            for star in source.stars:
                below = self._project.find_module(star.module or "", star.level, path)
                inner = self._project.source(below) if below and below.endswith(".py") else None
                if below is not None and inner is not None:
                    found += self.name(below, inner, name, rest)
        return found

    def home(self, path: str, name: str) -> tuple[str, str] | External | None:
        """Where a module-level name that one statement binds comes from, through imports.

        Returns:
            File and name of the definition, the outside name, or `None` when it cannot be told.
        """
        for _ in range(20):
            source = self._project.source(path)
            statements = source.bindings.get(name, []) if source is not None else []
            if statements and not isinstance(statements[-1], ast.Import | ast.ImportFrom):
                return path, name
            if source is not None and not statements:
                step: tuple[str, str] | External | None = self._starred(path, source, name)
            else:
                step = self._import_step(path, name, statements)
            if not isinstance(step, tuple):
                return step
            path, name = step
        return None

    def _import_step(
        self, path: str, name: str, statements: Sequence[ast.stmt]
    ) -> tuple[str, str] | External | None:
        """Where the one import that binds a name takes it from; `None` for several, or for a module."""
        statement = statements[0] if len(statements) == 1 else None
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            return None
        imported = next(one for bound, one in imports(statement) if bound == name)
        module = self._project.find_module(imported.module, imported.level, path)
        if module is None and not imported.level:
            return External(".".join(filter(None, (imported.module, imported.name))))
        return None if module is None or imported.name is None else (module, imported.name)

    def _starred(self, path: str, source: SourceFile, name: str) -> tuple[str, str] | None:
        for star in source.stars:
            below = self._project.find_module(star.module or "", star.level, path)
            inner = self._project.source(below) if below and below.endswith(".py") else None
            if below is not None and inner is not None and name in inner.bindings:
                return below, name
        return None

    def written(self, source: SourceFile) -> set[str]:
        """Module-level names that functions of the file assign to or fill."""
        if not source.touched:
            return set()
        if id(source) not in self._written:
            names: set[str] = set()
            for definitions in source.definitions.values():
                for definition in definitions:
                    names |= analyse(definition).written & source.touched
            self._written[id(source)] = (source, names)
        return self._written[id(source)][1]

    # --- nodes ----------------------------------------------------------------------------------------

    def _definition(self, path: str, source: SourceFile, tree: FunctionNode | ast.ClassDef) -> CodeNode:
        key = (path, f"{tree.name}@{tree.lineno}")
        if key not in self._nodes:
            kind: NodeKind = "class" if isinstance(tree, ast.ClassDef) else "helper"
            node = CodeNode(kind, tree.name, self._project.label(path))
            self._nodes[key] = node
            resolver = StaticResolver(self, path, source)
            self._later(node, lambda: fill_definition(node, tree, resolver))
        return self._nodes[key]

    def _constant(self, path: str, source: SourceFile, name: str, statements: list[ast.stmt]) -> CodeNode:
        key = (path, name)
        if key not in self._nodes:
            node = CodeNode("constant", name, self._project.label(path))
            self._nodes[key] = node
            changed = name in self.written(source)
            if changed:
                note(node, WRITTEN)
            resolver = StaticResolver(self, path, source)
            if changed or not self._fill_literal(node, path, statements):
                self._later(node, lambda: fill_statements(node, statements, resolver))
        return self._nodes[key]

    def _fill_literal(self, node: CodeNode, path: str, statements: list[ast.stmt]) -> bool:
        """Hash a literal by its value, as it is hashed when its module is loaded; whether it was one."""
        statement = statements[0] if len(statements) == 1 else None
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            return False
        try:
            value = ast.literal_eval(statement.value)
            text, _ = ValueEncoder(self._project.root, str(Path(path).parent), lambda _: False).encode(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, Unencodable):
            return False
        node.own = hash_fields([("kind", node.kind), ("value", text)])
        node.text = readable(statement)
        return True

    def _whole_module(self, path: str, source: SourceFile) -> CodeNode:
        key = (path, "")
        if key not in self._nodes:
            node = CodeNode("module", self._project.label(path))
            self._nodes[key] = node
            resolver = StaticResolver(self, path, source)
            self._later(node, lambda: fill_module(node, source, resolver))
        return self._nodes[key]


WRITTEN = (
    "is a module global that functions change; the hash covers the statements that first give it a value"
)


class StaticResolver:
    """Resolves the names of one file by reading alone."""

    def __init__(self, cone: StaticCone, path: str, source: SourceFile) -> None:
        self._cone = cone
        self._path = path
        self._source = source

    def resolve(self, use: Use) -> Sequence[Target | Problem]:
        """See `nodes.Resolver`."""
        if use.imported is not None:
            return self._cone.imported(use.imported, use.chain[1:], self._path)
        name = use.chain[0]
        found = self._cone.name(self._path, self._source, name, use.chain[1:])
        if found or name in MODULE_NAMES:
            return found
        if hasattr(builtins, name):
            return [External(f"builtins.{name}")]
        return [Problem(f"the name `{name}` was not found")]

    def literal(self, argument: ast.expr | None) -> str | None:
        """See `nodes.Resolver`."""
        if isinstance(argument, ast.Name):
            statements = self._source.bindings.get(argument.id, [])
            if len(statements) == 1 and isinstance(statements[0], ast.Assign):
                argument = statements[0].value
        return literal_text(argument)


def literal_text(argument: ast.expr | None) -> str | None:
    """The text of a string or bytes literal, or `None`."""
    value = argument.value if isinstance(argument, ast.Constant) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def fill_definition(
    node: CodeNode,
    tree: FunctionNode | ast.ClassDef | ast.Lambda,
    resolver: Resolver,
    *,
    skip: Callable[[Use], bool] | None = None,
) -> Uses:
    """Complete the node of a function or class, without barca's own decorators.

    Args:
        node: Node to complete.
        tree: The definition.
        resolver: Finds what the names stand for.
        skip: Uses that count in another way.

    Returns:
        What the code takes from outside.
    """
    stripped = without_decorators(tree, [one for one in decorators(tree) if is_barca(one, resolver)])
    uses = analyse(stripped)
    fill(node, stripped, [use for use in uses.names if skip is None or not skip(use)], resolver)
    for text in uses.dynamic:
        note(node, text)
    if "__subclasses__" in uses.attributes:
        note(node, "asks for `__subclasses__`; which classes those are is not part of the hash")
    return uses


def fill_statements(node: CodeNode, statements: Sequence[ast.stmt], resolver: Resolver) -> None:
    """Complete the node of a constant from the statements that give it its value."""
    body: list[ast.stmt] = []
    uses: list[Use] = []
    dynamic: list[str] = []
    for statement in statements:
        stripped = without_decorators(
            statement, [one for one in decorators(statement) if is_barca(one, resolver)]
        )
        found = analyse(stripped)
        body.append(stripped)
        uses += [use for use in found.names if use.how != "store"]
        dynamic += found.dynamic
    fill(node, ast.Module(body, []), uses, resolver)
    for text in dynamic:
        note(node, text)


def fill_module(node: CodeNode, source: SourceFile, resolver: Resolver) -> None:
    """Complete the node of a module that code uses as a value: all of it counts."""
    fill(node, source.tree, [Use((name,)) for name in sorted(source.bindings)], resolver)


def is_barca(decorator: ast.expr, resolver: Resolver) -> bool:
    """Whether a decorator is one of barca's, whose arguments count by themselves."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    targets = resolver.resolve(Use((node.id, *reversed(names)), where="decorator"))
    return any(isinstance(one, External) and one.name.partition(".")[0] == "barca" for one in targets)


def outside_warning(project: Project, module: str) -> str | None:
    """Why a module that is not the project's cannot be followed though it should, or `None`."""
    top = module.split(".", maxsplit=1)[0]
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return None
    loaded = sys.modules.get(top)
    try:
        spec = getattr(loaded, "__spec__", None) or importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return None if loaded is not None else f"imports `{module}`, which was not found"
    if spec.origin and project.origin(spec.origin) == "elsewhere":
        return elsewhere_warning(module)
    return None


def elsewhere_warning(name: str) -> str:
    """The warning about code that is neither the project's nor installed."""
    return f"uses `{name}` from a file outside of the project; changes there are not noticed"

"""The graph of code that a definition rests on: one node per function, class, constant or value."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from barca.fingerprint.normalise import dump, readable
from barca.hashing import hash_fields
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barca.fingerprint.uses import Use

NodeKind: TypeAlias = Literal[
    "function", "helper", "class", "constant", "module", "default", "closure", "decorator"
]


@dataclass(eq=False, slots=True)
class CodeNode:
    """A piece of code or a value, with what it leads to.

    Attributes:
        kind: What it is.
        name: Name for people, without the file.
        file: File for people, relative to the project root; empty for values that belong to a node.
        own: Hash of its own content, without what it leads to.
        edges: How the content names another node, and that node.
        text: Readable source.
        warnings: What could not be followed in it.
        reads: Environment variables it reads; `None` is a read whose name is not known.
    """

    kind: NodeKind
    name: str
    file: str = ""
    own: str = ""
    edges: list[tuple[str, CodeNode]] = field(default_factory=list)
    text: str = ""
    warnings: list[str] = field(default_factory=list)
    reads: list[str | None] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The name under which the node stands among a fingerprint's components."""
        place = f"{self.file}:{self.name}" if self.file else self.name
        return f"{self.kind} {place}"


class External(Record):
    """Code outside of the project: counted by its name only.

    Attributes:
        name: `package.module.name`.
        follows: Project code that it was given and that it runs.
        warning: Why it should have been followed, or `None`.
    """

    name: str
    follows: tuple[CodeNode, ...] = ()
    warning: str | None = None


Target: TypeAlias = CodeNode | External


class Problem(Record):
    """A name that leads nowhere, in words."""

    text: str


class Resolver(Protocol):
    """Finds what a name in some code stands for."""

    def resolve(self, use: Use) -> Sequence[Target | Problem]:
        """The nodes and outside names that a use leads to; empty for Python's own names."""
        ...

    def literal(self, argument: ast.expr | None) -> str | None:
        """The text that an expression stands for, if that is plain to see."""
        ...


ENVIRONMENT = frozenset({"os.environ", "os.environb", "os.getenv", "os.getenvb"})
_LOADERS = frozenset(
    {"importlib.util.spec_from_file_location", "importlib.machinery.SourceFileLoader",
     "pkgutil.resolve_name", "runpy.run_module", "runpy.run_path"}
)  # fmt: skip
_READERS = frozenset({"get", "pop", "setdefault", "__getitem__"})
_WRITERS = frozenset({"update", "clear"})


def fill(
    node: CodeNode,
    tree: ast.AST,
    uses: Iterable[Use],
    resolver: Resolver,
    extra: Sequence[tuple[str, str]] = (),
) -> None:
    """Give a node its own hash, edges, text, warnings and environment reads.

    Args:
        node: Node to complete.
        tree: Its code, without what does not count.
        uses: What the code takes from outside.
        resolver: Finds what the names stand for.
        extra: More fields of its own hash.
    """
    externals: dict[tuple[str, str], None] = {}
    edges: dict[tuple[str, int], CodeNode] = {}
    for use in uses:
        for target in resolver.resolve(use):
            if isinstance(target, Problem):
                if use.where != "annotation":
                    note(node, target.text)
                continue
            followed: tuple[CodeNode, ...] = (target,) if isinstance(target, CodeNode) else target.follows
            if isinstance(target, External):
                if not target.name.startswith("builtins."):
                    externals[use.text, target.name] = None
                note_external(node, target, use, resolver)
            for one in followed:
                edges[f"name {use.text}", id(one)] = one
    node.edges += [(label, one) for (label, _), one in edges.items()]
    fields = [("kind", _hashed_kind(node.kind)), ("tree", dump(tree)), *extra]
    for text, name in sorted(externals):
        fields += [("as", text), ("external", name)]
    node.own = hash_fields(fields)
    node.text = readable(tree)


def note(node: CodeNode, text: str) -> None:
    """Add a warning once."""
    if text not in node.warnings:
        node.warnings.append(text)


def note_external(node: CodeNode, target: External, use: Use, resolver: Resolver) -> None:
    """Look at outside code that reads the environment, imports by name, or cannot be followed."""
    if target.warning:
        note(node, target.warning)
    name, _, method = target.name.rpartition(".")
    if target.name in ENVIRONMENT or name in ENVIRONMENT:
        _note_environment(node, method if name in ENVIRONMENT else "", use, resolver)
    elif target.name in {"importlib.import_module", "builtins.__import__"} and use.how == "call":
        if not isinstance(use.argument, ast.Constant):
            note(node, "imports a module whose name is not a literal; that module is not part of the hash")
    elif target.name in _LOADERS:
        note(node, f"loads code by `{target.name}`; that code is not part of the hash")
    elif target.name in {"builtins.eval", "builtins.exec", "builtins.globals"}:
        note(node, f"uses `{method}()`; what that reaches is not part of the hash")
    elif target.name == "sys.modules":
        note(node, "looks into `sys.modules`; what it takes from there is not part of the hash")


def _note_environment(node: CodeNode, method: str, use: Use, resolver: Resolver) -> None:
    is_getenv = not method and use.how == "call"
    if use.how == "store" or method in _WRITERS:
        return
    if is_getenv or use.how in {"index", "contains"} or method in _READERS:
        name = resolver.literal(use.argument)
    else:
        name = None
    if name not in node.reads:
        node.reads.append(name)


def _hashed_kind(kind: NodeKind) -> str:
    """Roles that a function can play are one kind to the hash."""
    return "function" if kind in {"helper", "decorator"} else kind

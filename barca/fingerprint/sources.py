"""The project's source text: which files belong to it, parsed once, and where names are bound in them."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.machinery
import linecache
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from barca.fingerprint.texts import hold, imported_texts
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Origin: TypeAlias = Literal["project", "session", "library", "elsewhere"]
"""Where code comes from: a file of the project, a notebook cell or prompt, an installed package or
Python itself, or a file that is neither the project's nor installed."""

SESSION = "<session>"
"""Stands for the file of code that was typed into a notebook or a prompt."""

MUTATORS = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop",
        "popitem", "popleft", "remove", "reverse", "setdefault", "sort", "update",
    }
)  # fmt: skip
"""Methods by which a container is written to."""

_PACKAGE_HOME = str(Path(__file__).resolve().parent.parent)


@dataclass(eq=False, slots=True)
class SourceFile:
    """One parsed file or notebook cell.

    Attributes:
        path: Absolute path, or the name that the interpreter gave a cell.
        tree: Its syntax tree.
        definitions: Qualified name to the functions and classes of that name, in order.
        lambdas: Line to the lambdas that begin there.
        bindings: Module-level name to the statements that bind or fill it, in order.
        stars: `from x import *` statements.
        touched: Names that some function may assign to or fill, by a quick look.
    """

    path: str
    tree: ast.Module
    definitions: dict[str, list[FunctionNode | ast.ClassDef]] = field(default_factory=dict)
    lambdas: dict[int, list[ast.Lambda]] = field(default_factory=dict)
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._index(self.tree, "")
        for statement in _simple_statements(self.tree.body):
            self._bind(statement)

    def function(self, qualname: str, line: int) -> FunctionNode | None:
        """The function of that name which begins at `line` (its first decorator's), or `None`."""
        for node in self.definitions.get(qualname, ()):
            if not isinstance(node, ast.ClassDef) and first_line(node) == line:
                return node
        return None

    def last(self, qualname: str) -> FunctionNode | ast.ClassDef | None:
        """The last definition of that name, or `None`."""
        found = self.definitions.get(qualname)
        return found[-1] if found else None

    def _index(self, parent: ast.AST, prefix: str) -> None:
        stack = [(parent, prefix)]
        while stack:
            node, prefix = stack.pop()
            inner = prefix
            self._touch(node)
            if isinstance(node, ast.Lambda):
                self.lambdas.setdefault(node.lineno, []).append(node)
                inner = f"{prefix}<lambda>.<locals>."
            elif isinstance(node, ast.ClassDef | FunctionNode):
                self.definitions.setdefault(prefix + node.name, []).append(node)
                inner = f"{prefix}{node.name}." + ("" if isinstance(node, ast.ClassDef) else "<locals>.")
            stack += [(child, inner) for child in reversed(children(node))]

    def _touch(self, node: ast.AST) -> None:
        if isinstance(node, ast.Global):
            self.touched.update(node.names)
        elif isinstance(node, ast.Subscript | ast.Attribute) and _may_write(node):
            self.touched.update(_root_name(node))

    def _bind(self, statement: ast.stmt) -> None:
        for name in dict.fromkeys(_bound_names(statement)):
            if name == "*" and isinstance(statement, ast.ImportFrom):
                self.stars.append(statement)
            else:
                self.bindings.setdefault(name, []).append(statement)


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node that hold something; quicker than `ast.iter_child_nodes`."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [part for part in value if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST) and value._fields:
            found.append(value)
    return found


def first_line(node: FunctionNode | ast.ClassDef) -> int:
    """Line of the first decorator, or of the definition."""
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno


def _simple_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module that stand alone, also those inside `if`, `try`, `with`, `for` and `while`."""
    for statement in body:
        blocks = [
            block
            for name in ("body", "orelse", "finalbody", "handlers", "cases")
            if isinstance(block := getattr(statement, name, None), list)
        ]
        if isinstance(statement, ast.ClassDef | FunctionNode) or not blocks:
            yield statement
            continue
        for block in blocks:
            for part in block:
                yield from _simple_statements(getattr(part, "body", [part]) if _is_clause(part) else [part])


def _is_clause(part: ast.AST) -> bool:
    return isinstance(part, ast.ExceptHandler | ast.match_case)


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """Names that a simple statement binds, or whose value it fills."""
    if isinstance(statement, ast.ClassDef | FunctionNode):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or (
                alias.name if isinstance(statement, ast.ImportFrom) else alias.name.split(".")[0]
            )
    else:
        for node in ast.walk(statement):
            stored = isinstance(getattr(node, "ctx", None), ast.Store)
            if stored or (isinstance(node, ast.Attribute) and node.attr in MUTATORS):
                yield from _root_name(node)


def _may_write(node: ast.Subscript | ast.Attribute) -> bool:
    return not isinstance(node.ctx, ast.Load) or (isinstance(node, ast.Attribute) and node.attr in MUTATORS)


def _root_name(node: ast.AST) -> Iterator[str]:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


TRUSTED_AGE_SECONDS = 2.0
"""A file that was older than this when it was read is unchanged while its time and size are; of a younger one
the content is compared, since file systems stamp times too coarsely to tell two quick edits apart."""


class _Parsed(Record):
    stamp: tuple[int, int]
    digest: bytes
    settled: bool
    source: SourceFile | None


_parsed: dict[str, _Parsed] = {}
_imported: dict[str, tuple[bytes, SourceFile | None]] = {}
_cells: dict[tuple[str, bytes], SourceFile | None] = {}


def parse_file(path: str, text: bytes | None = None) -> SourceFile | None:
    """The file parsed, or this text of it, once per content; `None` if it cannot be read or parsed."""
    if text is not None:
        before = _imported.get(path)
        if before is None or before[0] is not text:
            before = _imported[path] = (text, _parse(path, text))
        return before[1]
    known = _parsed.get(path)
    try:
        status = Path(path).stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if known is not None and known.settled and known.stamp == stamp:
            return known.source
        content = Path(path).read_bytes()
    except OSError:
        return None
    digest = _digest(content)
    source = known.source if known is not None and known.digest == digest else _parse(path, content)
    settled = time.time() - status.st_mtime > TRUSTED_AGE_SECONDS
    _parsed[path] = _Parsed(stamp, digest, settled, source)
    return source


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def parse_cell(name: str) -> SourceFile | None:
    """The notebook cell or prompt entry of that name parsed, or `None` if Python kept no text of it."""
    text = "".join(linecache.getlines(name))
    if not text:
        return None
    key = (name, _digest(text.encode("utf-8", "surrogatepass")))
    if key not in _cells:
        _cells[key] = _parse(name, text)
    return _cells[key]


def session_cells() -> Iterator[SourceFile]:
    """Every cell whose text Python keeps, latest first."""
    for name in reversed(list(linecache.cache)):
        if not Path(name).exists() and (cell := parse_cell(name)) is not None:
            yield cell


def _parse(path: str, text: str | bytes) -> SourceFile | None:
    try:
        return SourceFile(path, ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return None


@functools.cache
def _library_directories() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({str(Path(path).resolve()) for name in names if (path := sysconfig.get_path(name))})


def _base(file: Path) -> Path:
    """The folder around a file's outermost package, which is where its absolute imports start."""
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


@dataclass(eq=False, slots=True)
class Project:
    """The files under a root directory, without installed packages and virtual environments.

    Attributes:
        root: Absolute root directory, links resolved.
    """

    root: str
    _folders: list[str] = field(default_factory=list)
    _origins: dict[str, Origin] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)
    _sources: dict[str, SourceFile | None] = field(default_factory=dict)
    _texts: dict[str, bytes] = field(default_factory=imported_texts)
    _modules: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def origin(self, path: str) -> Origin:
        """Where the code of a file comes from."""
        if path not in self._origins:
            self._origins[path] = self._origin(path)
        return self._origins[path]

    def _origin(self, path: str) -> Origin:
        if path.startswith("<frozen") or not path:
            return "library"
        if not Path(path).exists():
            return "session"
        real = Path(path).resolve()
        home = next((folder for folder in (self.root, *self._folders) if real.is_relative_to(folder)), None)
        if self._is_installed(real, home):
            return "library"
        return "elsewhere" if home is None else "project"

    def _is_installed(self, real: Path, home: str | None) -> bool:
        """Whether a file belongs to Python, an installed package or a virtual environment."""
        below = real.relative_to(home) if home is not None else real
        if "site-packages" in below.parts or "dist-packages" in below.parts:
            return True
        for library in (*_library_directories(), _PACKAGE_HOME):
            if real.is_relative_to(library) and len(library) > len(home or ""):
                return True
        folders = list(below.parents)[:-1]
        return home is not None and any((Path(home) / folder / "pyvenv.cfg").exists() for folder in folders)

    def include(self, file: str) -> None:
        """Count a file outside of the root, and what lies beside it, as the project's unless it is installed.

        A pipeline may be named by a path outside of the root.
        """
        if self.origin(file) == "elsewhere":
            self._folders.append(str(_base(Path(file).resolve())))
            self._origins.clear()
            self._labels.clear()
            self._modules.clear()

    def label(self, path: str) -> str:
        """The path as people read it: relative to the root, `/` between its parts."""
        if path not in self._labels:
            self._labels[path] = self._label(path)
        return self._labels[path]

    def _label(self, path: str) -> str:
        if self.origin(path) == "session":
            return SESSION
        real = Path(path).resolve()
        home = next((folder for folder in (self.root, *self._folders) if real.is_relative_to(folder)), None)
        return real.relative_to(home).as_posix() if home is not None else real.name

    def source(self, path: str) -> SourceFile | None:
        """The parsed file or cell as it was when first asked for, or `None`."""
        if self.origin(path) == "session":
            return parse_cell(path)
        if path not in self._sources:
            real = str(Path(path).resolve())
            self._sources[path] = parse_file(real, self._texts.get(real) or hold(real))
        return self._sources[path]

    def find_module(self, name: str, level: int, importer: str) -> str | None:
        """The project file that an import means, found without importing anything.

        Args:
            name: Dotted module name as written; may be empty for `from . import x`.
            level: Number of leading dots.
            importer: File in which the import stands.

        Returns:
            The path of a `.py` file (a package's `__init__.py`) or of a package directory without one;
            `None` when the module is not of the project.
        """
        key = ("." * level + name, importer)
        if key not in self._modules:
            self._modules[key] = self._find(name, level, Path(importer))
        return self._modules[key]

    def _find(self, name: str, level: int, importer: Path) -> str | None:
        parts = name.split(".") if name else []
        if level:
            return self._below(importer.parents[level - 1], parts) if level <= len(importer.parents) else None
        if parts[0] in sys.stdlib_module_names or parts[0] in {*sys.builtin_module_names, "barca"}:
            return None
        bases = [_base(importer), Path(self.root), *(Path(entry or Path.cwd()) for entry in sys.path)]
        for base in dict.fromkeys(bases):
            module = base / f"{parts[0]}.py"
            if (base / parts[0] / "__init__.py").is_file() or (module.is_file() and module != importer):
                return self._below(base, parts)
        spec = importlib.machinery.PathFinder.find_spec(parts[0])
        if spec is not None and spec.loader is not None:
            return None
        found = (self._below(base, parts) for base in dict.fromkeys(bases))
        return next(filter(None, found), None)

    def _below(self, base: Path, parts: list[str]) -> str | None:
        target = base.joinpath(*parts)
        candidates = [target / "__init__.py", *([target.with_name(f"{target.name}.py")] if parts else ())]
        for candidate in candidates:
            if candidate.is_file() and self.origin(str(candidate)) == "project":
                return str(candidate.resolve())
        if target.is_dir() and self.origin(str(target)) == "project":
            return str(target.resolve())
        return None

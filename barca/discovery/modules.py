"""Naming and locating the project's modules."""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from barca.discovery.files import is_project_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class ModuleNames:
    """Files of a project and the one name each is imported under.

    A file is called what Python would call it with the file's folder and the project root on `sys.path`,
    packages dotted. Where that name belongs to Python, to an installed package or to another file of the
    project, the file gets a private name that depends on its path only.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names: dict[Path, str] = {}
        self._files: dict[str, Path] = {}
        self._claimed: dict[str, Path] = {}

    def base(self, file: Path) -> Path:
        """The folder that would be on `sys.path` for the file: the one around its outermost package."""
        folder = file.parent
        while (folder / "__init__.py").is_file() and folder != folder.parent:
            folder = folder.parent
        return folder

    def name(self, file: Path) -> str:
        """The name that a file, or a folder without `__init__.py`, is imported under."""
        known = self._names.get(file)
        if known is not None:
            return known
        base = self.base(file)
        parts = [file.name] if file.is_dir() else list(file.relative_to(base).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        top = base / parts[0]
        place = top if len(parts) > 1 or file.name == "__init__.py" else file
        if not self._may_claim(parts[0], place, base):
            # a suffix made of the path, so that every process gives the same name
            digest = hashlib.blake2b(str(place).encode(), digest_size=4).hexdigest()
            parts[0] = f"{parts[0].replace('.', '_')}__{digest}"
        self._claimed[parts[0]] = place
        self._names[file] = name = ".".join(parts)
        self._files[name] = file
        return name

    def file(self, name: str) -> Path | None:
        """The file that is imported under a name."""
        return self._files.get(name)

    def _may_claim(self, top: str, place: Path, base: Path) -> bool:
        claimed = self._claimed.get(top)
        if claimed is not None:
            return claimed == place
        if "." in top or top in sys.stdlib_module_names or top in {"__main__", "barca"}:
            return False
        if base != self.root and locate(top, [self.root]) is not None:
            return False
        loaded = sys.modules.get(top)
        file = getattr(loaded, "__file__", None)
        if loaded is not None and (file is None or not is_project_path(self.root, Path(file))):
            return False
        return not _is_installed(top, self.root)

    def real_name(self, importer: Path, top: str) -> str:
        """The name under which the top-level module that `importer` calls `top` is imported.

        It is `top` itself when the module is not the project's, or is named as Python names it.
        """
        located = self.find(importer, top)
        return top if located is None else self.name(located)

    def find(self, importer: Path, top: str) -> Path | None:
        """The project's file, or folder without `__init__`, that `importer` means by a top-level name."""
        if top in sys.stdlib_module_names or top == "barca":
            return None
        located = locate(top, [self.base(importer), self.root])
        if located is None or ((located == importer or located.is_dir()) and _is_installed(top, self.root)):
            # a file `duckdb.py` that imports duckdb, or a folder beside it, never hides the installed one
            return None
        return located


def locate(name: str, folders: Sequence[Path]) -> Path | None:
    """The file of a module, or a folder that is a namespace package, in the first folder that has one."""
    namespace = None
    for folder in folders:
        package = folder / name / "__init__.py"
        if package.is_file():
            return package
        module = folder / f"{name}.py"
        if module.is_file():
            return module
        if namespace is None and (folder / name).is_dir():
            namespace = folder / name
    return namespace


def _is_installed(top: str, root: Path) -> bool:
    """Whether a top-level module exists outside the project."""
    if top in sys.builtin_module_names:
        return True
    outside = [entry for entry in sys.path if entry and not is_project_path(root, Path(entry) / "_")]
    spec = importlib.machinery.PathFinder.find_spec(top, outside)
    return spec is not None and spec.loader is not None


@dataclass(slots=True)
class Imports:
    """What a file imports, as written.

    Attributes:
        absolute: Dotted modules, with `module.name` for each name of `from module import name`.
        relative: `(level, dotted)` of relative imports, likewise.
    """

    absolute: set[str] = field(default_factory=set)
    relative: set[tuple[int, str]] = field(default_factory=set)


def imports_of(statements: Iterable[ast.Import | ast.ImportFrom]) -> Imports:
    """What import statements read."""
    imports = Imports()
    for statement in statements:
        if isinstance(statement, ast.Import):
            imports.absolute.update(alias.name for alias in statement.names)
            continue
        module = statement.module or ""
        dotted = {module, *(f"{module}.{alias.name}".lstrip(".") for alias in statement.names)}
        if statement.level:
            imports.relative.update((statement.level, name) for name in dotted)
        else:
            imports.absolute.update(dotted)
    return imports


def imported_files(names: ModuleNames, file: Path, imports: Imports) -> Iterator[Path]:
    """The project's files that a file's imports read, packages on the way included."""
    for dotted in imports.absolute:
        top, _, rest = dotted.partition(".")
        start = names.find(file, top)
        if start is not None:
            yield from _walk_down(start, rest)
    for level, dotted in imports.relative:
        folder = file.parents[level - 1] if level <= len(file.parents) else None
        if folder is not None:
            yield from _walk_down(folder / "__init__.py", dotted)


def _walk_down(start: Path, rest: str) -> Iterator[Path]:
    if start.is_file():
        yield start
    folder = start.parent if start.name == "__init__.py" else start
    for part in rest.split(".") if rest else ():
        located = locate(part, [folder])
        if located is None:
            return
        if located.is_file():
            yield located
        folder = located.parent if located.name == "__init__.py" else located

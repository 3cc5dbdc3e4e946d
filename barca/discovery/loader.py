"""Importing a project's files: each once, rewritten, and again when it changed.

One `Importer` per project root stands in `sys.meta_path`. It answers imports made by the project's own
files, whatever `sys.path` says, and is the last resort for everyone else (unpickling, say).
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import xxhash

from barca.discovery.files import is_project_path
from barca.discovery.literals import check_sink_paths
from barca.discovery.modules import Imports, ModuleNames, imported_files, imports_of, locate
from barca.discovery.rewrite import HOOK, defer_hook, rewrite, survey
from barca.errors import UsageError
from barca.hashing import hash_fields

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType, ModuleType

NESTED_RUN: Final = "nested_run"
"""Code of the error for a run that a file starts while barca imports the file."""

TRUSTED_AGE_SECONDS = 2.0
"""A file last written so long before it was read is unchanged while its time and size are: file systems
stamp times too coarsely to tell two quick edits apart. Younger files are compared by content."""


@dataclass(slots=True)
class Loaded:
    """A module of the project and what it was made from."""

    module: ModuleType
    source: bytes
    stamp: tuple[int, int]
    settled: bool
    imports: Imports

    def is_current(self, file: Path) -> bool:
        """Whether the file still holds what was imported."""
        try:
            if self.settled and _stamp(file) == self.stamp:
                return True
            return file.read_bytes() == self.source
        except OSError:
            return False


class _Importing(threading.local):
    def __init__(self) -> None:
        self.files: list[Path] = []


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


class Importer(importlib.abc.MetaPathFinder):
    """Finds, names, loads and reloads the modules of one project."""

    _of_root: ClassVar[dict[Path, Importer]] = {}
    importing: ClassVar[_Importing] = _Importing()
    """Files whose import is going on in this thread, innermost last."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names = ModuleNames(root)
        self.loaded: dict[Path, Loaded] = {}
        """In the order in which imports ended, so that a file comes after what it imports."""
        self.stops_at_runs = False
        """Whether a run that a file starts while it is imported ends the import, instead of failing it:
        a worker needs what a script defines above its own call of barca."""
        self._digests: dict[Path, str] = {}
        self._folders: dict[Path, None] = {root: None}
        self._namespaces: set[str] = set()
        self._lock = threading.RLock()

    @classmethod
    def of(cls, root: Path) -> Importer:
        """The importer of a root, in `sys.meta_path` from its first use on."""
        importer = cls._of_root.get(root)
        if importer is None:
            importer = cls._of_root[root] = cls(root)
            sys.meta_path.insert(0, importer)
            sys.meta_path.append(_LastResort(importer))
        return importer

    def load(self, file: Path) -> ModuleType:
        """The module of a file, imported unless it is already.

        Raises:
            BaseException: Whatever importing the file raises.
        """
        with self._lock:
            if file in self.loaded:
                return self.loaded[file].module
            self._folders[self.names.base(file)] = None
            name = self.names.name(file)
            present = sys.modules.get(name)
            if present is not None and self._owns(present):
                return present  # its import is going on
            parent, _, child = name.rpartition(".")
            package = self.load(_package_file(file)) if parent else None
            spec = self._spec(name, file)
            if spec is None or spec.loader is None:
                raise ImportError(f"{file} is not a file of the project {self.root}", name=name)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                sys.modules.pop(name, None)
                raise
            if package is not None:
                setattr(package, child, module)
            return module

    def refresh(self) -> None:
        """Forget the modules whose files changed, and those that import them, directly or not."""
        with self._lock:
            stale = {file for file, loaded in self.loaded.items() if not loaded.is_current(file)}
            importers: dict[Path, set[Path]] = {}
            for file, loaded in self.loaded.items() if stale else ():
                for imported in imported_files(self.names, file, loaded.imports):
                    importers.setdefault(imported, set()).add(file)
            waiting = list(stale)
            while waiting:
                above = importers.get(waiting.pop(), set()) - stale
                stale |= above
                waiting += above
            for file in stale:
                _forget(self.loaded.pop(file).module)
                linecache.checkcache(str(file))
                self._digests.clear()

    @classmethod
    def imported(cls, root: Path, file: Path) -> str | None:
        """`digest` of a file that the importer of a root imported; of others `None`."""
        importer = cls._of_root.get(root)
        return importer.digest(file) if importer is not None and file in importer.loaded else None

    def digest(self, file: Path) -> str:
        """Of what an imported file, and those that it imports, held when they were imported."""
        with self._lock:
            if file not in self._digests:
                found: dict[Path, bytes] = {}
                waiting = [file]
                while waiting:
                    one = waiting.pop()
                    if one in self.loaded and one not in found:
                        found[one] = self.loaded[one].source
                        waiting += imported_files(self.names, one, self.loaded[one].imports)
                fields = [(str(one), xxhash.xxh3_128_hexdigest(found[one])) for one in sorted(found)]
                self._digests[file] = hash_fields([("f", text) for pair in fields for text in pair])
            return self._digests[file]

    def execute(self, module: ModuleType, file: Path, loader: SourceLoader) -> None:
        """Run a file's code in its module, and remember what was run."""
        source, stamp = file.read_bytes(), _stamp(file)
        settled = time.time() - stamp[0] / 1e9 > TRUSTED_AGE_SECONDS
        linecache.checkcache(str(file))
        code = loader.source_to_code(source, str(file))
        for imported in imported_files(self.names, file, loader.imports):
            self._forget_foreign(imported)
        module.__dict__[HOOK] = defer_hook(str(file))
        self.importing.files.append(file)
        try:
            exec(code, module.__dict__)  # noqa: S102
        except UsageError as error:
            if not (self.stops_at_runs and error.code == NESTED_RUN):
                raise
        finally:
            self.importing.files.pop()
        self.loaded[file] = Loaded(module, source, stamp, settled, loader.imports)
        self._digests.clear()
        loader.imported_text = source

    def _forget_foreign(self, file: Path) -> None:
        """Drop a module that was imported before barca could, so that edits of its file are seen."""
        module = sys.modules.get(self.names.name(file))
        if module is not None and getattr(module, "__file__", None) == str(file) and not self._owns(module):
            _forget(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of this project that a file of this project imports."""
        del target
        if path is None:
            importer = self._importing_file()
            return self._spec(fullname, self.names.find(importer, fullname)) if importer else None
        parent, _, child = fullname.rpartition(".")
        if parent not in sys.modules or not self._owns(sys.modules[parent]):
            return None
        return self._spec(fullname, locate(child, [Path(entry) for entry in path]))

    def find_named(self, fullname: str) -> importlib.machinery.ModuleSpec | None:
        """The spec of the project's module that is imported under this very name, whoever asks."""
        located = self.names.file(fullname)
        if located is None and fullname not in sys.stdlib_module_names:
            located = locate(fullname, list(self._folders))
            if located is not None and located.is_file() and self.names.name(located) != fullname:
                return None
        return self._spec(fullname, located)

    def _spec(self, fullname: str, located: Path | None) -> importlib.machinery.ModuleSpec | None:
        if located is None:
            return None
        if located.is_dir():
            spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(located)]
            self._namespaces.add(fullname)
            return spec
        if not is_project_path(self.root, located) and self.names.base(located) not in self._folders:
            return None
        name = self.names.name(located)
        loader = SourceLoader(self, name, located) if name == fullname else _AliasLoader(self, located)
        folder = [str(located.parent)] if located.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, located, loader=loader, submodule_search_locations=folder
        )

    def _owns(self, module: ModuleType) -> bool:
        loader = getattr(module, "__loader__", None)
        mine = isinstance(loader, SourceLoader) and loader.importer is self
        return mine or module.__name__ in self._namespaces

    def _importing_file(self) -> Path | None:
        """The project's file that an import stands in, found on the stack; `None` for other code."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the importing code is nowhere else
        while frame is not None:
            module = frame.f_globals.get("__name__") or ""
            if module != __name__ and module.partition(".")[0] != "importlib":
                loader = frame.f_globals.get("__loader__")
                return loader.file if isinstance(loader, SourceLoader) and loader.importer is self else None
            frame = frame.f_back
        return None


def refuse_nested() -> None:
    """Refuse to start a run, or to read the project, while a file of it is imported.

    Raises:
        UsageError: A file is being imported.
    """
    if Importer.importing.files:
        file = Importer.importing.files[-1]
        raise UsageError(
            f"barca is called by {file.name} while {file.name} itself is being imported",
            code=NESTED_RUN,
            file=str(file),
            remediation='put the call under `if __name__ == "__main__":`',
        )


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Runs a project file's rewritten code; never from, or into, `__pycache__`."""

    def __init__(self, importer: Importer, name: str, file: Path) -> None:
        super().__init__(name, str(file))
        self.importer = importer
        self.file = file
        self.imports = Imports()
        """What the file imports; known once it is compiled."""
        self.imported_text: bytes | None = None
        """What was run. A fingerprint is made of it, since the file may hold something else by now."""

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        """Compile a file's bytes."""
        source = importlib.util.decode_source(bytes(data))
        tree = cast("ast.Module", compile(source, str(path), "exec", ast.PyCF_ONLY_AST, dont_inherit=True))
        found = survey(tree)
        self.imports = imports_of(found.imports)
        if not self.importer.stops_at_runs:  # a worker imports what was read before
            check_sink_paths(found, str(path))
        names = self.importer.names
        rewrite(tree, found, lambda top: names.real_name(self.file, top))
        return compile(tree, str(path), "exec", dont_inherit=True, optimize=_optimize)

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file as it is now."""
        del fullname
        return self.source_to_code(self.file.read_bytes(), str(self.file))

    def exec_module(self, module: ModuleType) -> None:
        """Run the file's code in `module`."""
        self.importer.execute(module, self.file, self)


class _AliasLoader(importlib.abc.Loader):
    """Answers a second name of a file with the module that the file already is."""

    def __init__(self, importer: Importer, file: Path) -> None:
        self._importer = importer
        self._file = file

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = self._importer.load(self._file)


class _LastResort(importlib.abc.MetaPathFinder):
    """Answers, after every other finder, for names that only the project has."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a top-level module of the project."""
        del target
        return self._importer.find_named(fullname) if path is None else None


def _package_file(file: Path) -> Path:
    folder = file.parent.parent if file.name == "__init__.py" else file.parent
    return folder / "__init__.py"


def _forget(module: ModuleType) -> None:
    for name in [name for name, other in list(sys.modules.items()) if other is module]:
        del sys.modules[name]
        parent, _, child = name.rpartition(".")
        # `from package import module` looks at the attribute first
        if parent in sys.modules and getattr(sys.modules[parent], child, None) is module:
            delattr(sys.modules[parent], child)

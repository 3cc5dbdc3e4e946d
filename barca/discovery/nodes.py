"""Which definitions a project's modules hold, and the id of each."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barca.discovery.files import is_project_path
from barca.model import Collect, Definition, PartitionsFrom

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType

    from barca._typing import NodeId


def held(module: ModuleType) -> Iterator[tuple[str, Definition[Any, Any]]]:
    """Variable and definition, for those that a module's globals hold, in order; first names only.

    Definitions in a list, tuple or dict of the module come last, as `variable[index]`.
    """
    seen: set[int] = set()
    values = list(vars(module).items())
    for name, value in values:
        if isinstance(value, Definition) and id(value) not in seen:
            seen.add(id(value))
            yield name, value
    for name, value in values:
        if name.startswith("__") or not isinstance(value, list | tuple | dict):
            continue
        for index, member in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(member, Definition) and id(member) not in seen:
                seen.add(id(member))
                yield f"{name}[{index!r}]", member


def sources(definition: Definition[..., Any]) -> Iterator[Definition[..., Any] | NodeId]:
    """What a definition reads, as declared."""
    for ref in definition.inputs.values():
        yield ref.source if isinstance(ref, Collect) else ref
    for declared in definition.partitions.values():
        if isinstance(declared, PartitionsFrom):
            yield declared.source


class Owners:
    """The module and variable that a definition belongs to.

    It is the module of the file it is written in, when that holds it; otherwise (a factory in another file
    made it) the first module that does.
    """

    def __init__(self, modules: Iterable[tuple[str, ModuleType]]) -> None:
        self._places: dict[int, tuple[str, str]] = {}
        # keeps the ids of the definitions from being given to other objects
        self._alive: list[Definition[..., Any]] = []
        elsewhere: list[tuple[str, str, Definition[..., Any]]] = []
        for file, module in modules:
            for name, definition in held(module):
                self._alive.append(definition)
                if same_file(definition.file, file):
                    self._places.setdefault(id(definition), (file, name))
                else:
                    elsewhere.append((file, name, definition))
        for file, name, definition in elsewhere:
            self._places.setdefault(id(definition), (file, name))

    def place(self, definition: Definition[..., Any]) -> tuple[str, str]:
        """File and variable of a definition; file and qualified name of its function when none holds it."""
        return self._places.get(id(definition)) or (definition.file, definition.function.__qualname__)

    def holds(self, definition: Definition[..., Any]) -> bool:
        """Whether some module holds the definition."""
        return id(definition) in self._places


def same_file(one: str, other: str) -> bool:
    """Whether two paths are one file, links followed."""
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def file_id(root: Path, file: str, definition: Definition[..., Any]) -> str:
    """The part of a node id before the colon."""
    path = Path(os.path.realpath(file))
    if not path.is_file():
        return notebook_id(root)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else definition.__module__


def node_id(root: Path, owners: Owners, definition: Definition[..., Any]) -> NodeId:
    """The id of a definition."""
    if definition.name is not None:
        return definition.name
    file, name = owners.place(definition)
    if not name.isidentifier():
        name = definition.function.__qualname__
    return f"{file_id(root, file, definition)}:{name}"


# --- scripts and notebooks


def main_file() -> Path | None:
    """The script that is running, if it is one."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(os.path.realpath(file)) if isinstance(file, str) else None


def notebook_id(root: Path) -> str:
    """The notebook that is running: its path below the root, or its name; `notebook` when unknown."""
    variables: Mapping[str, Any] = vars(sys.modules["__main__"])
    choices = (
        variables.get("__vsc_ipynb_file__"),
        os.environ.get("JPY_SESSION_NAME"),
        variables.get("__session__"),
        variables.get("__file__"),
    )
    named = next((str(choice) for choice in choices if choice), "notebook")
    path = Path(os.path.realpath(root / named))
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def project_modules(root: Path) -> Iterator[tuple[str, ModuleType]]:
    """File and module of every imported module under the root, the running script or notebook first."""
    main = sys.modules["__main__"]
    yield getattr(main, "__file__", None) or "<notebook>", main
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if module is not main and isinstance(file, str) and is_project_path(root, Path(file)):
            yield file, module


def newest(definition: Definition[..., Any]) -> Definition[..., Any]:
    """What a notebook cell that ran again put in a definition's place; else the definition itself."""
    if definition.function.__module__ != "__main__":
        return definition
    current = vars(sys.modules["__main__"]).get(definition.function.__qualname__)
    is_newer = isinstance(current, Definition) and inspect.unwrap(current).__module__ == "__main__"
    return current if is_newer and isinstance(current, Definition) else definition

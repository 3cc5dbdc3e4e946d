"""How a worker finds a function: as a description, and back."""

from __future__ import annotations

import os
import pickle
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barca.discovery.loader import Importer
from barca.discovery.nodes import Owners, held, main_file, project_modules
from barca.errors import LoadError
from barca.model import Definition, FunctionRef
from barca.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from barca._typing import NodeId

_here: weakref.WeakValueDictionary[tuple[str, NodeId], Definition[..., Any]] = weakref.WeakValueDictionary()
"""Root and node to the definition that this process described last."""

_hashes: dict[tuple[NodeId, str], str] = {}
"""Node, and the digest of what its file held, to the hash of the definition that was found there."""

_EDITED: Final = "edited"
"""In the place of a digest, where Python imported files and one of them was edited since."""

_CHANGED: Final = (
    "the file changed since it was imported: run again; a program that goes on makes a new `Project`, or "
    "imports it anew with `importlib.reload`"
)


def function_ref(definition: Definition[..., Any], node_id: NodeId, root: Path) -> FunctionRef:
    """How a worker finds the function of a definition.

    A definition that a project file or script holds is found there by name; one that only a notebook cell,
    or the inside of a function, holds is pickled with what it uses. What cannot be pickled can still run in
    this process.
    """
    from barca.fingerprint.texts import edited  # workers, which call no more than load_function, do without

    _here[str(root), node_id] = definition
    owners = Owners(_module_of(definition))
    if not owners.holds(definition):
        owners = Owners(project_modules(root))
    file, name = owners.place(definition)
    imported = _EDITED if edited() else None
    if owners.holds(definition) and Path(file).is_file() and Path(file).suffix == ".py":
        file = os.path.realpath(file)
        imported = Importer.imported(root, Path(file)) or imported
        return FunctionRef(node=node_id, root=str(root), file=file, name=name, imported=imported)
    return FunctionRef(node=node_id, root=str(root), pickled=_pickled(definition), imported=imported)


def _module_of(definition: Definition[..., Any]) -> Iterator[tuple[str, ModuleType]]:
    module = sys.modules.get(definition.__module__)
    if module is not None:
        yield getattr(module, "__file__", None) or definition.file, module


def _pickled(definition: Definition[..., Any]) -> bytes | None:
    from barca.discovery.cells import dumps

    # what it reads travels as data, not as code
    alone = replace(definition, inputs={}, partitions={}, batch=None)
    try:
        return dumps(alone)
    except Exception:  # whatever the reducers of user objects raise
        return None


def load_function(ref: FunctionRef) -> Definition[..., Any]:
    """The definition that a reference describes.

    In the process that described it, it is that very definition. Elsewhere its file is imported, once, and
    again when it changed.

    Raises:
        LoadError: The file no longer imports, no longer holds the definition, or holds another one; or it
            could not be pickled, or what it uses was edited.
    """
    here = _here.get((ref.root, ref.node))
    if here is not None:
        return here
    if ref.file is None:
        return _unpickled(ref)
    file = Path(ref.file)
    definition = dict(_definitions(ref, file)).get(ref.name or "")
    if definition is None:
        raise LoadError(
            f"`{ref.name}` is no longer in the file",
            node=ref.node,
            file=str(file),
            remediation=_CHANGED,
        )
    _require_planned(definition, ref, file)
    return definition


def _require_planned(definition: Definition[..., Any], ref: FunctionRef, file: Path) -> None:
    """Refuse a definition that is not the one planned: its result would be kept as the result of that one.

    Only where some text differs are the definitions compared, so that an edit of a comment stops no run.

    Raises:
        LoadError: It is another one.
    """
    own = Importer.imported(Path(ref.root), file)
    if ref.imported is None or own is None or own == ref.imported or ref.definition_hash is None:
        return
    known = (ref.node, own)
    if known not in _hashes:
        from barca.fingerprint import fingerprint

        _hashes[known] = fingerprint(definition, root=Path(ref.root)).hash
    if _hashes[known] != ref.definition_hash:
        raise LoadError(
            f"`{ref.name}`, or what it uses, is another than when the run began",
            node=ref.node,
            file=str(file),
            remediation=_CHANGED,
        )


def _unpickled(ref: FunctionRef) -> Definition[..., Any]:
    if ref.pickled is None:
        raise LoadError(
            "its function cannot be sent to a worker: what it uses cannot be pickled",
            node=ref.node,
            remediation='move the function into a project file, or run with executor="inline"',
        )
    if ref.imported is not None:
        raise LoadError(
            "a file that this program imported was edited since, and a worker would import what it holds now",
            node=ref.node,
            remediation=_CHANGED,
        )
    if ref.root not in sys.path:
        sys.path.append(ref.root)
    try:
        definition: Definition[..., Any] = pickle.loads(ref.pickled)
    except Exception as error:
        raise LoadError(
            f"its function cannot be unpickled in a worker: {type(error).__name__}: {error}", node=ref.node
        ) from error
    return definition


def _definitions(ref: FunctionRef, file: Path) -> list[tuple[str, Definition[Any, Any]]]:
    if main_file() == file:
        return list(held(sys.modules["__main__"]))
    importer = Importer.of(Path(ref.root))
    importer.refresh()
    importer.stops_at_runs = True
    try:
        return list(held(importer.load(file)))
    except Exception as error:
        raise LoadError(
            f"it can't be imported: {type(error).__name__}: {error}", node=ref.node, file=str(file)
        ) from error
    finally:
        importer.stops_at_runs = False

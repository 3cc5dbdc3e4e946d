"""How a worker finds a function: as a description, and back."""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barca.discovery.loader import Importer
from barca.discovery.nodes import Owners, held, main_file, project_modules
from barca.errors import LoadError
from barca.model import Definition, FunctionRef

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from barca._typing import NodeId


def function_ref(definition: Definition[..., Any], node_id: NodeId, root: Path) -> FunctionRef:
    """How a worker finds the function of a definition.

    A definition that a project file or script holds is found there by name; one that only a notebook cell,
    or the inside of a function, holds is pickled with what it uses.
    """
    owners = Owners(_module_of(definition))
    if not owners.holds(definition):
        owners = Owners(project_modules(root))
    file, name = owners.place(definition)
    if owners.holds(definition) and Path(file).is_file() and Path(file).suffix == ".py":
        return FunctionRef(node=node_id, root=str(root), file=os.path.realpath(file), name=name)
    import cloudpickle

    # what it reads travels as data, not as code
    alone = replace(definition, inputs={}, partitions={}, batch=None)
    return FunctionRef(node=node_id, root=str(root), pickled=cloudpickle.dumps(alone))


def _module_of(definition: Definition[..., Any]) -> Iterator[tuple[str, ModuleType]]:
    module = sys.modules.get(definition.__module__)
    if module is not None:
        yield getattr(module, "__file__", None) or definition.file, module


def load_function(ref: FunctionRef) -> Definition[..., Any]:
    """The definition that a reference describes; files are imported once, and again when they changed.

    Raises:
        LoadError: The file no longer imports, or no longer holds the definition.
    """
    root = Path(ref.root)
    importer = Importer.of(root)
    if ref.pickled is not None:
        if ref.root not in sys.path:
            sys.path.append(ref.root)
        unpickled: Definition[..., Any] = pickle.loads(ref.pickled)
        return unpickled
    file = Path(ref.file or "")
    definition = dict(_definitions(importer, ref, file)).get(ref.name or "")
    if definition is None:
        raise LoadError(
            f"`{ref.name}` is no longer in the file",
            node=ref.node,
            file=str(file),
            remediation="the file changed while the run was going on; run again",
        )
    return definition


def _definitions(importer: Importer, ref: FunctionRef, file: Path) -> list[tuple[str, Definition[Any, Any]]]:
    if main_file() == file:
        return list(held(sys.modules["__main__"]))
    importer.refresh()
    importer.stops_at_runs = True
    try:
        module = importer.load(file)
    except Exception as error:
        raise LoadError(
            f"it can't be imported: {type(error).__name__}: {error}", node=ref.node, file=str(file)
        ) from error
    return list(held(module))

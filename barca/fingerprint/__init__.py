"""The identity of a node's definition: its code with all that the code rests on.

`docs/concepts/hash-format.md` specifies the hash. Nothing here runs project code: names are resolved through
modules that are loaded already, and files are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from barca.fingerprint import components
from barca.fingerprint.cone import Cone
from barca.fingerprint.nodes import CodeNode, External
from barca.fingerprint.sources import Project
from barca.hashing import hash_fields
from barca.model import Fingerprint

if TYPE_CHECKING:
    from barca.model import Definition

__all__ = ["Fingerprinter", "fingerprint"]


def fingerprint(definition: Definition[..., Any], *, root: Path) -> Fingerprint:
    """The fingerprint of one definition; for several, a `Fingerprinter` shares the work.

    Args:
        definition: A decorated function.
        root: Project root: code below it is followed, other code counts by name.
    """
    return Fingerprinter(root).fingerprint(definition)


class Fingerprinter:
    """Fingerprints the definitions of one project as they are at this moment.

    Helpers that several definitions share are looked at once, so make a new one for every plan. Parsed files
    are kept for the whole process, by path, time and size.

    Args:
        root: Project root.
    """

    def __init__(self, root: Path) -> None:
        self._project = Project(str(Path(root).resolve()))
        self._cone = Cone(self._project)

    def fingerprint(self, definition: Definition[..., Any]) -> Fingerprint:
        """Hash, components, readable source and warnings of a definition.

        Never raises for odd code: what cannot be followed is a warning.
        """
        self._project.include(definition.file)
        function = definition.function
        primary = components.innermost(function)
        targets = [self._cone.follow(primary)]
        if primary is not function:
            targets.append(self._cone.follow(function, "decorator"))
        self._cone.settle()
        externals = [target.name for target in targets if isinstance(target, External)]
        roots = [
            node
            for target in targets
            for node in ((target,) if isinstance(target, CodeNode) else target.follows)
        ]
        order, edges = components.walk(roots)
        labels = components.labelled(order)
        arguments = hash_fields(components.argument_fields(definition))
        parts = {label: node.own for label, node in labels} | {"arguments": arguments}
        if not order:
            parts["function"] = hash_fields([("external", name) for name in externals])
        return Fingerprint(
            hash=components.definition_hash(arguments, externals, order, edges),
            components=dict(sorted(parts.items())),
            source=components.source_text(labels),
            warnings=components.warnings(definition, self._node_id(definition), labels, targets),
        )

    def _node_id(self, definition: Definition[..., Any]) -> str:
        name = getattr(definition.function, "__qualname__", "") or type(definition.function).__name__
        return definition.name or f"{self._project.label(definition.file)}:{name}"

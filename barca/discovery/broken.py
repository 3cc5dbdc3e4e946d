"""Turning what a project file raised into a load error."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barca.discovery.files import is_project_path
from barca.discovery.names import declared_nodes
from barca.errors import BarcaError
from barca.graph import BrokenFile
from barca.tracebacks import PACKAGE, of_user

if TYPE_CHECKING:
    from barca._typing import NodeId
    from barca.graph import Node
    from barca.model import Deferred


_IMPORTING: Final = "<frozen importlib"
"""Prefix of the file names of Python's import system."""


def broken_file(root: Path, file: Path, error: BaseException) -> BrokenFile:
    """A file that could not be imported, with the nodes that its text declares."""
    shown = _shown(root, file)
    try:
        nodes = declared_nodes(shown, file.read_bytes())
    except OSError:
        nodes = ()
    culprit = _shown(root, _origin(root, error) or file)
    return BrokenFile(
        shown, nodes, describe(error, root), user_traceback(error), culprit if culprit != shown else None
    )


def _shown(root: Path, file: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


def _origin(root: Path, error: BaseException) -> Path | None:
    """The project's file whose import raised, which may be one that the file imports."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame.filename for frame in frames if frame.name == "<module>"]
    if isinstance(error, SyntaxError) and error.filename:
        places.append(error.filename)
    own = (Path(place) for place in reversed(places) if not place.startswith((PACKAGE, _IMPORTING)))
    return next((place for place in own if is_project_path(root, place)), None)


def broken_node(node: Node, error: BaseException) -> BrokenFile:
    """A node whose declaration turned out to be wrong after its file was read."""
    path, own = node.definition.file, node.id.rpartition(":")[0]
    root = Path(path.removesuffix(own)) if own and path.endswith(f"/{own}") else Path("/")
    shown = own if root != Path("/") else path
    trace = error.traceback if isinstance(error, BarcaError) and error.traceback else user_traceback(error)
    if '\n  File "' not in trace:  # without a line of the project's it repeats the message
        trace = ""
    return BrokenFile(shown, (node.id,), describe(error, root), trace)


def broken_expression(
    node_id: NodeId, expression: Deferred, error: BaseException, helper: str = "partitions"
) -> BrokenFile:
    """A node whose expression in `partitions(...)`, or another helper, raised or gave something unfit."""
    path, own = expression.file, node_id.rpartition(":")[0]
    # a node with a name= does not say where it is
    root = Path(path.removesuffix(own)) if own and path.endswith(f"/{own}") else Path("/")
    shown = own if root != Path("/") else path
    where = f"{helper}({expression.source}) at {shown}:{expression.line}"
    return BrokenFile(shown, (node_id,), f"{describe(error, root)}\nin {where}", user_traceback(error))


def describe(error: BaseException, root: Path) -> str:
    """`ExceptionType: message`; of barca's own errors with file, line and hint."""
    told = _placed(error) if isinstance(error, BarcaError) else error
    text = f"{type(error).__name__}: {told}".removesuffix(": ")
    return text if root == root.parent else text.replace(f"{root}/", "")


def _placed(error: BarcaError) -> BarcaError:
    """The error with the line of the user's code that raised it, where it does not say."""
    frames = of_user(traceback.extract_tb(error.__traceback__), _IMPORTING)
    if error.file is not None or not frames:
        return error
    place: dict[str, Any] = {"file": frames[-1].filename, "line": frames[-1].lineno}
    return type(error)(error.message, **{**error.fields(), **place})


def user_traceback(error: BaseException) -> str:
    """The traceback without the frames of barca and of Python's import system."""
    summary = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = summary
    while part is not None:
        part.stack = traceback.StackSummary.from_list(of_user(part.stack, _IMPORTING))
        part = part.__cause__ or part.__context__
    return "".join(summary.format())

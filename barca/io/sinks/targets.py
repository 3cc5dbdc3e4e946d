"""What a declared sink is: a file, a dataset or a Delta table, where, and in which format."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from barca.decorators.places import local_path, uri_of
from barca.errors import SinkError
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barca._typing import NodeId
    from barca.model import SinkSpec

EXTENSIONS: Final = {
    ".json": "json",
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".parquet": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".ipc": "ipc",
    ".arrow": "ipc",
    ".feather": "ipc",
}
"""Formats by the extension of a path."""

_STORED: Final = {"table": "parquet", "json": "json", "pickle": "pickle", "keyed": "json"}


class Refused(Exception):
    """A place that is not the sink's to write to, as it is."""


class Target(Record):
    """A sink of a node.

    Attributes:
        spec: As declared.
        node: The node.
        dimensions: Of the node, declared order.
        root: Of the project.
    """

    spec: SinkSpec
    node: NodeId
    dimensions: tuple[str, ...]
    root: Path

    @property
    def path(self) -> str:
        """As declared."""
        return self.spec.path

    @property
    def kind(self) -> Literal["file", "dataset", "delta"]:
        """What it is."""
        if self.spec.format == "delta":
            return "delta"
        return "dataset" if self.spec.path.endswith("/") else "file"

    @property
    def uri(self) -> str | None:
        """Where it is in an object store, without a slash at its end; `None` on this machine."""
        return uri_of(self.spec.path)

    @property
    def local_path(self) -> Path:
        """Where it is on this machine."""
        return local_path(self.spec.path, self.root)

    def file_format(self, stored: str) -> str:
        """The format of a file sink, given the format of the stored result."""
        by_name = EXTENSIONS.get(PurePosixPath(self.spec.path).suffix.lower())
        return self.spec.serializer or by_name or _STORED[stored]

    def dataset_format(self, *, table: bool) -> str:
        """The format of a dataset's files: `parquet`, `csv` or `ndjson`."""
        declared = self.spec.serializer or ("parquet" if table else "json")
        return "ndjson" if declared == "json" else declared

    def file_name(self, key: Mapping[str, str]) -> str:
        """The name of the file of a key: the key stands before the extension."""
        name = PurePosixPath(self.spec.path)
        # several keys must not meet in one name, so that a value has no `_` where another may follow it
        safe = "" if len(self.dimensions) > 1 else "_"
        marks = [f"_{column}_{_encoded(key[column], safe)}" for column in self.dimensions]
        return f"{name.stem}{''.join(marks)}{name.suffix}"

    def error(self, error: BaseException) -> SinkError:
        """Why the sink could not be written."""
        return SinkError(f"sink {self.path}: {described(error)}", node=self.node)


def _encoded(value: str, safe: str) -> str:
    text = quote(value, safe="")
    return text if safe else text.replace("_", "%5F")


def described(error: BaseException) -> str:
    """`ExceptionType: message`, the first line of it."""
    if isinstance(error, SinkError):
        return f"{error.message}; {error.remediation}" if error.remediation else error.message
    if isinstance(error, Refused):
        return str(error)
    detail = getattr(error, "message", None) or str(error)
    first = str(detail).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {first}".removesuffix(": ")


def targets_of(
    sinks: Sequence[SinkSpec], node: NodeId, dimensions: Sequence[str], root: str | Path
) -> list[Target]:
    """The sinks of a node, as declared."""
    return [Target(spec, node, tuple(dimensions), Path(root)) for spec in sinks]

"""Publishing to a prefix in an object store, through fsspec.

Credentials are the ones that fsspec finds: environment variables, its configuration, the cloud's own files.
There are no renames: new objects are uploaded first, each of which is replaced whole, and old ones that the
new write does not have are deleted after.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from barca.errors import SinkError
from barca.io.sinks.hive import PART
from barca.io.sinks.staging import staging
from barca.io.sinks.strangers import is_hidden, refuse_strangers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
}


def open_filesystem(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path there.

    Raises:
        SinkError: The library for its scheme is not installed, or there is none.
    """
    from fsspec.core import url_to_fs

    scheme = uri.partition("://")[0]
    try:
        found: tuple[Any, str] = url_to_fs(uri, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        extra = _EXTRAS.get(scheme.lower(), "remote")
        raise SinkError(
            f"{uri} cannot be written: {error}",
            code="missing_extra",
            remediation=f"install the extra `barca[{extra}]`",
        ) from None
    return found


class RemoteDepot:
    """A `Depot` in an object store.

    Args:
        uri: The prefix, without a slash at its end.
        staging_home: A local directory in which files are prepared.
    """

    writers = 16

    def __init__(self, uri: str, staging_home: Path) -> None:
        self._fs, root = open_filesystem(uri)
        self._root = root.rstrip("/")
        self._home = staging_home

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """An empty local directory."""
        with staging(self._home) as own:
            yield own

    def read(self, name: str) -> bytes | None:
        """The content of an object, or `None`."""
        try:
            return bytes(self._fs.cat_file(self._place(name)))
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a small object."""
        self._fs.pipe_file(self._place(name), content)

    def visible(self, limit: int) -> list[str]:
        """Some of the objects that are not hidden."""
        start = len(self._root) + 1
        return sorted(path[start:] for path in self._find(""))[:limit]

    def flush(self, files: Sequence[str], directory: Path) -> None:
        """Prepared files do not stay where they are."""

    def require_replaceable(self) -> None:
        """Objects are replaced one by one."""

    def require_distinct(self, name: str) -> None:
        """Object stores tell all names apart."""

    def install(self, staged: Path, name: str) -> None:
        """Upload a prepared directory; then delete what stood there and is not replaced."""
        old = self._replaceable(name)
        files = [path for path in staged.rglob("*") if path.is_file()]
        places = [f"{self._place(name)}/{path.relative_to(staged).as_posix()}" for path in files]
        if files:
            self._fs.put([str(path) for path in files], places)
        gone = sorted(old - set(places))
        if gone:
            self._fs.rm(gone)

    def install_file(self, staged: Path, name: str) -> None:
        """Upload a prepared file."""
        self._fs.put_file(str(staged), self._place(name))

    def settle(self) -> None:
        """An upload is durable when it has ended."""

    def remove(self, name: str, aside: Path) -> bool:  # noqa: ARG002 - nothing is moved
        """Delete the objects below a name; whether there were any."""
        files = sorted(self._replaceable(name))
        if files:
            self._fs.rm(files)
        return bool(files)

    def remove_file(self, name: str) -> None:
        """Delete an object, if it is there."""
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._place(name))

    def directories(self, name: str) -> list[str]:
        """Names of the prefixes below a name that stand for values: `column=value`."""
        try:
            entries = self._fs.ls(self._place(name), detail=True)
        except FileNotFoundError:
            return []
        names = [
            entry["name"].rstrip("/").rpartition("/")[2] for entry in entries if entry["type"] == "directory"
        ]
        return [name for name in names if "=" in name]

    def remove_parts(self, name: str) -> None:
        """Delete the `part-0` and so on that stand directly below a name."""
        place = self._place(name)
        parted = {path: path.rpartition("/") for path in self._find(name)}
        gone = [path for path, (parent, _, own) in parted.items() if parent == place and PART.fullmatch(own)]
        if gone:
            self._fs.rm(gone)

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _replaceable(self, name: str) -> set[str]:
        """Objects below a name, all of them barca's, that are not hidden."""
        found, start = self._find(name), len(self._place(name)) + 1
        refuse_strangers((path[start:] for path in found), self._place(name))
        return found

    def _find(self, name: str) -> set[str]:
        """Objects below a name that are not hidden."""
        place = self._place(name)
        try:
            found = [str(path) for path in self._fs.find(place)]
        except FileNotFoundError:
            return set()
        return {path for path in found if not is_hidden(path[len(place) + 1 :])}

"""Where sinks are published to: a directory on this machine, or a prefix in an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barca.io.sinks.local import LocalDepot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from barca.io.sinks.targets import Target


class Depot(Protocol):
    """A prefix that sinks publish to. Names are relative to it, with `/` separators; `""` is the prefix.

    Attributes:
        writers: How many directories or files are best put there at a time.
    """

    writers: int

    def staging(self) -> AbstractContextManager[Path]:
        """An empty local directory in which files are prepared."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a file, or `None`."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a small file whole."""
        ...

    def visible(self, limit: int) -> list[str]:
        """Some of the files that are not hidden, as one is that begins with a dot, or stands below one."""
        ...

    def flush(self, files: Sequence[str], directory: Path) -> None:
        """Have prepared files on the disk, where that is where they stay."""
        ...

    def require_replaceable(self) -> None:
        """Make sure that a directory can be put in the place of the prefix itself.

        Raises:
            Refused: None can.
        """
        ...

    def require_distinct(self, name: str) -> None:
        """Make sure that the name of a key is not taken for that of another one; while staging.

        Raises:
            Refused: Another name is there that differs in case only, and those are the same there.
        """
        ...

    def install(self, staged: Path, name: str) -> None:
        """Have a prepared directory stand at a name, in the place of what stood there; hidden files stay.

        Raises:
            Refused: Others have put files there.
        """
        ...

    def install_file(self, staged: Path, name: str) -> None:
        """Have a prepared file stand at a name, in the place of what stood there."""
        ...

    def settle(self) -> None:
        """Have what was installed on the disk before returning."""
        ...

    def remove(self, name: str, aside: Path) -> bool:
        """Remove a directory, and those above that it leaves empty; whether there was one. Hidden files stay.

        Raises:
            Refused: Others have put files there.
        """
        ...

    def remove_file(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def directories(self, name: str) -> list[str]:
        """Names of the directories in a directory that stand for values: `column=value`."""
        ...

    def remove_parts(self, name: str) -> None:
        """Remove the `part-0` and so on that stand directly in a directory."""
        ...


def depot_of(target: Target) -> Depot:
    """The prefix of a dataset or Delta table, or the directory of a file.

    Raises:
        SinkError: The library for its scheme is not installed.
    """
    if target.uri is None:
        place = target.local_path
        return LocalDepot(place.parent, place.name) if target.kind == "file" else LocalDepot(place)
    from barca.io.sinks.remote import RemoteDepot

    prefix = target.uri.rpartition("/")[0] if target.kind == "file" else target.uri
    return RemoteDepot(prefix, target.root / ".barca" / "staging")

"""Publishing to a directory on this machine."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from barca.io.sinks.durable import flush_files
from barca.io.sinks.exchange import OCCUPIED, put_in_place
from barca.io.sinks.hive import PART
from barca.io.sinks.mounts import is_mount, told_as_mounts
from barca.io.sinks.staging import discard, staging, staging_home
from barca.io.sinks.strangers import entries, is_hidden, keep_hidden
from barca.io.sinks.targets import Refused
from barca.io.storage import flush_directory, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class LocalDepot:
    """A `Depot` on a local file system.

    Args:
        root: The directory; links to it are followed.
        file: The file in it that is published; `None` when it is the directory.
    """

    writers = 1

    def __init__(self, root: Path, file: str | None = None) -> None:
        self._root = Path(os.path.realpath(root))
        # beside what is published, or in it where that is the beginning of a file system of its own
        self._is_mount = file is None and is_mount(self._root)
        above = self._root if file is not None or self._is_mount else self._root.parent
        self._home = staging_home(above, file or self._root.name)
        self._inside: set[Path] = set()
        self._touched: set[Path] = set()
        self._names: dict[Path, dict[str, str]] = {}

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """An empty directory beside what is published, on the same file system."""
        with staging(self._home) as own:
            yield own

    def read(self, name: str) -> bytes | None:
        """The content of a file, or `None`."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a small file whole."""
        write_atomically(self._root / name, content)

    def visible(self, limit: int) -> list[str]:
        """Some of the files that are not hidden."""
        if self._root.exists() and not self._root.is_dir():
            return [self._root.name]
        return list(islice((name for name in entries(self._root) if not is_hidden(name)), limit))

    def flush(self, files: Sequence[str], directory: Path) -> None:
        """Have prepared files on the disk before they get their names."""
        flush_files(files, directory)

    def require_replaceable(self) -> None:
        """Refuse to replace a mount point."""
        if self._is_mount:
            raise Refused(
                f"{self._root} is a mount point, which cannot be replaced as a whole; name a directory in it"
            )

    def require_distinct(self, name: str) -> None:
        """Refuse a name that the file system takes for another one that is there."""
        if not self._folds_case:
            return
        place = self._root
        for part in name.split("/"):
            if place not in self._names:
                there = place.iterdir() if place.is_dir() else ()
                self._names[place] = {other.name.lower(): other.name for other in there}
            other = self._names[place].setdefault(part.lower(), part)
            if other != part:
                raise Refused(
                    f"{place / part} and {other}, which is there, differ in case only, and this file system "
                    "does not tell them apart; rename one of them"
                )
            place /= part

    @cached_property
    def _folds_case(self) -> bool:
        """Whether the file system takes capitals and small letters for the same; known while staging."""
        return self._home.with_name(self._home.name.upper()).exists()

    def install(self, staged: Path, name: str) -> None:
        """Have a prepared directory stand at a name; what stood there is left in the staging directory."""
        place = self._root / name if name else self._root
        parent = place.parent
        if name:
            self._require_inside(parent)
        with told_as_mounts(place):
            try:
                _put(staged, place)
            except FileNotFoundError:  # the first key there, or another process removed the last one
                parent.mkdir(parents=True, exist_ok=True)
                _put(staged, place)
        self._touched.add(parent)

    def install_file(self, staged: Path, name: str) -> None:
        """Have a prepared file stand at a name, or where the link at that name leads."""
        place = Path(os.path.realpath(self._root / name))
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, "a directory is there", str(place))
        with suppress(FileNotFoundError):
            staged.chmod(stat.S_IMODE(place.stat().st_mode))
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_relative_to(self._root):
            with told_as_mounts(place):
                staged.replace(place)
        else:  # a link led elsewhere, perhaps to another file system
            with told_as_mounts(place), staging(staging_home(place.parent, place.name)) as own:
                shutil.copy2(staged, own / "file")
                flush_files([str(own / "file")], own)
                (own / "file").replace(place)
        self._touched.add(place.parent)

    def settle(self) -> None:
        """Have the names that were given on the disk before returning."""
        while self._touched:
            flush_directory(self._touched.pop())

    def remove(self, name: str, aside: Path) -> bool:
        """Remove a directory, and those above that it leaves empty; whether there was one.

        Hidden files in it stay.
        """
        place = self._root / name
        self._require_inside(place.parent)
        if not os.path.lexists(place):
            return False
        hidden = aside.with_name(f"hidden-{aside.name}")
        keep_hidden(place, hidden)
        with told_as_mounts(place):
            place.rename(aside)
        discard(aside)
        if hidden.exists():
            hidden.rename(place)
            return True
        for above in place.parents:
            if above == self._root:
                break
            try:
                above.rmdir()
            except OSError:  # other keys are in it
                break
        return True

    def remove_file(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._root / name).unlink(missing_ok=True)

    def directories(self, name: str) -> list[str]:
        """Names of the directories in a directory that stand for values: `column=value`; no links to any."""
        try:
            entries = list(os.scandir(self._root / name if name else self._root))
        except FileNotFoundError:
            return []
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and "=" in entry.name]

    def remove_parts(self, name: str) -> None:
        """Remove the `part-0` and so on that stand directly in a directory."""
        for path in (self._root / name if name else self._root).glob("part-*"):
            if PART.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def _require_inside(self, parent: Path) -> None:
        """Refuse to go through a link, which leads out of the prefix, or to the directories of other keys."""
        if parent in self._inside or parent == self._root:
            return
        real = Path(os.path.realpath(parent))
        if real != parent:
            where = "to other keys" if real.is_relative_to(self._root) else "out of the prefix"
            raise PermissionError(errno.EPERM, f"a link there leads {where}", str(parent))
        self._inside.add(parent)


def _put(staged: Path, place: Path) -> None:
    """Have a directory stand at a place: in one step where nothing is, or an empty directory."""
    try:
        staged.rename(place)
    except OSError as error:
        if error.errno not in OCCUPIED:
            raise
        keep_hidden(place, staged)
        put_in_place(staged, place, staged.with_name(f"old-{staged.name}"))

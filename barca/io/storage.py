"""Files that are either whole or not there, and the directory that holds packs.

Everything is written under a staging name in the directory it belongs to, flushed to the disk, and renamed;
the directory is flushed after. A reader, or a machine that loses power, never meets half a file under a
pack's name. Leftovers of processes that were killed keep their staging name and are removed by `sweep`.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import FragmentError, StoreError
from barca.hashing import hash_text
from barca.io.leftovers import STAGING_PREFIX, files_below, is_staging, leftovers
from barca.io.packs import CAST_OPTIONS, WRITE_OPTIONS, check_pack, pack_metadata, pack_schema
from barca.schemas import PATH, SIZE_BYTES, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MODIFIED_AT: Final = "modified_at"
PACK_LISTING: Final = pl.Schema({PATH: pl.String(), SIZE_BYTES: pl.Int64(), MODIFIED_AT: TIMESTAMP})
"""What `PackStore.list` returns. `modified_at`: when the file was last written."""

# --- whole files ------------------------------------------------------------------------------------


def flush_file(path: Path) -> None:
    """Have the content of a file on the disk before returning."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_directory(path: Path) -> None:
    """Have the names in a directory on the disk before returning, where the system can do that."""
    try:
        flush_file(path)
    except PermissionError:
        if os.name != "nt":  # Windows opens no directories; its renames are journalled
            raise


def make_directory(path: Path) -> None:
    """Make a directory and its parents; each new name is on the disk before returning."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    flush_directory(path.parent)


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """A staging name beside `path` to write to; renamed to `path` at the end, removed on any error.

    What the block raises for other reasons than the file system passes through: a query that is sunk may
    fail for reasons of its own.

    Raises:
        StoreError: The file system refused: full, read-only, too large.
    """
    staging = path.parent / f"{STAGING_PREFIX}{os.getpid()}-{uuid.uuid4().hex}"
    try:
        with _refusals(path):
            make_directory(path.parent)
        try:
            yield staging
        except (OSError, pl.exceptions.PolarsError) as error:
            if _is_refusal(error) or not os.access(path.parent, os.W_OK):
                raise _refused(path, error) from error
            raise
        with _refusals(path):
            flush_file(staging)
            staging.replace(path)
            flush_directory(path.parent)
    finally:
        with suppress(OSError):
            staging.unlink(missing_ok=True)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _refused(path, error) from error


def _is_refusal(error: BaseException) -> bool:
    """Whether the disk is full, or the like; Polars wraps such an error in one of its own."""
    number = getattr(error, "errno", None)
    if number is None and (match := re.search(r"\(os error (\d+)\)", str(error))):
        number = int(match[1])
    return number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def _refused(path: Path, error: BaseException) -> StoreError:
    return StoreError(
        f"`{path}` could not be written: {getattr(error, 'strerror', None) or error}",
        code="store_write",
        remediation="check the free space and the permissions of its directory",
        file=str(path),
    )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that may be lost in a power cut; a reader sees the old content or the new, never a part.

    Raises:
        StoreError: The file system refused.
    """
    staging = path.parent / f"{STAGING_PREFIX}{os.getpid()}-{uuid.uuid4().hex}"
    try:
        with _refusals(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            staging.write_bytes(content)
            staging.replace(path)
    finally:
        with suppress(OSError):
            staging.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole and durably; a reader sees the old content or the new, never a part.

    Raises:
        StoreError: The file system refused.
    """
    with staged(path) as staging:
        staging.write_bytes(content)


# --- names ------------------------------------------------------------------------------------------

_PLAIN_NODE = re.compile(r"[a-z0-9_][a-z0-9_.-]*(?:/[a-z0-9_][a-z0-9_.-]*)*(?::[a-z0-9_]+)?")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")
_MAX_DIRECTORY: Final = 96


def node_directory(node: str) -> str:
    """The directory name of a node's packs: one path component, safe on every file system, injective.

    An ordinary id keeps its text, `/` as `+`, `:` as `@`: `flows/daily.py:clean` is `flows+daily.py@clean`.
    An id that is long, holds other characters, or upper-case ones that a file system could confuse, is a
    readable prefix, `~` and its hash.
    """
    name = node.replace("/", "+").replace(":", "@")
    plain = _PLAIN_NODE.fullmatch(node) and not _RESERVED.fullmatch(name) and not name.endswith(".")
    if plain and len(name) <= _MAX_DIRECTORY:
        return name
    prefix = re.sub(r"[^a-z0-9_]+", "-", node.lower()).strip("-")[:40]
    return f"{prefix}~{hash_text(node)}"


_UNSAFE_PART = re.compile(r"|\.\.?|.*[\x00\\].*", re.DOTALL)


def check_path(path: str) -> None:
    """Make sure that a pack's path is relative and stays inside its store.

    Raises:
        StoreError: It does not.
    """
    if path.startswith("/") or any(_UNSAFE_PART.fullmatch(part) for part in path.split("/")):
        raise StoreError(
            f"`{path}` is not a path in a store: it must be relative and stay inside",
            code="store_path",
            file=path,
        )


# --- packs ------------------------------------------------------------------------------------------


class FilePackStore:
    """A `PackStore` on a local directory. Making one, and reading, creates no files.

    Attributes:
        root: The directory; its packs are `<node directory>/<id>.parquet`.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._checked: dict[str, tuple[int, int, int]] = {}

    def __repr__(self) -> str:
        return f"FilePackStore({str(self.root)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "_checked": {}}

    def write(self, path: str, frame: pl.DataFrame, metadata: dict[str, str]) -> int:
        """Write a pack whole and durably: staged, flushed, renamed; see `ports.PackStore`.

        Returns:
            Its size in bytes.

        Raises:
            StoreError: The file system refused, or the path leaves the store.
            polars.exceptions.PolarsError: Parquet cannot hold the frame.
        """
        with self._staged(path) as staging:
            frame.write_parquet(staging, metadata=metadata, **WRITE_OPTIONS)
            return staging.stat().st_size

    def sink(self, path: str, frame: pl.LazyFrame, metadata: dict[str, str]) -> int:
        """As `write`, from the streaming engine; what the query raises passes through.

        See `ports.PackStore`.
        """
        with self._staged(path) as staging:
            frame.sink_parquet(staging, metadata=metadata, engine="streaming", **WRITE_OPTIONS)
            return staging.stat().st_size

    @contextmanager
    def _staged(self, path: str) -> Iterator[Path]:
        check_path(path)
        with staged(self.root / path) as staging:
            yield staging

    def scan(self, paths: Sequence[str], schema: pl.Schema | None = None) -> pl.LazyFrame:
        """One lazy scan over packs; with `schema`, missing columns are null and others left out.

        No paths give no rows. The rows of each pack keep their order, packs are in the order of `paths`.

        Raises:
            FragmentError: A pack is missing, unreadable, or not the one that was written.
        """
        if not paths:
            return pl.LazyFrame(schema=schema)
        for path in paths:
            self._check(path)
        return pl.scan_parquet(
            [self.root / path for path in paths],
            schema=schema,
            missing_columns="insert",
            extra_columns="ignore",
            cast_options=CAST_OPTIONS,
            glob=False,
            hive_partitioning=False,
        )

    def schema(self, path: str) -> pl.Schema:
        """The schema of a pack, from its footer.

        Raises:
            FragmentError: As `scan`.
        """
        self._check(path)
        return pack_schema(path, self.root / path)

    def metadata(self, path: str) -> dict[str, str]:
        """The key-value metadata of a pack, from its footer.

        Raises:
            FragmentError: As `scan`.
        """
        self._check(path)
        return pack_metadata(path, self.root / path)

    def probe(self, paths: Sequence[str]) -> list[str]:
        """Of the paths, those that can't be read as the packs that were written there, each once."""
        broken = []
        for path in dict.fromkeys(paths):
            try:
                self._check(path)
            except FragmentError:
                broken.append(path)
        return broken

    def stamps(self, paths: Iterable[str]) -> dict[str, str]:
        """Of each pack that is there, its inode, size and time of change."""
        found = {}
        for path in paths:
            check_path(path)
            with suppress(OSError):
                status = (self.root / path).stat()
                found[path] = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
        return found

    def _check(self, path: str) -> None:
        """Look at a pack's footer, unless the file is still the one that was looked at before."""
        check_path(path)
        file = self.root / path
        try:
            status = file.stat()
        except OSError:
            seen = None
        else:
            seen = (status.st_ino, status.st_size, status.st_mtime_ns)
        if seen is None or self._checked.get(path) != seen:
            check_pack(path, file)
        if seen is not None:
            self._checked[path] = seen

    def remove(self, paths: Sequence[str]) -> None:
        """Delete packs; those already gone are passed over."""
        for path in paths:
            check_path(path)
            try:
                (self.root / path).unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(
                    f"`{self.root / path}` could not be deleted: {error.strerror or error}",
                    code="store_remove",
                    file=str(self.root / path),
                ) from error
            self._checked.pop(path, None)

    def touch(self, paths: Iterable[str]) -> None:
        """Stamp packs as modified now; those that are gone are passed over."""
        for path in paths:
            check_path(path)
            with suppress(OSError):
                os.utime(self.root / path)

    def names(self, directory: str) -> list[str]:
        """Names of the packs in a directory of the store, sorted; none where it is not there."""
        check_path(directory)
        try:
            found = os.listdir(self.root / directory)  # noqa: PTH208  # thousands, where runs are frequent
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(filter(_is_pack, found))

    def modified_at(self, path: str) -> datetime | None:
        """When a pack was written, or stamped as modified; `None` where it is gone."""
        check_path(path)
        try:
            microseconds = _written_at((self.root / path).stat())
        except FileNotFoundError:
            return None
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)

    def listing(self) -> pl.DataFrame:
        """Every pack, sorted by path, as a frame of `PACK_LISTING`; `path` is relative to `root`."""
        rows = [
            (file.relative_to(self.root).as_posix(), status.st_size, _written_at(status))
            for file, status in files_below(self.root, _is_pack)
        ]
        raw = pl.Schema({**PACK_LISTING, MODIFIED_AT: pl.Int64()})
        return pl.DataFrame(rows, schema=raw, orient="row").cast(PACK_LISTING).sort(PATH)

    def files(self, paths: Sequence[str]) -> list[Path]:
        """The files that packs are, in their order."""
        return [self.root / path for path in paths]

    @property
    def scratch(self) -> Path:
        """The store's own directory: what passes through it fits there too."""
        return self.root

    def sweep(self) -> int:
        """Remove what killed processes left under staging names an hour ago or longer; how many files."""
        swept = leftovers(self.root)
        for file in swept:
            file.unlink(missing_ok=True)
        return len(swept)


def _written_at(status: os.stat_result) -> int:
    """When a file was written, in whole microseconds since the epoch: as a float it could be one more."""
    return status.st_mtime_ns // 1000


def _is_pack(name: str) -> bool:
    return name.endswith(".parquet") and not is_staging(name)

"""What every store of packs shares: how packs are written, scanned and checked."""

from __future__ import annotations

from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import FragmentError
from barca.io.footer import verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRITE_OPTIONS: Final[dict[str, Any]] = {
    "compression": "zstd",
    "compression_level": 1,
    "statistics": True,
    "row_group_size": 20_000,
}
"""How Parquet is written, fixed so that equal frames give equal files. Level 3 is a third slower for 2% less.
A row group is what readers can skip by key."""

CAST_OPTIONS: Final = pl.ScanCastOptions(
    integer_cast="upcast",
    float_cast="upcast",
    missing_struct_fields="insert",
    categorical_to_string="allow",
    _internal_call=True,  # no warning that the class is unstable: the minimum version of Polars is pinned
)
"""Which differences between packs and the asked schema a scan bridges: lossless ones."""

_MAGIC: Final = b"PAR1"
_SMALLEST: Final = 12  # two magic words and the length of the footer


def is_panic(error: BaseException) -> bool:
    """Whether a Rust extension panicked: such errors are no `Exception`, and each extension has its own."""
    return type(error).__name__ == "PanicException"


def check_pack(path: str, source: Path | bytes) -> dict[str, Any]:
    """Read a pack's footer and make sure that it is the pack that was written at `path`.

    Args:
        path: Of the pack, relative to its store.
        source: The file, or its content.

    Returns:
        The footer's `barca` entry, see `barca.io.footer`.

    Raises:
        FragmentError: It is missing, cut short, not Parquet, or another pack.
    """
    with readable(path):
        whole = is_parquet(source)
    if not whole:
        raise _unreadable(path, "it is not a whole Parquet file")
    return verify(path, pack_metadata(path, source))


def pack_metadata(path: str, source: Path | bytes) -> dict[str, str]:
    """The key-value metadata of a pack's footer.

    Raises:
        FragmentError: The footer cannot be read.
    """
    with readable(path):
        return pl.read_parquet_metadata(source)


def pack_schema(path: str, source: Path | bytes) -> pl.Schema:
    """The schema in a pack's footer.

    Raises:
        FragmentError: The footer cannot be read.
    """
    with readable(path):
        return pl.Schema(pl.read_parquet_schema(source))


def missing(path: str) -> FragmentError:
    """The error for a pack that is not there."""
    return FragmentError(
        f"the pack `{path}` is missing",
        code="fragment_missing",
        remediation="run again: the keys it held are computed again",
        file=path,
    )


def is_parquet(source: Path | bytes) -> bool:
    """Whether something begins and ends as a whole Parquet file does.

    Polars panics at some files of which this is not true.

    Raises:
        OSError: The file cannot be read.
    """
    with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        head = file.read(4)
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        tail = file.read(8)
    whole = size >= _SMALLEST and head == _MAGIC and tail[4:] == _MAGIC
    return whole and int.from_bytes(tail[:4], "little") <= size - _SMALLEST


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn whatever reading the pack at `path` raises, panics too, into `FragmentError`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise missing(path) from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, str(error)) from error
    except BaseException as error:
        if is_panic(error):
            raise _unreadable(path, str(error)) from error
        raise


def _unreadable(path: str, why: str) -> FragmentError:
    return FragmentError(
        f"the pack `{path}` cannot be read: {why}",
        code="fragment_unreadable",
        remediation="delete the file and run again: the keys it held are computed again",
        file=path,
    )

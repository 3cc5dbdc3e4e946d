"""Where the path of a sink leads: a path on this machine, or a URI of an object store."""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MARKER: Final = "_barca_sink.json"
"""The name of the file at the prefix of a dataset or Delta table that says whose it is."""

_SCHEME: Final = r"([A-Za-z][A-Za-z0-9+.-]+)://"
"""Text: `import barca` waits for no regular expression to be compiled."""
_LOCAL: Final = ("file", "local")
_SAME: Final = {"s3a": "s3", "gcs": "gs", "abfss": "abfs", "az": "abfs"}
"""Schemes that lead to the same store."""


def uri_of(path: str) -> str | None:
    """Where a path leads in an object store, without a slash at its end; `None` on this machine."""
    scheme = re.match(_SCHEME, path)
    if scheme is None or scheme[1].lower() in _LOCAL:
        return None
    return path.rstrip("/")


def local_path(path: str, root: Path) -> Path:
    """Where a path leads on this machine, seen from a directory."""
    from pathlib import Path  # which a file that imports barca may do without

    return Path(os.path.normpath(root / Path(re.sub(_SCHEME, "", path, count=1)).expanduser()))


def place_of(path: str, root: Path) -> str:
    """What the paths have in common that lead to one place, whatever links are on the way."""
    uri = uri_of(path)
    if uri is None:
        return os.path.realpath(local_path(path, root))
    scheme, _, rest = uri.partition("://")
    return f"{_SAME.get(scheme.lower(), scheme.lower())}://{rest}"


def is_nowhere(path: str) -> bool:
    """Whether a path names no file or directory of its own: `.`, `..`, `/`, `~`, `s3://`, `s3://bucket`."""
    uri = uri_of(path)
    if uri is not None:
        bucket, _, name = uri.partition("://")[2].partition("/")
        return not bucket or not (name or path.endswith("/"))
    name = posixpath.basename(posixpath.normpath(re.sub(_SCHEME, "", path, count=1)))
    return name in {"", ".", "..", "~"}

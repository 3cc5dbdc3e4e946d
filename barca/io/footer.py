"""What a pack says about itself in its Parquet footer, and the check that a file is the pack it should be.

The footer's key-value metadata holds one entry, `barca`, a JSON object: `version` of the pack layout, `path`
of the pack in its store, `node`, the `polars` version that wrote it, and what the writer of fragments adds
(`format`, `columns`, `engine`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import FragmentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca._typing import NodeId

ENTRY: Final = "barca"
"""Name of the footer's metadata entry."""

PACK_VERSION: Final = 1
"""Raised when packs change so that older code would misread them."""


def footer(node: NodeId, path: str, **fields: Any) -> dict[str, str]:
    """Metadata for `PackStore.write`: whose pack it is and where it belongs.

    Args:
        node: Node whose call writes the pack.
        path: Of the pack, relative to its store.
        **fields: More entries of the JSON object; JSON values.
    """
    entry = {"version": PACK_VERSION, "path": path, "node": node, "polars": pl.__version__, **fields}
    return {ENTRY: json.dumps(entry, ensure_ascii=False, separators=(",", ":"))}


def verify(path: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object of a pack's footer, once it is sure that the pack belongs at `path`.

    Every `PackStore` calls this before it hands out rows, so that a file of another node, or of another
    call of the same node, is never read in place of the one that was written.

    Args:
        path: Where the pack was found, relative to its store.
        metadata: Key-value metadata of its Parquet footer.

    Raises:
        FragmentError: The footer has no such entry, is of a newer layout, or names another path.
    """
    try:
        entry = json.loads(metadata[ENTRY])
        version, written_at, node = entry["version"], entry["path"], entry["node"]
    except (KeyError, TypeError, ValueError):
        raise FragmentError(
            f"`{path}` is not a pack: its footer does not say whose it is",
            code="fragment_foreign",
            remediation="delete the file; the keys it held are computed again",
            file=path,
        ) from None
    if not isinstance(version, int) or version > PACK_VERSION:
        raise FragmentError(
            f"`{path}` was written by a newer barca (pack layout {version}, this one reads {PACK_VERSION})",
            code="fragment_newer",
            remediation="upgrade barca",
            node=node,
            file=path,
        )
    if written_at != path:
        raise FragmentError(
            f"`{path}` holds the pack that was written to `{written_at}` by `{node}`",
            code="fragment_swapped",
            remediation="delete the file; the keys it held are computed again",
            node=node,
            file=path,
        )
    return dict(entry)

"""Current results as files for others: a directory with one directory for each key, or a single file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barca.decorators.places import MARKER
from barca.errors import SinkError, UsageError, did_you_mean
from barca.graph import short_name
from barca.io.annotations import return_annotation
from barca.io.sinks.contents import read_contents
from barca.io.sinks.dataset import DatasetSink
from barca.io.sinks.local import LocalDepot
from barca.io.sinks.marker import Marker, read_marker, refuse_nested
from barca.io.sinks.publishing import write_all
from barca.io.sinks.strangers import entries, is_hidden
from barca.io.sinks.targets import EXTENSIONS, Refused, Target, described
from barca.io.sinks.writing import TableFile, write_tables
from barca.io.storage import staged
from barca.model import SinkSpec
from barca.partitions import display_text
from barca.project.queries import view
from barca.project.request import selection_of
from barca.schemas import ROWS

if TYPE_CHECKING:
    import polars as pl

    from barca.graph import Node
    from barca.project.current import Current
    from barca.project.request import Selection

FORMATS: Final = ("parquet", "csv", "ndjson", "ipc")
"""Formats of exported files."""


def export(
    current: Current,
    node: Node,
    place: Path,
    *,
    format: str | None = None,  # noqa: A002  # as the option is called
    partition: Selection = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write the current results of a node to files; whatever happens, the old ones are there or the new ones.

    Args:
        current: What nodes hold.
        node: The node.
        place: A file when it has the extension of a format, else a directory: `shop=r1/part-0.parquet` and so
            on for the keys of a partitioned node, `part-0.parquet` for the only key of another. A directory
            that an earlier export of the node has written is replaced.
        format: One of `FORMATS`; else as the extension says, or Parquet.
        partition: Dimension to values; only these keys.
        overwrite: Whether a file that is there is replaced.

    Returns:
        `target, path, format, keys, files, rows, bytes`, JSON-writable; `rows` of results that are tables.

    Raises:
        UsageError: There is no result, the place and the format do not fit, or files of others are there.
        SinkError: A file could not be written, or its format cannot hold a result.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(
            f"format `{format}` is unknown", code="export_format", remediation=did_you_mean(format, FORMATS)
        )
    held = current.held(node, selection_of(partition))
    by_name = EXTENSIONS.get(place.suffix.lower())
    place = Path(os.path.realpath(place))
    if by_name is None and place.is_file():
        raise _unfit(place, f"`{place.name}` is a file whose extension names no format")
    if by_name is None or place.is_dir():
        chosen = format or "parquet"
        files = _directory(current, node, held, place, chosen)
    else:
        chosen = _of_file(place, by_name, format)
        files = _file(current, node, held, place, chosen, overwrite=overwrite)
    return {
        "target": node.id,
        "path": str(place),
        "format": chosen,
        "keys": held.height,
        "files": len(files),
        "rows": int(held.get_column(ROWS).sum()),
        "bytes": sum(file.stat().st_size for file in files),
    }


def _of_file(place: Path, by_name: str, format_: str | None) -> str:
    if by_name not in FORMATS or format_ not in (None, by_name):
        raise _unfit(place, f"`{place.name}` is no file of the format `{format_ or by_name}`")
    return by_name


def _unfit(place: Path, why: str) -> UsageError:
    known = ", ".join(extension for extension, form in EXTENSIONS.items() if form in FORMATS)
    return UsageError(
        why,
        code="export_format",
        file=str(place),
        remediation=f"name a file that ends in {known}, or a directory",
    )


# --- one file ---------------------------------------------------------------------------------------


def _file(
    current: Current, node: Node, held: pl.DataFrame, place: Path, form: str, *, overwrite: bool
) -> list[Path]:
    """All keys as one file, the dimensions its first columns."""
    if place.exists() and not overwrite:
        raise UsageError(
            f"`{place}` is there already",
            code="export_exists",
            node=node.id,
            remediation="give --overwrite to replace it, or name another file",
        )
    table = view(current, node, held)
    with staged(place) as staging:
        failures = write_tables([TableFile(table, str(staging), form)])
        if failures:
            raise _failed(node, described(failures[0]))
    return [place]


# --- a directory ------------------------------------------------------------------------------------


def _directory(current: Current, node: Node, held: pl.DataFrame, place: Path, form: str) -> list[Path]:
    """A directory for each key, all of them prepared beside the place and then put there in one step."""
    spec = SinkSpec(path=f"{place}/", serializer=form)
    target = Target(spec, f"export of {node.id}", node.dimensions, place)
    depot = LocalDepot(place)
    try:
        _require_ours(target, depot, node)
        with depot.staging() as own:
            tree = own / "tree"
            _write(current, node, held, target, tree)
            depot.install(tree, "")
            depot.settle()
    except Refused as error:
        raise UsageError(str(error), code="export_refused", node=node.id) from error
    return [place / name for name in entries(place) if not is_hidden(name) and name != MARKER]


def _write(current: Current, node: Node, held: pl.DataFrame, target: Target, tree: Path) -> None:
    tree.mkdir()
    depot = LocalDepot(tree)
    depot.write(MARKER, Marker.of(target).content())
    annotation = None if node.definition.batch is not None else return_annotation(node.definition.function)
    with depot.staging() as staging:
        contents = read_contents(current.store, held, annotation, node.dimensions)
        for key, why in write_all(DatasetSink(target, depot, staging), contents).items():
            raise _failed(node, why, display_text(key) or None)


def _require_ours(target: Target, depot: LocalDepot, node: Node) -> None:
    """Refuse a directory that is not that of an earlier export of the node, and not empty.

    Raises:
        Refused: It is another's, or a mount point.
    """
    depot.require_replaceable()
    found = read_marker(target, depot)
    if found is None:
        if strange := depot.visible(4):
            raise Refused(
                f"{target.path} holds files that no export of `{short_name(node.id)}` has written "
                f"({', '.join(strange)}); name a new directory, or empty it"
            )
        refuse_nested(target)
    elif found.asset != target.node:
        raise Refused(f"{target.path} belongs to {found.asset}; name a new directory, or empty it")


def _failed(node: Node, why: str, key: str | None = None) -> SinkError:
    return SinkError(
        f"the result cannot be exported: {why}",
        code="export_failed",
        node=node.id,
        key=key,
        remediation="values that are no tables can be exported as ndjson, or to one file",
    )

"""The file at the beginning of a prefix that says which asset owns it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from barca.decorators.places import MARKER
from barca.io.sinks.strangers import is_ours
from barca.io.sinks.targets import Refused
from barca.records import Record, fields_of, replace

if TYPE_CHECKING:
    from barca.io.sinks.depots import Depot
    from barca.io.sinks.targets import Target


class Marker(Record):
    """What stands in `_barca_sink.json`.

    Attributes:
        asset: Node id of the owner.
        dimensions: Of the owner, declared order.
        partition_by: Columns with levels of their own.
        format: Of the files; `None` when the result decides.
        unfinished: Whether some keys may be laid out in another way still.
    """

    asset: str
    dimensions: list[str]
    partition_by: list[str]
    format: str | None
    unfinished: bool = False

    @classmethod
    def of(cls, target: Target) -> Marker:
        """The marker that a target writes."""
        spec = target.spec
        form = spec.format or spec.serializer
        return cls(target.node, list(target.dimensions), list(spec.partition_by), form)

    @property
    def layout(self) -> tuple[list[str], list[str], str]:
        """What all keys of a dataset have in common, for them to be read as one."""
        form = {None: "parquet", "ndjson": "json"}.get(self.format, self.format)
        return self.dimensions, self.partition_by, str(form)

    def content(self) -> bytes:
        """The file."""
        fields = fields_of(self)
        if not self.unfinished:
            del fields["unfinished"]
        return (json.dumps(fields, indent=2) + "\n").encode()


def claim(target: Target, depot: Depot) -> Marker | None:
    """Make sure that the prefix is the target's, or nobody's, in which case it is marked.

    Returns:
        The marker that stood there before.

    Raises:
        Refused: It holds files of others, another asset owns it, its keys are laid out in another way, or it
            cannot be replaced as it would have to be.
    """
    if target.kind == "dataset" and not target.dimensions:
        depot.require_replaceable()
    own = Marker.of(target)
    found = read_marker(target, depot)
    if found is None:
        strange = depot.visible(4)
        if not strange:
            refuse_nested(target)
            depot.write(MARKER, own.content())
            return None
        # or another worker has begun to write since: the marker comes before the files
        found = read_marker(target, depot)
        if found is None:
            raise Refused(_unmarked(target, strange))
    if found.asset != target.node:
        raise Refused(
            f"the {target.kind} prefix {target.path} belongs to the asset {found.asset}; two assets cannot "
            "share a prefix: point the sink at a new one, or empty the old one"
        )
    if found.format == "delta" and own.format != "delta":
        raise Refused(f"{target.path} is a Delta table; point the sink at a new prefix, or empty the old one")
    if found.format != "delta" and own.format == "delta":
        raise Refused(f"{target.path} is a dataset; point the sink at a new prefix, or empty the old one")
    if target.kind == "dataset" and target.dimensions and found.layout != own.layout:
        raise Refused(
            f"the dataset {target.path} has {_layout(found)}, and now should have {_layout(own)}; "
            "run the asset whole, without --partition, to write every key so"
        )
    return found


def renew(target: Target, depot: Depot) -> bool | None:
    """Before all keys of a dataset are written: have its marker name the layout that they get.

    Returns:
        Whether something that is laid out in another way may be left when they are written; `None` where
        the dataset is not there yet.

    Raises:
        Refused: The marker cannot be read.
    """
    own, found = Marker.of(target), read_marker(target, depot)
    if found is None or found.asset != own.asset or found.format == "delta":
        return None  # or refused, which is told when keys are written
    if found.layout != own.layout:
        depot.write(MARKER, replace(own, unfinished=True).content())
        return True
    return found.unfinished


def _unmarked(target: Target, names: list[str]) -> str:
    back = ", or put the file back if barca wrote it"
    if any(name.startswith("_delta_log/") for name in names):
        what, fix = f"holds a Delta table and no {MARKER}", back
    elif all(map(is_ours, names)):
        what, fix = f"holds files of a dataset ({', '.join(names)}) and no {MARKER}", back
    else:
        what, fix = f"holds files barca did not write ({', '.join(names)})", ""
    return (
        f"the {target.kind} prefix {target.path} {what}; point the sink at a new prefix, or empty the old "
        f"one{fix}"
    )


def _layout(marker: Marker) -> str:
    dimensions, by, form = marker.layout
    return f"{form} files in {'/'.join(f'{name}=' for name in (*dimensions, *by)) or 'no'} directories"


def refuse_nested(target: Target) -> None:
    """Refuse a sink inside of another one's prefix, which would be deleted when that is replaced.

    Raises:
        Refused: It is inside of one.
    """
    if target.uri is not None:
        return
    for above in target.local_path.parents:
        if (above / MARKER).is_file():
            raise Refused(
                f"the {target.kind} {'' if target.kind == 'file' else 'prefix '}{target.path} is inside of "
                f"{above}, which is a sink of its own; point the sink elsewhere"
            )


def read_marker(target: Target, depot: Depot) -> Marker | None:
    """The marker that stands at a prefix, or `None`.

    Raises:
        Refused: It cannot be read.
    """
    content = depot.read(MARKER)
    if content is None:
        return None
    try:
        fields: dict[str, Any] = json.loads(content)
        return Marker(
            fields["asset"],
            list(fields["dimensions"]),
            list(fields["partition_by"]),
            fields["format"],
            fields.get("unfinished", False),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{target.path}{MARKER} cannot be read: {error}") from error

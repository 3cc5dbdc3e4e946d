"""The file at the beginning of a prefix that says which asset owns it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barca.io.sinks.depots import Depot
    from barca.io.sinks.targets import Target

MARKER: Final = "_barca_sink.json"


class Refused(Exception):
    """A prefix that is not the sink's to write to."""


@dataclass(frozen=True, slots=True)
class Marker:
    """What stands in `_barca_sink.json`.

    Attributes:
        asset: Node id of the owner.
        dimensions: Of the owner, declared order.
        partition_by: Columns with levels of their own.
        format: Of the files; `None` when the result decides.
    """

    asset: str
    dimensions: list[str]
    partition_by: list[str]
    format: str | None

    @classmethod
    def of(cls, target: Target) -> Marker:
        """The marker that a target writes."""
        spec = target.spec
        form = spec.format or spec.serializer
        return cls(target.node, list(target.dimensions), list(spec.partition_by), form)

    def content(self) -> bytes:
        """The file."""
        return (json.dumps(asdict(self), indent=2) + "\n").encode()


def claim(target: Target, depot: Depot) -> Marker | None:
    """Make sure that the prefix is the target's, or nobody's, in which case it is marked.

    Returns:
        The marker that stood there before.

    Raises:
        Refused: It holds files of others, or another asset owns it.
    """
    own = Marker.of(target)
    found = _read(target, depot)
    if found is None and depot.is_vacant():
        refuse_nested(target)
        depot.write(MARKER, own.content())
        return None
    if found is None:  # or another worker has begun to write since: the marker comes before the files
        found = _read(target, depot)
    if found is None:
        raise Refused(
            f"the {target.kind} prefix {target.path} holds files barca did not write; "
            "point the sink at a new prefix, or empty the old one"
        )
    if found.asset != target.node:
        raise Refused(
            f"the {target.kind} prefix {target.path} belongs to the asset {found.asset}; two assets cannot "
            "share a prefix: point the sink at a new one, or empty the old one"
        )
    if found.format == "delta" and own.format != "delta":
        raise Refused(f"{target.path} is a Delta table; point the sink at a new prefix, or empty the old one")
    if found.format != "delta" and own.format == "delta":
        raise Refused(f"{target.path} is a dataset; point the sink at a new prefix, or empty the old one")
    return found


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


def _read(target: Target, depot: Depot) -> Marker | None:
    content = depot.read(MARKER)
    if content is None:
        return None
    try:
        fields: dict[str, Any] = json.loads(content)
        return Marker(
            fields["asset"], list(fields["dimensions"]), list(fields["partition_by"]), fields["format"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{target.path}{MARKER} cannot be read: {error}") from error

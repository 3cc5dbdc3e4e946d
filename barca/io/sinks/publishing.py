"""Publishing what keys hold to file and dataset sinks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.io.sinks.contents import read_contents
from barca.io.sinks.dataset import DatasetSink
from barca.io.sinks.depots import depot_of
from barca.io.sinks.files import FileSink
from barca.io.sinks.marker import claim, refuse_nested
from barca.io.sinks.targets import described
from barca.schemas import KEY, PUBLISHED, RUN_HASH, SINK, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barca.io.sinks.contents import Content
    from barca.io.sinks.targets import Target
    from barca.ports import PackStore

_STAGED_KEYS: Final = 10_000
_STAGED_BYTES: Final = 256 * 2**20
"""About so many keys, and bytes of packs, are prepared before they are put in place: all of them are flushed
to the disk together, and need room on it beside what they replace."""


@dataclass(slots=True)
class Publication:
    """What came of publishing keys.

    Attributes:
        published: `schemas.PUBLISHED`.
        failures: By key, one message for each sink that failed: `sink out.csv: ValueError: ...`.
        warnings: For people.
    """

    published: pl.DataFrame = field(default_factory=lambda: empty(PUBLISHED))
    failures: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, target: Target, fragments: pl.DataFrame, failures: dict[str, str]) -> None:
        """Note what came of one sink.

        Args:
            target: The sink.
            fragments: `schemas.FRAGMENTS` of the keys that were to be published.
            failures: By key, why it was not.
        """
        for key, why in failures.items():
            self.failures.setdefault(key, []).append(f"sink {target.path}: {why}")
        done = fragments.filter(~pl.col(KEY).is_in(list(failures))) if failures else fragments
        rows = done.select(pl.lit(target.path).alias(SINK), KEY, RUN_HASH)
        self.published = pl.concat([self.published, rows])


def publish(
    targets: Sequence[Target],
    store: PackStore,
    fragments: pl.DataFrame,
    annotation: Any,
    publication: Publication,
) -> None:
    """Write what keys hold to sinks, each whatever became of the others; never raises for what a sink did.

    Args:
        targets: Sinks of one node; Delta tables among them are left out.
        store: Holds the packs.
        fragments: `schemas.FRAGMENTS` of the keys.
        annotation: What one key's value is annotated as, or `None`.
        publication: Takes what came of it.
    """
    for target in targets:
        if target.kind == "delta" or fragments.is_empty():
            continue
        failures: dict[str, str] = {}
        try:
            _publish(target, store, fragments, annotation, failures, publication.warnings)
        except Exception as error:
            keys = fragments.get_column(KEY).to_list()
            failures = dict.fromkeys(keys, described(error)) | failures
        publication.add(target, fragments, failures)


def _publish(
    target: Target,
    store: PackStore,
    fragments: pl.DataFrame,
    annotation: Any,
    failures: dict[str, str],
    warnings: list[str],
) -> None:
    depot = depot_of(target)
    if target.kind == "dataset":
        claim(target, depot)
    else:
        refuse_nested(target)
    with depot.staging() as staging:
        sink: FileSink | DatasetSink
        if target.kind == "dataset":
            sink = DatasetSink(target, depot, staging)
        else:
            sink = FileSink(target, depot, staging, annotation)
        failures |= write_all(sink, read_contents(store, fragments, annotation, target.dimensions))
    warnings += [warning for warning in sink.warnings if warning not in warnings]


def write_all(sink: FileSink | DatasetSink, groups: Iterable[Sequence[Content]]) -> dict[str, str]:
    """Write what keys hold.

    Returns:
        By key, why it could not be written.
    """
    failures: dict[str, str] = {}
    keys = size = 0
    for contents in groups:
        sink.prepare(contents)
        keys += len(contents)
        size += sum(content.size for content in contents)
        if keys >= _STAGED_KEYS or size >= _STAGED_BYTES:
            failures |= sink.install()
            keys = size = 0
    return failures | sink.install()

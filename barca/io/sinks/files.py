"""File sinks: each key's result as one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.io.sinks.targets import described
from barca.io.sinks.writing import TABLE_FORMATS, TableFile, attempt, try_each, write_tables
from barca.partitions import parse_key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from barca.io.sinks.contents import Content
    from barca.io.sinks.depots import Depot
    from barca.io.sinks.targets import Target


class FileSink:
    """Writes what keys hold to files. Many of them are prepared before they are put in place.

    Args:
        target: The sink.
        depot: The directory of its files.
        staging: An empty directory.
        annotation: What the function returns, for pickles of tables.

    Attributes:
        warnings: For people.
    """

    def __init__(self, target: Target, depot: Depot, staging: Path, annotation: Any) -> None:
        self._target = target
        self._depot = depot
        self._staging = staging
        self._annotation = annotation
        self._prepared: dict[str, Path] = {}
        self._failures: dict[str, str] = {}
        self.warnings: list[str] = []

    def prepare(self, contents: Sequence[Content]) -> None:
        """Write the files of keys, given what they hold, read from one pack, where nobody looks."""
        form = self._target.file_format(contents[0].format)
        tables: dict[str, pl.DataFrame] = {}
        for content in contents:
            path = self._staging / str(len(self._prepared))
            self._prepared[content.key] = path
            try:
                if form in TABLE_FORMATS and (form != "json" or content.is_tabular):
                    tables[content.key] = content.as_table()
                elif form == "json":
                    path.write_text(content.as_json(), encoding="utf-8")
                else:
                    path.write_bytes(content.as_pickle(self._annotation))
            except Exception as problem:
                self._failures[content.key] = described(problem)
        keys = list(tables)
        paths = [str(self._prepared[key]) for key in keys]
        jobs = _jobs(list(tables.values()), paths, form, pieces=contents[0].table is not None)
        for position, error in write_tables(jobs).items():
            self._failures[keys[position]] = described(error)

    def install(self) -> dict[str, str]:
        """Put what is prepared in its places.

        Returns:
            By key, why its file could not be written.
        """
        failures = self._failures
        self._failures = {}
        ready = {key: path for key, path in self._prepared.items() if key not in failures}
        self._prepared = {}
        refusal = attempt(lambda: self._depot.flush([str(path) for path in ready.values()], self._staging))
        if refusal is not None:
            return failures | dict.fromkeys(ready, described(refusal))
        names = {key: (path, self._target.file_name(parse_key(key))) for key, path in ready.items()}
        errors = try_each(names, self._install, self._depot.writers)
        self._depot.settle()
        return failures | {key: described(error) for key, error in errors.items()}

    def _install(self, staged_as: tuple[Path, str]) -> None:
        path, name = staged_as
        if self._target.dimensions:
            self._depot.require_distinct(name)
        self._depot.install_file(path, name)
        path.unlink(missing_ok=True)


def _jobs(
    tables: Sequence[pl.DataFrame], paths: Sequence[str], form: str, *, pieces: bool
) -> list[TableFile]:
    """The files of tables, which are written together when they are pieces of one pack."""
    if not (pieces and tables):
        return [TableFile(table, path, form) for table, path in zip(tables, paths, strict=True)]
    rows, offset = pl.concat(tables, how="vertical"), 0
    jobs: list[TableFile] = []
    for table, path in zip(tables, paths, strict=True):
        jobs.append(TableFile(rows, path, form, offset, table.height))
        offset += table.height
    return jobs

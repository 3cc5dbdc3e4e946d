"""File sinks: each key's result as one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    """Writes what keys hold to files.

    Args:
        target: The sink.
        depot: The directory of its files.
        annotation: What the function returns, for pickles of tables.

    Attributes:
        warnings: For people.
    """

    def __init__(self, target: Target, depot: Depot, annotation: Any) -> None:
        self._target = target
        self._depot = depot
        self._annotation = annotation
        self.warnings: list[str] = []

    def write(self, contents: Sequence[Content], staging: Path) -> dict[str, str]:
        """Write the files of keys.

        Args:
            contents: What they hold.
            staging: An empty directory, left empty.

        Returns:
            By key, why its file could not be written.
        """
        failures: dict[str, str] = {}
        tables: list[tuple[Content, TableFile]] = []
        staged: dict[str, Path] = {}
        for number, content in enumerate(contents):
            path = staging / str(number)
            form = self._target.file_format(content.format)
            try:
                if form in TABLE_FORMATS and (form != "json" or content.is_tabular):
                    tables.append((content, TableFile(content.as_table(), path, form)))
                elif form == "json":
                    path.write_text(content.as_json(), encoding="utf-8")
                else:
                    path.write_bytes(content.as_pickle(self._annotation))
            except Exception as problem:
                failures[content.key] = described(problem)
            else:
                staged[content.key] = path
        for position, error in write_tables([file for _, file in tables]).items():
            failures[tables[position][0].key] = described(error)
        ready = {key: path for key, path in staged.items() if key not in failures}
        refusal = attempt(lambda: self._depot.flush(list(ready.values()), staging))
        if refusal is not None:
            return failures | dict.fromkeys(ready, described(refusal))
        names = {key: (path, self._target.file_name(parse_key(key))) for key, path in ready.items()}
        errors = try_each(names, self._install, self._depot.writers)
        failures |= {key: described(error) for key, error in errors.items()}
        self._depot.settle()
        return failures

    def _install(self, staged_as: tuple[Path, str]) -> None:
        path, name = staged_as
        if self._target.dimensions:
            self._depot.require_distinct(name)
        self._depot.install_file(path, name)
        path.unlink(missing_ok=True)

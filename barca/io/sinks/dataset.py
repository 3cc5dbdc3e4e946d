"""Dataset sinks: a directory for each key, below it one for each value of `partition_by=`, and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barca.decorators.places import MARKER
from barca.io.sinks.contents import Unfit
from barca.io.sinks.hive import segment
from barca.io.sinks.layout import lay_out
from barca.io.sinks.marker import Marker
from barca.io.sinks.staging import discard
from barca.io.sinks.targets import described
from barca.io.sinks.writing import TableFile, attempt, try_each, write_tables
from barca.partitions import parse_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barca.io.sinks.contents import Content
    from barca.io.sinks.depots import Depot
    from barca.io.sinks.targets import Target

MANY_DIRECTORIES: Final = 1_000
MANY_FILES: Final = 100
SMALL_BYTES: Final = 10**6
"""A key written to more directories, or to so many files that are so small on average, is warned of."""

_EXTENSIONS: Final = {"parquet": "parquet", "csv": "csv", "ndjson": "jsonl", "ipc": "arrow"}


def key_directory(target: Target, key: str) -> str:
    """The directory of a key, relative to the prefix; `""` for the only key of an unpartitioned asset.

    Raises:
        Unnameable: A value of the key fits no directory name.
    """
    values = parse_key(key)
    return "/".join(segment(name, values[name]) for name in target.dimensions)


@dataclass(slots=True)
class _Prepared:
    """A key whose files are prepared: where they go, which they are, and the marker among them."""

    name: str
    directory: str
    files: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)


class DatasetSink:
    """Writes what keys hold to their directories. Many keys are prepared before they are put in place.

    Args:
        target: The sink.
        depot: Its prefix.
        staging: An empty directory.

    Attributes:
        warnings: For people.
    """

    def __init__(self, target: Target, depot: Depot, staging: Path) -> None:
        self._target = target
        self._depot = depot
        self._staging = staging
        self._by = target.spec.partition_by
        self._prepared: dict[str, _Prepared] = {}
        self._failures: dict[str, str] = {}
        self._warned_of_size = False
        self.warnings: list[str] = []

    def prepare(self, contents: Sequence[Content]) -> None:
        """Write the directories of keys, given what they hold, read from one pack, where nobody looks."""
        named: list[Content] = []
        for content in contents:
            try:
                name = key_directory(self._target, content.key)
            except Exception as error:
                self._failures[content.key] = described(error)
            else:
                directory = f"{self._staging}/{len(self._prepared)}"
                self._prepared[content.key] = _Prepared(name, directory)
                named.append(content)
        for group in _groups(named):
            self._failures |= self._prepare(group)

    def install(self) -> dict[str, str]:
        """Put what is prepared in its places.

        Returns:
            By key, why it could not be written; such a key is left as it was.
        """
        failures = self._failures
        self._failures = {}
        ready = {key: one for key, one in self._prepared.items() if key not in failures}
        self._prepared = {}
        files = [file for one in ready.values() for file in (*one.files, *one.marks)]
        refusal = attempt(lambda: self._depot.flush(files, self._staging))
        if refusal is not None:
            failures |= dict.fromkeys(ready, described(refusal))
            ready.clear()
        errors = try_each(ready, self._install, self._depot.writers)
        self._depot.settle()
        for path in self._staging.iterdir():
            discard(path)
        return failures | {key: described(error) for key, error in errors.items()}

    def _install(self, one: _Prepared) -> None:
        if one.files or not one.name:
            self._warn_of_size(one)
            if one.name:
                self._depot.require_distinct(one.name)
            self._depot.install(Path(one.directory), one.name)
        else:  # no rows, and so no directories
            self._depot.remove(one.name, Path(f"{one.directory}-gone"))

    # --- preparing ----------------------------------------------------------------------------------

    def _prepare(self, group: Sequence[Content]) -> dict[str, str]:
        """Write the files of keys whose values are tables of one schema, or of one key's other value."""
        try:
            if not group[0].is_tabular:
                self._prepare_document(group[0])
                return {}
            return self._prepare_tables(group)
        except Exception as error:
            return dict.fromkeys((content.key for content in group), described(error))

    def _prepare_document(self, content: Content) -> None:
        spec = self._target.spec
        if self._target.dataset_format(table=False) != "ndjson":
            content.as_table()  # says what a table is not
        if self._by or spec.rows_per_file is not None:
            option = "partition_by=" if self._by else "rows_per_file="
            raise Unfit(f"{option} needs a table, and the result is a {type(content.value()).__name__}")
        one = self._prepared[content.key]
        self._mark(one)
        file = Path(one.directory) / "part-0.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text(content.as_json() + "\n", encoding="utf-8")
        one.files.append(str(file))

    def _prepare_tables(self, group: Sequence[Content]) -> dict[str, str]:
        layout = lay_out([content.as_table() for content in group], self._target.dimensions, self._by)
        self._warn_of_empty(layout.emptied)
        form = self._target.dataset_format(table=True)
        jobs: list[TableFile] = []
        owners: list[str] = []
        for content in group:
            self._mark(self._prepared[content.key])
        for part in layout.parts:
            one = self._prepared[group[part.owner].key]
            directory = f"{one.directory}/{part.directory}" if part.directory else one.directory
            for number, (offset, rows) in enumerate(self._pieces(part.rows)):
                file = f"{directory}/part-{number}.{_EXTENSIONS[form]}"
                one.files.append(file)
                jobs.append(TableFile(layout.rows, file, form, part.offset + offset, rows))
                owners.append(group[part.owner].key)
        failures = {group[owner].key: described(error) for owner, error in layout.failures.items()}
        return failures | {owners[job]: described(error) for job, error in write_tables(jobs).items()}

    def _mark(self, one: _Prepared) -> None:
        """The marker goes along where the whole prefix is replaced."""
        if not one.name:
            mark = Path(one.directory) / MARKER
            mark.parent.mkdir()
            mark.write_bytes(Marker.of(self._target).content())
            one.marks.append(str(mark))

    def _pieces(self, rows: int) -> Iterator[tuple[int, int]]:
        """Offsets and numbers of rows of the files of a directory; one of no rows for a table without any."""
        size = self._target.spec.rows_per_file or max(rows, 1)
        for offset in range(0, max(rows, 1), size):
            yield offset, min(size, rows - offset)

    # --- warning ------------------------------------------------------------------------------------

    def _warn_of_empty(self, columns: Sequence[str]) -> None:
        for name in columns:
            warning = (
                f"sink {self._target.path}: readers will take the empty texts in `{name}` for missing values"
            )
            if warning not in self.warnings:
                self.warnings.append(warning)

    def _warn_of_size(self, one: _Prepared) -> None:
        if self._warned_of_size or len(one.files) < MANY_FILES:
            return
        directories = len({file.rpartition("/")[0] for file in one.files})
        by = f"partition_by=[{', '.join(self._by)}]"
        size = sum(Path(file).stat().st_size for file in one.files)
        if directories > MANY_DIRECTORIES:
            what = f"{directories} directories ({by})"
            fix = "partition by a coarser column: many small directories are slow to read"
        elif size < SMALL_BYTES * len(one.files):
            mean = size / len(one.files) / 1000
            what = f"{len(one.files)} files of {mean:.0f} kB on average"
            fix = "raise rows_per_file=, or drop a level: many small files are slow to read"
        else:
            return
        self._warned_of_size = True
        self.warnings.append(f"sink {self._target.path}: one write created {what}. {fix}")


def _groups(contents: Sequence[Content]) -> Iterator[Sequence[Content]]:
    """Keys that are written together: all of them when they are rows of one pack, else each alone."""
    if contents and contents[0].table is not None:
        yield contents
    else:
        yield from ([content] for content in contents)

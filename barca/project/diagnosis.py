"""Whether a project can be used: what it stands on, do its files load, can its ledger be read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import BarcaError, LedgerError, LoadError, StoreError, UsageError, plural
from barca.io.ledger import repair
from barca.io.leftovers import leftovers
from barca.io.rows import TABLE_ORDER
from barca.io.runs import read_markers
from barca.project.surroundings import LITTLE_BYTES, environment_check, remains, room, try_to_write
from barca.records import Record
from barca.render.text import size
from barca.schemas import PATH, RUN_ID, SIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from barca.graph import Graph
    from barca.ports import Ledger, PackStore

REPAIR_SECONDS = 10.0
"""How long a repair waits for who collects garbage, or makes a tag."""


class Doctor(Record, kw_only=True):
    """Looks at a project, and mends its store.

    Attributes:
        store_root: The `.barca` directory.
        listed: What could not be loaded.
        planned: Plans everything; what could not be loaded or, as planning shows, not be grouped.
        graph: The nodes.
        ledger: The ledger.
        store: The packs.
    """

    store_root: Path
    listed: Callable[[], Sequence[dict[str, Any]]]
    planned: Callable[[], Sequence[dict[str, Any]]]
    graph: Callable[[], Graph]
    ledger: Ledger
    store: PackStore

    def diagnosis(self) -> dict[str, Any]:
        """The checks of a project, as JSON-writable values."""
        load_errors, hindrance = self._planned()
        lost = sum(len(error["nodes"]) for error in load_errors)
        loaded = self.graph().nodes.keys() - {node for error in load_errors for node in error["nodes"]}
        surroundings = environment_check()
        checks = [
            _check("files", not load_errors, f"nodes: {len(loaded)} load, {lost} do not", "usage"),
            *([_check("plan", False, str(hindrance), hindrance.kind)] if hindrance else []),  # noqa: FBT003
            *self._stored(),
            _check("python", surroundings["ok"], surroundings["detail"], "infra"),
            self._writable(),
            self._disk(),
            self._runs(),
        ]
        return {
            "ok": all(check["ok"] for check in checks),
            "checks": checks,
            "versions": surroundings["versions"],
            "load_errors": list(load_errors),
        }

    def repair(self) -> list[str]:
        """Mend the ledger, and remove what killed writers left unfinished; a line for each file.

        Raises:
            UsageError: A run is going on.
            LedgerError: Something cannot be mended.
        """
        markers = read_markers(self.store_root / "runs")
        going = markers.filter(pl.col("alive"))
        if going.height:
            raise UsageError(
                f"run `{going.item(0, RUN_ID)}` is still going",
                code="run_going",
                remediation="repair the store once it has ended",
            )
        with self.ledger.claim(REPAIR_SECONDS):
            done = repair(self.store_root / "ledger")
            for file in leftovers(self.store_root):
                file.unlink(missing_ok=True)
                done.append(f"removed `{file}`, which its writer left unfinished")
        return done

    def _planned(self) -> tuple[Sequence[dict[str, Any]], BarcaError | None]:
        """What does not load, and what else keeps everything from being planned."""
        try:
            return self.planned(), None
        except (LoadError, StoreError):  # nothing loads, or the ledger says so itself
            return self.listed(), None
        except BarcaError as error:
            return self.listed(), error

    def _writable(self) -> dict[str, Any]:
        try:
            lacks = try_to_write(self.store_root)
        except OSError as error:
            return _check("store", False, f"`{self.store_root}` cannot be written to: {error}", "infra")  # noqa: FBT003
        told = f"`{self.store_root}` can be written to"
        if lacks:
            told += f"; its file system lacks {lacks}, without which barca does"
        return _check("store", True, told, "infra")  # noqa: FBT003

    def _disk(self) -> dict[str, Any]:
        free, total = room(self.store_root)
        taken = int(self.store.listing().get_column(SIZE_BYTES).sum())
        told = f"{size(free)} of {size(total)} are free; results take {size(taken)}"
        short = free < LITTLE_BYTES
        if short:
            told += "; `barca gc --max-size SIZE` makes them fit into less"
        return _check("disk", not short, told, "infra")

    def _stored(self) -> list[dict[str, Any]]:
        try:
            reader = self.ledger.reader()
            rows = {
                table: reader.scan(table).select(pl.len()).collect(engine="in-memory").item()
                for table in TABLE_ORDER
            }
            results = reader.materialized_many(self.graph().nodes)
            named = pl.concat(
                [pl.DataFrame(schema={PATH: pl.String}), *(each.select(PATH) for each in results.values())]
            )
            packs = named.unique().get_column(PATH).drop_nulls().sort().to_list()
            bad = self.store.probe(packs) if packs else []
        except (BarcaError, pl.exceptions.PolarsError, OSError) as error:
            hint = "; `barca doctor --repair` mends what can be mended"
            return [_check("ledger", False, f"{error}{hint if _is_damage(error) else ''}", "infra")]  # noqa: FBT003
        told = f"{len(packs) - len(bad):,} of {len(packs):,} files of results can be read"
        shown = f"; not: {', '.join(bad[:5])}; their keys run again when they are needed" if bad else ""
        counted = f"{plural(rows['runs'], 'run')} recorded, {plural(rows['materializations'], 'result')}"
        return [
            _check("ledger", True, counted, "infra"),  # noqa: FBT003
            _check("results", not bad, told + shown, "infra"),
        ]

    def _runs(self) -> dict[str, Any]:
        told = remains(self.store_root, read_markers(self.store_root / "runs"))
        return _check("leftovers", True, told or "killed runs left nothing behind", "infra")  # noqa: FBT003


def _is_damage(error: BaseException) -> bool:
    return isinstance(error, LedgerError | pl.exceptions.PolarsError)


def _check(name: str, ok: bool, detail: str, kind: str) -> dict[str, Any]:  # the outcome
    """One check; `kind` is that of the error it stands for, which decides the exit code."""
    return {"check": name, "ok": ok, "detail": detail, "kind": kind}

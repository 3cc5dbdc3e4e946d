"""Whether a project can be used: do its files load, can its ledger be read, are its results there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import BarcaError, LoadError, StoreError, plural
from barca.schemas import PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barca.graph import Graph
    from barca.ports import LedgerReader, PackStore


def diagnosis(
    listed: Sequence[dict[str, Any]],
    planned: Callable[[], Sequence[dict[str, Any]]],
    graph: Graph,
    open_reader: Callable[[], LedgerReader],
    store: PackStore,
) -> dict[str, Any]:
    """The checks of a project, as JSON-writable values.

    Args:
        listed: What could not be loaded.
        planned: Plans everything; what could not be loaded or, as planning shows, not be grouped.
        graph: The nodes.
        open_reader: Opens the ledger.
        store: The packs.
    """
    load_errors, hindrance = _planned(listed, planned)
    lost = sum(len(error["nodes"]) for error in load_errors)
    loaded = graph.nodes.keys() - {node for error in load_errors for node in error["nodes"]}
    checks = [
        _check("files", not load_errors, f"nodes: {len(loaded)} load, {lost} do not", "usage"),
        *([_check("plan", False, str(hindrance), hindrance.kind)] if hindrance else []),  # noqa: FBT003
        *_stored(graph, open_reader, store),
    ]
    return {
        "ok": all(check["ok"] for check in checks),
        "checks": checks,
        "load_errors": list(load_errors),
    }


def _planned(
    listed: Sequence[dict[str, Any]], planned: Callable[[], Sequence[dict[str, Any]]]
) -> tuple[Sequence[dict[str, Any]], BarcaError | None]:
    """What does not load, and what else keeps everything from being planned."""
    try:
        return planned(), None
    except (LoadError, StoreError):  # nothing loads, or the ledger says so itself
        return listed, None
    except BarcaError as error:
        return listed, error


def _stored(graph: Graph, open_reader: Callable[[], LedgerReader], store: PackStore) -> list[dict[str, Any]]:
    try:
        reader = open_reader()
        runs = reader.scan("runs").select(pl.len()).collect(engine="in-memory").item()
        rows = reader.materialized_many(graph.nodes)
        named = pl.concat(
            [pl.DataFrame(schema={PATH: pl.String}), *(each.select(PATH) for each in rows.values())]
        )
        packs = named.unique().get_column(PATH).drop_nulls().sort().to_list()
        bad = store.probe(packs) if packs else []
    except BarcaError as error:
        return [_check("ledger", False, str(error), "infra")]  # noqa: FBT003  # the check's outcome
    told = f"{len(packs) - len(bad):,} of {len(packs):,} files of results can be read"
    shown = f"; not: {', '.join(bad[:5])}; their keys run again when they are needed" if bad else ""
    return [
        _check("ledger", True, f"{plural(runs, 'run')} recorded", "infra"),  # noqa: FBT003
        _check("results", not bad, told + shown, "infra"),
    ]


def _check(name: str, ok: bool, detail: str, kind: str) -> dict[str, Any]:
    """One check; `kind` is that of the error it stands for, which decides the exit code."""
    return {"check": name, "ok": ok, "detail": detail, "kind": kind}

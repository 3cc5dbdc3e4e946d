"""Whether a project can be used: do its files load, can its ledger be read, are its results there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import BarcaError
from barca.schemas import PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barca.graph import Graph
    from barca.ports import LedgerReader, PackStore


def diagnosis(
    load_errors: Sequence[dict[str, Any]],
    graph: Graph,
    open_reader: Callable[[], LedgerReader],
    store: PackStore,
) -> dict[str, Any]:
    """The checks of a project, as JSON-writable values.

    Args:
        load_errors: What could not be loaded.
        graph: The nodes.
        open_reader: Opens the ledger.
        store: The packs.
    """
    lost = sum(len(error["nodes"]) for error in load_errors)
    checks = [
        _check("files", not load_errors, f"{len(graph.nodes)} nodes load, {lost} do not", "usage"),
        *_stored(graph, open_reader, store),
    ]
    return {
        "ok": all(check["ok"] for check in checks),
        "checks": checks,
        "load_errors": list(load_errors),
    }


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
        _check("ledger", True, f"{runs:,} runs recorded", "infra"),  # noqa: FBT003
        _check("results", not bad, told + shown, "infra"),
    ]


def _check(name: str, ok: bool, detail: str, kind: str) -> dict[str, Any]:
    """One check; `kind` is that of the error it stands for, which decides the exit code."""
    return {"check": name, "ok": ok, "detail": detail, "kind": kind}

"""What steps printed in earlier runs, read from log files; the ledger knows the keys of batched calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from barca.errors import SelectionError, did_you_mean
from barca.graph import short_name
from barca.io.logs import read_logs
from barca.partitions import display_keys, key_text, step_text
from barca.project.past import find_run
from barca.records import Record
from barca.schemas import CALL, CREATED_AT, KEY, NODE, PARENT, RUN_ID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from barca._typing import NodeId
    from barca.graph import Graph
    from barca.ports import LedgerReader

_LABEL: Final = r"([0-9][0-9,]*) keys?"
"""How a batched call is shown: `scored[1,000 keys]`."""


class Step(Record):
    """A step as people name it.

    Attributes:
        node: Its node.
        shown: What they wrote between brackets.
        key: That as a key, Hive form; `None` where nothing was written.
    """

    node: NodeId
    shown: str = ""
    key: str | None = None

    @property
    def rows(self) -> pl.Expr:
        """Its rows in the ledger's materializations."""
        own = pl.col(NODE) == self.node
        return own if self.key is None else own & (pl.col(KEY) == self.key)

    @property
    def calls(self) -> pl.Expr | None:
        """The calls that are shown like it, in the ledger's calls; `None` where none can be."""
        label = re.fullmatch(_LABEL, self.shown)
        if label is None:
            return None
        batched = pl.col(CALL).str.starts_with("b")
        return batched & (pl.col(NODE) == self.node) & (pl.col("keys") == int(label[1].replace(",", "")))


def step_of(graph: Graph, step: str | None) -> Step | None:
    """A step as people write it: `NODE`, `NODE[KEY]`, or `NODE[2 keys]` for a batched call.

    Raises:
        SelectionError: No such node.
    """
    if step is None:
        return None
    name, bracket, shown = step.partition("[")
    node_id = graph.find(name)
    if not bracket:
        return Step(node_id)
    shown = shown.removesuffix("]")
    return Step(node_id, shown, _key_of(shown, graph.nodes[node_id].dimensions))


def _key_of(shown: str, dimensions: Sequence[str]) -> str:
    """Hive form of a display form; with one dimension its value may hold anything."""
    if len(dimensions) == 1:
        return key_text({dimensions[0]: shown.removeprefix(f"{dimensions[0]}=")})
    pairs = (part.partition("=") for part in shown.split(","))
    return key_text({name: value for name, _, value in pairs})


def printed(
    log_dir: Path,
    reader: LedgerReader,
    runs: pl.DataFrame,
    run_id: str | None,
    step: Step | None,
    stream: str | None,
) -> list[dict[str, Any]]:
    """Lines that the steps of a run printed, oldest first.

    Args:
        log_dir: Directory of logs.
        reader: The ledger.
        runs: All runs, newest first, `schemas.RUNS`.
        run_id: The run, or the beginning of its id; `None` is the newest, or the newest that ran the step.
        step: Only its lines.
        stream: Only `stdout` or `stderr`.

    Raises:
        SelectionError: No such run, or no run had such a key or call.
    """
    found = find_run(runs, run_id)
    lines = _lines(log_dir, reader, found, step, stream)
    if lines or step is None:
        return lines
    newest = _newest(reader.scan("materializations").filter(step.rows))
    if newest is not None:
        return lines if run_id is not None else _lines(log_dir, reader, newest, step, stream)
    if step.key is None:
        return lines
    if step.calls is not None:
        calls = reader.scan("calls").filter(step.calls).select(RUN_ID, CALL).collect(engine="in-memory")
        theirs = runs.filter(pl.col(RUN_ID).is_in(calls.get_column(RUN_ID).implode()))
        chosen = found if run_id is not None or theirs.is_empty() else str(theirs.get_column(RUN_ID)[0])
        own = calls.filter(pl.col(RUN_ID) == chosen).get_column(CALL)
        if own.len():
            batched = (pl.col(NODE) == step.node) & pl.col(CALL).is_in(own.implode())
            return _listed(chosen, read_logs(log_dir, chosen).filter(batched), stream)
    raise _unknown(reader, step, run_id and found)


def _newest(rows: pl.LazyFrame) -> str | None:
    """The run of the newest of some rows of the ledger."""
    newest = rows.select(pl.col(RUN_ID).sort_by(CREATED_AT).last())
    found: str | None = newest.collect(engine="in-memory").item()
    return found


def _unknown(reader: LedgerReader, step: Step, run_id: str | None) -> SelectionError:
    own = (
        reader.scan("materializations").filter(pl.col(NODE) == step.node).select(pl.col(KEY).unique().sort())
    )
    keys = [key for key in own.collect(engine="in-memory").get_column(KEY).to_list() if key]
    name = short_name(step.node)
    return SelectionError(
        f"run {run_id} has no step `{name}[{step.shown}]`"
        if run_id
        else f"`{name}[{step.shown}]` was never run",
        code="unknown_key",
        node=step.node,
        remediation=did_you_mean(step.shown, display_keys(keys)) if keys else f"write `{name}` alone",
    )


def _lines(
    log_dir: Path, reader: LedgerReader, run_id: str, step: Step | None, stream: str | None
) -> list[dict[str, Any]]:
    lines = read_logs(log_dir, run_id)
    if step is not None:
        lines = lines.filter(pl.col(NODE) == step.node)
        if step.key is not None:
            batched = pl.col(KEY).is_null() & pl.col(CALL).is_in(_calls_of(reader, run_id, step))
            lines = lines.filter((pl.col(KEY) == step.key) | batched)
    return _listed(run_id, lines, stream)


def _listed(run_id: str, lines: pl.DataFrame, stream: str | None) -> list[dict[str, Any]]:
    chosen = lines if stream is None else lines.filter(pl.col("stream") == stream)
    return [
        {
            "run_id": run_id,
            "node_id": step_text(row[NODE], row[KEY] or ""),
            "stream": row["stream"],
            "ts": row["ts"].isoformat(),
            "line": row["line"],
        }
        for row in chosen.sort("ts", maintain_order=True).iter_rows(named=True)
    ]


def _calls_of(reader: LedgerReader, run_id: str, step: Step) -> list[str]:
    """Every call of a run that a key was in: the one that decided about it, and those that failed before."""
    last = reader.scan("materializations").filter(step.rows & (pl.col(RUN_ID) == run_id)).select(CALL)
    here = (pl.col(RUN_ID) == run_id) & (pl.col(NODE) == step.node)
    calls = reader.scan("calls").filter(here).select(CALL, PARENT)
    parents: dict[str, str | None] = dict(calls.collect(engine="in-memory").iter_rows())
    found: list[str] = []
    following: list[str | None] = last.collect(engine="in-memory").get_column(CALL).to_list()
    while following:
        call = following.pop()
        if call is not None and call not in found:
            found.append(call)
            following.append(parents.get(call))
    return found

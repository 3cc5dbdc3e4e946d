"""Works over small functions, without planning: for tests of what workers do."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from barca.exec.call import execute
from barca.io.fragments import pack_values
from barca.io.memory import MemoryPackStore
from barca.io.values import read_values
from barca.model import Definition, FunctionRef, InputBinding, Work, WorkResult
from barca.partitions import key_text
from barca.ports import PackStore
from barca.schemas import CALL, ERROR_MESSAGE, KEY, ORDINAL, RUN_HASH, STATUS, WORK_KEYS, dimension

NODE = "steps.py:step"
_numbers = itertools.count(1)


def work_keys(values: Sequence[Any], names: Sequence[str] = ("r",)) -> pl.DataFrame:
    """`schemas.WORK_KEYS` with `dim:` columns; a value is a string, or a tuple for several dimensions."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    columns: dict[str, Any] = {
        KEY: [key_text(dict(zip(names, row, strict=True))) for row in rows],
        ORDINAL: list(range(len(rows))),
        RUN_HASH: [f"{number:032x}" for number in range(len(rows))],
        CALL: ["c"] * len(rows),
    }
    columns |= {dimension(name): [row[place] for row in rows] for place, name in enumerate(names)}
    schema = {**WORK_KEYS, **{dimension(name): pl.String for name in names}}
    return pl.DataFrame(columns, schema=schema)


def make_work(
    values: Sequence[Any] | None = None,
    *,
    names: Sequence[str] = ("r",),
    batched: bool = False,
    **fields: Any,
) -> Work:
    """A work for keys of the dimensions `names`; without values, of an unpartitioned node."""
    names = () if values is None else tuple(names)
    fields.setdefault("function", FunctionRef(node=NODE, root="/"))
    return Work(
        id=fields.pop("id", f"w{next(_numbers)}"),
        run_id="run1",
        node=NODE,
        batched=batched,
        keys=work_keys([()] if values is None else values, names),
        dimensions=names,
        **fields,
    )


def definition_of(function: Callable[..., Any]) -> Definition[..., Any]:
    return Definition(function=function, kind="asset", file="steps.py", line=1)


def run_function(
    function: Callable[..., Any], work: Work, store: PackStore | None = None, **options: Any
) -> WorkResult:
    """`execute` of a work whose function is `function`."""
    definition = definition_of(function)
    return execute(work, store or MemoryPackStore(), lambda _: definition, **{"quiet": True, **options})


def run_batch(
    function: Callable[..., Any], values: Sequence[Any], store: PackStore | None = None, **fields: Any
) -> WorkResult:
    return run_function(function, make_work(values, batched=True, **fields), store)


def failures(result: WorkResult) -> dict[str, str]:
    """Key to error message."""
    failed = result.outcomes.filter(pl.col(STATUS) == "failed")
    return dict(failed.select(KEY, ERROR_MESSAGE).iter_rows())


def succeeded(result: WorkResult) -> list[str]:
    return result.outcomes.filter(pl.col(STATUS) == "success").get_column(KEY).to_list()


def values_of(store: PackStore, work: Work, result: WorkResult) -> list[Any]:
    """What was stored for each key of a work of the dimension `r`, in the work's order."""
    keys = work.keys.select(KEY, dimension("r"))
    held = keys.join(result.fragments, on=KEY, how="left", maintain_order="left")
    return list(read_values(store, held, None, ("r",)).values())


def stored_values(
    store: PackStore, source: str, values: dict[Any, Any], names: Sequence[str] = ("r",)
) -> pl.DataFrame:
    """Fragments, with `dim:` columns, of one value per key of a source node."""
    keys = work_keys(list(values), names)
    pairs = list(zip(keys.get_column(KEY), values.values(), strict=True))
    path = f"source/{next(_numbers)}.parquet"
    fragments, failed = pack_values(store, path, source, pairs, keys, names)
    assert not failed
    dims = keys.select(KEY, *(dimension(name) for name in names))
    return dims.join(fragments, on=KEY, how="left", maintain_order="left")


def same_key(parameter: str, fragments: pl.DataFrame, names: Sequence[str] = ("r",)) -> InputBinding:
    return InputBinding(parameter, "steps.py:source", "same_key", fragments, tuple(names))


def write_steps(directory: Path, text: str) -> Callable[[str], FunctionRef]:
    """A project file of steps; returns how a worker finds a function in it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "barca.toml").write_text("")
    file = directory / "steps.py"
    file.write_text(textwrap.dedent(text))
    return lambda name: FunctionRef(node=f"steps.py:{name}", root=str(directory), file=str(file), name=name)

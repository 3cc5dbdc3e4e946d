"""Grouping the keys that run into calls. Linear in the keys that run, not in those declared."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import polars as pl

from barca.errors import DefinitionError
from barca.frames import same_value, sorted_by
from barca.model import Batches, BatchesAuto, BatchesBy, Deferred
from barca.partitions import display_text, size_text
from barca.plan.sizing import growing_calls
from barca.schemas import CALL, CALLS, KEY, ORDINAL, dimension, empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca._typing import NodeId
    from barca.graph import Node
    from barca.model import BatchSpec
    from barca.plan.inputs import BatchOverride
    from barca.plan.sizing import Size

_GROUP = "group"


def effective_batch(node: Node, override: Mapping[NodeId | None, BatchOverride]) -> BatchSpec | None:
    """The grouping of a node in this run: its own, unless the run overrides it.

    `none` is one key a call; the function still takes a list.
    """
    declared = node.definition.batch
    if declared is None:
        return None
    chosen = override.get(node.id, override.get(None))
    if chosen is None:
        return declared
    if chosen == "auto":
        return declared if isinstance(declared, BatchesAuto) else BatchesAuto()
    return 1 if chosen == "none" else chosen


def grouping_text(batch: BatchSpec | None) -> str | None:
    """How a grouping is named: `batch=all`, `batch=20`, `batches([...])`, `batches_by(region_of)`."""
    if batch is None:
        return None
    if isinstance(batch, Batches):
        return "batches([...])"
    if isinstance(batch, BatchesBy):
        size = f", max_size={batch.max_size}" if batch.max_size else ""
        return f"batches_by({getattr(batch.label, '__name__', 'label')}{size})"
    if isinstance(batch, BatchesAuto):
        return "batch=auto" if batch == BatchesAuto() else _auto_text(batch)
    return f"batch={batch}"


def _auto_text(batch: BatchesAuto) -> str:
    memory = f', max_memory="{size_text(batch.max_memory)}"' if batch.max_memory else ""
    return f"batches_auto(target_seconds={batch.target_seconds:g}{memory})"


def calls(
    running: pl.DataFrame,
    node: Node,
    batch: BatchSpec | None,
    labels: pl.DataFrame | None,
    size: Size | None = None,
) -> pl.DataFrame:
    """The keys that run, with the call each is in.

    Args:
        running: `key, ordinal` and `dim:` columns of the keys that run.
        node: The node.
        batch: How to group; `None` makes each key its own call, which has no name.
        labels: For `batches_by`, frame `key, label`.
        size: For `batches_auto`, of the first call; the run cuts the calls as they turn out.

    Returns:
        `schemas.CALLS`: calls in the order of their first key, keys in declared order inside each.

    Raises:
        DefinitionError: A key is in no group of `batches(..., strict=True)`.
    """
    if running.is_empty():
        return empty(CALLS)
    keys = sorted_by(running, ORDINAL)
    if batch is None:
        return keys[[KEY, ORDINAL]].insert_column(0, same_value(CALL, None, pl.String, keys.height))
    if batch == "all" or isinstance(batch, int):
        number = pl.int_range(pl.len()) // (batch if isinstance(batch, int) else keys.height) + 1
        return keys.select(number.cast(pl.String).alias(CALL), KEY, ORDINAL)
    if isinstance(batch, Batches):
        grouped, per_call = _named_groups(keys, node, batch), None
    elif isinstance(batch, BatchesAuto):
        assert size is not None
        grouped = keys.with_columns(_growing(size, keys.height).cast(pl.String).alias(_GROUP))
        per_call = None
    else:
        assert labels is not None
        column = labels.rename({"label": _GROUP})
        grouped, per_call = keys.join(column, on=KEY, how="left", maintain_order="left"), batch.max_size
    chunk = pl.int_range(pl.len()).over(_GROUP) // per_call if per_call else pl.lit(0, pl.Int64)
    numbered = grouped.with_columns(chunk.alias("chunk"))
    first = pl.col(ORDINAL).min().over(_GROUP, "chunk")
    return (
        numbered.with_columns(
            first.rank("dense").cast(pl.Int64).cast(pl.String).alias(CALL), first.alias("first")
        )
        .sort("first", ORDINAL)
        .select(CALL, KEY, ORDINAL)
    )


def _growing(size: Size, keys: int) -> pl.Expr:
    """The number of the call of each key, by position."""
    starts, each = growing_calls(size, keys)
    position = pl.int_range(pl.len())
    early = pl.lit(pl.Series(starts)).search_sorted(position, side="right").cast(pl.Int64) - 1
    late = (position - starts[-1]) // each + len(starts) - 1
    return pl.when(position < starts[-1]).then(early).otherwise(late)


def _named_groups(keys: pl.DataFrame, node: Node, batch: Batches) -> pl.DataFrame:
    groups = () if isinstance(batch.groups, Deferred) else batch.groups
    listed = list(chain.from_iterable(groups))
    sizes = pl.Series([len(group) for group in groups], dtype=pl.Int64)
    numbers = pl.int_range(len(groups), eager=True).repeat_by(sizes).explode(empty_as_null=False)
    columns = {dimension(name): _values(listed, name) for name in node.dimensions}
    table = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)).with_columns(
        (pl.lit("g") + numbers.cast(pl.String)).alias(_GROUP)
    )
    grouped = keys.join(
        table, on=[dimension(name) for name in node.dimensions], how="left", maintain_order="left"
    )
    alone = grouped.filter(pl.col(_GROUP).is_null())
    if batch.strict and alone.height:
        key = display_text(alone.item(0, KEY))
        raise DefinitionError(
            f"the key `{key}` of `{node.id}` is in no group of batches(..., strict=True)",
            code="batch_strict",
            node=node.id,
            file=node.definition.file,
            line=node.definition.line,
            remediation="add it to a group, or drop strict=True so that it runs in a call of its own",
        )
    return grouped.with_columns(pl.coalesce(_GROUP, pl.concat_str(pl.lit("k"), pl.col(KEY))).alias(_GROUP))


def _values(keys: list[Any], name: str) -> list[str]:
    """The values of one dimension of keys as `partitions.normalise_groups` gives them."""
    return [key if isinstance(key, str) else dict(key)[name] for key in keys]

"""Grouping the keys that run into calls. Linear in the keys that run, not in those declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from barca.errors import UsageError
from barca.model import Batches, BatchesBy, Deferred
from barca.partitions import normalise_groups
from barca.schemas import CALL, KEY, ORDINAL, dimension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca._typing import NodeId
    from barca.graph import Node
    from barca.model import BatchSpec
    from barca.plan.inputs import BatchOverride

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
    return f"batch={batch}"


def calls(
    running: pl.DataFrame, node: Node, batch: BatchSpec | None, labels: pl.DataFrame | None
) -> pl.DataFrame:
    """The keys that run, with the call each is in.

    Args:
        running: `key, ordinal` and `dim:` columns of the keys that run.
        node: The node.
        batch: How to group; `None` makes each key its own call, which has no name.
        labels: For `batches_by`, frame `key, label`.

    Returns:
        `schemas.CALLS`: calls in the order of their first key, keys in declared order inside each.

    Raises:
        UsageError: A key is in no group of `batches(..., strict=True)`.
    """
    keys = running.sort(ORDINAL)
    if batch is None:
        return keys.select(pl.lit(None, pl.String).alias(CALL), KEY, ORDINAL)
    if batch == "all":
        grouped, size = keys.with_columns(pl.lit("").alias(_GROUP)), None
    elif isinstance(batch, Batches):
        grouped, size = _named_groups(keys, node, batch), None
    elif isinstance(batch, BatchesBy):
        assert labels is not None
        column = labels.rename({"label": _GROUP})
        grouped, size = keys.join(column, on=KEY, how="left", maintain_order="left"), batch.max_size
    else:
        grouped, size = keys.with_columns(pl.lit("").alias(_GROUP)), int(batch)
    chunk = pl.int_range(pl.len()).over(_GROUP) // size if size else pl.lit(0, pl.Int64)
    numbered = grouped.with_columns(chunk.alias("chunk"))
    first = pl.col(ORDINAL).min().over(_GROUP, "chunk")
    return (
        numbered.with_columns(
            first.rank("dense").cast(pl.Int64).cast(pl.String).alias(CALL), first.alias("first")
        )
        .sort("first", ORDINAL)
        .select(CALL, KEY, ORDINAL)
    )


def _named_groups(keys: pl.DataFrame, node: Node, batch: Batches) -> pl.DataFrame:
    groups = normalise_groups(batch.groups.evaluate()) if isinstance(batch.groups, Deferred) else batch.groups
    members = [
        {**_values(node, key), _GROUP: f"g{index}"} for index, group in enumerate(groups) for key in group
    ]
    schema = {**{dimension(name): pl.String for name in node.dimensions}, _GROUP: pl.String}
    table = pl.DataFrame(members, schema=schema)
    grouped = keys.join(
        table, on=[dimension(name) for name in node.dimensions], how="left", maintain_order="left"
    )
    alone = grouped.filter(pl.col(_GROUP).is_null())
    if batch.strict and alone.height:
        raise UsageError(
            f"the key `{alone.item(0, KEY)}` of `{node.id}` is in no group of batches(..., strict=True)",
            code="batch_strict",
            node=node.id,
            remediation="add it to a group, or drop strict=True so that it runs in a call of its own",
        )
    return grouped.with_columns(pl.coalesce(_GROUP, pl.concat_str(pl.lit("k"), pl.col(KEY))).alias(_GROUP))


def _values(node: Node, key: object) -> dict[str, str]:
    if isinstance(key, str):
        return {dimension(node.dimensions[0]): key}
    assert isinstance(key, tuple)
    return {dimension(name): value for name, value in key}

"""What each input contributes to a run hash: how keys of a source map to keys of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from barca.hashing import HASH_LENGTH, encode_columns, hash_column, hash_fields, hash_text, short_hash
from barca.lookup import lookup
from barca.model import Always, Manual
from barca.records import Record
from barca.schemas import DIGEST, KEY, RUN_HASH, VALUE, dimension

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barca.graph import Edge, Node
    from barca.model import Definition


_ABSENT: Final = "0" * HASH_LENGTH
"""Stands for the result of a key that an input does not have."""


class Part(Record):
    """One input's part of the run hash of each key.

    Attributes:
        keys: The node's keys with the columns that `fields` and `marks` read beside them.
        fields: Tagged values, constants or columns.
        marks: Name and short hash (Int64 expression) of each thing that can change.
    """

    keys: pl.DataFrame
    fields: tuple[tuple[str, str | pl.Expr], ...]
    marks: tuple[tuple[str, pl.Expr], ...]


def folds_digest(definition: Definition[..., object]) -> bool:
    """Whether what reads the node folds in the content of its result, so that it must be known first.

    True for sensors, `cutoff=True`, and results that a run hash alone does not determine.
    """
    return (
        definition.kind == "sensor"
        or definition.cutoff
        or not definition.deterministic
        or isinstance(definition.freshness, Always | Manual)
    )


def identity_fields(node: Node, definition_hash: str) -> tuple[tuple[str, str | pl.Expr], ...]:
    """The tagged identity of a source's result, over columns `run_hash` and `digest`.

    A sensor: definition hash and digest. `cutoff=True`: the digest alone. A result that its run hash does
    not determine: run hash and digest. Any other: the run hash.
    """
    definition = node.definition
    if definition.kind == "sensor":
        return (("s", definition_hash), ("g", pl.col(DIGEST)))
    if definition.cutoff:
        return (("g", pl.col(DIGEST)),)
    if folds_digest(definition):
        return (("r", pl.col(RUN_HASH)), ("g", pl.col(DIGEST)))
    return (("r", pl.col(RUN_HASH)),)


def same_key_part(
    edge: Edge, keys: pl.DataFrame, source: Node, rows: pl.DataFrame, definition_hash: str
) -> Part:
    """The part of an input read key for key.

    Args:
        edge: The input.
        keys: `schemas.KEYS` of the node.
        source: The node it reads.
        rows: `key, run_hash, digest: String` of the source.
        definition_hash: Of the source.
    """
    fields = identity_fields(source, definition_hash)
    names = {RUN_HASH: f"{edge.parameter}:run_hash", DIGEST: f"{edge.parameter}:digest"}
    own = [rows.get_column(name).alias(column) for name, column in names.items()]
    found = lookup(keys, pl.DataFrame([rows.get_column(KEY), *own]), list(names.values()))
    if found.get_column(names[RUN_HASH]).null_count():
        # a key the source does not have is no key of it that failed: it has a hash, runs, and says so
        absent = ~pl.col(KEY).is_in(rows.get_column(KEY).implode())
        filled = pl.when(absent).then(pl.lit(_ABSENT))
        found = found.with_columns(filled.otherwise(pl.col(name)).alias(name) for name in names.values())
    columns = tuple(
        (tag, value if isinstance(value, str) else pl.col(names[value.meta.output_name()]))
        for tag, value in fields
    )
    last = columns[-1][1]
    mark = short_hash(last) if isinstance(last, pl.Expr) else pl.lit(0, pl.Int64)
    return Part(found, (("p", edge.parameter), ("m", edge.mode), *columns), ((f"input {edge.source}", mark),))


def combined_identity(source: Node, rows: pl.DataFrame, definition_hash: str) -> str:
    """One hash over every key of a source and the identity of its result.

    Args:
        source: The node.
        rows: `key, run_hash, digest: String` of the source, every key.
        definition_hash: Of the source.
    """
    identity = [("k", pl.col(KEY)), *identity_fields(source, definition_hash)]
    texts = rows.sort(KEY).rechunk().select(encode_columns(identity).alias(VALUE)).get_column(VALUE)
    return hash_fields([("n", str(texts.len())), ("c", texts.str.join("").item() if texts.len() else "")])


def constant_part(edge: Edge, keys: pl.DataFrame, combined: str) -> Part:
    """The part of an input that every key reads whole: one result, or every key of it.

    Args:
        edge: The input, `whole` or `collect`.
        keys: `schemas.KEYS` of the node.
        combined: `combined_identity` of what it reads.
    """
    mark = short_hash(pl.lit(combined))
    return Part(
        keys, (("p", edge.parameter), ("m", edge.mode), ("c", combined)), ((f"input {edge.source}", mark),)
    )


def keyed_part(
    edge: Edge, keys: pl.DataFrame, source: Node, identity: str, returned: pl.DataFrame, name: str
) -> Part:
    """The part of a keyed source: its identity and each key's own value.

    A list source has keys without values, and no part: a key is the same whatever else the list holds.

    Args:
        edge: The input.
        keys: `schemas.KEYS` of the node with `dim:` columns.
        source: The source.
        identity: Its run hash, or a sensor's definition hash.
        returned: Frame of `schemas.KEYED` it returned.
        name: The dimension.
    """
    if returned.get_column(VALUE).null_count() == returned.height:
        return Part(keys, (), ())
    column, raw = f"{edge.parameter}:value", dimension(name)
    values = pl.DataFrame([returned.get_column(KEY).alias(raw), returned.get_column(VALUE)])
    own_values = lookup(keys[[raw]], values, [VALUE], on=raw).get_column(VALUE)
    found = keys.hstack([hash_column(own_values).alias(column)])
    own = () if source.definition.cutoff else (("i", identity),)
    fields: Sequence[tuple[str, str | pl.Expr]] = (*own, ("w", pl.col(column)))
    marks = (
        (f"input {edge.source}", short_hash(pl.lit(hash_text(identity if own else "")))),
        (f"value {edge.source}", short_hash(pl.col(column))),
    )
    return Part(found, (("p", edge.parameter), ("m", edge.mode), *fields), marks)

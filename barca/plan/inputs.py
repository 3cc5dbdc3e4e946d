"""What planning starts from and what it results in: frozen values, frames inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from barca.frames import where
from barca.records import EMPTY, Record
from barca.schemas import NEEDED, STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from barca._typing import NodeId
    from barca.graph import Graph, Node
    from barca.model import Fingerprint
    from barca.plan.sizing import Measured, Sizing

BatchOverride: TypeAlias = "int | Literal['all', 'none', 'auto']"


class Unchanged(Record, kw_only=True):
    """The keys of a node that are known to be cached without being looked at, see `plan.baseline`.

    Attributes:
        keys: Their number. They are left out of `keyed`, and their rows out of `materialized`.
        collected: `combined_identity` of the node where no key of it is looked at.
        table_keys: Of them, those whose result is a table.
        table_rows: Rows of those tables.
    """

    keys: int
    collected: str | None
    table_keys: int
    table_rows: int


class PlanInputs(Record, kw_only=True):
    """The frozen world that a plan is a function of.

    Attributes:
        graph: The nodes.
        targets: Nodes wanted, their cones follow.
        fingerprints: Of every node of the cone.
        env: Per node, its declared environment variables; `None` for one that is not set.
        explicit: Per node and dimension, the declared keys.
        materialized: Per node, frame of successful rows of `schemas.MATERIALIZATIONS`, the last per
            (key, run_hash), sorted by age.
        definitions: Frame of `schemas.DEFINITIONS`, for naming what changed.
        keyed: Per keyed source whose result is known, frame of `schemas.KEYED`.
        settled: Nodes whose result is final in this run: they ran, or need not. With `predict`, nodes that
            never ran are unknown and sensors are taken to return what they last returned.
        predict: Whether this is a forecast (dry run, status).
        missing: Paths of packs that were found unreadable.
        selection: Dimension to the selected values; empty selects everything.
        refresh: Nodes to run again whatever is stored.
        cascade: Whether what reads a refreshed key runs again too.
        refresh_all: Whether everything runs again.
        batch: Grouping for nodes that declare one; by node id, or under `None` for every other.
        labels: Per node with `batches_by`, frame `key, label: String` of the keys that run.
        unchanged: Nodes of which only the keys that may have changed are looked at.
        groups: Per node with `batches`, its groups, as `partitions.normalise_groups` gives them.
        measured: Per node with `batches_auto`, what is known of its last calls.
        memory_limit: Bytes that a call may take where nobody says otherwise; `None` is no limit.
    """

    graph: Graph
    targets: tuple[NodeId, ...]
    fingerprints: Mapping[NodeId, Fingerprint]
    env: Mapping[NodeId, Mapping[str, str | None]] = EMPTY
    explicit: Mapping[NodeId, Mapping[str, tuple[str, ...]]] = EMPTY
    materialized: Mapping[NodeId, pl.DataFrame] = EMPTY
    definitions: pl.DataFrame
    keyed: Mapping[NodeId, pl.DataFrame] = EMPTY
    settled: frozenset[NodeId] = frozenset()
    predict: bool = False
    missing: frozenset[str] = frozenset()
    selection: Mapping[str, tuple[str, ...]] = EMPTY
    refresh: frozenset[NodeId] = frozenset()
    cascade: bool = True
    refresh_all: bool = False
    batch: Mapping[NodeId | None, BatchOverride] = EMPTY
    labels: Mapping[NodeId, pl.DataFrame] = EMPTY
    unchanged: Mapping[NodeId, Unchanged] = EMPTY
    groups: Mapping[NodeId, tuple[tuple[Any, ...], ...]] = EMPTY
    measured: Mapping[NodeId, Measured] = EMPTY
    memory_limit: int | None = None


class NodePlan(Record, kw_only=True):
    """What one node does.

    Attributes:
        node: The node.
        state: `decided`; `unknown` until the nodes in `awaits` are known; `skipped` by the selection.
        reason: For `unknown` and `skipped`, one of `schemas.REASONS`.
        detail: For people: why, and what to do.
        awaits: Nodes whose result decides this one.
        decision: Frame of `schemas.DECISION` plus `dim:` columns and, for cached keys, the columns of
            `schemas.FRAGMENTS`; in declared order. Empty unless decided.
        calls: Frame of `schemas.CALLS`: the keys that run. `call` is null where each key is its own call.
        grouping: `batch=all`, `batch=20`, ... or `None` for one key a call.
        sizing: What the sizes of calls follow from; `None` where they are declared.
        input_labels: Names of the entries of `input_hashes`, in order.
        narrowed: Keys left out by the selection, or `None` when the node is not narrowed.
        known_keys: `schemas.KEYS` with `dim:` columns of a node that is unknown though its keys are not.
        unchanged: Keys that are cached and stand in no row of `decision`.
        needs_labels: Whether `labels` must be given before its keys can be grouped.
    """

    node: Node
    state: Literal["decided", "unknown", "skipped"]
    reason: str | None = None
    detail: str | None = None
    awaits: frozenset[NodeId] = frozenset()
    decision: pl.DataFrame
    calls: pl.DataFrame
    grouping: str | None = None
    sizing: Sizing | None = None
    input_labels: tuple[str, ...] = ()
    narrowed: int | None = None
    known_keys: pl.DataFrame | None = None
    unchanged: int = 0
    needs_labels: bool = False

    @property
    def keys(self) -> pl.DataFrame | None:
        """`key`, `dim:` columns and `ordinal` of its selected keys; `None` while they are not known."""
        return self.decision if self.state == "decided" else self.known_keys

    @property
    def running(self) -> pl.DataFrame:
        """Rows of `decision` of the keys that run, once it says which are needed."""
        stale = self.decision.get_column(STATE) == "stale"
        return where(self.decision, stale & self.decision.get_column(NEEDED))

    @property
    def cached(self) -> pl.DataFrame:
        """Rows of `decision` of the keys that are served what is stored."""
        return where(self.decision, self.decision.get_column(STATE) == "cached")


class Plan(Record, kw_only=True):
    """What a run would do, per node in topological order."""

    nodes: Mapping[NodeId, NodePlan]
    targets: tuple[NodeId, ...]
    inputs: PlanInputs

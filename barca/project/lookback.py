"""What targets held at a moment of the past, as values and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from barca.errors import BarcaError
from barca.graph import names_of, short_name
from barca.io.annotations import return_annotation
from barca.io.values import read_values
from barca.plan.explain import LISTED_KEYS
from barca.project.outputs import displayed, plain, pointers
from barca.schemas import FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from barca._typing import NodeId
    from barca.graph import Node
    from barca.project.earlier import Earlier


class Lookback:
    """What targets held at a moment; nothing was run to tell.

    Attributes:
        moment: The moment.
        status: `success`, as of a run.
        run_id: The run that names the moment, or `None`.
        error: `None`.
    """

    status: Final = "success"
    error: BarcaError | None = None

    def __init__(
        self, earlier: Earlier, nodes: Sequence[Node], selection: Mapping[str, Sequence[str]], root: str
    ) -> None:
        self.moment = earlier.moment
        self.run_id = earlier.moment.run_id
        self._earlier = earlier
        self._nodes = {node.id: node for node in nodes}
        self._names = names_of(list(self._nodes))
        self._selection = selection
        self._root = root
        self._held = {node.id: self._held_by(node) for node in nodes}

    def __repr__(self) -> str:
        return f"<Lookback {', '.join(self._names.values())} as of {self.moment}>"

    def _repr_html_(self) -> str:
        from barca.render.html import lookback_html

        return lookback_html(self.to_dict())

    @property
    def targets(self) -> tuple[NodeId, ...]:
        """Node ids of the targets."""
        return tuple(self._nodes)

    @property
    def value(self) -> Any:
        """What the target held, or a dict of target to that when there are several.

        Raises:
            BarcaError: A partitioned target held more than 1,000 keys and none were selected.
        """
        if len(self._nodes) == 1:
            return self.value_of(self.targets[0])
        return {name: self.value_of(node_id) for node_id, name in self._names.items()}

    def value_of(self, node_id: NodeId) -> Any:
        """What one target held: its value, or a dict of display key to value in key order."""
        node, held = self._nodes[node_id], self._held[node_id]
        if self._is_long(node):
            raise BarcaError(
                f"`{short_name(node_id)}` held {held.height} keys, more than the {LISTED_KEYS} of a dict",
                code="too_many_keys",
                node=node_id,
                remediation="select keys with partition={...}, or use barca.scan(..., as_of=...)",
            )
        values = self._values(node, held)
        return displayed(values) if node.partitioned else values.get("")

    def scan(self) -> pl.LazyFrame:
        """One lazy table over what the only target held: the dimensions first, as String columns.

        Raises:
            InputError: It is no table.
        """
        (node,) = self._nodes.values()
        return self._earlier.table(node, self._held[node.id])

    def to_dict(self, output: Literal["pointer", "value"] = "pointer") -> dict[str, Any]:
        """As `Result.to_dict`, with `as_of`: `at`, `run_id`, `tag`; nothing ran."""
        outputs = {name: self._output(self._nodes[node_id], output) for node_id, name in self._names.items()}
        return {
            "status": self.status,
            "run_id": self.run_id,
            "as_of": self.moment.to_dict(),
            "elapsed_seconds": 0.0,
            "phases": 0,
            "steps_executed": 0,
            "steps_cached": sum(held.height for held in self._held.values()),
            "steps_skipped": 0,
            "steps": [self._step(node) for node in self._nodes.values()],
            **({"targets": outputs} if len(outputs) > 1 else {"final_output": next(iter(outputs.values()))}),
            "warnings": [],
        }

    def _held_by(self, node: Node) -> pl.DataFrame:
        others = {name for other in self._nodes.values() if other is not node for name in other.dimensions}
        strange = others.difference(node.dimensions)  # dimensions of other targets alone
        own = {name: values for name, values in self._selection.items() if name not in strange}
        return self._earlier.held(node, own)

    def _values(self, node: Node, held: pl.DataFrame) -> dict[str, Any]:
        batched = node.definition.batch is not None  # what it returns says nothing of one key's value
        annotation = None if batched else return_annotation(node.definition.function)
        if "table" not in held.get_column(FORMAT):
            annotation = None  # what was no table then is none because the code says so now
        return read_values(self._earlier.store, held, annotation, node.dimensions)

    def _is_long(self, node: Node) -> bool:
        named = any(name in node.dimensions for name in self._selection)
        return node.partitioned and self._held[node.id].height > LISTED_KEYS and not named

    def _output(self, node: Node, output: Literal["pointer", "value"]) -> Any:
        held = self._held[node.id]
        nothing: dict[str, Any] = {}
        if self._is_long(node):
            return {
                "_barca_partitions": {
                    "keys": held.height,
                    "computed": 0,
                    "cached": held.height,
                    "outputs": nothing,
                    "truncated": False,
                    "hint": f"{held.height} keys, more than {LISTED_KEYS}: select some with --partition, or "
                    "read all of them with barca.scan",
                }
            }
        shown = plain(self._values(node, held)) if output == "value" else pointers(held, self._root)
        return displayed(shown) if node.partitioned else shown.get("")

    def _step(self, node: Node) -> dict[str, Any]:
        step: dict[str, Any] = {"id": node.id, "kind": node.kind, "status": "cached", "reason": None}
        if node.partitioned:
            count = self._held[node.id].height
            none: list[str] = []
            step["partitions"] = {"total": count, "cached": count, "will_run": 0, "will_run_keys": none}
        return step

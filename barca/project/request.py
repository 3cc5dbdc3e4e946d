"""From what people write to what planning takes: targets, selections, groupings, refreshes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, TypeVar

from barca.discovery.nodes import newest
from barca.errors import SelectionError, UsageError, did_you_mean
from barca.graph import short_name
from barca.model import Definition
from barca.project.world import Request

if TYPE_CHECKING:
    from barca._typing import NodeId
    from barca.graph import Graph
    from barca.plan.inputs import BatchOverride

_One = TypeVar("_One")
Target: TypeAlias = "str | Definition[..., Any]"
Targets: TypeAlias = "Target | Sequence[Target] | None"
Selection: TypeAlias = "Mapping[str, Any] | None"
Batch: TypeAlias = "int | str | Mapping[str | None, int | str] | None"


def as_list(targets: Targets) -> list[Target]:
    """Targets as a list; a string may name several, separated by commas."""
    if targets is None:
        return []
    if isinstance(targets, str):
        return [part.strip() for part in targets.split(",") if part.strip()]
    return [targets] if isinstance(targets, Definition) else list(targets)


def find_targets(graph: Graph, ids: Mapping[int, NodeId], targets: Sequence[Target]) -> tuple[NodeId, ...]:
    """Node ids of targets; without any, every asset and sensor.

    Raises:
        SelectionError: A target that is no node.
        LoadError: A target that could not be loaded.
        DefinitionError: A target that does not fit to other nodes.
    """
    if not targets:
        return tuple(node_id for node_id, node in graph.nodes.items() if node.kind != "task")
    found = []
    for target in targets:
        if isinstance(target, Definition):
            node_id = ids.get(id(target)) or _renewed(graph, ids, target)
            if node_id is None:
                _raise_lost(graph, target)
                raise SelectionError(
                    f"`{target!r}` is not a node of this project", code="unknown_target", file=target.file
                )
            found.append(node_id)
        else:
            found.append(graph.find(target))
    return tuple(dict.fromkeys(found))


def only_target(graph: Graph, target: Target, verb: str) -> NodeId:
    """The node of the only target of a verb.

    Raises:
        UsageError: There is no such node, or several targets are named.
    """
    ids = {id(node.definition): node_id for node_id, node in graph.nodes.items()}
    return only_one(find_targets(graph, ids, as_list(target)), verb)[0]


def only_one(targets: Sequence[_One], verb: str) -> tuple[_One]:
    """The only target of a verb.

    Raises:
        UsageError: There are several, or none.
    """
    if len(targets) != 1:
        raise UsageError(f"{verb} takes exactly one target", code="target", remediation="name one node")
    return (targets[0],)


def _raise_lost(graph: Graph, target: Definition[..., Any]) -> None:
    """Say why a definition is no node, where it could not be loaded.

    Raises:
        LoadError: It could not.
        DefinitionError: It does not fit to other nodes.
    """
    name = target.name or target.function.__name__
    for broken in graph.load_errors:
        for node_id in broken.nodes:
            if short_name(node_id) == name and (node_id == target.name or target.file.endswith(broken.file)):
                raise broken.raised(node_id)


def _renewed(graph: Graph, ids: Mapping[int, NodeId], target: Definition[..., Any]) -> NodeId | None:
    """The node that stands for a definition since a notebook cell, its own or one it reads, ran again."""
    current = newest(target)
    if id(current) in ids:
        return ids[id(current)]
    same = (id_ for id_, node in graph.nodes.items() if node.definition.function is current.function)
    return next(same, None)


def selection_of(partition: Selection) -> dict[str, tuple[str, ...]]:
    """Dimension to selected values, as strings, without repetitions.

    Raises:
        UsageError: Not a mapping of dimension to a value or a list of values.
    """
    if partition is None:
        return {}
    if not isinstance(partition, Mapping):
        raise UsageError(
            f"partition= takes a dict of dimension to values, not `{partition!r}`",
            code="partition",
            remediation='write partition={"retailer": ["r1", "r2"]}',
        )
    chosen: dict[str, tuple[str, ...]] = {}
    for name, values in partition.items():
        if not isinstance(name, str):
            raise UsageError(
                f"partition= takes names of dimensions, not `{name!r}`",
                code="partition",
                remediation='write partition={"retailer": ["r1", "r2"]}',
            )
        several = [values] if isinstance(values, str) or not hasattr(values, "__iter__") else list(values)
        if not several:
            raise UsageError(f"partition= selects no value of `{name}`", code="partition")
        bad = [value for value in several if not _is_key(value)]
        if bad:
            raise UsageError(
                f"partition= takes strings, integers and dates as values of `{name}`, not `{bad[0]!r}`",
                code="partition",
            )
        chosen[name] = tuple(dict.fromkeys(str(value) for value in several))
    return chosen


def _is_key(value: object) -> bool:
    if isinstance(value, bool | dt.datetime):
        return False
    return isinstance(value, str | int | dt.date)


def batch_of(graph: Graph, batch: Batch) -> dict[NodeId | None, BatchOverride]:
    """Grouping by node id, or under `None` for every node that declares `batch=`.

    Raises:
        UsageError: Not `all`, `none` or a positive integer; or a node that does not declare `batch=`.
    """
    if batch is None:
        return {}
    if not isinstance(batch, Mapping):
        return {None: _grouping(batch)}
    chosen: dict[NodeId | None, BatchOverride] = {}
    for name, value in batch.items():
        if name is None:
            chosen[None] = _grouping(value)
            continue
        node_id = graph.find(name)
        if graph.nodes[node_id].definition.batch is None:
            raise UsageError(
                f"`{name}` takes one key a call; it cannot be batched",
                code="batch",
                node=node_id,
                remediation="declare batch= on it, and let its partition parameter take a list of keys",
            )
        chosen[node_id] = _grouping(value)
    return chosen


def _grouping(value: int | str) -> BatchOverride:
    if value in {"all", "none", "auto"}:
        return value  # type: ignore[return-value]
    text = str(value)
    if not isinstance(value, bool) and text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise UsageError(
        f"a batch is `all`, `none`, `auto` or a positive number of keys, not `{value}`",
        code="batch",
        remediation="write e.g. batch=20, or --batch 20",
    )


class Options(TypedDict, total=False):
    """What may be asked of a run or a plan.

    Keys:
        partition: Dimension to a value or values; only these keys, of every node with the dimension.
        batch: `all`, `none`, `auto`, a number of keys, or a dict of node to one of these, in which `None`
            stands for every other node.
        refresh: Nodes to run again whatever is stored.
        refresh_all: Everything again.
        cascade: Whether what reads a refreshed key runs again too; by default it does.
    """

    partition: Selection
    batch: Batch
    refresh: Targets
    refresh_all: bool
    cascade: bool


ELSEWHERE: Final = ("executor", "progress")
"""Options of runs that say nothing of what is wanted; a plan takes and leaves them."""


def require_known(options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Make sure that a misspelt option is not passed over: the call would do more than was asked for.

    Raises:
        UsageError: There is an option of another name.
    """
    valid = list(known)
    for name in options:
        if name not in valid:
            raise UsageError(
                f"there is no option `{name}=` here", code="option", remediation=did_you_mean(name, valid)
            )


def _flag(options: Options, name: Literal["refresh_all", "cascade"], *, default: bool) -> bool:
    value = options.get(name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{name}= is True or False, not `{value!r}`", code="option")
    return value


def require_only_partition(options: Mapping[str, Any]) -> None:
    """Make sure that nothing is asked of a look back that only a run can do.

    Raises:
        UsageError: There is more than `partition`.
    """
    others = sorted(name for name, value in options.items() if name != "partition" and value is not None)
    if others:
        raise UsageError(
            f"as_of= reads what was held and runs nothing: {others[0]}= does not go with it",
            code="as_of",
            remediation=f"leave out {', '.join(f'{name}=' for name in others)}; partition= selects keys",
        )


def make_request(
    graph: Graph, ids: Mapping[int, NodeId], targets: Targets, options: Options, *, tasks: bool = False
) -> Request:
    """The request that these arguments mean; `tasks` is whether no targets means tasks too.

    Raises:
        UsageError: Any of them is wrong, or a refreshed node is not in the targets' cone.
    """
    require_known(options, [*Options.__annotations__, *ELSEWHERE])
    found = tuple(graph.nodes) if tasks and targets is None else find_targets(graph, ids, as_list(targets))
    named = as_list(options.get("refresh"))
    refreshed = find_targets(graph, ids, named) if named else ()
    cone = graph.upstream(found)
    for node_id in refreshed:
        if node_id not in cone:
            raise SelectionError(
                f"`{short_name(node_id)}` is to be refreshed, but no target reads it",
                code="refresh",
                node=node_id,
                remediation=did_you_mean(short_name(node_id), (short_name(other) for other in cone)),
            )
    return Request(
        targets=found,
        selection=selection_of(options.get("partition")),
        batch=batch_of(graph, options.get("batch")),
        refresh=frozenset(refreshed),
        refresh_all=_flag(options, "refresh_all", default=False),
        cascade=_flag(options, "cascade", default=True),
        named=frozenset({*(found if as_list(targets) else ()), *refreshed}),
    )


def require_tasks(graph: Graph, targets: Sequence[NodeId]) -> None:
    """Make sure that every target is a task.

    Raises:
        UsageError: One is not.
    """
    for node_id in targets:
        if graph.nodes[node_id].kind != "task":
            raise UsageError(
                f"`{short_name(node_id)}` is {_article(graph.nodes[node_id].kind)}, not a task",
                code="not_a_task",
                node=node_id,
                remediation=f"use `barca get {short_name(node_id)}`",
            )


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"

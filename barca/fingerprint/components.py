"""Puts a definition's nodes together: order, labels, source for people, warnings."""

from __future__ import annotations

import inspect
import types
from collections import deque
from typing import TYPE_CHECKING, Any

from barca.hashing import FORMAT_VERSION, hash_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from barca.fingerprint.nodes import CodeNode, Target
    from barca.model import Definition


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that decorators which keep `__wrapped__` were put around."""
    try:
        inner = inspect.unwrap(function)
    except ValueError:
        return function  # wrapped around itself
    return inner if isinstance(inner, types.FunctionType) else function


def argument_fields(definition: Definition[..., Any]) -> list[tuple[str, str]]:
    """The decorator's arguments that count, as fields.

    How a node is grouped, retried, timed, weighed, scheduled and described does not count, nor do its inputs
    and keys, which enter run hashes by themselves.
    """
    fields: list[tuple[str, str]] = [("kind", definition.kind)]
    fields += [("serializer", definition.serializer or ""), ("engine", definition.engine or "")]
    fields += [("env", name) for name in sorted(set(definition.env))]
    fields += [("dimension", name) for name in definition.partitions]
    for sink in definition.sinks:
        fields += [("sink", str(sink.path)), ("format", sink.serializer or sink.format or "")]
        fields += [("by", name) for name in sink.partition_by]
        fields += [("rows", "" if sink.rows_per_file is None else str(sink.rows_per_file))]
    return fields


def walk(roots: Sequence[CodeNode]) -> tuple[list[CodeNode], dict[int, list[tuple[str, int]]]]:
    """The nodes that can be reached, in an order that only their edges decide.

    Returns:
        Nodes, nearest first, and by `id` of each its edges as label and place of the node in the order.
    """
    places: dict[int, int] = {}
    order: list[CodeNode] = []
    edges: dict[int, list[tuple[str, int]]] = {}

    def place(node: CodeNode) -> int:
        if id(node) not in places:
            places[id(node)] = len(order)
            order.append(node)
            pending.append(node)
        return places[id(node)]

    pending: deque[CodeNode] = deque()
    for root in roots:
        place(root)
    while pending:
        node = pending.popleft()
        edges[id(node)] = [
            (label, place(target)) for label, target in sorted(node.edges, key=lambda edge: edge[0])
        ]
    return order, edges


def definition_hash(
    arguments: str,
    externals: Sequence[str],
    order: Sequence[CodeNode],
    edges: dict[int, list[tuple[str, int]]],
) -> str:
    """The hash over the arguments and the whole graph of code.

    Args:
        arguments: Hash of the arguments that count.
        externals: Names of the function and its wrappers that are not the project's.
        order: Nodes as `walk` gives them.
        edges: Their edges as `walk` gives them.
    """
    fields = [
        ("version", FORMAT_VERSION),
        ("arguments", arguments),
        *(("external", name) for name in externals),
    ]
    for node in order:
        fields.append(("node", node.own))
        for label, place in edges[id(node)]:
            fields += [("edge", label), ("to", str(place))]
    return hash_fields(fields)


def labelled(order: Sequence[CodeNode]) -> list[tuple[str, CodeNode]]:
    """Each node under a label of its own; the first is `function`, its defaults and closure go unnamed."""
    found: list[tuple[str, CodeNode]] = []
    labels: dict[str, CodeNode] = {}
    short: dict[int, str] = {}
    for node in order[:1]:
        short = {id(target): label for label, target in node.edges if target.kind in {"default", "closure"}}
        short[id(node)] = "function"
    for node in order:
        label = base = short.get(id(node), node.label)
        number = 1
        while label in labels and labels[label].own != node.own:
            number += 1
            label = f"{base} ({number})"
        labels.setdefault(label, node)
        found.append((label, node))
    return found


def source_text(labels: Sequence[tuple[str, CodeNode]]) -> str:
    """Readable source: the function, then every other component under its label, sorted."""
    texts = {label: node.text for label, node in labels}
    names = sorted(texts, key=lambda label: (label != "function", label))
    return "\n\n".join(f"# {name}\n{texts[name]}" for name in names)


def warnings(
    definition: Definition[..., Any],
    node_id: str,
    labels: Sequence[tuple[str, CodeNode]],
    targets: Iterable[Target],
) -> tuple[str, ...]:
    """What could not be followed and what is read undeclared, sorted, each naming the node."""
    found = {f"`{node_id}`: {text}" for target in targets if (text := getattr(target, "warning", None))}
    if not labels:
        found.add(f"`{node_id}`: the function is not in the project; only its name counts")
    for label, node in labels:
        where = f"`{node_id}`" if label == "function" else f"`{node_id}`, {label}"
        found |= {f"{where}: {text}" for text in node.warnings}
        for name in node.reads:
            if name is None:
                found.add(
                    f"{where}: reads environment variables whose names are not literals; declare them with"
                    " `env=[...]`"
                )
            elif name not in definition.env:
                found.add(
                    f"{where}: reads the environment variable {name} undeclared, so that a change of it goes"
                    f' unnoticed; add env=["{name}"]'
                )
    return tuple(sorted(found))

"""Building the graph: resolving inputs, edges and their modes, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barca import asset, collect, partitions, partitions_from, sensor
from barca.errors import DefinitionError, LoadError
from barca.graph import BrokenFile, Edge, Graph, build_graph
from barca.model import Definition

AB = partitions(["a", "b"])


def graph(*definitions: Definition[..., Any], broken: list[BrokenFile] | None = None) -> Graph:
    """A graph of definitions in one file `p.py`, named by their `description` or function."""
    named = [(f"p.py:{each.description or each.function.__name__}", each) for each in definitions]
    return build_graph(named, broken or [])


def named(name: str, function: Callable[..., Any], **arguments: Any) -> Definition[..., Any]:
    return asset(description=name, **arguments)(function)


def refused(*definitions: Definition[..., Any]) -> DefinitionError:
    """What is wrong with the last definition: asking for its node raises it."""
    found = graph(*definitions)
    last = definitions[-1]
    with pytest.raises(DefinitionError) as caught:
        found.find(f"p.py:{last.description or last.function.__name__}")
    assert [each.cause and each.cause.message for each in found.load_errors] == [caught.value.message]
    assert found.load_errors[0].error == f"DefinitionError: {caught.value}"
    return caught.value


versions = sensor(description="versions")(lambda: {"a": 1})
one = named("one", lambda: 1)
keyed = named("keyed", lambda k: k, partitions={"k": AB})


def test_unpartitioned_inputs_are_whole():
    reader = named("reader", lambda x, k: x, inputs={"x": one}, partitions={"k": AB})
    node = graph(one, reader).nodes["p.py:reader"]
    assert node.edges == (Edge("x", "p.py:one", "whole"),)
    assert node.dimensions == ("k",)
    assert node.explicit == {"k": AB}
    assert (node.kind, node.partitioned, node.keyed) == ("asset", True, False)


def test_the_same_dimensions_are_read_key_for_key_in_any_order():
    both = {"k": AB, "m": partitions(["x"])}
    above = named("above", lambda k, m: 1, partitions=both)
    below = named("below", lambda k, m, x: 1, inputs={"x": above}, partitions=dict(reversed(both.items())))
    node = graph(above, below).nodes["p.py:below"]
    assert node.edges == (Edge("x", "p.py:above", "same_key"),)
    assert node.dimensions == ("m", "k")


def test_collect_reads_every_key():
    reader = named("reader", lambda xs: xs, inputs={"xs": collect(keyed)})
    assert graph(keyed, reader).nodes["p.py:reader"].edges == (Edge("xs", "p.py:keyed", "collect"),)
    error = refused(one, named("reader", lambda xs: xs, inputs={"xs": collect(one)}))
    assert "`one` is not partitioned" in error.message
    assert 'inputs={"xs": one}' in error.remediation


def test_partitions_from_a_partitioned_node_gives_that_keys_result():
    chained = named("chained", lambda k, keyed: 1, partitions={"k": partitions_from(keyed)})
    again = named("again", lambda k, c: 1, inputs={"c": chained}, partitions={"k": partitions_from(chained)})
    bare = named("bare", lambda k: 1, partitions={"k": partitions_from(keyed)})
    nodes = graph(keyed, chained, again, bare).nodes
    assert nodes["p.py:chained"].edges == (Edge("keyed", "p.py:keyed", "same_key"),)
    assert nodes["p.py:chained"].keys_from == "p.py:keyed"
    assert nodes["p.py:again"].edges == (Edge("c", "p.py:chained", "same_key"),)
    assert nodes["p.py:bare"].edges == (Edge("(keyed)", "p.py:keyed", "same_key", passed=False),)


def test_partitions_from_a_keyed_source_gives_that_keys_value():
    fed = named("fed", lambda k, versions: 1, partitions={"k": partitions_from(versions)})
    other = named(
        "other", lambda k, v: 1, inputs={"v": versions}, partitions={"k": partitions_from(versions)}
    )
    bare = named("bare", lambda k: 1, partitions={"k": partitions_from(versions)})
    nodes = graph(versions, fed, other, bare).nodes
    assert nodes["p.py:fed"].edges == (Edge("versions", "p.py:versions", "keyed"),)
    assert nodes["p.py:other"].edges == (Edge("v", "p.py:versions", "keyed"),)
    assert nodes["p.py:bare"].edges == (Edge("(versions)", "p.py:versions", "keyed", passed=False),)
    assert nodes["p.py:versions"].keyed is True


def test_a_source_of_keys_can_be_collected_too():
    reader = named(
        "reader",
        lambda k, keyed, xs: 1,
        inputs={"xs": collect(keyed)},
        partitions={"k": partitions_from(keyed)},
    )
    edges = graph(keyed, reader).nodes["p.py:reader"].edges
    assert [(edge.parameter, edge.mode) for edge in edges] == [("keyed", "same_key"), ("xs", "collect")]


def test_a_dimension_called_like_the_source_is_the_key():
    fed = named("fed", lambda versions: 1, partitions={"versions": partitions_from(versions)})
    assert graph(versions, fed).nodes["p.py:fed"].edges == (
        Edge("(versions)", "p.py:versions", "keyed", passed=False),
    )


def test_ids_resolve_whole_in_the_same_file_and_by_unique_name():
    by_id = named("by_id", lambda x: x, inputs={"x": "p.py:one"})
    by_name = named("by_name", lambda x: x, inputs={"x": "one"})
    nodes = graph(one, by_id, by_name).nodes
    assert nodes["p.py:by_id"].edges == nodes["p.py:by_name"].edges == (Edge("x", "p.py:one", "whole"),)
    elsewhere = [("q.py:one", one), ("r.py:one", named("one", lambda: 2)), ("p.py:x", by_name)]
    with pytest.raises(DefinitionError, match="reads `one`, which is not a node"):
        build_graph(elsewhere).find("p.py:x")


def test_a_module_imported_twice_resolves_by_place():
    def make() -> Definition[..., Any]:
        return asset(lambda: 1)

    first, second = make(), make()
    reader = named("reader", lambda x: x, inputs={"x": second})
    nodes = build_graph([("p.py:first", first), ("p.py:reader", reader)]).nodes
    assert nodes["p.py:reader"].edges[0].source == "p.py:first"
    with pytest.raises(DefinitionError, match="not a node"):  # two functions of one factory share a place
        build_graph([("p.py:first", first), ("p.py:third", make()), ("p.py:reader", reader)]).find("reader")


def test_unknown_inputs_name_the_closest():
    error = refused(one, named("reader", lambda x: x, inputs={"x": "onne"}))
    assert "`reader` reads `onne`, which is not a node" in error.message
    assert "did you mean `one`?" in error.remediation
    assert (error.node, error.file) == ("p.py:reader", __file__)
    assert error.line


def test_an_id_of_another_file_names_the_file_that_has_the_function():
    error = refused(one, named("reader", lambda x: x, inputs={"x": "old.py:one"}))
    assert error.remediation == "did you mean `p.py:one`? the file may have moved"


def test_partitioned_inputs_need_collect_or_partitions_from():
    error = refused(keyed, named("reader", lambda x: x, inputs={"x": keyed}))
    assert "collect(keyed)" in error.remediation
    assert "partitions_from(keyed)" in error.remediation


def test_partitions_from_keeps_the_dimension_and_takes_one():
    renamed = named("renamed", lambda m: m, partitions={"m": partitions_from(keyed)})
    assert "call the dimension (and the parameter) `k`" in refused(keyed, renamed).remediation
    two = named("two", lambda k, m: 1, partitions={"k": AB, "m": AB})
    error = refused(two, named("below", lambda k: 1, partitions={"k": partitions_from(two)}))
    assert "has 2 dimensions" in error.message


def test_parameters_that_the_source_does_not_fill_are_refused():
    error = refused(versions, named("fed", lambda k, version: 1, partitions={"k": partitions_from(versions)}))
    assert "nothing fills the parameter `version` of `fed`" in error.message


def test_circles_are_named():
    a = named("a", lambda x: x, inputs={"x": "p.py:b"})
    b = named("b", lambda x: x, inputs={"x": "p.py:a"})
    error = refused(a, b)
    assert error.code == "cycle"
    assert "`p.py:a` <- `p.py:b` <- `p.py:a`" in error.message
    assert refused(named("own", lambda x: x, inputs={"x": "p.py:own"})).code == "cycle"


def test_a_node_that_does_not_fit_costs_itself_and_what_reads_it():
    a = named("a", lambda x: x, inputs={"x": "p.py:b"})
    b = named("b", lambda x: x, inputs={"x": "p.py:a"})
    c = named("c", lambda x, y: x, inputs={"x": "p.py:a", "y": "p.py:c"})
    unknown = named("unknown", lambda x: x, inputs={"x": "onne"})
    whole = named("whole", lambda x: x, inputs={"x": keyed})
    below = named("below", lambda x, y: x, inputs={"x": one, "y": unknown})
    far = named("far", lambda x: x, inputs={"x": below})
    over = named("over", lambda x: x, inputs={"x": whole})
    twice = (named("twice", lambda: 1), named("twice", lambda: 2))
    reads = named("reads", lambda x: x, inputs={"x": twice[1]})
    found = graph(far, reads, a, b, c, whole, over, unknown, below, *twice, keyed, one)
    assert list(found.nodes) == ["p.py:one", "p.py:keyed"]
    told = {node: each for each in found.load_errors for node in each.nodes}
    assert sum(len(each.nodes) for each in found.load_errors) == len(told) == 10
    assert told["p.py:a"] is told["p.py:b"]
    causes = {node.partition(":")[2]: each.cause and each.cause.code for node, each in told.items()}
    assert causes == {
        **dict.fromkeys("abc", "cycle"),
        "whole": "definition",
        "over": None,
        "unknown": "unknown_input",
        "below": None,
        "far": None,
        "twice": "duplicate_node",
        "reads": None,
    }
    assert "it reads `p.py:below`, which could not be loaded: DefinitionError" in told["p.py:far"].error
    assert "`unknown` reads `onne`" in told["p.py:far"].error
    with pytest.raises(LoadError, match="it reads `p.py:twice`"):
        found.find("reads")


def test_two_nodes_of_one_id_are_refused():
    first, second = named("x", lambda: 1), named("x", lambda: 2)
    error = refused(first, second)
    assert error.code == "duplicate_node"
    assert f"{__file__}:{first.line} and {__file__}:{second.line}" in error.message
    folder, _, name = __file__.rpartition("/")
    (broken,) = build_graph([("x", first), ("x", second)], root=folder).load_errors
    assert broken.error == (
        f"DefinitionError: {name}:{second.line}: two nodes are called `x`: {name}:{first.line} and "
        f"{name}:{second.line}\nhint: give one of them another function name, or a name="
    )
    assert broken.file == name
    assert list(graph(one, one).nodes) == ["p.py:one"]


def test_order_is_topological_and_stable():
    c = named("c", lambda: 1)
    a = named("a", lambda c: 1, inputs={"c": "p.py:c"})
    b = named("b", lambda: 1)
    assert list(graph(a, b, c).nodes) == ["p.py:c", "p.py:a", "p.py:b"]


def test_long_chains_need_no_deep_stack():
    chain = [named("n0", lambda: 1)]
    for index in range(1, 3000):
        chain.append(named(f"n{index}", lambda x: x, inputs={"x": chain[-1]}))
    nodes = graph(*reversed(chain))
    assert len(nodes.upstream(["p.py:n2999"])) == 3000
    assert len(nodes.downstream(["p.py:n0"])) == 3000


def test_diamonds_are_walked_once():
    top = named("top", lambda: 1)
    sides = [named(f"s{i}", lambda x: x, inputs={"x": top}) for i in range(3)]
    layer = sides
    for depth in range(12):
        layer = [
            named(f"d{depth}_{i}", lambda x, y: 1, inputs={"x": layer[i], "y": layer[(i + 1) % 3]})
            for i in range(3)
        ]
        sides += layer
    assert len(graph(top, *sides).nodes) == 1 + 3 * 13


def test_nodes_that_read_lost_nodes_are_lost_with_them():
    broken = BrokenFile("q.py", ("q.py:gone",), "ValueError: boom", "trace")
    reader = named("reader", lambda x: x, inputs={"x": "q.py:gone"})
    below = named("below", lambda x: x, inputs={"x": reader})
    found = graph(one, reader, below, broken=[broken])
    assert list(found.nodes) == ["p.py:one"]
    assert [(each.file, each.nodes) for each in found.load_errors] == [
        ("q.py", ("q.py:gone",)),
        ("p.py", ("p.py:reader",)),
        ("p.py", ("p.py:below",)),
    ]
    assert "it reads `q.py:gone`, which could not be loaded: ValueError: boom" in found.load_errors[1].error
    assert found.load_errors[2].error.endswith(
        "it reads `p.py:reader`, which could not be loaded: ValueError: boom"
    )

"""Decorators: what they accept, what they refuse and how they say so."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Protocol, TypeVar

import pytest

from barca import (
    Always,
    Manual,
    Schedule,
    asset,
    batches,
    batches_by,
    collect,
    partitions,
    partitions_from,
    sensor,
    sink,
    task,
)
from barca.decorators.arguments import ACCEPTED
from barca.errors import DefinitionError
from barca.model import Definition

T = TypeVar("T")
KEYS = {"k": partitions(["a", "b"])}


def one(k: str) -> str:
    return k


def many(k: list[str]) -> dict[str, str]:
    return {key: key for key in k}


def whole() -> int:
    return 1


def refused(define: Callable[[], Any]) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        define()
    return caught.value


@pytest.mark.parametrize("decorator", [asset, task, sensor])
def test_bare_and_called_decorators_keep_the_function_callable(decorator: Any):
    for definition in (decorator(whole), decorator()(whole)):
        assert isinstance(definition, Definition)
        assert definition.kind == decorator.__name__
        assert definition() == 1
        assert definition.__name__ == "whole"
        assert inspect.signature(definition) == inspect.signature(whole)
        assert (definition.file, definition.line) == (__file__, whole.__code__.co_firstlineno)


def test_line_is_that_of_the_first_decorator():
    here = inspect.currentframe().f_lineno

    @asset(retries=2)
    @sink("out.json")
    def decorated() -> int:
        return 1

    assert decorated.line == here + 2


def test_every_argument_is_recorded():
    upstream = asset(whole)
    definition = asset(
        name="renamed",
        inputs={"x": upstream, "y": "other.py:node", "z": collect(asset(partitions=KEYS)(one))},
        partitions={"k": partitions([1, 2])},
        batch=20,
        serializer="json",
        freshness=Manual,
        timeout_seconds=5,
        retries=3,
        retry_backoff=1,
        env=["MODE", "MODE"],
        weight=4,
        cutoff=True,
        deterministic=False,
        engine="streaming",
        description="text",
        tags=("t",),
    )(lambda k, x, y, z: None)
    assert definition.name == "renamed"
    assert definition.inputs["x"] is upstream
    assert definition.partitions["k"].values == ("1", "2")
    assert definition.batch == 20
    assert definition.freshness == Manual()
    assert definition.timeout_seconds == 5.0
    assert definition.retry_backoff == 1.0
    assert definition.env == ("MODE",)
    assert (definition.cutoff, definition.deterministic, definition.engine) == (True, False, "streaming")
    assert definition.tags == ("t",)


@pytest.mark.parametrize("batch", [1, 500, "all", batches([["a"], ["b"]]), batches_by(len)])
def test_batch_forms(batch: Any):
    assert asset(partitions=KEYS, batch=batch)(many).batch == batch


@pytest.mark.parametrize("freshness", [Always(), Always, Manual(), Schedule("0 6 * * *"), None])
def test_freshness_forms(freshness: Any):
    expected = freshness() if isinstance(freshness, type) else freshness
    assert sensor(freshness=freshness)(whole).freshness == expected


def test_timeout_may_be_none():
    assert asset(timeout_seconds=None)(whole).timeout_seconds is None


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ({"name": ""}, "''"),
        ({"name": "a,b"}, "a,b"),
        ({"name": 3}, "3"),
        ({"inputs": ["x"]}, "['x']"),
        ({"inputs": {"x": whole}}, "function"),
        ({"inputs": {"x": partitions(["a"])}}, "Partitions"),
        ({"inputs": {"x": ""}}, "''"),
        ({"partitions": ["k"]}, "['k']"),
        ({"partitions": {"k": ["a", "b"]}}, "['a', 'b']"),
        ({"partitions": {"k": asset(whole)}}, "Definition"),
        ({"partitions": {"not a name": partitions(["a"])}}, "not a name"),
        ({"serializer": "parquett"}, "parquett"),
        ({"freshness": "0 6 * * *"}, "0 6 * * *"),
        ({"freshness": Schedule}, "Schedule"),
        ({"timeout_seconds": 0}, "0"),
        ({"timeout_seconds": -1.5}, "-1.5"),
        ({"timeout_seconds": True}, "True"),
        ({"timeout_seconds": float("nan")}, "nan"),
        ({"timeout_seconds": float("inf")}, "inf"),
        ({"timeout_seconds": "5"}, "'5'"),
        ({"retries": 0}, "0"),
        ({"retries": 1.0}, "1.0"),
        ({"retries": True}, "True"),
        ({"retry_backoff": -1}, "-1"),
        ({"env": "MODE"}, "MODE"),
        ({"env": [1]}, "[1]"),
        ({"env": {"A"}}, "{'A'}"),
        ({"weight": 0}, "0"),
        ({"cutoff": 1}, "1"),
        ({"deterministic": "yes"}, "yes"),
        ({"engine": "gpu"}, "gpu"),
        ({"description": 3}, "3"),
        ({"tags": "x"}, "x"),
        ({"batch": 0}, "0"),
        ({"batch": -1}, "-1"),
        ({"batch": True}, "True"),
        ({"batch": "some"}, "some"),
        ({"batch": "none"}, "none"),
        ({"batch": 2.5}, "2.5"),
        ({"batch": [["a"]]}, "[['a']]"),
        ({"batch": len}, "len"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(arguments: dict[str, Any], given: str):
    error = refused(lambda: asset(**arguments)(whole))
    (argument,) = arguments
    assert f"{argument}=" in error.message
    assert "`whole`" in error.message
    assert given in error.message
    assert error.file == __file__
    assert error.line


@pytest.mark.parametrize(
    ("decorator", "argument", "closest"),
    [
        (asset, "retrys", "retries"),
        (asset, "partition", "partitions"),
        (asset, "timeout", "timeout_seconds"),
        (task, "cuttoff", None),
        (task, "cutoff", None),
        (sensor, "inputs", None),
        (sensor, "batch", None),
        (sensor, "engine", None),
    ],
)
def test_unknown_arguments_name_the_accepted_ones(decorator: Any, argument: str, closest: str | None):
    error = refused(lambda: decorator(**{argument: None})(whole))
    assert f"@{decorator.__name__} has no argument `{argument}`" in error.message
    assert "`whole`" in error.message
    for accepted in ACCEPTED[decorator.__name__]:
        assert f"`{accepted}`" in error.remediation
    if closest:
        assert f"did you mean `{closest}`?" in error.remediation


def test_positional_arguments_are_refused():
    assert "not the str `'name'`" in refused(lambda: asset("name")).message
    with pytest.raises(TypeError):
        asset(whole, whole)


@pytest.mark.parametrize("thing", [3, int, functools.partial(one, "a"), len])
def test_only_functions_can_be_decorated(thing: Any):
    assert "@asset decorates a function" in refused(lambda: asset(thing)).message


def test_a_function_has_one_kind():
    error = refused(lambda: task(asset(whole)))
    assert "already is the asset" in error.message


def test_async_functions_are_refused_with_the_fix():
    async def later() -> int:
        return 1

    async def stream():
        yield 1

    assert "asyncio.run" in refused(lambda: asset(later)).remediation
    assert "async" in refused(lambda: asset(stream)).message


def test_generators_need_batch():
    def pairs(k: list[str]):
        yield from ((key, key) for key in k)

    def single():
        yield 1

    assert asset(partitions=KEYS, batch="all")(pairs).batch == "all"
    assert "generator" in refused(lambda: asset(single)).message


def test_batch_needs_partitions():
    assert "no partitions=" in refused(lambda: asset(batch=2)(whole)).message


@pytest.mark.parametrize(
    "annotation",
    [
        list[str],
        list,
        Sequence[str],
        tuple[str, ...],
        Any,
        Optional[list[str]],
        "list[str]",
        object,
        Annotated[list[str], 1],
        T,
    ],
)
def test_list_annotations_fit_batch(annotation: Any):
    def function(k):
        return {}

    function.__annotations__["k"] = annotation
    assert asset(partitions=KEYS, batch="all")(function)


@pytest.mark.parametrize(
    "annotation", [str, int, "str", "int", dict[str, str], set[str], Optional[str], bytes]
)
def test_scalar_annotations_with_batch_are_refused_with_the_fix(annotation: Any):
    def function(k):
        return {}

    function.__annotations__["k"] = annotation
    error = refused(lambda: asset(partitions=KEYS, batch="all")(function))
    assert "list of keys" in error.message
    assert "k: list[str]" in error.remediation


def test_list_annotation_without_batch_is_refused_with_the_fix():
    assert 'batch="all"' in refused(lambda: asset(partitions=KEYS)(many)).remediation


@pytest.mark.parametrize(
    "annotation",
    [
        int,
        "int",
        "datetime.date",
        bool,
        Optional[int],
        Literal[1, 2],
        Annotated[float, "m"],
        dict[str, str],
        bytes,
    ],
)
def test_an_annotation_that_no_key_can_have_is_refused_with_the_fix(annotation: Any):
    def function(k):
        return k

    function.__annotations__["k"] = annotation
    error = refused(lambda: asset(partitions=KEYS)(function))
    assert "keys are strings, but `k` of" in error.message and "k: str`" in error.remediation


@pytest.mark.parametrize("annotation", [list[int], "list[int]", Sequence[int], tuple[int, ...], list[bytes]])
def test_a_list_of_what_no_key_can_be_is_refused_with_the_fix(annotation: Any):
    def function(k):
        return {}

    function.__annotations__["k"] = annotation
    error = refused(lambda: asset(partitions=KEYS, batch="all")(function))
    assert "keys are strings, but `k` of" in error.message and "k: list[str]`" in error.remediation


class Name(str):
    """A kind of text."""

    __slots__ = ()


class Titled(Protocol):
    """What says nothing about itself at run time."""

    def title(self) -> str: ...


@pytest.mark.parametrize(
    "annotation",
    [
        str,
        "str",
        Optional[str],
        str | int,
        Literal["a", "b"],
        Annotated[str, 1],
        Any,
        object,
        T,
        Hashable,
        Name,
        Titled,
    ],
)
def test_annotations_that_a_key_can_have(annotation: Any):
    def function(k):
        return k

    function.__annotations__["k"] = annotation
    assert asset(partitions=KEYS)(function)


def test_annotations_that_cannot_be_evaluated_are_left_alone():
    def function(k: Missing):  # noqa: F821
        return k

    assert asset(partitions=KEYS, batch=2)(function)
    assert asset(partitions=KEYS)(function)


def test_dimensions_and_inputs_must_be_parameters():
    error = refused(lambda: asset(partitions={"kk": partitions(["a"])})(one))
    assert "the dimension `kk` is not a parameter of `one`" in error.message
    assert "did you mean `k`?" in error.remediation
    error = refused(lambda: asset(inputs={"other": asset(whole)})(whole))
    assert "the input `other` is not a parameter of `whole`" in error.message
    assert asset(inputs={"other": asset(whole)})(lambda **inputs: inputs)


def test_parameters_that_nothing_fills_are_refused():
    error = refused(lambda: asset(lambda x: x))
    assert "nothing fills the parameter `x`" in error.message
    assert "inputs=" in error.remediation
    assert "inputs=" not in refused(lambda: sensor(lambda x: x)).remediation
    assert asset(lambda x=1, *args, **kwargs: x)() == 1


def test_the_source_of_the_keys_fills_one_more_parameter():
    versions = sensor(lambda: {"a": 1})
    assert asset(partitions={"k": partitions_from(versions)})(lambda k, versions: k)
    assert (
        "`y`"
        in refused(lambda: asset(partitions={"k": partitions_from(versions)})(lambda k, x, y: k)).message
    )
    # named in inputs=, it fills that parameter and no other
    read = {"v": versions}
    error = refused(
        lambda: asset(inputs=read, partitions={"k": partitions_from(versions)})(lambda k, v, x: k)
    )
    assert "`x`" in error.message


def test_parameters_must_be_fillable_by_name():
    def positional(k, /):
        return k

    def variadic(*k):
        return k

    for function in (positional, variadic):
        assert "can't be given by name" in refused(lambda f=function: asset(partitions=KEYS)(f)).message


def test_a_parameter_is_filled_once():
    error = refused(lambda: asset(inputs={"k": asset(whole)}, partitions=KEYS)(one))
    assert "partitions= and in inputs=" in error.message


def test_derived_and_explicit_dimensions_do_not_mix():
    source = sensor(lambda: ["a"])
    declared = {"k": partitions_from(source), "m": partitions(["x"])}
    assert "must be the only dimension" in refused(lambda: asset(partitions=declared)(lambda k, m: k)).message


def test_other_decorators_keep_file_line_and_signature():
    def other(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) + "!"

        return wrapper

    definition = asset(partitions=KEYS)(other(one))
    assert definition("a") == "a!"
    assert definition.line == one.__code__.co_firstlineno
    cached = asset(functools.cache(whole))
    assert (cached(), cached.file) == (1, __file__)


class TestSink:
    def test_sinks_stack_under_and_above(self):
        @sink("above.parquet")
        @asset(cutoff=True)
        @sink("first/", partition_by=["day"], rows_per_file=10)
        @sink("s3://bucket/second.csv", serializer="csv")
        def stacked() -> int:
            return 1

        assert [spec.path for spec in stacked.sinks] == ["above.parquet", "first/", "s3://bucket/second.csv"]
        assert stacked.sinks[1].partition_by == ("day",)
        assert stacked.sinks[1].rows_per_file == 10
        assert stacked.sinks[2].serializer == "csv"
        assert stacked.cutoff is True
        assert stacked() == 1

    def test_a_sunk_function_stays_a_function(self):
        assert sink("out.json")(lambda: 1)() == 1

    @pytest.mark.parametrize("arguments", [(), ("a", "json"), (3,), ("",), (Path("a"),)])
    def test_exactly_one_path(self, arguments: tuple[Any, ...]):
        assert "exactly one path" in refused(lambda: sink(*arguments)).message

    def test_unknown_and_unfit_arguments(self):
        assert "`path`" in refused(lambda: sink(path="a")).message
        assert "did you mean `serializer`?" in refused(lambda: sink("a", serialiser="csv")).remediation
        assert '"parquet"' in refused(lambda: sink("a", serializer="xlsx")).message
        assert "at least 1" in refused(lambda: sink("a", rows_per_file=0)).message
        assert '["day"]' in refused(lambda: sink("a", partition_by="day")).remediation

    @pytest.mark.parametrize("decorator", [task, sensor])
    def test_only_assets_have_sinks(self, decorator: Any):
        assert decorator.__name__ in refused(lambda: decorator(sink("a")(lambda: 1))).message
        assert decorator.__name__ in refused(lambda: sink("a")(decorator(lambda: 1))).message
        assert "not `3`" in refused(lambda: sink("a")(3)).message


def test_f11_key_values_are_refused_by_name():
    assert partitions([1, 2]).values == ("1", "2")
    assert partitions(["01", "1"]).values == ("01", "1")
    assert "`True`" in refused(lambda: partitions([True])).message
    assert "`'abc'`" in refused(lambda: partitions("abc")).message
    assert "`1` stands twice" in refused(lambda: partitions([1, "1"])).message


def test_definitions_pickle_by_reference_to_their_function():
    definition = pickle.loads(pickle.dumps(asset(partitions=KEYS)(one)))
    assert definition("a") == "a"
    assert definition.__name__ == "one"

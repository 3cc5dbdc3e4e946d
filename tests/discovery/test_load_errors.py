"""Files that cannot be imported or parsed, and expressions that raise: named, and the rest works."""

from __future__ import annotations

import pytest

from barca.discovery import discover, evaluate_partitions
from barca.errors import LoadError, SelectionError

GOOD = "from barca import asset\n@asset\ndef good():\n    return 1\n"


def test_a_file_that_raises_names_its_nodes_and_spares_the_rest(project):
    project.write("good.py", GOOD)
    project.write(
        "bad.py",
        """
        import barca as b
        from barca import task as t, sensor
        @b.asset
        def one(): ...
        @t(retries=2)
        @other
        def two(): ...
        @sensor(name="my.sensor")
        async def three(): ...
        def helper(): ...
        1 / 0
        """,
    )
    graph = discover(project.root)
    (broken,) = graph.load_errors
    assert list(graph.nodes) == ["good.py:good"]
    assert (broken.file, broken.nodes) == ("bad.py", ("bad.py:one", "bad.py:two", "my.sensor"))
    assert broken.error == "NameError: name 'other' is not defined"
    assert "bad.py" in broken.traceback
    assert "importlib" not in broken.traceback
    assert "barca/discovery" not in broken.traceback
    with pytest.raises(LoadError, match="name 'other' is not defined"):
        graph.find("two")


@pytest.mark.parametrize(
    "raised",
    [
        "raise SystemExit(3)",
        "import sys; sys.exit('stop')",
        "raise BaseException('panic')",
        "import gone_module",
    ],
)
def test_whatever_a_file_raises_is_a_load_error(project, raised: str):
    project.write("good.py", GOOD)
    project.write("bad.py", GOOD.replace("good", "bad") + raised)
    graph = discover(project.root)
    assert list(graph.nodes) == ["good.py:good"]
    assert [broken.nodes for broken in graph.load_errors] == [("bad.py:bad",)]


def test_an_interrupt_is_not_a_load_error(project):
    project.write("bad.py", GOOD + "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        discover(project.root)


def test_a_file_that_does_not_parse_names_its_nodes(project):
    project.write("good.py", GOOD)
    project.write(
        "bad.py",
        """
        from barca import (asset,
            task as job)
        import barca
        @asset
        def one(: ...
        @job(
            name="given",
            retries=2,
        )
        def two():
        @barca.sensor()
        @wraps(x)
        async def three(): ...
        @staticmethod
        def helper(): ...
        """,
    )
    graph = discover(project.root)
    (broken,) = graph.load_errors
    assert broken.nodes == ("bad.py:one", "given", "bad.py:three")
    assert broken.error == "SyntaxError: invalid syntax (bad.py, line 5)"
    assert broken.traceback.count("File ") == 1


@pytest.mark.parametrize("content", [b"from barca import asset\n\xff\n", b"import barca\n\x00\n"])
def test_bytes_that_are_no_text_are_a_load_error(project, content: bytes):
    (project.root / "bad.py").write_bytes(content)
    assert [broken.file for broken in discover(project.root).load_errors] == ["bad.py"]


def test_other_encodings_are_read(project):
    content = '# coding: latin-1\nfrom barca import asset\n@asset\ndef a():\n    return "\xe9"\n'
    (project.root / "a.py").write_bytes(content.encode("latin-1"))
    assert discover(project.root).nodes["a.py:a"].definition() == "\xe9"


def test_a_definition_error_keeps_message_file_line_and_hint(project):
    project.write("bad.py", "from barca import asset\n\n@asset(retrys=3)\ndef one(): ...\n")
    (broken,) = discover(project.root).load_errors
    assert broken.nodes == ("bad.py:one",)
    assert broken.error.startswith("DefinitionError: bad.py:3: `one`: @asset has no argument `retrys`")
    assert "did you mean `retries`?" in broken.error


def test_f11_refused_literal_keys_name_file_and_line(project):
    for name, keys in {"text": '"abc"', "twice": '[1, "1"]', "flag": "[True]"}.items():
        project.write(
            f"{name}.py",
            "from barca import asset, partitions\n\n"
            f'@asset(partitions={{"k": partitions({keys})}})\ndef one(k): ...\n',
        )
    errors = {broken.file: broken.error for broken in discover(project.root).load_errors}
    assert "flag.py:3: a key cannot be the bool `True`" in errors["flag.py"]
    assert "text.py:3: partitions(...) takes a list of keys, not the str `'abc'`" in errors["text.py"]
    assert "twice.py:3: the key `1` stands twice" in errors["twice.py"]


def test_f11_refused_computed_keys_cost_their_node_only(project):
    project.write(
        "p.py",
        """
        from barca import asset, partitions, partitions_from, collect
        NUMBERS = [1, 2]
        @asset(partitions={"k": partitions([n for n in NUMBERS])})
        def numbers(k): ...
        @asset(partitions={"k": partitions("ab" + "c")})
        def text(k): ...
        @asset(partitions={"k": partitions(NUMBERS + ["1"])})
        def twice(k): ...
        @asset(partitions={"k": partitions_from(twice)})
        def below(k): ...
        """,
    )
    graph = discover(project.root)
    keys, errors = evaluate_partitions(graph)
    assert keys == {("p.py:numbers", "k"): ("1", "2")}
    assert [error.nodes for error in errors] == [("p.py:text",), ("p.py:twice",)]
    assert "`'abc'`" in errors[0].error
    assert "in partitions('ab' + 'c') at p.py:5" in errors[0].error
    left = graph.without(errors)
    assert list(left.nodes) == ["p.py:numbers"]
    assert [broken.nodes for broken in left.load_errors] == [("p.py:text",), ("p.py:twice",), ("p.py:below",)]


def test_an_expression_that_raises_is_a_load_error_of_its_nodes(project):
    project.write("util.py", "def keys():\n    raise RuntimeError('no warehouse')\n")
    project.write(
        "p.py",
        """
        import util
        from barca import asset, partitions
        @asset(partitions={"k": partitions(util.keys())})
        def one(k): ...
        @asset(partitions={"k": partitions(util.keys()), "m": partitions(["x"])})
        def two(k, m): ...
        @asset(partitions={"k": partitions(exit(3))}, name="named")
        def three(k): ...
        """,
    )
    graph = discover(project.root)
    assert not graph.load_errors
    keys, errors = evaluate_partitions(graph)
    assert keys == {("p.py:two", "m"): ("x",)}
    assert [error.nodes for error in errors] == [("p.py:one",), ("p.py:two",), ("named",)]
    assert errors[0].error.startswith("RuntimeError: no warehouse\nin partitions(util.keys()) at p.py:3")
    assert "util.py" in errors[0].traceback
    assert errors[2].error.startswith("SystemExit: 3")
    assert evaluate_partitions(graph, ["p.py:two"])[1] == [errors[1]]


def test_nodes_that_read_a_broken_file_are_lost_with_it(project):
    project.write("bad.py", GOOD.replace("good", "bad") + "1 / 0\n")
    project.write(
        "by_import.py",
        "from barca import asset\nfrom bad import bad\n@asset(inputs={'x': bad})\ndef one(x): ...\n",
    )
    project.write(
        "by_id.py", "from barca import asset\n@asset(inputs={'x': 'bad.py:bad'})\ndef two(x): ...\n"
    )
    project.write(
        "below.py", "from barca import asset\n@asset(inputs={'x': 'by_id.py:two'})\ndef three(x): ...\n"
    )
    project.write("good.py", GOOD)
    graph = discover(project.root)
    assert list(graph.nodes) == ["good.py:good"]
    lost = {broken.file: broken for broken in graph.load_errors}
    assert set(lost) == {"bad.py", "by_import.py", "by_id.py", "below.py"}
    assert lost["by_import.py"].error == "ZeroDivisionError: division by zero"
    assert lost["below.py"].error.count("could not be loaded") == 1


def test_the_hint_names_the_file_that_broke_not_the_one_that_reads_it(project):
    project.write("util.py", "def check(x):\n    raise ValueError(x)\n")
    project.write("bad.py", GOOD.replace("good", "bad") + "1 / 0\n")
    project.write("cut.py", "def (\n")
    project.write("by_import.py", "from bad import bad\n" + GOOD.replace("good", "one"))
    project.write("by_parse.py", "import cut\n" + GOOD.replace("good", "two"))
    project.write("calls.py", "import util\n" + GOOD.replace("good", "three") + "util.check(1)\n")
    project.write(
        "by_id.py", GOOD.replace("@asset", "@asset(inputs={'x': 'bad.py:bad'})").replace("()", "(x)")
    )
    graph = discover(project.root)
    for name, culprit in {"one": "bad.py", "two": "cut.py", "three": "calls.py", "bad": "bad.py"}.items():
        with pytest.raises(LoadError) as caught:
            graph.find(name)
        assert caught.value.remediation.startswith(f"fix {culprit};")
    with pytest.raises(LoadError) as caught:
        graph.find("good")
    assert (caught.value.file, caught.value.remediation[:11]) == ("by_id.py", "fix bad.py;")
    told = {error["file"]: error["culprit"] for error in (broken.to_dict() for broken in graph.load_errors)}
    assert told["by_import.py"] == told["by_id.py"] == told["bad.py"] == "bad.py"


@pytest.mark.parametrize("ending", ["", "boom(\n"])
def test_a_decorated_class_is_named(project, ending: str):
    project.write("bad.py", f"from barca import asset\n@asset(retries=2)\nclass Table:\n    x = 1\n{ending}")
    (broken,) = discover(project.root).load_errors
    assert broken.nodes == ("bad.py:Table",)


def test_a_repaired_file_loads(project):
    project.write("util.py", "1 / 0\n")
    project.write("p.py", "import util\n" + GOOD)
    assert discover(project.root).load_errors
    project.write("util.py", "")
    graph = discover(project.root)
    assert list(graph.nodes) == ["p.py:good"]
    assert not graph.load_errors


def test_a_script_beside_the_pipeline_is_no_load_error(project):
    project.write("good.py", GOOD)
    script = project.write("script.py", "import barca\n\nprint(barca.status().to_dict())\n")
    both = project.write("both.py", GOOD.replace("good", "both") + "import barca\nbarca.get(both)\n")
    graph = discover(project.root)
    assert list(graph.nodes) == ["good.py:good"]
    assert [broken.file for broken in graph.load_errors] == [both.name], "what it declares is lost"
    (named,) = discover(project.root, [script]).load_errors
    assert "put the call under" in named.error, "a file that is named is told about"


def test_a_name_that_is_nowhere_says_what_could_not_be_loaded(project):
    project.write("bad.py", "import barca\n1 / 0\n")
    with pytest.raises(SelectionError, match="no node `good`") as raised:
        discover(project.root).find("good")
    assert "what could not be loaded (bad.py)" in str(raised.value.remediation)

"""What `@sink` takes, and what of it is refused when the file is read."""

from __future__ import annotations

import json

import pytest

from barca import asset, get, partitions, sink
from barca.errors import DefinitionError

PIPELINE = """
from barca import asset, sink

EXPORT_PATH = "out.json"
name = "x"

@asset
@sink({arguments})
def orders() -> dict:
    return {{"a": 1}}
"""


def refused(make) -> DefinitionError:
    with pytest.raises(DefinitionError) as raised:
        make()
    return raised.value


@pytest.mark.parametrize(
    "arguments",
    [
        "EXPORT_PATH",
        'f"exports/{name}.parquet"',
        '"exports/" + name',
        '"exports/" "{}".format(name)',
        "(EXPORT_PATH)",
    ],
)
def test_a_path_that_is_no_literal_is_an_error_when_the_file_is_read(project, arguments):
    project.write("pipeline.py", PIPELINE.format(arguments=arguments))
    done = project.cli("get", "orders", "pipeline.py", "--json")
    assert done.returncode == 2
    told = json.loads(done.stderr.strip().splitlines()[-1])
    assert told["kind"] == "usage"
    assert "not a string literal" in told["error"]
    assert not (project.root / "out.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        'path="out.json"',
        "",
        '"out.txt", "json"',
        '"out.txt", serialiser="json"',
        '"out.txt", compression="zstd"',
        '""',
        '" "',
        '"."',
        '"/"',
        '"./"',
        '"out/.."',
        '"../"',
        '"~"',
        '"~/"',
        '"file:///"',
        '"s3://"',
        '"s3:///x"',
        '"s3://bucket"',
        "3",
    ],
)
def test_other_arguments_are_an_error_when_the_file_is_read(project, arguments):
    project.write("pipeline.py", PIPELINE.format(arguments=arguments))
    done = project.cli("get", "orders", "pipeline.py", "--json")
    assert done.returncode == 2
    assert "pipeline.py" in done.stderr


def test_literals_in_parts_and_other_functions_called_sink_are_fine(project):
    project.write("pipeline.py", PIPELINE.format(arguments='"exports/" "out.json"'))
    project.write(
        "other.py",
        """
        import barca
        from barca import asset

        def sink(path):
            return lambda function: function

        PATH = "a"

        @asset
        @sink(PATH + "b")
        def other() -> int:
            return 1
        """,
    )
    assert project.ran() == {"orders": 1, "other": 1}
    assert (project.root / "exports/out.json").exists()


@pytest.mark.parametrize(
    "statement",
    ["from barca import *", "import barca", "import barca as b", "from barca import sink as s, asset"],
)
def test_sinks_are_found_however_they_are_imported(project, statement):
    called = {"import barca": "barca.sink", "import barca as b": "b.sink"}.get(
        statement, "s" if " as s" in statement else "sink"
    )
    decorate = {"import barca": "barca.asset", "import barca as b": "b.asset"}.get(statement, "asset")
    project.write(
        "pipeline.py",
        f"{statement}\nP = 'x.json'\n@{decorate}\n@{called}(P)\ndef one() -> int:\n    return 1\n",
    )
    assert "not a string literal" in project.open().list_nodes()["load_errors"][0]["error"]


def test_a_dataset_takes_formats_of_tables():
    assert "for a dataset" in refused(lambda: sink("out/", serializer="pickle")).message
    assert "for a dataset" in refused(lambda: sink("out/", serializer="ipc")).message


def test_options_of_other_kinds_of_sinks_are_refused():
    assert "for datasets only" in refused(lambda: sink("out.csv", partition_by=["a"])).message
    assert "Parquet datasets only" in refused(lambda: sink("out.parquet", rows_per_file=3)).message
    assert "Parquet datasets only" in refused(lambda: sink("out/", serializer="csv", rows_per_file=3)).message
    assert "Delta tables only" in refused(lambda: sink("out/", compact_files=3)).message
    assert (
        "Delta table is Parquet"
        in refused(lambda: sink("out/", format="delta", serializer="csv")).remediation
    )
    assert '"delta"' in refused(lambda: sink("out/", format="iceberg")).message


@pytest.mark.parametrize(
    ("one", "other"),
    [("a.csv", "a.csv"), ("a.csv", "./a.csv"), ("out/", "x/../out//"), ("s3://b/a/", "s3://b/a")],
)
def test_sinks_of_an_asset_have_paths_of_their_own(one, other):
    def function():
        return 1

    assert "stands there twice" in refused(lambda: asset(sink(one)(sink(other)(function)))).message


TWO = """
    from barca import asset, sink

    @asset
    @sink("{one}"{first})
    def one() -> dict:
        return {{}}

    @asset
    @sink("{other}"{second})
    def other() -> dict:
        return {{}}
"""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.csv", "./b/../a.csv"),
        ("a.csv", "{root}/a.csv"),
        ("a.csv", "file://{root}/a.csv"),
        ("a.csv", "link/a.csv"),
        ("out/", "out"),
        ("s3://b/a/", "s3a://b/a"),
    ],
)
@pytest.mark.parametrize("delta", ["", ', format="delta"'])
def test_assets_have_sinks_of_their_own(project, one, other, delta):
    (project.root / "link").symlink_to(".")
    other = other.format(root=project.root)
    project.write("pipeline.py", TWO.format(one=one, first="", other=other, second=delta))
    error = lost(project, "one", "other")
    first, second = "pipeline.py:3", "pipeline.py:8"
    assert f'@sink("{other}") of `other` ({second}) writes to the same place as' in error.message
    assert f'@sink("{one}") of `one` ({first})' in error.message
    assert (error.kind, error.node, error.line) == ("usage", "pipeline.py:other", 8)


def lost(project, *names: str) -> DefinitionError:
    """The mistake for which a project has lost nodes, all of them and no others."""
    opened = project.open()
    assert sorted(node for each in opened.graph.load_errors for node in each.nodes) == [
        f"pipeline.py:{name}" for name in names
    ]
    errors = []
    for name in names:
        with pytest.raises(DefinitionError) as raised:
            opened.get(name)
        errors.append((raised.value.message, raised.value.line))
    assert len(set(errors)) == 1
    assert not (project.root / ".barca/artifacts").exists()
    return raised.value


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("out/", "out/x/y.csv"), ("./out/", "out/x/"), ("s3://b/a/", "s3://b/a/x.csv"), ("link/", "out/x.csv")],
)
@pytest.mark.parametrize("delta", ["", ', format="delta"'])
def test_nothing_is_published_into_a_prefix(project, outer, inner, delta):
    (project.root / "link").symlink_to("out")
    project.write("pipeline.py", TWO.format(one=inner, first="", other=outer, second=delta))
    error = lost(project, "one", "other")
    assert f'@sink("{inner}") of `one` (pipeline.py:3) is inside of' in error.message
    assert f'@sink("{outer}") of `other`' in error.message


def test_one_asset_publishes_nothing_into_its_own_prefix(project):
    text = TWO.format(one="out/", first="", other="b.csv", second="").replace(
        '@sink("out/")', '@sink("out/")\n    @sink("out/a.json")'
    )
    project.write("pipeline.py", text)
    assert "is inside of" in lost(project, "one").message


def test_sinks_at_one_place_cost_their_assets_and_what_reads_them(project):
    text = TWO.format(one="a.csv", first="", other="./a.csv", second="")
    text += """
    @asset
    @sink("fine.json")
    def fine() -> dict:
        return {"fine": 1}

    @asset(inputs={"one": one})
    @sink("below.json")
    def below(one: dict) -> dict:
        return one
"""
    project.write("pipeline.py", text)
    for target, code in (("one", "sink_place"), ("other", "sink_place"), ("below", "load_error")):
        for command in ("get", "explain"):
            done = project.cli(command, target, "--json")
            error = json.loads(done.stderr)
            assert (done.returncode, done.stdout, error["code"]) == (2, "", code)
            assert '@sink("./a.csv") of `other` (pipeline.py:8)' in error["error"]
    done = project.cli("get", "--json")
    assert (done.returncode, json.loads(done.stdout)["steps_executed"]) == (0, 1)
    for name in ("one", "other", "below"):
        assert f"pipeline.py:{name}" in done.stderr
    written = {path.name for path in project.root.iterdir() if path.suffix in {".csv", ".json"}}
    assert written == {"fine.json"}
    listed = json.loads(project.cli("list", "--json").stdout)
    assert [each["nodes"] for each in listed["load_errors"]] == [
        ["pipeline.py:one", "pipeline.py:other"],
        ["pipeline.py:below"],
    ]


def test_a_script_whose_sinks_lead_to_one_place_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @asset
    @sink("a.json")
    def one():
        return 1

    @asset(inputs={"one": one})
    @sink("x/../a.json")
    def other(one):
        return one

    with pytest.raises(DefinitionError, match="writes to the same place as"):
        get(other)


KEYED = """
    from barca import asset, partitions, partitions_from, sink

    KEYS = ["c"]

    @asset
    def named() -> list[str]:
        return ["a"]

    @asset(partitions={{{keys}}})
    @sink("{one}")
    def one({parameters}) -> dict:
        return {{}}

    @asset{other}
    def other({own}) -> dict:
        return {{}}
"""


@pytest.mark.parametrize(
    ("one", "keys", "other", "meet"),
    [
        ("out.csv", '"k": partitions(["a", "b"])', "out_k_a.csv", True),
        ("out.csv", '"k": partitions(["a", "b"])', "x/../out_k_b.csv", True),
        ("out.csv", '"k": partitions(["a", "b"])', "out_k_c.csv", False),
        ("out.csv", '"k": partitions(["a", "b"])', "out_k_a.json", False),
        ("out.csv", '"k": partitions(["a", "b"])', "x/out_k_a.csv", False),
        ("out.csv", '"k": partitions(["a/b"])', "out_k_a%2Fb.csv", True),
        ("out.csv", '"k": partitions_from(named)', "out_k_total.csv", True),
        ("out.csv", '"k": partitions_from(named)', "out_k_a b.csv", False),
        ("out.csv", '"k": partitions(KEYS)', "out_k_c.csv", True),
        ("s3://b/out.csv", '"k": partitions(["a"])', "s3a://b/out_k_a.csv", True),
        ("{root}/out.csv", '"k": partitions(["a"])', "out_k_a.csv", True),
        ("out.csv", '"k": partitions(["a"]), "l": partitions(["b"])', "out_k_a_l_b.csv", True),
        ("out.csv", '"k": partitions(["a"]), "l": partitions(["b"])', "out_k_b_l_a.csv", False),
    ],
)
def test_a_file_of_a_key_is_no_other_sink(project, one, keys, other, meet):
    parameters = "k, l" if '"l"' in keys else "k"
    text = KEYED.format(
        one=one.format(root=project.root),
        keys=keys,
        parameters=parameters,
        other=f'\n    @sink("{other}")',
        own="",
    )
    project.write("pipeline.py", text)
    if meet:
        assert "may write to the same file as" in lost(project, "one", "other").message
    else:
        assert not project.open().graph.load_errors


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("out.csv", "out_k_a.csv", True),
        ("out_k_a.csv", "out.csv", True),
        ("out_k_a.csv", "out.json", False),
        ("out.csv", "out2.csv", False),
        ("out.csv", "out_l_a.csv", False),
    ],
)
def test_files_of_keys_of_two_assets_do_not_meet(project, one, other, meet):
    keys = '"k": partitions(["a"])'
    text = KEYED.format(
        one=one,
        keys=keys,
        parameters="k",
        other=f'(partitions={{{keys}}})\n    @sink("{other}")',
        own="k",
    )
    project.write("pipeline.py", text)
    if meet:
        assert "may write to the same file as" in lost(project, "one", "other").message
    else:
        assert not project.open().graph.load_errors


def test_neighbours_are_no_prefixes(project):
    project.write("pipeline.py", TWO.format(one="out/", first="", other="out2/x.csv", second=""))
    assert len(project.open().graph.nodes) == 2


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("{root}/", "would own the directory of the project"),
        ("../", "names no file"),
        ("{root}/../", "would own the directory of the project"),
        ("{above}/", "would own the directory of the project"),
        (".barca/", "inside of barca's own store"),
        (".barca/artifacts/x.json", "inside of barca's own store"),
        ("pipeline.py", "would replace a file that declares nodes"),
    ],
)
def test_a_project_is_not_overwritten_by_its_sinks(project, path, why):
    path = path.format(root=project.root, above=project.root.parent)
    project.write("pipeline.py", PIPELINE.format(arguments=f'"{path}"'))
    before = (project.root / "pipeline.py").read_text()
    done = project.cli("get", "orders", "pipeline.py", "--json")
    assert done.returncode == 2
    assert why in done.stderr
    assert (project.root / "pipeline.py").read_text() == before


def test_objects_may_have_names_that_only_differ_in_dots():
    def function():
        return 1

    asset(sink("s3://b/a.csv")(sink("s3://b/./a.csv")(sink("b/a.csv")(function))))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (["d", "d"], "takes each column once"),
        (["d", "D"], "has the levels `d` and `D`"),
        (["K"], "has the levels `k` and `K`"),
        (["_d"], "cannot have directories for `_d`"),
        ([".d"], "cannot have directories for `.d`"),
        (["a/b"], "cannot have directories for `a/b`"),
        (["a=b"], "cannot have directories for `a=b`"),
        (["a%20b"], "cannot have directories for `a%20b`"),
        (["a?"], "cannot have directories for `a?`"),
        (["a\nb"], "cannot have directories for"),
        ([""], "takes a list of column names"),
        ("d", "takes a list of column names"),
    ],
)
def test_columns_that_make_no_directories_are_refused(columns, why):
    def one(k):
        return 1

    def declare():
        return asset(partitions={"k": partitions(["a"])})(sink("out/", partition_by=columns)(one))

    assert why in refused(declare).message


def test_dimensions_that_make_no_directories_are_refused_for_datasets_only():
    def declare(*arguments, **options):
        def one(_k):
            return 1

        return asset(partitions={"_k": partitions(["a"])})(sink(*arguments, **options)(one))

    assert "cannot have directories for `_k`" in refused(lambda: declare("out/")).message
    declare("out.csv")
    declare("out/", format="delta")


def test_a_dimension_is_no_column_to_partition_by():
    def one(k):
        return 1

    decorated = sink("out/", partition_by=["k"])(one)
    assert "a dimension" in refused(lambda: asset(partitions={"k": partitions(["a"])})(decorated)).message


def test_no_node_may_read_a_sink():
    def one():
        return 1

    sunk = sink("out.json")
    with pytest.raises(DefinitionError, match="takes a decorated function"):

        @asset(inputs={"x": sunk})
        def two(x):
            return x

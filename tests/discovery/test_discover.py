"""Reading a project: which files, which nodes, what they are called."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from pathlib import Path

import pytest

from barca.discovery import discover
from barca.discovery.files import find_files
from barca.errors import DefinitionError, UsageError


def ids(project, *files: str) -> list[str]:
    return list(discover(project.root, files).nodes)


ASSET = "from barca import asset\n@asset\ndef {name}():\n    return 1\n"


def test_no_files_means_every_file_that_imports_barca(project):
    for name in ("b.py", "a.py", "deep/er/c.py", "tests/test_x.py"):
        project.write(name, ASSET.format(name=Path(name).stem))
    project.write("late.py", "def f():\n    import barca.errors\n")
    project.write("mention.py", "# from barca import asset\nraise SystemExit(1)\n")
    for folder in (".hidden", "__pycache__", "build", "dist", "node_modules", "lib/site-packages", "env"):
        project.write(f"{folder}/x.py", ASSET.format(name="x"))
    project.write("env/pyvenv.cfg", "")
    project.write("exports/k=a/x.py", ASSET.format(name="x"))
    project.write("exports/_barca_sink.json", "{}")
    found = [path.relative_to(project.root).as_posix() for path in find_files(project.root)]
    assert found == ["a.py", "b.py", "late.py", "deep/er/c.py", "tests/test_x.py"]
    assert ids(project) == ["a.py:a", "b.py:b", "deep/er/c.py:c", "tests/test_x.py:test_x"]


def test_files_and_folders_are_relative_to_the_working_directory_or_the_root(project, monkeypatch):
    project.write("a.py", ASSET.format(name="a"))
    project.write("deep/b.py", ASSET.format(name="b"))
    project.write("deep/not.py", "x = 1\n")
    assert ids(project, "a.py") == ["a.py:a"]
    assert ids(project, "deep") == ids(project, "deep/") == ["deep/b.py:b"]
    assert ids(project, str(project.root / "a.py"), "deep", "a.py") == ["a.py:a", "deep/b.py:b"]
    monkeypatch.chdir(project.root / "deep")
    assert ids(project, "b.py") == ids(project, ".") == ["deep/b.py:b"]


def test_a_file_that_is_not_there_is_named(project):
    with pytest.raises(UsageError, match="there is no file `gone.py`"):
        discover(project.root, ["gone.py"])
    project.write("data.csv", "")
    with pytest.raises(UsageError, match="not a Python file"):
        discover(project.root, ["data.csv"])


def test_a_checkout_of_barca_does_not_read_barca_itself():
    root = Path(__file__).parents[2]
    assert not [path for path in find_files(root) if path.is_relative_to(root / "barca")]


def test_names_are_those_of_global_variables(project):
    project.write(
        "p.py",
        """
        from barca import asset
        def make(n):
            @asset
            def inner():
                return n
            return inner
        a = make(1)
        b = make(2)
        again = b
        @asset(name="my.dataset")
        def c():
            return 3
        plain = asset(retries=2)(lambda: 4)
        """,
    )
    graph = discover(project.root)
    assert list(graph.nodes) == ["p.py:a", "p.py:b", "my.dataset", "p.py:plain"]
    assert [node.definition() for node in graph.nodes.values()] == [1, 2, 3, 4]


def test_definitions_that_no_variable_holds_have_their_qualified_name(project):
    project.write(
        "p.py",
        """
        from barca import asset
        def make(n, name=None):
            @asset(name=name)
            def inner():
                return n
            return inner
        @asset(inputs={"x": make(1)})
        def reader(x):
            return x
        listed = [make(2, "two"), make(3, "three")]
        """,
    )
    nodes = discover(project.root).nodes
    assert list(nodes) == ["p.py:make.<locals>.inner", "p.py:reader", "two", "three"]
    assert [nodes[name].definition() for name in ("two", "three")] == [2, 3]


def test_two_of_one_name_are_refused_not_merged(project):
    project.write(
        "p.py",
        """
        from barca import asset
        def make(n):
            @asset
            def inner():
                return n
            return inner
        listed = [make(2), make(3)]
        """,
    )
    with pytest.raises(DefinitionError, match="two nodes are called") as caught:
        discover(project.root).find("inner")
    assert "name=" in caught.value.remediation


def test_imported_definitions_belong_to_their_file(project):
    project.write("lib/source.py", ASSET.format(name="cleaned"))
    project.write(
        "p.py",
        """
        from barca import asset
        from lib.source import cleaned
        @asset(inputs={"x": cleaned})
        def scored(x):
            return x
        """,
    )
    assert ids(project) == ["lib/source.py:cleaned", "p.py:scored"]
    assert ids(project, "p.py") == ["lib/source.py:cleaned", "p.py:scored"]
    assert ids(project, "lib/source.py") == ["lib/source.py:cleaned"]


def test_imported_and_unread_definitions_are_not_part_of_a_file(project):
    project.write("other.py", ASSET.format(name="other"))
    project.write("p.py", "from other import other\n" + ASSET.format(name="mine"))
    assert ids(project, "p.py") == ["p.py:mine"]


def test_what_a_factory_of_another_file_made_belongs_to_who_called_it(project):
    project.write(
        "lib.py",
        """
        from barca import asset
        def make(n):
            @asset
            def inner():
                return n
            return inner
        """,
    )
    project.write("a.py", "import barca\nfrom lib import make\nx = make(1)\ny = make(2)\n")
    project.write("b.py", "import barca\nfrom a import x\nfrom lib import make\nz = make(3)\n")
    assert ids(project) == ["a.py:x", "a.py:y", "b.py:z"]


def test_modules_that_import_each_other_keep_their_nodes(project):
    project.write("a.py", "from barca import asset\n@asset\ndef first():\n    return 1\nimport b\n")
    project.write(
        "b.py",
        """
        from barca import asset
        from a import first
        @asset(inputs={"x": first})
        def second(x):
            return x
        """,
    )
    assert ids(project) == ["a.py:first", "b.py:second"]


def test_ids_in_inputs_reach_files_that_were_not_named(project):
    project.write("deep/source.py", ASSET.format(name="cleaned"))
    project.write(
        "p.py",
        """
        from barca import asset
        @asset(inputs={"x": "deep/source.py:cleaned"})
        def scored(x):
            return x
        """,
    )
    assert ids(project, "p.py") == ["deep/source.py:cleaned", "p.py:scored"]


def test_unknown_ids_are_refused(project):
    project.write("p.py", 'from barca import asset\n@asset(inputs={"x": "gone.py:y"})\ndef scored(x): ...\n')
    (broken,) = discover(project.root).load_errors
    assert broken.error.startswith("DefinitionError: p.py:2: `scored` reads `gone.py:y`, which is not a node")


def test_links_into_the_project_are_one_file(project):
    project.write("a.py", ASSET.format(name="a"))
    link = project.root.parent / "link"
    link.symlink_to(project.root)
    assert list(discover(link, [link / "a.py"]).nodes) == ["a.py:a"]


def test_a_second_read_gives_the_same_objects(project):
    project.write("p.py", ASSET.format(name="a"))
    first, second = discover(project.root), discover(project.root)
    assert first.nodes["p.py:a"].definition is second.nodes["p.py:a"].definition


def test_source_and_tracebacks_are_those_of_the_file(project):
    project.write(
        "p.py",
        '''
        from barca import asset, partitions

        @asset(partitions={"k": partitions(
            [
                str(n) for n in range(3)
            ]
        )})
        def failing(k: str):
            """Doc."""
            raise ValueError(k)
        ''',
    )
    definition = discover(project.root).nodes["p.py:failing"].definition
    assert (definition.line, definition.__doc__) == (3, "Doc.")
    assert inspect.getsource(definition.function).endswith("raise ValueError(k)\n")
    assert inspect.getsource(sys.modules[definition.__module__]).startswith("from barca import")
    try:
        definition("a")
    except ValueError as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.lineno, last.line) == (10, "raise ValueError(k)")


def test_nothing_is_written_and_sys_path_stays(project):
    project.write("pkg/__init__.py", "")
    project.write("pkg/p.py", "from barca import asset\nimport pkg.util\n" + ASSET.format(name="a"))
    project.write("pkg/util.py", "")
    before = list(sys.path)
    discover(project.root)
    assert sys.path == before
    files = {path.relative_to(project.root).as_posix() for path in project.root.rglob("*") if path.is_file()}
    assert files == {"barca.toml", "pkg/__init__.py", "pkg/p.py", "pkg/util.py"}


def test_the_guard_of_scripts_is_closed(project):
    project.write("p.py", ASSET.format(name="a") + 'if __name__ == "__main__":\n    raise SystemExit(1)\n')
    assert ids(project) == ["p.py:a"]


def test_a_run_while_a_file_is_imported_is_a_load_error_of_it(project):
    project.write(
        "p.py",
        f"""
        import pathlib
        from barca import asset
        from barca.discovery import discover, graph_of
        @asset
        def a():
            return 1
        graph_of([a], pathlib.Path({str(project.root)!r}))
        """,
    )
    graph = discover(project.root)
    (broken,) = graph.load_errors
    assert not graph.nodes
    assert broken.nodes == ("p.py:a",)
    assert '__name__ == "__main__"' in broken.error


def test_its_traceback_shows_the_call_and_nothing_below(project):
    project.write("p.py", "import barca\n" + ASSET.format(name="a") + "barca.get(a)\n")
    (broken,) = discover(project.root).load_errors
    assert broken.error.startswith(
        "UsageError: p.py: barca is called by p.py while p.py itself is being imported"
    )
    assert broken.traceback.count("File ") == 1 and "barca.get(a)" in broken.traceback


def test_files_outside_the_root_have_ids_by_module(project, tmp_path):
    outside = tmp_path / "elsewhere" / "outside_module.py"
    outside.parent.mkdir()
    outside.write_text(ASSET.format(name="a"))
    assert ids(project, str(outside)) == ["outside_module:a"]


def test_working_directory_does_not_matter(project, monkeypatch):
    project.write("p.py", "import util\n" + ASSET.format(name="a"))
    project.write("util.py", "")
    monkeypatch.chdir(os.sep)
    assert ids(project) == ["p.py:a"]

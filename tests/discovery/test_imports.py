"""One name per file, the right file for every import, and edits that are seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from barca.discovery import discover
from barca.discovery.loader import Importer


def value(project, node: str):
    graph = discover(project.root)
    assert not graph.load_errors, graph.load_errors
    return graph.nodes[node].definition()


UTIL = """
from strip import strip
def clean(x):
    return strip(x) + 1
def other():
    return 0
"""

STYLES = {
    "import util": ("import util", "util.clean(1)"),
    "from as": ("from util import clean as c", "c(1)"),
    "package as": ("import pkg.util as u", "u.clean(1)"),
    "package": ("import pkg.util", "pkg.util.clean(1)"),
    "re-export": ("from pkg import clean", "clean(1)"),
    "namespace": ("from folder.util import clean", "clean(1)"),
    "star": ("from util import *", "clean(1)"),
}


def write_styles(project, header: str, expression: str, inside: str = "") -> None:
    project.write("strip.py", "def strip(x):\n    return x * 10\n")
    project.write("util.py", UTIL)
    project.write("folder/util.py", UTIL)
    project.write("pkg/__init__.py", "from .util import clean\n")
    project.write("pkg/util.py", UTIL)
    project.write(
        "p.py",
        f"from barca import asset\n{header}\n@asset\ndef a():\n    {inside}\n    return {expression}\n",
    )


@pytest.mark.parametrize("style", STYLES)
def test_f1_every_import_style_sees_edits_two_modules_away(project, style: str):
    write_styles(project, *STYLES[style])
    assert value(project, "p.py:a") == 11
    project.edit("strip.py", "x * 10", "x * 20")  # the same size, within the same second
    assert value(project, "p.py:a") == 21
    for util in ("util.py", "pkg/util.py", "folder/util.py"):
        project.edit(util, "+ 1", "+ 2")
    assert value(project, "p.py:a") == 22


def test_f1_an_import_inside_the_body_sees_edits(project):
    write_styles(project, "", "clean(1)", "from util import clean")
    assert value(project, "p.py:a") == 11
    project.edit("strip.py", "x * 10", "x * 20")
    assert value(project, "p.py:a") == 21


def test_f1_a_relative_import_sees_edits(project):
    project.write("pkg/__init__.py", "")
    project.write("pkg/deep/__init__.py", "")
    project.write("pkg/util.py", "def clean():\n    return 1\n")
    project.write("pkg/deep/p.py", ASSET.format(header="from ..util import clean", expression="clean()"))
    project.write("pkg/deep/q.py", ASSET.format(header="from .. import util", expression="util.clean()"))
    assert value(project, "pkg/deep/p.py:a") == value(project, "pkg/deep/q.py:a") == 1
    project.edit("pkg/util.py", "return 1", "return 2")
    assert value(project, "pkg/deep/p.py:a") == value(project, "pkg/deep/q.py:a") == 2


ASSET = "from barca import asset\n{header}\n@asset\ndef a():\n    return {expression}\n"


def test_f1_two_modules_that_import_each_other_see_edits(project):
    project.write("left.py", "import right\ndef left():\n    return right.right()\n")
    project.write("right.py", "import left\ndef right():\n    return 1\n")
    project.write("p.py", ASSET.format(header="import left", expression="left.left()"))
    assert value(project, "p.py:a") == 1
    project.edit("right.py", "return 1", "return 2")
    assert value(project, "p.py:a") == 2


def test_only_what_changed_and_its_importers_are_imported_again(project):
    project.write("util.py", "X = 1\n")
    project.write("p.py", ASSET.format(header="import util", expression="util.X"))
    project.write("q.py", ASSET.format(header="", expression="0"))
    before = discover(project.root).nodes
    project.edit("util.py", "1", "2")
    after = discover(project.root).nodes
    assert before["q.py:a"].definition is after["q.py:a"].definition
    assert before["p.py:a"].definition is not after["p.py:a"].definition
    assert (before["p.py:a"].definition(), after["p.py:a"].definition()) == (1, 2)


def test_deleted_and_touched_files(project):
    project.write("p.py", ASSET.format(header="", expression="1"))
    project.write("q.py", ASSET.format(header="", expression="1"))
    before = discover(project.root).nodes
    os.utime(project.root / "p.py", (1, 1))
    (project.root / "q.py").unlink()
    after = discover(project.root).nodes
    assert list(after) == ["p.py:a"]
    assert before["p.py:a"].definition is after["p.py:a"].definition


def test_one_file_is_one_module_under_any_name(project):
    project.write(
        "deep/source.py", "from barca import asset\nCOUNT = []\nCOUNT.append(1)\n@asset\ndef a(): ...\n"
    )
    project.write(
        "p.py",
        """
        from barca import asset
        import deep.source as one
        from deep.source import a
        @asset(inputs={"x": a})
        def reader(x):
            return one.COUNT
        """,
    )
    project.write(
        "deep/q.py",
        """
        from barca import asset
        import source
        @asset(inputs={"x": source.a})
        def reader(x):
            return source.COUNT
        """,
    )
    nodes = discover(project.root).nodes
    counts = [nodes[f"{file}:reader"].definition(1) for file in ("p.py", "deep/q.py")]
    assert counts[0] is counts[1]
    assert counts[0] == [1]
    assert nodes["p.py:reader"].edges == nodes["deep/q.py:reader"].edges


def test_files_of_one_name_in_several_folders_are_kept_apart(project):
    for folder in ("one", "two"):
        project.write(f"{folder}/util.py", f"NAME = {folder!r}\ndef clean():\n    return NAME\n")
        project.write(f"{folder}/lib/__init__.py", f"NAME = {folder!r}\n")
        project.write(f"{folder}/lib/sub.py", "from lib import NAME\n")
        project.write(
            f"{folder}/p.py",
            """
            from barca import asset
            import util
            import lib.sub
            from lib.sub import NAME
            @asset
            def a():
                import util as inside
                from util import clean
                return [util.NAME, lib.NAME, lib.sub.NAME, NAME, inside.NAME, clean()]
            """,
        )
    for folder in ("one", "two"):
        assert set(value(project, f"{folder}/p.py:a")) == {folder}
    project.edit("two/util.py", "'two'", "'new'")
    assert set(value(project, "one/p.py:a")) == {"one"}
    assert set(value(project, "two/p.py:a")) == {"two", "new"}


def test_files_named_like_modules_of_python_hide_nothing(project):
    header = "import json, statistics, {name}\nfrom statistics import mean"
    for name in ("statistics", "colorsys", "json"):
        project.write(f"{name}.py", ASSET.format(header=header.format(name=name), expression="mean([1, 3])"))
    for name in ("statistics", "colorsys", "json"):
        assert value(project, f"{name}.py:a") == 2
    import colorsys

    assert "rgb_to_hsv" in dir(colorsys)


def test_files_named_like_installed_packages_hide_nothing_from_themselves(project):
    project.write(
        "duckdb.py", ASSET.format(header="import duckdb", expression="duckdb.sql('select 1').fetchall()")
    )
    project.write("pygments.py", ASSET.format(header="", expression="1"))
    project.write(
        "polars/p.py", ASSET.format(header="import polars as pl", expression="pl.DataFrame().height")
    )
    assert value(project, "duckdb.py:a") == [(1,)]
    assert value(project, "pygments.py:a") == 1
    assert value(project, "polars/p.py:a") == 0
    from pygments import lexers  # the installed one

    assert lexers


def test_odd_file_names(project):
    names = ["my-pipeline.py", "01_load.py", "a.b.py", "__main__.py", "import.py", "münchen.py"]
    for name in names:
        project.write(name, ASSET.format(header="", expression="1"))
    assert sorted(discover(project.root).nodes) == sorted(f"{name}:a" for name in names)


def test_a_root_that_is_a_package(project):
    project.write("__init__.py", "")
    project.write("util.py", "X = 1\n")
    project.write("p.py", ASSET.format(header="from .util import X", expression="X"))
    assert value(project, "p.py:a") == 1


def test_source_folders(project):
    project.write("src/shop/__init__.py", "")
    project.write("src/shop/util.py", "X = 1\n")
    project.write("src/shop/p.py", ASSET.format(header="from shop.util import X", expression="X"))
    assert value(project, "src/shop/p.py:a") == 1


def test_two_projects_in_one_process_are_kept_apart(make_project):
    projects = [make_project(name) for name in ("one", "two", "three")]
    for index, each in enumerate(projects):
        each.write("util.py", f"X = {index}\n")
        each.write("p.py", ASSET.format(header="from util import X", expression="X"))
    assert [value(each, "p.py:a") for each in projects] == [0, 1, 2]
    assert len({id(Importer.of(each.root)) for each in projects}) == 3


def test_modules_imported_before_discovery_are_replaced_by_readable_ones(project):
    project.write("early_bird.py", ASSET.format(header="from barca import partitions", expression="1"))
    script = f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(project.root)!r})
        import early_bird
        from barca.discovery import discover
        graph = discover(Path({str(project.root)!r}))
        assert list(graph.nodes) == ["early_bird.py:a"], graph
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def test_classes_of_project_modules_unpickle_by_name(project):
    project.write("shapes.py", "class Point:\n    x = 1\n")
    project.write("p.py", ASSET.format(header="from shapes import Point", expression="Point()"))
    script = f"""
        import pickle, sys
        from pathlib import Path
        from barca.discovery import discover
        point = discover(Path({str(project.root)!r})).nodes["p.py:a"].definition()
        text = pickle.dumps(point)
        del sys.modules["shapes"]
        assert pickle.loads(text).x == 1
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd="/")


def test_dynamic_imports_find_the_module_beside_the_file(project):
    project.write("deep/beside_util.py", "X = 1\n")
    expression = "importlib.import_module('beside_util').X"
    project.write("deep/p.py", ASSET.format(header="import importlib", expression=expression))
    assert value(project, "deep/p.py:a") == 1


def test_names_are_the_same_in_every_process(project):
    for file in ("p.py", "one/util.py", "two/util.py", "one/p.py", "two/p.py", "statistics.py"):
        header = "import util" if "/p" in file else ""
        project.write(file, ASSET.format(header=header, expression="1"))
    script = f"""
        import json
        from pathlib import Path
        from barca.discovery import discover
        nodes = discover(Path({str(project.root)!r})).nodes
        print(json.dumps({{name: node.definition.__module__ for name, node in nodes.items()}}))
    """
    outputs = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            check=True,
            capture_output=True,
            text=True,
            cwd=cwd,
        ).stdout
        for cwd in ("/", str(project.root))
    }
    (output,) = outputs
    names = json.loads(output)
    assert names["p.py:a"] == "p"
    assert len(set(names.values())) == 6


def test_helpers_outside_are_left_to_python(project):
    project.write("p.py", ASSET.format(header="import textwrap, polars", expression="polars.__name__"))
    assert value(project, "p.py:a") == "polars"
    assert not [name for name in sys.modules if name.startswith("polars__")]


def test_importer_answers_its_own_project_only(project):
    project.write("only_here_module.py", "X = 1\n")
    project.write("p.py", ASSET.format(header="", expression="1"))
    discover(project.root)
    finder = Importer.of(project.root)
    assert finder.find_spec("only_here_module", None) is None
    assert finder.find_spec("polars.anything", [str(Path("/nowhere"))]) is None


def test_namespaces_and_packages_of_two_projects_are_kept_apart(make_project):
    projects = [make_project(name) for name in ("one", "two")]
    for index, each in enumerate(projects):
        each.write("folder/util.py", f"X = {index}\n")
        each.write("pkg/__init__.py", "from pkg import sub\n")
        each.write("pkg/sub.py", f"X = {index}\n")
        header = "import folder.util\nfrom folder import util\nfrom folder.util import X\nimport pkg\nimport pkg.sub as sub"
        expression = "[folder.util.X, util.X, X, pkg.sub.X, sub.X]"
        each.write("p.py", ASSET.format(header=header, expression=expression))
    assert [value(each, "p.py:a") for each in projects] == [[0] * 5, [1] * 5]


def test_modules_that_a_notebook_imported_before_follow_edits_too(project):
    project.write("foreign_util.py", "X = 1\n")
    project.write("p.py", ASSET.format(header="import foreign_util", expression="foreign_util.X"))
    script = f"""
        import sys
        from pathlib import Path
        root = Path({str(project.root)!r})
        sys.path.insert(0, str(root))
        import foreign_util
        from barca.discovery import discover
        def value():
            return discover(root).nodes["p.py:a"].definition()
        assert value() == 1
        (root / "foreign_util.py").write_text("X = 2\\n")
        assert value() == 2
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)

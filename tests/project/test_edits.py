"""What an edit of code, of a decorator or of the environment runs again, in whole projects."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


HELPERS = """
    from deep import strip

    def clean(value):
        return strip(value) + "c"

    def other(value):
        return value + "o"
"""

STYLES = {
    "import": ("import util", "util.clean", "util.py"),
    "from as": ("from util import clean as c", "c", "util.py"),
    "package module as": ("import pkg.util as u", "u.clean", "pkg/util.py"),
    "re-export": ("from pkg import clean", "clean", "pkg/util.py"),
}


def write_helpers(project):
    project.write("util.py", HELPERS)
    project.write("pkg/__init__.py", "from .util import clean\n")
    project.write("pkg/util.py", HELPERS)
    project.write("deep.py", "def strip(value):\n    return value.strip()\n\ndef spare():\n    return 0\n")


def check_edits(project, file, node="node"):
    """The edits of the case, one after another: what runs, and that what comes out is of the new code."""
    assert project.ran(node) == {node: 1, "source": 1}
    assert project.get(node).value == "xc"
    project.edit(file, 'value + "o"', 'value + "oo"')
    project.edit("deep.py", "return 0", "return 1")
    assert project.ran(node) == {}, "an edit of what nothing uses runs nothing"
    project.edit(file, '+ "c"', '+ "C"')
    assert project.ran(node) == {node: 1}
    assert project.get(node).value == "xC"
    project.edit("deep.py", "value.strip()", "value.strip() * 2")
    assert project.ran(node) == {node: 1}
    assert project.get(node).value == "xxC"


@pytest.mark.parametrize("style", STYLES)
def test_f1_edits_of_helpers_through_every_import(project, style):
    statement, call, file = STYLES[style]
    write_helpers(project)
    project.write(
        "pipeline.py",
        f"""
        from barca import asset
        {statement}

        @asset
        def source() -> str:
            return " x "

        @asset(inputs={{"source": source}})
        def node(source: str) -> str:
            return {call}(source)
        """,
    )
    check_edits(project, file)


def test_f1_edits_of_helpers_through_an_import_in_the_body(project):
    write_helpers(project)
    project.write(
        "pipeline.py",
        """
        from barca import asset

        @asset
        def source() -> str:
            return " x "

        @asset(inputs={"source": source})
        def node(source: str) -> str:
            from util import clean
            return clean(source)
        """,
    )
    check_edits(project, "util.py")


def test_f1_edits_of_helpers_through_a_relative_import(project):
    write_helpers(project)
    project.write(
        "pkg/pipeline.py",
        """
        from barca import asset
        from .util import clean

        @asset
        def source() -> str:
            return " x "

        @asset(inputs={"source": source})
        def node(source: str) -> str:
            return clean(source)
        """,
    )
    check_edits(project, "pkg/util.py")


def test_f1_edits_in_modules_that_import_each_other(project):
    project.write("left.py", "import right\n\ndef ping(n):\n    return right.pong(n)\n")
    project.write("right.py", "import left\n\ndef pong(n):\n    return n if n < 9 else left.ping(n - 9)\n")
    project.write(
        "pipeline.py",
        "from barca import asset\nimport left\n\n@asset\ndef node() -> int:\n    return left.ping(20)\n",
    )
    assert (project.ran("node"), project.get("node").value) == ({"node": 1}, 2)
    project.edit("right.py", "return n if", "return -n if")
    assert (project.ran("node"), project.get("node").value) == ({"node": 1}, -2)


def test_f1_the_command_line_sees_the_same(project):
    write_helpers(project)
    project.write(
        "pipeline.py",
        "from barca import asset\nfrom pkg import clean\n\n@asset\ndef node() -> str:\n    return clean('x')\n",
    )

    def executed():
        done = project.process("get", "node", "--executor", "inline", "--json")
        return json.loads(done.stdout)["steps_executed"]

    assert [executed(), executed()] == [1, 0]
    project.edit("pkg/util.py", 'value + "o"', 'value + "oo"')
    assert executed() == 0
    project.edit("deep.py", "value.strip()", "value.strip() * 2")
    assert executed() == 1


def test_f2_constants_factories_and_lambdas(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset

        RATE = 2

        @asset
        def rated() -> int:
            return 10 * RATE

        def make(n, name):
            @asset(name=name)
            def made() -> int:
                return n * 7
            return made

        one, two = make(1, "one"), make(2, "two")
        left, right = asset(name="left")(lambda: "l"), asset(name="right")(lambda: "r")
        """,
    )
    names = ["rated", "one", "two", "left", "right"]
    assert project.ran(names) == dict.fromkeys(names, 1)
    assert project.get(names).value == {"rated": 20, "one": 7, "two": 14, "left": "l", "right": "r"}
    project.edit("pipeline.py", "RATE = 2", "RATE = 3")
    assert project.ran(names) == {"rated": 1}
    project.edit("pipeline.py", 'make(2, "two")', 'make(3, "two")')
    assert project.ran(names) == {"two": 1}
    project.edit("pipeline.py", 'lambda: "r"', 'lambda: "R"')
    assert project.ran(names) == {"right": 1}
    assert project.get(names).value == {"rated": 30, "one": 7, "two": 21, "left": "l", "right": "R"}


def test_defaults_and_base_classes_run_what_uses_them(project):
    project.write(
        "model.py",
        """
        class Base:
            def score(self):
                return 1

        class Model(Base):
            pass

        class Unused(Base):
            def extra(self):
                return 0
        """,
    )
    project.write(
        "pipeline.py",
        """
        from barca import asset
        from model import Model

        @asset
        def modelled() -> int:
            return Model().score()

        @asset
        def limited(limit: int = 5) -> int:
            return limit

        @asset
        def neither() -> int:
            return 0
        """,
    )
    assert project.ran() == {"modelled": 1, "limited": 1, "neither": 1}
    project.edit("model.py", "return 0", "return -1")
    assert project.ran() == {}
    project.edit("model.py", "return 1", "return 2")
    assert project.ran() == {"modelled": 1}
    project.edit("pipeline.py", "limit: int = 5", "limit: int = 6")
    assert project.ran() == {"limited": 1}
    assert project.get().value == {"modelled": 2, "limited": 6, "neither": 0}


def test_f4_what_cannot_be_followed_is_named_before_the_run(project):
    project.write(
        "pipeline.py",
        "from barca import asset\nimport util\nNAME = 'clean'\n\n@asset\ndef node() -> int:\n"
        "    return getattr(util, NAME)()\n",
    )
    project.write("util.py", "def clean():\n    return 1\n")
    planned = project.open().plan("node").to_dict()["warnings"]
    assert any("`pipeline.py:node`" in warning and "attribute" in warning for warning in planned), planned
    assert project.get("node").to_dict()["warnings"] == planned
    assert "pipeline.py:node" in project.cli("get", "node", "--dry-run", "--json").stderr


F5 = """
    import functools
    from barca import asset, partitions, partitions_from

    def plain(function):
        return function

    @asset
    def x() -> int:
        return 1

    @asset
    def y() -> int:
        return 2

    KEYS = ["a", "b"]

    @asset(partitions={"k": partitions(KEYS)}, inputs={"x": x, "y": y}, batch=1)
    def node(k: list[str], x: int, y: int) -> dict:
        return {key: x + y for key in k}

    @asset(partitions={"k": partitions_from(node)})
    def below(k: str, node: int) -> int:
        return node + 1

    @asset
    def apart() -> int:
        return 9
"""


@pytest.fixture
def cached(project):
    project.write("pipeline.py", F5)
    assert project.ran() == {"x": 1, "y": 1, "node": 2, "below": 2, "apart": 1}
    return project


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("batch=1)", 'batch="all")'),
        ("batch=1)", "batch=1, retries=3, retry_backoff=0.5, timeout_seconds=9)"),
        ("batch=1)", 'batch=1, weight=2, description="words", tags=["t"])'),
        ('inputs={"x": x, "y": y}', 'inputs={"y": y, "x": x}'),
        (
            "return {key: x + y for key in k}",
            '"""Adds."""\n    # adds\n    return {key: (x + y) for key in k}',
        ),
        ('KEYS = ["a", "b"]', 'KEYS = ["b", "a"]'),
    ],
)
def test_f5_what_does_not_matter_runs_nothing(cached, old, new):
    cached.edit("pipeline.py", old, new)
    assert cached.ran() == {}


@pytest.mark.parametrize(
    "new",
    ['batch=1, serializer="pickle")', 'batch=1, env=["MODE"])', "batch=1)\n@plain"],
)
def test_f5_what_matters_runs_exactly_what_is_touched(cached, new):
    cached.edit("pipeline.py", "batch=1)", new)
    assert cached.ran() == {"node": 2, "below": 2}


def test_f5_the_name_of_a_dimension_runs_what_has_it(cached):
    text = (cached.root / "pipeline.py").read_text()
    text = text.replace('"k":', '"key":').replace("(k: list[str]", "(key: list[str]")
    text = (
        text.replace("for key in k", "for each in key")
        .replace("{key: x", "{each: x")
        .replace("(k: str", "(key: str")
    )
    (cached.root / "pipeline.py").write_text(text)
    assert cached.ran() == {"node": 2, "below": 2}


F6 = """
    import os
    from barca import asset

    @asset(env=["MODE", "API_TOKEN"])
    def node() -> str:
        return os.environ["MODE"] + os.getenv("REGION", "-")

    @asset(inputs={"node": node})
    def below(node: str) -> str:
        return node + "!"

    @asset
    def apart() -> int:
        return 1
"""


def test_f6_declared_variables_count_undeclared_ones_are_named(project, monkeypatch):
    project.write("pipeline.py", F6)
    monkeypatch.setenv("MODE", "fast")
    monkeypatch.setenv("REGION", "north-7781")
    assert project.ran() == {"node": 1, "below": 1, "apart": 1}
    monkeypatch.setenv("MODE", "slow")
    assert project.ran() == {"node": 1, "below": 1}
    monkeypatch.setenv("REGION", "south-7782")
    assert project.ran() == {}, "nothing declares it"
    [warning] = project.open().plan().to_dict()["warnings"]
    assert "REGION" in warning and "`pipeline.py:node`" in warning and "7782" not in warning
    assert project.get().to_dict()["warnings"] == [warning]
    monkeypatch.delenv("MODE")
    changed = project.open().plan("node").to_dict()["steps"][0]
    assert (changed["action"], changed["reason"]) == ("run", "not_materialized")


def test_f6_values_of_secrets_are_neither_printed_nor_stored(project):
    secret = "hunter2-very-secret"
    project.write("pipeline.py", F6)
    project.edit("pipeline.py", "return 1\n", f"return len(PASSWORD)\n\nPASSWORD = {secret!r}\n")
    seen = ""
    for arguments in (
        ["get", "--executor", "inline", "--json"],
        ["get", "--dry-run", "--json"],
        ["get", "--dry-run", "--pretty"],
        ["status", "--json"],
        ["status", "--pretty"],
        ["list", "--json"],
        ["history", "--json"],
    ):
        done = project.cli(*arguments, env={"MODE": "m", "API_TOKEN": secret})
        assert done.returncode == 0, done.stderr
        seen += done.stdout + done.stderr
    assert "API_TOKEN" in seen and secret not in seen
    kept = [path for path in (project.root / ".barca").rglob("*") if path.is_file()]
    assert kept
    import polars as pl

    for path in kept:
        assert secret.encode() not in path.read_bytes(), path
        if path.suffix == ".parquet":  # compressed pages hide text from a search of bytes
            assert secret not in str(pl.read_parquet(path, glob=False, hive_partitioning=False).to_dicts())


def test_f3_a_result_is_served_to_every_process(project):
    """Other hash seeds, other working directories, the file by absolute path: one run, then cached."""
    project.write(
        "pipeline.py",
        """
        from barca import asset, collect, partitions

        NAMES = {"c", "a", "b"}

        @asset(partitions={"k": partitions(["u", "v"])})
        def each(k: str, among=frozenset({"p", "q", "r"})) -> dict:
            return {"k": k, "n": len({"x", "y"} | NAMES | among), "d": {"one": {1, 2}} and 1}

        @asset(inputs={"every": collect(each)})
        def total(every: list) -> int:
            return sum(each["n"] for each in every)
        """,
    )
    (project.root / "sub").mkdir()
    places = [project.root, project.root / "sub", project.root.parent, project.root, project.root]
    files = ["pipeline.py", "../pipeline.py", "project/pipeline.py", str(project.root / "pipeline.py"), ""]
    executed = []
    for seed, place, file in zip("01234", places, files, strict=True):
        code = (
            "import barca, json, sys\n"
            f"result = barca.Project({str(project.root)!r}, [{file!r}] if {file!r} else [], executor='inline')"
            ".get('total').to_dict()\n"
            "print(result['status'], result['steps_executed'])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=place,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        executed.append(done.stdout.strip())
    assert executed == ["success 3"] + ["success 0"] * 4


CELLS = """
import linecache, sys
from barca import Project

numbers = iter(range(1000))

def cell(text):
    name = f"<cell-{next(numbers)}>"  # as notebooks do: in no file, but its lines are known
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), vars(sys.modules["__main__"]))

def executed(target):
    result = Project.of([target]).get(target)
    assert result.error is None, result.error
    print(result.to_dict()["steps_executed"], result.value)

cell('''
from barca import asset, partitions, partitions_from
RATE = 2
def scale(x): return x * RATE
''')
cell('''
@asset(partitions={"k": partitions(["1", "2"])})
def a(k: str) -> int: return scale(int(k))
''')
cell('''
@asset(partitions={"k": partitions_from(a)})
def b(k: str, a: int) -> int: return a + 1
''')
executed(b)
"""

EDITS = """
executed(b)
cell("def scale(x): return x * RATE + 0.5")
executed(b)
cell('''
@asset(partitions={"k": partitions_from(a)})
def b(k: str, a: int) -> int: return a + 100
''')
executed(b)
cell("RATE = 3")
executed(b)
cell('''
@asset(partitions={"k": partitions(["1", "2"])})
def a(k: str) -> int: return -int(k)
''')
executed(b)
"""


def test_a_cell_run_again_runs_what_uses_it_and_a_restart_nothing(project):
    def session(program):
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=project.root, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert session(CELLS + EDITS) == [
        "4 {'k=1': 3, 'k=2': 5}",
        "0 {'k=1': 3, 'k=2': 5}",
        "4 {'k=1': 3.5, 'k=2': 5.5}",
        "2 {'k=1': 102.5, 'k=2': 104.5}",
        "4 {'k=1': 103.5, 'k=2': 106.5}",
        "4 {'k=1': 99, 'k=2': 98}",
    ]
    assert session(CELLS) == ["0 {'k=1': 3, 'k=2': 5}"], "the first cells again, in a new kernel"

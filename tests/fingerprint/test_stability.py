"""One source, one hash: in every process, directory and interpreter session."""

from __future__ import annotations

import ast
import linecache
import os
import subprocess
import sys
import textwrap

import pytest

from barca.fingerprint import fingerprint, normalise, sources

PIPELINE = '''
    import enum, functools, logging, os
    from pathlib import Path
    from barca import asset

    HERE = Path(__file__).parent
    DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
    NAMES = {"b", "a", "c", "d"}
    log = logging.getLogger(__name__)

    class Colour(enum.Enum):
        RED = "r"

    def helper(x, among=frozenset({"x", "y", "z"})):
        log.info("%s", x)
        return x in among and x in {"p", "q", "r"} and Colour.RED

    @asset(env=["B", "A"])
    def node(keys=frozenset({"k1", "k2", "k3"}), *, more={"a": {1, 2}}):
        """A docstring."""
        wanted = {"u", "v", "w"}
        return [helper(k) for k in wanted | NAMES], {"x": HERE, "y": DATA}, functools.reduce
'''

PROGRAM = """
    import pipeline
    from pathlib import Path
    from barca.fingerprint import fingerprint
    result = fingerprint(pipeline.node, root=Path({root!r}))
    assert result.warnings == (), result.warnings
    print(result.hash)
"""


def test_f3_one_hash_in_five_processes_with_other_seeds_and_directories(code, tmp_path_factory):
    code.write("pipeline.py", PIPELINE)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    places = [(code.root, "."), (elsewhere, str(code.root)), (code.root.parent, code.root.name)]
    hashes = {
        code.in_process(PROGRAM.format(root=root), cwd=cwd, seed=seed)
        for seed, (cwd, root) in zip("01234", [*places, *places[:2]], strict=True)
    }
    assert hashes == {code.hash()}


def test_f3_one_hash_as_a_script_and_in_a_copy_of_the_project(code, tmp_path_factory):
    code.write("pipeline.py", PIPELINE)
    before = code.hash()
    ending = "\n\nif __name__ == '__main__':\n    from barca.fingerprint import fingerprint\n"
    text = textwrap.dedent(PIPELINE).lstrip() + ending + "    print(fingerprint(node, root=HERE).hash)\n"
    copy = tmp_path_factory.mktemp("copy")
    for name in ("pipeline.py", "./pipeline.py", str(copy / "pipeline.py")):
        (copy / "pipeline.py").write_text(text)
        done = subprocess.run([sys.executable, name], cwd=copy, capture_output=True, text=True)
        assert done.stdout.strip() == before, done.stderr


def test_the_root_stands_in_labels_only(code):
    code.write("sub/util.py", "def clean(x):\n    return x\n")
    code.write(
        "sub/pipeline.py",
        "from barca import asset\nfrom util import clean\n@asset\ndef node():\n    return clean(1)\n",
    )
    code.root = code.root / "sub"
    near, far = code.one(), code.one(root=code.root.parent)
    assert near.hash == far.hash
    assert "helper util.py:clean" in near.components
    assert "helper sub/util.py:clean" in far.components


def test_comments_docstrings_formatting_and_places_do_not_count(code):
    code.write(
        "pipeline.py", "from barca import asset\n\n@asset\ndef node(a=1):\n    return [a, 'x', 1_000]\n"
    )
    before = code.hash()
    code.write(
        "pipeline.py",
        '''
        """A module."""
        from barca import (
            asset,
        )

        # moved down
        @asset(description="words", tags=["t"], retries=3)
        def node(
            a = 1,
        ):
            """Says what it does."""
            # and why
            pass
            return [
                a, "x", 1000,
            ]
        ''',
    )
    assert code.hash() == before
    code.edit("pipeline.py", "def node(\n    a = 1", "def node(\n    a: int = 1")
    assert code.hash() != before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 'a' 'b'", "x = 'ab'"),
        ("x = u'a'", "x = 'a'"),
        ("x = 0x10", "x = 16"),
        ("x = (1)", "x = 1"),
        ("def f():\n    'doc'", "def f():\n    pass"),
        ("def f():\n    'doc'\n    return 1", "def f():\n    return 1"),
        ("class A:\n    x: int = 1\n    'about x'", "class A:\n    x: int = 1"),
        ("x = f'{a}' 'b' ''", "x = f'{a}b'"),
    ],
)
def test_equal_code_has_one_dump(one, other):
    assert normalise.dump(ast.parse(one)) == normalise.dump(ast.parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = True"),
        ("x = 1", "x = 1.0"),
        ("x = 'a'", "x = b'a'"),
        ("x = None", "x = ..."),
        ("return_ = a.b(c)", "return_ = a.b(*c)"),
        ("x = [a, b]", "x = [a], b"),
        ("x = {**a}", "x = {None: a}"),
        ("def f(a): pass", "def f(*, a): pass"),
        ("def f(*, a, b=1): pass", "def f(*, a=1, b): pass"),
        ("x = f'{a}'", "x = f'{a!r}'"),
        ("x = 'é'", "x = '\\\\xe9'"),
        ("x: int", "x: str"),
        ("async def f(): pass", "def f(): pass"),
        ("x = a if b else c", "x = c if b else a"),
        ("if a:\n    b\nc", "if a:\n    b\n    c"),
        ("try:\n    f()\nfinally:\n    g()", "try:\n    f()\nexcept:\n    g()"),
    ],
)
def test_other_code_has_another_dump(one, other):
    assert normalise.dump(ast.parse(one)) != normalise.dump(ast.parse(other))


def cell(name: str, text: str, namespace: dict) -> dict:
    """Run a notebook cell the way notebooks do: its text is kept for tracebacks, in no file."""
    lines = textwrap.dedent(text).lstrip("\n").splitlines(keepends=True)
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    exec(compile("".join(lines), name, "exec"), namespace)
    return namespace


CELLS = (
    "from barca import asset\nRATE = 2\nclass Base:\n    scale = 3\n",
    "def clean(x):\n    return x * RATE * Base.scale\n",
    "@asset\ndef node():\n    return clean(1)\n",
)


def run_cells(prefix: str, cells=CELLS) -> dict:
    namespace = {"__name__": "__main__"}
    for number, text in enumerate(cells):
        cell(f"<{prefix}-{number}>", text, namespace)
    return namespace


@pytest.fixture
def main_module(monkeypatch):
    """Puts a namespace in the place of `__main__`, as in a notebook's process."""
    import types

    def put(namespace: dict) -> None:
        module = types.ModuleType("__main__")
        module.__dict__.update(namespace)
        monkeypatch.setitem(sys.modules, "__main__", module)

    return put


def test_notebook_cells_have_the_hash_of_a_restart(code, main_module):
    first = run_cells("first-session")
    main_module(first)
    before = fingerprint(first["node"], root=code.root)
    assert before.warnings == ()
    assert {
        "constant <session>:RATE",
        "helper <session>:clean",
        "class <session>:Base",
    } <= before.components.keys()
    again = run_cells("cell-999", ("# restarted\n" + CELLS[0], "\n\n" + CELLS[1], CELLS[2]))
    main_module(again)
    assert fingerprint(again["node"], root=code.root).hash == before.hash


def test_a_cell_that_is_run_again_with_other_text_is_a_change(code, main_module):
    namespace = run_cells("edited-session")
    main_module(namespace)
    before = fingerprint(namespace["node"], root=code.root).hash
    namespace["RATE"] = 5
    rated = fingerprint(namespace["node"], root=code.root).hash
    cell("<edited-session-9>", "def clean(x):\n    return x\n", namespace)
    assert len({before, rated, fingerprint(namespace["node"], root=code.root).hash}) == 3


def test_code_without_source_counts_by_its_compiled_form_with_a_warning(code):
    hashes = set()
    for body in ("helper() + 1", "helper() - 1", "helper() + 2"):
        namespace = {"__name__": "__main__"}
        exec(f"from barca import asset\ndef helper(): return 1\n@asset\ndef node(): return {body}", namespace)
        result = fingerprint(namespace["node"], root=code.root)
        hashes.add(result.hash)
        assert any("its source was not found" in warning for warning in result.warnings)
        assert "helper <session>:helper" in result.components
    assert len(hashes) == 3


def test_a_file_that_changed_since_it_was_loaded_is_a_warning(code, monkeypatch):
    code.write("pipeline.py", "from barca import asset\n\n@asset\ndef node():\n    return 1\n")
    monkeypatch.syspath_prepend(str(code.root))
    import importlib

    module = importlib.import_module("pipeline")
    code.edit("pipeline.py", "@asset", "# a line more\n@asset")
    warnings = fingerprint(module.node, root=code.root).warnings
    code.forget()
    assert any("its file changed since it was loaded" in warning for warning in warnings)


def test_hashes_are_pinned(code):
    """A change here is a change of the format: raise `hashing.FORMAT_VERSION`."""
    code.write("util.py", "RATE = 2\n\ndef clean(x, n=1):\n    return x * RATE\n")
    code.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions, sink
        from util import clean

        @asset
        def plain():
            return 1

        @asset(env=["MODE"], partitions={"region": partitions(["north"])}, serializer="table")
        def keyed(region: str) -> pl.DataFrame:
            return pl.DataFrame({"x": [clean(1)]})

        def make(n):
            @asset
            def made():
                return [n, {"b", "a"}]
            return made

        closed = make((1, 2.5, "x"))
        """,
    )
    names = ("plain", "keyed", "closed")
    hashes = {name: found.hash for name, found in zip(names, code.all(*names), strict=True)}
    assert hashes == {
        "plain": "d64ed1612313bc7d43ff5063003fe48d",
        "keyed": "91f6d8cd337fefc432d1f1a18f5af3a9",
        "closed": "a0ec971b6309a0a308dc9a5b4ce42560",
    }


def test_two_edits_within_the_same_tick_of_the_clock_are_two(tmp_path):
    path = tmp_path / "module.py"
    for value in "12":
        path.write_text(f"x = {value}\n")
        os.utime(path)
        stamp = path.stat()
        source = sources.parse_file(str(path))
        assert source is not None
        assert ast.unparse(source.tree) == f"x = {value}"
        path.write_text(f"x = {int(value) + 2}\n")
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        again = sources.parse_file(str(path))
        assert again is not None
        assert ast.unparse(again.tree) == f"x = {int(value) + 2}"

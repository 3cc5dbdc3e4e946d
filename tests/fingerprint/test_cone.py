"""What changes a definition hash, and what does not."""

from __future__ import annotations

import pytest

from barca.fingerprint import Fingerprinter

UTIL = """
    from deep import strip

    def clean(value):
        # a comment
        return strip(value)

    def other(value):
        return value
"""

IMPORTS = {
    "import": ("import util", "util.clean(1)"),
    "from_as": ("from util import clean as c", "c(1)"),
    "from": ("from util import clean", "clean(1)"),
    "star": ("from util import *", "clean(1)"),
    "module_as": ("import util as u", "u.clean(1)"),
    "package": ("import pkg.util as u", "u.clean(1)"),
    "package_dotted": ("import pkg.util", "pkg.util.clean(1)"),
    "from_package": ("from pkg import util", "util.clean(1)"),
    "reexport": ("from pkg import clean", "clean(1)"),
    "reexport_attribute": ("import pkg", "pkg.clean(1)"),
    "conditional": ("try:\n    from util import clean\nexcept ImportError:\n    clean = None", "clean(1)"),
    "getattr": ("import util", "getattr(util, 'clean')(1)"),
}

BODIES = {
    "import": ("import util", "util.clean(1)"),
    "from_as": ("from util import clean as c", "c(1)"),
    "package": ("import pkg.util", "pkg.util.clean(1)"),
    "package_as": ("import pkg.util as u", "u.clean(1)"),
    "reexport": ("from pkg import clean", "clean(1)"),
    "reexported_module": ("import pkg", "pkg.util.clean(1)"),
    "starred": ("from starred import clean", "clean(1)"),
    "import_module": ("import importlib\n    util = importlib.import_module('util')", "util.clean(1)"),
    "import_module_call": ("from importlib import import_module", "import_module('pkg.util').clean(1)"),
    "dunder_import": ("pass", "__import__('util').clean(1)"),
}


def write_helpers(code):
    code.write("util.py", UTIL)
    code.write("deep.py", "def strip(value):\n    return value\n\ndef unused():\n    return 0\n")
    code.write("pkg/__init__.py", "from . import util\nfrom .util import clean\n")
    code.write("pkg/util.py", UTIL)
    code.write("starred.py", "from util import *\n")


def check_edits(code, file):
    before = code.hash()
    code.edit(file, "# a comment", "# another comment, and more of it")
    code.edit(file, "return value\n", "return value + 1\n")
    assert code.hash() == before, "an unused helper counted"
    code.edit(file, "return strip(value)", "return strip(value) * 2")
    cleaned = code.hash()
    assert cleaned != before
    code.edit("deep.py", "return 0", "return 1")
    assert code.hash() == cleaned
    code.edit("deep.py", "return value", "return value - 1")
    fingerprint = code.one()
    assert fingerprint.hash != cleaned
    assert fingerprint.warnings == ()


@pytest.mark.parametrize("style", IMPORTS)
def test_f1_helpers_through_imports_of_the_module(code, style):
    statement, call = IMPORTS[style]
    write_helpers(code)
    code.write(
        "pipeline.py", f"from barca import asset\n{statement}\n\n@asset\ndef node():\n    return {call}\n"
    )
    check_edits(code, "pkg/util.py" if "pkg" in statement else "util.py")


@pytest.mark.parametrize("style", BODIES)
def test_f1_helpers_through_imports_in_the_body(code, style):
    statement, call = BODIES[style]
    write_helpers(code)
    text = f"from barca import asset\n\n@asset\ndef node():\n    {statement}\n    return {call}\n"
    code.write("pipeline.py", text)
    check_edits(code, "pkg/util.py" if "pkg" in text else "util.py")


@pytest.mark.parametrize("inside", [False, True])
def test_f1_relative_imports(code, inside):
    write_helpers(code)
    indent, top = ("    ", "") if inside else ("", "from .util import clean as c\n")
    body = "    from .util import clean as c\n" if inside else ""
    code.write(
        "pkg/steps.py", f"from barca import asset\n{top}\n@asset\ndef node():\n{body}    return c(1)\n"
    )
    before = code.hash(module="pkg.steps")
    code.edit("pkg/util.py", "return value\n", "return value + 1\n")
    assert code.hash(module="pkg.steps") == before
    code.edit("deep.py", "return value", "return value - 1")
    assert code.hash(module="pkg.steps") != before


@pytest.mark.parametrize("inside", [False, True])
def test_f1_modules_that_import_each_other(code, inside):
    top, body = ("", "    import left\n") if inside else ("import left\n", "")
    code.write("left.py", "import right\ndef ping(n):\n    return right.pong(n - 1) if n else 0\n")
    code.write("right.py", "import left\ndef pong(n):\n    return left.ping(n)\ndef idle():\n    return 0\n")
    code.write(
        "pipeline.py", f"from barca import asset\n{top}\n@asset\ndef node():\n{body}    return left.ping(3)\n"
    )
    before = code.hash()
    code.edit("right.py", "return 0", "return 1")
    assert code.hash() == before
    code.edit("right.py", "left.ping(n)", "left.ping(n) + 1")
    assert code.hash() != before


def test_f1_an_import_in_the_body_counts_the_same_whether_it_was_run(code):
    write_helpers(code)
    code.write("util.py", "RATE = 2\nLIST = [RATE, 3]\ndef clean(x):\n    return x * RATE + len(LIST)\n")
    code.write(
        "pipeline.py",
        """
        from barca import asset

        @asset
        def node():
            from util import clean
            return clean(1)
        """,
    )
    program = """
        import pipeline
        from pathlib import Path
        from barca.fingerprint import fingerprint
        first = fingerprint(pipeline.node, root=Path("."))
        pipeline.node()
        assert fingerprint(pipeline.node, root=Path(".")) == first
        print(first.hash)
    """
    before = code.in_process(program)
    assert code.hash() == before
    code.edit("util.py", "RATE = 2", "RATE = 4")
    assert code.in_process(program) != before


def test_swapped_helpers_of_one_name_are_a_change(code):
    code.write("one.py", "def work():\n    return 1\n")
    code.write("two.py", "def work():\n    return 2\n")
    code.write(
        "pipeline.py",
        "from barca import asset\nimport one, two\n\n@asset\ndef node():\n    return one.work(), two.work()\n",
    )
    before = code.hash()
    code.write("one.py", "def work():\n    return 2\n")
    code.write("two.py", "def work():\n    return 1\n")
    assert code.hash() != before


CONSTANTS = {
    "int": ("2", "3"),
    "bool": ("1", "True"),
    "float": ("0.0", "-0.0"),
    "text": ("'a'", "b'a'"),
    "list": ("[[1, 2], [3]]", "[[1], [2, 3]]"),
    "tuple": ("(1, 2)", "[1, 2]"),
    "dict": ("{'a': 1}", "{'a': '1'}"),
    "set": ("{'a', 'b'}", "{'a', 'c'}"),
    "pattern": ("re.compile('a')", "re.compile('a', re.I)"),
    "date": ("datetime.date(2024, 1, 1)", "datetime.date(2024, 1, 2)"),
    "datetime": ("datetime.datetime(2024, 1, 1)", "datetime.datetime(2024, 1, 1, fold=1)"),
    "decimal": ("decimal.Decimal('1.0')", "decimal.Decimal('1.00')"),
    "path": ("pathlib.Path('a')", "pathlib.Path('b')"),
    "uuid": ("uuid.UUID(int=1)", "uuid.UUID(int=2)"),
    "enum": ("Colour.RED", "Colour.BLUE"),
    "dataclass": ("Point(1)", "Point(2)"),
    "instance": ("Plain(1)", "Plain(2)"),
    "named": ("Pair(1, 2)", "Pair(2, 1)"),
    "dtype": ("pl.Int64", "pl.Int32"),
    "schema": ("pl.Schema({'a': pl.Int64})", "pl.Schema({'a': pl.List(pl.Int64)})"),
    "expression": ("pl.col('a') * 2", "pl.col('a') * 3"),
    "computed": ("sum(range(10))", "sum(range(11))"),
    "type": ("list[int] | None", "list[str] | None"),
    "partial": ("functools.partial(int, base=2)", "functools.partial(int, base=3)"),
    "defaultdict": ("collections.defaultdict(int)", "collections.defaultdict(str)"),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_f2_constants(code, name):
    old, new = CONSTANTS[name]
    code.write(
        "util.py",
        f"""
        import collections, datetime, decimal, enum, functools, pathlib, re, uuid
        from dataclasses import dataclass
        import polars as pl

        class Colour(enum.Enum):
            RED = 1
            BLUE = 2

        @dataclass
        class Point:
            x: int

        class Plain:
            def __init__(self, x):
                self.x = x

        Pair = collections.namedtuple("Pair", "a b")
        VALUE = {old}
        SPARE = 1
        """,
    )
    code.write(
        "pipeline.py",
        "from barca import asset\nfrom util import VALUE\n\n@asset\ndef node():\n    return VALUE\n",
    )
    before = code.one()
    assert before.warnings == ()
    assert "constant util.py:VALUE" in before.components
    code.edit("util.py", "SPARE = 1", "SPARE = 2")
    assert code.hash() == before.hash
    code.edit("util.py", f"VALUE = {old}", f"VALUE = {new}")
    after = code.one()
    assert after.hash != before.hash
    changed = {name for name in after.components if after.components[name] != before.components.get(name)}
    assert changed == {"constant util.py:VALUE"}


def test_f2_closures_of_one_factory_and_lambdas_of_one_line(code):
    code.write(
        "pipeline.py",
        """
        from barca import asset

        def make(n):
            @asset
            def made():
                return n
            return made

        def make_class(n):
            class Made:
                rate = n
                def go(self):
                    return self.rate, rate
            return Made

        rate = 7
        First, Second = make_class(1), make_class(2)
        a, b, again = make(1), make(2), make(1)
        c, d = asset(lambda: 1), asset(lambda: 2)
        e, f = asset(lambda: [lambda: 1][0]()), asset(lambda: [lambda: 2][0]())
        g, h = asset(lambda: First().go()), asset(lambda: Second().go())
        s = "äöü"; i, j = asset(lambda: "ä"), asset(lambda: "ö")
        """,
    )
    names = "abcdefghij"
    found = code.all(*names)
    hashes = [fingerprint.hash for fingerprint in found]
    assert [fingerprint.warnings for fingerprint in found] == [()] * len(names)
    assert "constant pipeline.py:rate" in found[6].components
    assert len(set(hashes)) == len(names)
    same = code.all("a", "again")
    assert same[0].hash == same[1].hash
    assert "closure n" in same[0].components
    code.edit("pipeline.py", "asset(lambda: 1), asset(lambda: 2)", "asset(lambda: 1), asset(lambda: 3)")
    now = [fingerprint.hash for fingerprint in code.all(*names)]
    assert [name for name, old, new in zip(names, hashes, now, strict=True) if old != new] == ["d"]


def test_f2_closures_over_values_without_a_stable_text_are_told_apart_with_a_warning(code):
    code.write(
        "pipeline.py",
        """
        import threading
        import polars as pl
        from barca import asset

        def make(frame):
            @asset
            def made():
                return frame
            return made

        a, b, again = (make(pl.DataFrame({"x": [n]})) for n in (1, 2, 1))
        lock = make(threading.Lock())
        """,
    )
    a, b, again, lock = code.all("a", "b", "again", "lock")
    assert a.hash != b.hash
    assert a.hash == again.hash
    assert "its pickle counts" in a.warnings[0]
    assert "only its type counts" in lock.warnings[0]


HELPERS = {
    "list item": ("STEPS = [deep]", "[step(1) for step in STEPS]"),
    "dict item": ("STEPS = {'a': deep}", "STEPS['a'](1)"),
    "partial": ("from functools import partial\nstep = partial(deep, 1)", "step()"),
    "alias": ("step = deep", "step(1)"),
    "lambda": ("step = lambda x: deep(x)", "step(1)"),
    "method": ("class A:\n    def go(self):\n        return deep(1)", "A().go()"),
    "bound method": ("class A:\n    def go(self):\n        return deep(1)\nstep = A().go", "step()"),
    "property": ("class A:\n    @property\n    def x(self):\n        return deep(1)", "A().x"),
    "classmethod": ("class A:\n    @classmethod\n    def go(cls):\n        return deep(1)", "A.go()"),
    "staticmethod": ("class A:\n    @staticmethod\n    def go():\n        return deep(1)", "A.go()"),
    "borrowed method": ("class A:\n    pass\nA.go = deep", "A.go(1)"),
    "base": ("class B:\n    def go(self):\n        return deep(1)\nclass A(B):\n    pass", "A().go()"),
    "instance": ("class A:\n    def go(self):\n        return deep(1)\nTHE = A()", "THE.go()"),
    "cached": ("import functools\n@functools.lru_cache\ndef step(x):\n    return deep(x)", "step(1)"),
    "dispatch": (
        "import functools\n@functools.singledispatch\ndef step(x):\n    return 0\n"
        "@step.register\ndef _(x: int):\n    return deep(x)",
        "step(1)",
    ),
    "decorator of helper": (
        "import functools\ndef deco(f):\n    @functools.wraps(f)\n    def wrapper(x):\n        return deep(f(x))\n"
        "    return wrapper\n@deco\ndef step(x):\n    return x",
        "step(1)",
    ),
    "bare decorator": (
        "def deco(f):\n    return lambda x: deep(f(x))\n@deco\ndef step(x):\n    return x",
        "step(1)",
    ),
    "another asset": (
        "from barca import asset\n@asset(name='other')\ndef step():\n    return deep(1)",
        "step()",
    ),
    "closure": (
        "def make(f):\n    def inner(x):\n        return f(x)\n    return inner\nstep = make(deep)",
        "step(1)",
    ),
    "default": ("def step(f=deep):\n    return f(1)", "step()"),
    "annotation": (
        "from typing import Annotated\nT = Annotated[int, deep]\ndef step(x: T):\n    return x",
        "step(1)",
    ),
    "whole module": ("import util as me", "me"),
    "generator": ("def step():\n    yield from (deep(x) for x in [1])", "list(step())"),
    "class argument": ("class A:\n    f = staticmethod(deep)", "A.f(1)"),
    "polars namespace": (
        "import polars as pl\n@pl.api.register_expr_namespace('barca_test')\nclass N:\n"
        "    def __init__(self, e):\n        self._e = e\n    def go(self):\n        return deep(self._e)",
        "pl.col('a').barca_test.go()",
    ),
}


@pytest.mark.parametrize("name", HELPERS)
@pytest.mark.filterwarnings("ignore:Overriding existing custom namespace")
def test_f4_unusual_helpers(code, name):
    setup, call = HELPERS[name]
    code.write("deeper.py", "def deep(x):\n    return x\ndef spare(x):\n    return x + 1\n")
    code.write("util.py", f"from deeper import deep\n{setup}\n")
    imported = "import polars as pl\nimport util" if "polars" in name else "from util import *"
    imported = "import util as me" if name == "whole module" else imported
    code.write(
        "pipeline.py", f"from barca import asset\n{imported}\n\n@asset\ndef node():\n    return {call}\n"
    )
    before = code.one()
    code.edit("deeper.py", "return x + 1", "return x + 2")
    assert code.hash() == before.hash
    code.edit("deeper.py", "return x\n", "return x * 3\n")
    after = code.one()
    assert after.hash != before.hash
    assert "helper deeper.py:deep" in after.components
    assert after.warnings == ()


def test_f4_default_argument_decorator_and_base_of_the_node_itself(code):
    code.write("deeper.py", "def deep(x):\n    return x\ndef deco(f):\n    return f\n")
    code.write(
        "pipeline.py",
        """
        from barca import asset
        from deeper import deep, deco

        @asset
        @deco
        def node(f=deep, *, k=(1, 2)):
            return f(k)
        """,
    )
    before = code.one()
    assert {"default f", "default k", "decorator deeper.py:deco"} <= before.components.keys()
    code.edit("deeper.py", "return x", "return x + 1")
    step = code.hash()
    code.edit("deeper.py", "return f", "return (f)  # the same")
    assert code.hash() == step
    code.edit("deeper.py", "return (f)", "return f or 0")
    last = code.hash()
    code.edit("pipeline.py", "k=(1, 2)", "k=(1, 3)")
    assert len({before.hash, step, last, code.hash()}) == 4


@pytest.mark.parametrize(
    ("setup", "expression", "words"),
    [
        ("import util", "getattr(util, NAME)(1)", "takes an attribute by a name that is no literal"),
        ("", "globals()['x']", "`globals()`"),
        ("", "eval('1')", "`eval()`"),
        ("", "exec('x = 1')", "`exec()`"),
        ("import importlib", "importlib.import_module(NAME)", "whose name is not a literal"),
        ("import sys", "sys.modules[NAME]", "`sys.modules`"),
        ("import runpy", "runpy.run_path(NAME)", "loads code by `runpy.run_path`"),
        (
            "import importlib.util as u",
            "u.spec_from_file_location('x', NAME)",
            "loads code by `importlib.util.spec",
        ),
        ("class A:\n    pass", "A.__subclasses__()[0]()", "asks for `__subclasses__`"),
        ("", "nowhere(1)", "the name `nowhere` was not found"),
        ("import util", "util.nothing(1)", "`nothing` was not found in `util.py`"),
        (
            "import threading\nCON = threading.Lock()",
            "CON",
            "constant pipeline.py:CON: cannot be hashed by value",
        ),
        (
            "SEEN = {}",
            "SEEN.setdefault(1, 2)",
            "constant pipeline.py:SEEN: is a module global that functions change",
        ),
        ("import util", "setattr(util, 'x', 1)", None),
    ],
)
def test_f4_what_cannot_be_followed_is_a_warning_that_names_it(code, setup, expression, words):
    code.write("util.py", "def clean(x):\n    return x\n")
    code.write(
        "pipeline.py",
        f"from barca import asset\n{setup}\nNAME = 'clean'\n\n@asset\ndef node():\n    return {expression}\n",
    )
    warnings = code.one().warnings
    if words is None:
        assert warnings == ()
    else:
        assert any(words in warning and "`pipeline.py:node`" in warning for warning in warnings), warnings


def test_f4_what_a_module_makes_on_demand_counts_by_what_makes_it(code):
    making = (
        "def __getattr__(name):\n    if name[0] == '_':\n        raise AttributeError(name)\n    return 1\n"
    )
    code.write("lazy.py", making)
    code.write(
        "pipeline.py",
        "from barca import asset\nimport lazy\n\n@asset\ndef node():\n    return lazy.anything\n",
    )
    before = code.one()
    code.edit("lazy.py", "return 1", "return 2")
    assert (code.hash() != before.hash, before.warnings) == (True, ())


def test_globals_that_functions_write_count_by_their_definition(code):
    code.write(
        "pipeline.py",
        """
        from barca import asset

        CACHE = {}
        COUNT = 0

        @asset
        def node():
            global COUNT
            COUNT += 1
            CACHE[COUNT] = 1
            return COUNT
        """,
    )
    program = """
        import pipeline
        from pathlib import Path
        from barca.fingerprint import fingerprint
        first = fingerprint(pipeline.node, root=Path("."))
        pipeline.node()
        assert fingerprint(pipeline.node, root=Path(".")) == first
        print(len(first.warnings))
    """
    assert code.in_process(program) == "2"
    before = code.hash()
    code.edit("pipeline.py", "COUNT = 0", "COUNT = 10")
    assert code.hash() != before


def test_shared_helpers_are_looked_at_once(code, monkeypatch):
    nodes = "".join(f"@asset\ndef n{i}():\n    return clean({i})\n\n" for i in range(50))
    code.write("util.py", "def clean(x):\n    return x\n")
    code.write("pipeline.py", f"from barca import asset\nfrom util import clean\n\n{nodes}")
    from barca.fingerprint import cone, sources

    parsed, filled = [], []
    parse, fill = sources._parse, cone.Cone._fill_function
    monkeypatch.setattr(sources, "_parse", lambda path, text: (parsed.append(path), parse(path, text))[1])
    monkeypatch.setattr(
        cone.Cone, "_fill_function", lambda self, *args: (filled.append(args[0].name), fill(self, *args))[1]
    )
    assert len({fingerprint.hash for fingerprint in code.all(*(f"n{i}" for i in range(50)))}) == 50
    assert len(parsed) == 2
    assert filled.count("clean") == 1
    assert isinstance(Fingerprinter(code.root), Fingerprinter)

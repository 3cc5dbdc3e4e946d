"""Odd code never raises and is never run."""

from __future__ import annotations

import sys
import textwrap
import types
from pathlib import Path

import pytest

from barca import asset
from barca.fingerprint import fingerprint
from barca.fingerprint.sources import Project
from barca.fingerprint.values import Unencodable, ValueEncoder, show
from barca.records import replace


def test_outside_code_counts_by_name(code):
    code.write(
        "pipeline.py",
        "import json, os.path as p\nimport polars as pl\nfrom math import pi\nfrom barca import asset\n\n"
        "@asset\ndef node():\n    import numpy.linalg as la\n    return json.dumps(pi), p.join('a'), pl.col('a')\n",
    )
    found = code.one()
    assert found.warnings == ()
    assert set(found.components) == {"arguments", "function"}


def test_code_beside_the_project_is_a_warning(code, tmp_path_factory, monkeypatch):
    beside = tmp_path_factory.mktemp("beside")
    (beside / "shared_outside.py").write_text("def clean(x):\n    return x\n")
    monkeypatch.syspath_prepend(str(beside))
    for text in (
        "from shared_outside import clean\n\n@asset\ndef node():\n    return clean(1)\n",
        "import shared_outside\n\n@asset\ndef node():\n    return shared_outside.clean(1)\n",
        "\n@asset\ndef node():\n    from shared_outside import clean\n    return clean(1)\n",
    ):
        code.write("pipeline.py", f"from barca import asset\n{text}")
        (warning,) = code.one().warnings
        assert "shared_outside" in warning
        assert "outside of the project" in warning
    sys.modules.pop("shared_outside", None)


def test_a_pipeline_outside_of_the_root_is_followed(code, tmp_path_factory):
    code.write("util.py", "def clean(x):\n    return x\n")
    code.write(
        "pipeline.py",
        "from barca import asset\nfrom util import clean\n\n@asset\ndef node():\n    return clean(1)\n",
    )
    root = tmp_path_factory.mktemp("root")
    before = code.one(root=root)
    assert before.warnings == ()
    assert before.hash == code.hash()
    code.edit("util.py", "return x", "return x + 1")
    assert code.one(root=root).hash != before.hash


def test_virtual_environments_and_installed_packages_below_the_root_are_not_the_project(tmp_path):
    for folder in ("venv/lib", "venv/lib/site-packages/pkg", "src"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.py").write_text("")
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    project = Project(str(tmp_path))
    assert project.origin(str(tmp_path / "src/x.py")) == "project"
    assert project.origin(str(tmp_path / "venv/lib/x.py")) == "library"
    assert project.origin(str(tmp_path / "venv/lib/site-packages/pkg/x.py")) == "library"
    assert project.origin(types.__file__) == "library"


@pytest.mark.parametrize(
    "body",
    [
        "return nowhere.at_all.x",
        "x = [y for y in range(3) if (z := y)]; return z",
        "class Inner:\n        a = 1\n        b = [a for _ in range(2)]\n    return Inner",
        "match [1]:\n        case [x, *rest]:\n            return x, rest",
        "async def g():\n        async with open() as f:\n            yield f\n    return g",
        "def inner():\n        nonlocal_ = 1\n        return inner\n    return inner",
        "return (lambda *a, k=(lambda: 1), **kw: (a, k, kw))",
        "return node",
        "import missing_module_xyz\n    return missing_module_xyz.f()",
        "from . import nothing",
        "return __file__, __name__, __doc__",
        "return f'{1!r:>{2}}'",
        "return " + "+".join(["1"] * 2000),
    ],
)
def test_odd_bodies(code, body):
    code.write("pipeline.py", f"from barca import asset\n\n@asset\ndef node():\n    {body}\n")
    found = code.one()
    assert len(found.hash) == 32
    assert not any("could not be analysed" in warning for warning in found.warnings), found.warnings


def test_a_missing_module_in_the_body_is_a_warning(code):
    code.write(
        "pipeline.py",
        "from barca import asset\n\n@asset\ndef node():\n    import missing_xyz\n    return missing_xyz.f()\n",
    )
    (warning,) = code.one().warnings
    assert "missing_xyz" in warning


def test_project_code_is_not_run(code):
    code.write("lazy.py", "raise SystemExit('was imported')\n")
    code.write(
        "pipeline.py",
        """
        from barca import asset

        class Loud:
            def __getattr__(self, name):
                raise SystemExit("was asked")
            def __repr__(self):
                raise SystemExit("was shown")
            __hash__ = __eq__ = __len__ = __iter__ = __call__ = __repr__

        THING = Loud()
        ITEMS = [THING]

        @asset
        def node(default=THING):
            import lazy
            return THING.x, ITEMS, lazy.f()
        """,
    )
    found = code.one()
    assert len(found.hash) == 32


def test_a_constant_that_contains_itself(code):
    code.write(
        "pipeline.py",
        "from barca import asset\nLOOP = []\nLOOP.append(LOOP)\n\n@asset\ndef node():\n    return LOOP\n",
    )
    (warning,) = code.one().warnings
    assert "constant pipeline.py:LOOP" in warning


def encoder(root: str = "/nowhere") -> ValueEncoder:
    return ValueEncoder(root, root, lambda kind: False)


def test_encodings_are_injective_over_types():
    values = [
        None, True, 1, 1.0, "1", b"1", (1,), [1], {1}, frozenset({1}), {1: 1}, (), [], {}, set(), "", b"", 0, -0.0, 0.0,
        float("nan"), float("inf"), 1j, range(1), [[1, 2], [3]], [[1], [2, 3]], ["a", "b"], ["ab"], "None", ..., {"a": 1, "b": 2},
    ]  # fmt: skip
    texts = [encoder().encode(value)[0] for value in values]
    assert len(set(texts)) == len(values)


def test_sets_do_not_depend_on_their_order():
    items = [str(number) for number in range(50)]
    assert encoder().encode(set(items)) == encoder().encode(set(reversed(items)))
    assert show(set(items)) == show(set(reversed(items)))


def test_paths_below_the_root_are_relative():
    one, other = encoder("/a/b"), encoder("/c")
    assert one.encode(Path("/a/b/data"))[0] == other.encode(Path("/c/data"))[0]
    assert one.encode("/a/b/data")[0] == other.encode("/c/data")[0]
    assert one.encode("sqlite:////a/b/x.db")[0] == other.encode("sqlite:////c/x.db")[0]
    assert one.encode("/a/bc")[0] != other.encode("/cc")[0]


def test_what_has_no_stable_text_is_refused():
    with pytest.raises(Unencodable, match="has no stable text"):
        encoder().encode(object())
    with pytest.raises(Unencodable, match="has no stable text"):
        encoder().encode([iter([])])


def test_a_function_of_an_installed_package(code):
    definition = replace(asset(lambda: 1), function=textwrap.dedent, file=textwrap.__file__)
    found = fingerprint(definition, root=code.root)
    assert set(found.components) == {"arguments", "function"}
    (warning,) = found.warnings
    assert "only its name counts" in warning


def test_code_that_cannot_be_analysed_counts_by_its_whole_file(code, monkeypatch):
    from barca.fingerprint import cone

    def fail(*_args, **_options):
        raise RuntimeError("a defect")

    monkeypatch.setattr(cone, "fill_definition", fail)
    code.write("pipeline.py", "from barca import asset\n\n@asset\ndef node():\n    return 1\n")
    before = code.one()
    assert any("could not be analysed (RuntimeError: a defect)" in warning for warning in before.warnings)
    code.edit("pipeline.py", "return 1", "return 2")
    assert code.hash() != before.hash

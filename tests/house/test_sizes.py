"""A module is one thing on a few screens, and a function fits on one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "barca").rglob("*.py"))
MODULE_LINES = 400
FUNCTION_LINES = 50


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    return lines - ((first.end_lineno or 0) - first.lineno + 1 if documented else 0)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_and_its_functions_are_small(module: Path):
    text = module.read_text()
    assert len(text.splitlines()) <= MODULE_LINES
    long = {
        f"{function.name}:{function.lineno}": lines
        for function in functions(ast.parse(text))
        if (lines := body_lines(function)) > FUNCTION_LINES
    }
    assert long == {}

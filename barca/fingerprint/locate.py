"""Takes live functions and classes apart, and finds their syntax trees."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barca.fingerprint.normalise import dump
from barca.fingerprint.sources import FunctionNode, SourceFile, session_cells

if TYPE_CHECKING:
    from collections.abc import Iterator

_GENERATED = ("<string>", "<attrs generated", "<__array_function__")


def code_path(function: types.FunctionType) -> str:
    """File of a function's code: absolute, or the name of a notebook cell.

    A script's code carries its path as it was typed, so the module's own `__file__` completes it.
    """
    name = function.__code__.co_filename
    if name.startswith("<") or Path(name).is_absolute():
        return name
    module_file = function.__globals__.get("__file__")
    if isinstance(module_file, str) and Path(module_file).name == Path(name).name:
        return str(Path(module_file).resolve())
    return str(Path(name).resolve())


def is_generated(function: types.FunctionType) -> bool:
    """Whether a function was made from text that stands in no file, as dataclasses do."""
    return function.__code__.co_filename.startswith(_GENERATED)


def find_function(source: SourceFile, code: types.CodeType) -> tuple[FunctionNode | ast.Lambda | None, bool]:
    """The tree of a code object, and whether its place in the file still fits the code that is loaded."""
    if code.co_name == "<lambda>":
        return find_lambda(source, code), True
    exact = source.function(code.co_qualname, code.co_firstlineno)
    if exact is not None:
        return exact, True
    last = source.last(code.co_qualname)
    return (None if isinstance(last, ast.ClassDef) else last), False


def find_lambda(source: SourceFile, code: types.CodeType) -> ast.Lambda | None:
    """The lambda that a code object was made from, told from others on its line by columns."""
    candidates = source.lambdas.get(code.co_firstlineno, [])
    spans = [
        (line, column, end_line, end_column)
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and end_line is not None and column is not None and end_column is not None
        if (line, column) != (end_line, end_column)
    ]
    if spans:
        first = min((line, column) for line, column, _, _ in spans)
        last = max((line, column) for _, _, line, column in spans)
        around = [one for one in candidates if _start(one.body) <= first and last <= _end(one.body)]
        candidates = sorted(around, key=lambda one: (_start(one.body), _negated(_end(one.body))))[-1:]
    else:  # Python 3.12 keeps no columns for a lambda that is one constant
        candidates = [one for one in candidates if _compiles_to(one, code)]
    if len({dump(one) for one in candidates}) == 1:
        return candidates[-1]
    return None


def _compiles_to(node: ast.Lambda, code: types.CodeType) -> bool:
    made = compile(ast.Expression(node), "<lambda>", "eval").co_consts
    return any(
        one.co_code == code.co_code and one.co_consts == code.co_consts
        for one in made
        if isinstance(one, types.CodeType)
    )


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _negated(place: tuple[int, int]) -> tuple[int, int]:
    return -place[0], -place[1]


def find_class(source: SourceFile, kind: type) -> ast.ClassDef | None:
    """The tree of a class: of several of its name, the one that its methods stand in, else the last."""
    found = [node for node in source.definitions.get(kind.__qualname__, ()) if isinstance(node, ast.ClassDef)]
    lines = {
        function.__code__.co_firstlineno
        for function in own_functions(kind)
        if function.__code__.co_qualname.startswith(f"{kind.__qualname__}.")
    }
    for node in found:
        if lines and all(node.lineno <= line <= (node.end_lineno or line) for line in lines):
            return node
    return found[-1] if found else None


def own_functions(kind: type) -> Iterator[types.FunctionType]:
    """A class's functions, also those inside properties and the like, except generated ones."""
    for _, function in named_functions(kind):
        yield function


def named_functions(kind: type) -> Iterator[tuple[str, types.FunctionType]]:
    """`own_functions` with the names of the attributes they stand in."""
    for name, attribute in list(vars(kind).items()):
        for function in _unwrapped(attribute):
            if isinstance(function, types.FunctionType) and not is_generated(function):
                yield name, function


def _unwrapped(attribute: Any) -> Iterator[object]:
    if isinstance(attribute, property):
        yield from (attribute.fget, attribute.fset, attribute.fdel)
    elif isinstance(attribute, classmethod | staticmethod):
        yield attribute.__func__
    else:
        yield attribute
        yield getattr(attribute, "func", None) if type(attribute).__module__ == "functools" else None


def assigned_names(tree: ast.ClassDef) -> set[str]:
    """Names that a class body assigns to."""
    names: set[str] = set()
    for statement in tree.body:
        if not isinstance(statement, ast.ClassDef | FunctionNode):
            names |= {part.id for part in ast.walk(statement) if isinstance(part, ast.Name)}
    return names


def class_home(kind: type) -> tuple[str, dict[str, Any]] | None:
    """File (or cell) and module namespace of a class, or `None` when neither can be told."""
    module = sys.modules.get(kind.__module__)
    for function in own_functions(kind):
        if function.__code__.co_qualname.startswith(f"{kind.__qualname__}."):
            return code_path(function), function.__globals__
    if module is None:
        return None
    path = getattr(module, "__file__", None)
    if isinstance(path, str):
        return path, vars(module)
    if kind.__module__ == "__main__":
        for cell in session_cells():
            if kind.__qualname__ in cell.definitions:
                return cell.path, vars(module)
        return "<session>", vars(module)
    return None


def cells(function: types.FunctionType) -> dict[str, Any]:
    """Closure variables that hold a value."""
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    return found


def class_cells(kind: type) -> dict[str, Any]:
    """Closure variables of a class's own methods."""
    found: dict[str, Any] = {}
    for function in own_functions(kind):
        if function.__code__.co_qualname.startswith(f"{kind.__qualname__}."):
            found |= {name: value for name, value in cells(function).items() if name != "__class__"}
    return found


def defaults(
    function: types.FunctionType, tree: FunctionNode | ast.Lambda | None
) -> Iterator[tuple[str, Any, ast.expr | None]]:
    """Name, value and expression of every default argument."""
    code = function.__code__
    written: dict[str, ast.expr | None] = {}
    if tree is not None:
        plain = [*tree.args.posonlyargs, *tree.args.args]
        names = [argument.arg for argument in plain[len(plain) - len(tree.args.defaults) :]]
        written |= dict(zip(names, tree.args.defaults, strict=True))
        names = [argument.arg for argument in tree.args.kwonlyargs]
        written |= dict(zip(names, tree.args.kw_defaults, strict=True))
    values = function.__defaults__ or ()
    names = list(code.co_varnames[code.co_argcount - len(values) : code.co_argcount])
    for name, value in [*zip(names, values, strict=True), *(function.__kwdefaults__ or {}).items()]:
        yield name, value, written.get(name)


def code_names(code: types.CodeType) -> Iterator[str]:
    """Names that compiled code and the functions inside it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_names(constant)

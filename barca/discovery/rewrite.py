"""The two changes made to a project file's code when it is imported.

The expression inside `partitions(...)` and `batches(...)` becomes a thunk, so that an expression that
raises costs its node and not its file, and so that workers never evaluate it. And an import of a module
whose name several files of the project claim names the right file. Line numbers stay.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from barca.discovery.names import BarcaNames
from barca.model import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOOK: Final = "__barca_defer__"
"""Global of a rewritten module that makes a `Deferred` of a thunk."""

ImportStatement: TypeAlias = "ast.Import | ast.ImportFrom"

_PUT_OFF = frozenset({"partitions", "batches"})
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(slots=True)
class Survey:
    """What one walk over a file's syntax tree found.

    Attributes:
        imports: Import statements, wherever they stand.
        bound: Names that the file's code binds, other than by importing.
        calls: Calls whose arguments may be evaluated later, and whether they stand inside a function.
        decorators: Calls that decorate functions.
    """

    imports: list[ImportStatement] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)
    calls: list[tuple[ast.Call, bool]] = field(default_factory=list)
    decorators: list[ast.Call] = field(default_factory=list)

    def names(self) -> BarcaNames:
        """What of barca the file's names mean."""
        names = BarcaNames()
        for statement in self.imports:
            names.add(statement)
        return names


class _Scope(NamedTuple):
    """What is around a place in the code."""

    function: bool = False
    class_body: bool = False
    loop: bool = False


def survey(tree: ast.Module) -> Survey:
    """Walk over the tree once: large files are read in every process that starts."""
    found = Survey()
    _walk(tree, found, _Scope())
    return found


def _walk(node: ast.AST, found: Survey, scope: _Scope) -> None:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            found.bound.add(node.id)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        found.imports.append(node)
    elif isinstance(node, _FUNCTIONS):
        _walk_function(node, found, scope)
    else:
        if isinstance(node, ast.Call):
            # the names of a class body are out of reach of a thunk, and a loop's are others by then
            if not scope.class_body and not scope.loop:
                found.calls.append((node, scope.function))
        elif isinstance(node, ast.ClassDef):
            found.bound.add(node.name)
            scope = scope._replace(class_body=True)
        elif isinstance(node, _LOOPS):
            scope = scope._replace(loop=True)
        for child in _children(node):
            _walk(child, found, scope)


def _walk_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, found: Survey, scope: _Scope
) -> None:
    if not isinstance(node, ast.Lambda):
        found.bound.add(node.name)
        for decorator in node.decorator_list:  # they belong to what is around the function
            _walk(decorator, found, scope)
            if isinstance(decorator, ast.Call):
                found.decorators.append(decorator)
    inside = scope._replace(function=True, class_body=False)
    for statement in node.body if isinstance(node.body, list) else [node.body]:
        _walk(statement, found, inside)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            yield from (child for child in value if isinstance(child, ast.AST))


def rewrite(tree: ast.Module, found: Survey, real_name: Callable[[str], str]) -> None:
    """Change a file's syntax tree, in place, into the one that is compiled.

    Args:
        tree: The tree.
        found: Its survey.
        real_name: Name under which a top-level module, as this file calls it, is imported.
    """
    names = found.names()
    for call, in_function in found.calls:
        called = call.func
        shadowed = isinstance(called, ast.Name) and called.id in found.bound
        if names.meaning(called) in _PUT_OFF and call.args and not shadowed:
            call.args[0] = _put_off(call.args[0], top_level=not in_function)
    tops = {top for statement in found.imports for top in _tops(statement)}
    if any(real_name(top) != top for top in tops):
        _Imports(real_name).visit(tree)


def defer_hook(file: str) -> Callable[..., Deferred]:
    """The function behind `HOOK` for one module: equal expressions of its top level are one `Deferred`."""
    shared: dict[str, Deferred] = {}

    def defer(thunk: Callable[[], Any], line: int, source: str, *, top_level: bool) -> Deferred:
        deferred = Deferred(thunk, file=file, line=line, source=source)
        # inside a function the same text may mean other values each time
        return shared.setdefault(source, deferred) if top_level else deferred

    return defer


def _put_off(expression: ast.expr, *, top_level: bool) -> ast.expr:
    """The expression as a `Deferred`; itself, when nothing needs evaluating or it must happen in place."""
    if _is_literal(expression) or _binds(expression):
        return expression
    thunk = ast.Lambda(
        args=ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
        body=expression,
    )
    deferred = ast.Call(
        func=ast.Name(HOOK, ast.Load()),
        args=[thunk, ast.Constant(expression.lineno), ast.Constant(ast.unparse(expression))],
        keywords=[ast.keyword("top_level", ast.Constant(top_level))],
    )
    return ast.fix_missing_locations(ast.copy_location(deferred, expression))


def _is_literal(expression: ast.expr) -> bool:
    """Whether nothing needs evaluating: constants, and lists of them."""
    if isinstance(expression, ast.List | ast.Tuple | ast.Set):
        return all(_is_literal(element) for element in expression.elts)
    return isinstance(expression, ast.Constant)


def _binds(expression: ast.expr) -> bool:
    """Whether the expression means something else inside a function of its own."""
    kinds = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    inside = any(isinstance(part, kinds) for part in ast.walk(expression))
    return inside or isinstance(expression, ast.Starred)


def _tops(statement: ImportStatement) -> list[str]:
    """Top-level modules that a statement imports from, relative imports aside."""
    if isinstance(statement, ast.Import):
        return [alias.name.partition(".")[0] for alias in statement.names]
    return [(statement.module or "").partition(".")[0]] if not statement.level else []


class _Imports(ast.NodeTransformer):
    """Renames absolute imports of modules that are imported under another name."""

    def __init__(self, real_name: Callable[[str], str]) -> None:
        self._real_name = real_name

    def _renamed(self, module: str) -> str:
        top, dot, rest = module.partition(".")
        return self._real_name(top) + dot + rest

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        """Rename the module of `from module import name`."""
        if node.module and not node.level:
            node.module = self._renamed(node.module)
        return node

    def visit_Import(self, node: ast.Import) -> ast.AST | list[ast.AST]:
        """Rename the modules of `import module`, which keeps binding the name it bound."""
        statements: list[ast.AST] = []
        for alias in node.names:
            real = self._renamed(alias.name)
            top = alias.name.partition(".")[0]
            if real == alias.name or alias.asname:
                imported = [ast.alias(real, alias.asname)]
            else:
                # `import a.b` binds `a`
                imported = [ast.alias(real.partition(".")[0], top)]
                if "." in real:
                    imported.insert(0, ast.alias(real))
            statements += [ast.copy_location(ast.Import([name]), node) for name in imported]
        return [ast.fix_missing_locations(statement) for statement in statements]

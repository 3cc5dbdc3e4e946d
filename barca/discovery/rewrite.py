"""The two changes made to a project file's code when it is imported.

The expression inside `partitions(...)` and `batches(...)` becomes a thunk, so that an expression that
raises costs its node and not its file, and so that workers never evaluate it. And an import of a module
whose name several files of the project claim names the right file. Line numbers stay.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from barca.discovery.names import barca_names
from barca.model import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable

HOOK: Final = "__barca_defer__"
"""Global of a rewritten module that makes a `Deferred` of a thunk."""

_PUT_OFF = frozenset({"partitions", "batches"})

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def rewrite(tree: ast.Module, source: str, real_name: Callable[[str], str]) -> None:
    """Change a file's syntax tree into the one that is compiled.

    Args:
        tree: The tree, changed in place.
        source: The file's text.
        real_name: Name under which a top-level module, as this file calls it, is imported.
    """
    _Imports(real_name).visit(tree)
    if "barca" in source:
        _PutOff(tree, source).visit(tree)
    ast.fix_missing_locations(tree)


def defer_hook(file: str) -> Callable[..., Deferred]:
    """The function behind `HOOK` for one module: equal expressions of its top level are one `Deferred`."""
    shared: dict[str, Deferred] = {}

    def defer(thunk: Callable[[], Any], line: int, source: str, *, top_level: bool) -> Deferred:
        deferred = Deferred(thunk, file=file, line=line, source=source)
        # inside a function the same text may mean other values each time
        return shared.setdefault(source, deferred) if top_level else deferred

    return defer


class _PutOff(ast.NodeTransformer):
    """Wraps the argument of `partitions` and `batches`."""

    def __init__(self, tree: ast.Module, source: str) -> None:
        self._names = barca_names(tree)
        self._source = source
        self._rebound = {
            name.id
            for name in ast.walk(tree)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        } | {
            definition.name
            for definition in ast.walk(tree)
            if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        self._functions = 0
        # a thunk made in a loop would see the loop's last value
        self._loops = 0
        # the names of a class body are out of reach of a thunk
        self._classes = 0

    def visit(self, node: ast.AST) -> Any:
        """Count what is around the node, and visit it."""
        loop, in_class = isinstance(node, _LOOPS), isinstance(node, ast.ClassDef)
        self._loops += loop
        self._classes += in_class
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            visited = self._visit_function(node)
        else:
            visited = super().visit(node)
        self._loops -= loop
        self._classes -= in_class
        return visited

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Any:
        # decorators belong to the scope around the function, its body to a scope of its own
        if not isinstance(node, ast.Lambda):
            node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        self._functions += 1
        classes, self._classes = self._classes, 0
        body = node.body if isinstance(node.body, list) else [node.body]
        visited = [self.visit(statement) for statement in body]
        node.body = visited if isinstance(node.body, list) else visited[0]
        self._classes = classes
        self._functions -= 1
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Put off the argument of a call of `partitions` or `batches`."""
        self.generic_visit(node)
        if self._names.meaning(node.func) not in _PUT_OFF or self._loops or self._classes or not node.args:
            return node
        if isinstance(node.func, ast.Name) and node.func.id in self._rebound:
            return node
        expression = node.args[0]
        if _is_literal(expression) or _binds(expression):
            return node
        text = ast.get_source_segment(self._source, expression) or ast.unparse(expression)
        thunk = ast.Lambda(
            args=ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
            body=expression,
        )
        deferred = ast.Call(
            func=ast.Name(HOOK, ast.Load()),
            args=[thunk, ast.Constant(expression.lineno), ast.Constant(text)],
            keywords=[ast.keyword("top_level", ast.Constant(self._functions == 0))],
        )
        node.args[0] = ast.copy_location(deferred, expression)
        return node


def _is_literal(expression: ast.expr) -> bool:
    """Whether nothing needs evaluating: constants, and lists of them."""
    if isinstance(expression, ast.List | ast.Tuple | ast.Set):
        return all(_is_literal(element) for element in expression.elts)
    return isinstance(expression, ast.Constant)


def _binds(expression: ast.expr) -> bool:
    """Whether the expression means something else inside a function of its own."""
    kinds = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    return isinstance(expression, ast.Starred) or any(
        isinstance(part, kinds) for part in ast.walk(expression)
    )


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
        return statements

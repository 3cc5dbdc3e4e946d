"""Which names a piece of code takes from outside of it, and how it uses them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from barca.fingerprint.sources import MUTATORS, FunctionNode, children
from barca.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

How: TypeAlias = Literal["load", "call", "index", "contains", "store"]
Where: TypeAlias = Literal["body", "annotation", "decorator", "default"]

_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Scoped = FunctionNode | ast.Lambda | ast.ClassDef


class Imported(Record):
    """What an import statement inside code binds a name to.

    Attributes:
        module: Dotted name as written.
        level: Leading dots.
        name: What is taken from the module; `None` is the module itself.
    """

    module: str
    level: int = 0
    name: str | None = None


class Use(Record):
    """One use of an outside name.

    Attributes:
        chain: The name and the attributes taken from it: `util.sub.clean` is three parts.
        how: What is done with it; `argument` is the first argument, the index, or what is looked up in it.
        where: Part of the code it stands in; only the outermost function's own decorators, defaults and
            annotations are told apart from its body.
        imported: When the name was bound by an import inside the code.
    """

    chain: tuple[str, ...]
    how: How = "load"
    where: Where = "body"
    argument: ast.expr | None = None
    imported: Imported | None = None

    @property
    def text(self) -> str:
        """The chain as written."""
        return ".".join(self.chain)


@dataclass(slots=True)
class Uses:
    """Everything a piece of code takes from outside.

    Attributes:
        names: Uses of outside names, in the order of the code.
        attributes: Every attribute name that occurs.
        written: Outside names that functions in it assign to, or whose containers they fill.
        dynamic: What cannot be followed by reading, in words.
    """

    names: list[Use] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    dynamic: list[str] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Scope:
    kind: Literal["outside", "function", "class", "comprehension"]
    parent: _Scope | None = None
    bound: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    imports: dict[str, list[Imported]] = field(default_factory=dict)

    def owner(self, name: str) -> _Scope | None:
        """The scope that binds `name`; `None` when it comes from outside."""
        scope: _Scope | None = self
        while scope is not None:
            visible = scope.kind != "class" or scope is self
            if visible and name in scope.outside:
                return None
            if visible and name in scope.bound:
                return scope
            scope = scope.parent
        return None

    @property
    def in_function(self) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if scope.kind == "function":
                return True
            scope = scope.parent
        return False


def analyse(node: ast.AST) -> Uses:
    """What a function, lambda, class, statement or expression takes from outside.

    A statement that binds a module-level name counts that name as outside, so that what it builds on is
    seen; a definition's own name is outside too.
    """
    return _Analysis(node).uses


class _Analysis:
    def __init__(self, root: ast.AST) -> None:
        self.uses = Uses()
        self._root = root
        self._pending: list[tuple[ast.AST, _Scope, Where]] = [(root, _Scope("outside"), "body")]
        while self._pending:
            node, scope, where = self._pending.pop()
            self._visit(node, scope, where)

    def _push(self, nodes: Iterable[ast.AST | None], scope: _Scope, where: Where) -> None:
        self._pending += [(node, scope, where) for node in reversed(list(nodes)) if node is not None]

    def _visit(self, node: ast.AST, scope: _Scope, where: Where) -> None:
        if isinstance(node, _Scoped):
            self._definition(node, scope, where)
        elif isinstance(node, _Comprehension):
            self._comprehension(node, scope, where)
        elif isinstance(node, ast.arg):
            self._annotation(node.annotation, scope, where)
        elif isinstance(node, ast.AnnAssign):
            self._annotation(node.annotation, scope, where)
            self._push([node.target, node.value], scope, where)
        elif isinstance(node, ast.Call):
            self._call(node, scope, where)
        elif isinstance(node, ast.Assign) and scope.kind != "outside" and _is_module_alias(node):
            return
        elif isinstance(node, ast.Subscript):
            how: How = "index" if isinstance(node.ctx, ast.Load) else "store"
            self._push([node.slice], scope, where)
            self._reach(node.value, scope, where, how, node.slice)
        elif isinstance(node, ast.Compare):
            self._compare(node, scope, where)
        elif isinstance(node, ast.Name | ast.Attribute):
            self._reach(node, scope, where, "load" if isinstance(node.ctx, ast.Load) else "store", None)
        else:
            self._push(children(node), scope, where)

    # --- scopes ---------------------------------------------------------------------------------------

    def _definition(self, node: _Scoped, scope: _Scope, where: Where) -> None:
        own = node is self._root
        if not isinstance(node, ast.Lambda):
            self._push(node.decorator_list, scope, "decorator" if own else where)
        parameters = getattr(node, "type_params", [])
        if isinstance(node, ast.ClassDef):
            inner = _Scope("class", scope, {parameter.name for parameter in parameters})
            _collect(node.body, inner)
            self._push([*node.bases, *(keyword.value for keyword in node.keywords)], scope, where)
            self._push([*parameters, *node.body], inner, where)
            return
        names = {argument.arg for argument in _arguments(node.args)}
        inner = _Scope("function", scope, names | {parameter.name for parameter in parameters})
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        _collect(body, inner)
        self._push([*node.args.defaults, *node.args.kw_defaults], scope, "default" if own else where)
        annotations = [argument.annotation for argument in _arguments(node.args)]
        for annotation in [*annotations, getattr(node, "returns", None)]:
            self._annotation(annotation, scope, where)
        self._push([*parameters, *body], inner, where)

    def _comprehension(self, node: _Comprehension, scope: _Scope, where: Where) -> None:
        first, *others = node.generators
        inner = _Scope("comprehension", scope)
        for generator in node.generators:
            inner.bound |= {part.id for part in ast.walk(generator.target) if isinstance(part, ast.Name)}
        self._push([first.iter], scope, where)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        parts = [*first.ifs, *(part for other in others for part in (other.iter, *other.ifs)), *results]
        self._push(parts, inner, where)

    def _annotation(self, node: ast.expr | None, scope: _Scope, where: Where) -> None:
        """Names in an annotation, also in one that is written as a string."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value.strip(), mode="eval").body
            except (SyntaxError, ValueError):
                return
        self._push([node], scope, "annotation" if where == "body" else where)

    # --- names ----------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, scope: _Scope, where: Where) -> None:
        first = node.args[0] if node.args else None
        arguments = node.args
        if _chain(node, scope) is not None:
            self._reach(node, scope, where, "load", None)
            arguments = node.args[2:]
        self._push([*arguments, *(keyword.value for keyword in node.keywords)], scope, where)
        self._note_dynamic(node, scope)
        self._reach(node.func, scope, where, "call", first)

    def _compare(self, node: ast.Compare, scope: _Scope, where: Where) -> None:
        left = node.left
        self._push([left], scope, where)
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.In | ast.NotIn):
                self._reach(right, scope, where, "contains", left)
            else:
                self._push([right], scope, where)
            left = right

    def _reach(
        self, node: ast.expr, scope: _Scope, where: Where, how: How, argument: ast.expr | None
    ) -> None:
        """Record a chain of attributes that starts at an outside name, or go into what it starts at."""
        chain = _chain(node, scope)
        if chain is None:
            while isinstance(node, ast.Attribute):
                self.uses.attributes.add(node.attr)
                node = node.value
            self._push([node], scope, where)
            return
        root, names = chain
        self.uses.attributes.update(names[1:])
        if isinstance(root, Imported):
            self.uses.names.append(Use(names, how, where, argument, root))
            return
        owner = scope.owner(names[0])
        if owner is None:
            self.uses.names.append(Use(names, how, where, argument))
            self._note_write(names, how, scope)
            return
        for imported in owner.imports.get(names[0], ()) if how != "store" or len(names) > 1 else ():
            self.uses.names.append(Use(names, how, where, argument, imported))

    def _note_write(self, names: tuple[str, ...], how: How, scope: _Scope) -> None:
        mutated = how == "call" and len(names) == 2 and names[1] in MUTATORS
        if scope.in_function and (how == "store" or mutated):
            self.uses.written.add(names[0])

    def _note_dynamic(self, node: ast.Call, scope: _Scope) -> None:
        if not isinstance(node.func, ast.Name) or scope.owner(node.func.id) is not None:
            return
        if node.func.id == "getattr" and len(node.args) >= 2 and _text(node.args[1]) is None:
            self.uses.dynamic.append(
                f"takes an attribute by a name that is no literal: `{_shown(node)}`; what it reaches may not"
                " be part of the hash"
            )


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (one for one in (arguments.vararg, arguments.kwarg) if one is not None)


def _chain(node: ast.expr, scope: _Scope) -> tuple[ast.Name | Imported, tuple[str, ...]] | None:
    """`a.b.c`, also through `getattr(a, "b")` and `import_module("a")`; `None` when it starts elsewhere."""
    attributes: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            return node, (node.id, *reversed(attributes))
        elif isinstance(node, ast.Call):
            name = _text(node.args[1]) if len(node.args) >= 2 else None
            if name is not None and _is_builtin(node.func, "getattr", scope):
                attributes += reversed(name.split("."))
                node = node.args[0]
                continue
            imported = _imported_by_call(node)
            if imported is None:
                return None
            return imported, (imported.module or ".", *reversed(attributes))
        else:
            return None


def _is_builtin(node: ast.expr, name: str, scope: _Scope) -> bool:
    return isinstance(node, ast.Name) and node.id == name and scope.owner(name) is None


def _is_module_alias(node: ast.Assign) -> bool:
    """`mod = import_module("x")`: what counts is what is then taken from `mod`."""
    return _imported_by_call(node.value) is not None and all(
        isinstance(one, ast.Name) for one in node.targets
    )


def _imported_by_call(node: ast.expr) -> Imported | None:
    """What `import_module("x")` or `__import__("x")` gives, when the name is a literal."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    module = _text(node.args[0])
    if module is None or name not in {"import_module", "__import__"}:
        return None
    stripped = module.lstrip(".")
    if name == "__import__":
        stripped = stripped.split(".")[0]
    return Imported(stripped, len(module) - len(module.lstrip(".")))


def _collect(body: Iterable[ast.AST], scope: _Scope) -> None:
    """Fill in the names that a function's or class's own statements bind."""
    pending = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Global):
            scope.outside |= set(node.names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for name, imported in imports(node):
                scope.bound.add(name)
                scope.imports.setdefault(name, []).append(imported)
        elif isinstance(node, FunctionNode | ast.ClassDef):
            scope.bound.add(node.name)
            pending += node.decorator_list
        elif isinstance(node, _Comprehension):
            targets = {id(generator.target) for generator in node.generators}
            inside = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.comprehension)]
            for generator in node.generators:
                inside += [part for part in ast.iter_child_nodes(generator) if id(part) not in targets]
            pending += inside
        elif not isinstance(node, ast.Lambda):
            _bind(node, scope)
            pending += children(node)


def _bind(node: ast.AST, scope: _Scope) -> None:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        scope.bound.add(node.id)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        scope.bound.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        scope.bound.add(node.rest)
    elif isinstance(node, ast.Assign | ast.NamedExpr) and (imported := _imported_by_call(node.value)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                scope.imports.setdefault(target.id, []).append(imported)


def imports(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Imported]]:
    """Each name that an import statement binds, with what it binds it to."""
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, Imported(statement.module or "", statement.level, alias.name)
        elif alias.asname:
            yield alias.asname, Imported(alias.name)
        else:
            yield alias.name.split(".")[0], Imported(alias.name.split(".")[0])

"""Source reduced to what it does: a canonical text of a syntax tree, and a readable one.

The canonical text is our own and not `ast.dump`, whose fields and defaults change between Python versions.
"""

from __future__ import annotations

import ast
import copy
import re
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

HIDDEN = "<hidden>"
"""Stands where a secret-looking value would be shown."""

_SECRET = re.compile(
    r"pass(word|wd|phrase|code)?(?![a-z])|passw|pwd|secret|token|credential|api_?key|access_?key|private_?key"
    r"|auth(?!or)|(?:^|_)(key|dsn|salt|pin|cookie|bearer|signature)s?(?:$|_)|connection_?string",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")

_IGNORED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})

Decorated = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Node = TypeVar("_Node", bound=ast.AST)


def looks_secret(name: str) -> bool:
    """Whether a name suggests that its value must not be shown."""
    return _SECRET.search(name) is not None


def holds_password(text: str) -> bool:
    """Whether a text has the form of an address with a password in it."""
    return _URL_PASSWORD.search(text) is not None


def dump(node: ast.AST) -> str:
    """The canonical text of a tree: equal exactly when the code does the same, word for word.

    Comments, formatting, docstrings and other bare constants, `pass`, line numbers and fields that are
    empty leave no trace.
    """
    parts: list[str] = []
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, _Literal):
            parts.append(item)
        elif isinstance(item, ast.AST):
            if not item._fields:
                parts.append(f"({type(item).__name__})")
                continue
            stack.append(_Literal(")"))
            for name, value in reversed(list(_fields(item))):
                stack += [value, _Literal(f" {name}=")]
            stack.append(_Literal(f"({type(item).__name__}"))
        elif isinstance(item, list):
            stack.append(_Literal("]"))
            for element in reversed(item):
                stack += [_Literal(","), element]
            stack.append(_Literal("["))
        else:
            parts.append(constant_text(item))
    return "".join(parts)


class _Literal(str):
    """Text that is written as it stands, among values that are encoded."""

    __slots__ = ()


def constant_text(value: object) -> str:
    """A literal's type and value as ASCII, the same in every Python version."""
    text = hex(value) if type(value) is int else ascii(value)
    return f"{type(value).__name__}:{text}"


def _fields(node: ast.AST) -> Iterator[tuple[str, Any]]:
    for name in node._fields:
        if name in _IGNORED:
            continue
        value = getattr(node, name, None)
        if value is None and not isinstance(node, ast.Constant | ast.MatchSingleton):
            continue
        if isinstance(value, list):
            kept = _statements(value) if name in {"body", "orelse", "finalbody"} else value
            if isinstance(node, ast.JoinedStr):
                kept = _joined(value)
            if kept:
                yield name, kept
        else:
            yield name, value


def _statements(body: Sequence[ast.AST]) -> list[ast.AST]:
    """A block without the statements that do nothing, docstrings among them."""
    return [statement for statement in body if not _is_idle(statement)]


def _is_idle(statement: ast.AST) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _joined(values: Sequence[ast.expr]) -> list[ast.expr]:
    """Parts of an f-string with neighbouring texts merged and empty ones dropped, as parsers differ there."""
    merged: list[ast.expr] = []
    for value in values:
        if isinstance(value, ast.Constant):
            if value.value == "":
                continue
            if merged and isinstance(merged[-1], ast.Constant):
                merged[-1] = ast.Constant(str(merged[-1].value) + str(value.value))
                continue
        merged.append(value)
    return merged


def without_decorators(node: _Node, dropped: Iterable[ast.expr]) -> _Node:
    """The tree without some of its own decorators; the tree given is left alone."""
    gone = {id(decorator) for decorator in dropped}
    if not gone or not isinstance(node, Decorated):
        return node
    stripped = copy.copy(node)
    stripped.decorator_list = [one for one in node.decorator_list if id(one) not in gone]
    return stripped


def decorators(node: ast.AST) -> list[ast.expr]:
    """The decorators of a definition; none for anything else."""
    return node.decorator_list if isinstance(node, Decorated) else []


# --- for people ---------------------------------------------------------------------------------------


def readable(node: ast.AST) -> str:
    """The tree as Python source, without docstrings and with secret-looking literals hidden."""
    try:
        return ast.unparse(_shown(node))
    except RecursionError:
        return "# nested too deeply to be shown"


def _shown(value: Any) -> Any:
    """A twin of the tree without docstrings, and without texts that a secret-looking name stands for."""
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if not isinstance(value, ast.AST):
        return HIDDEN if isinstance(value, str) and holds_password(value) else value
    if not value._fields:
        return value
    parts: dict[str, Any] = {}
    for name, part in ast.iter_fields(value):
        is_block = name == "body" and isinstance(part, list)
        parts[name] = (_shown(_statements(part)) or [ast.Pass()]) if is_block else _shown(part)
    twin: Any = type(value)(**parts)
    if isinstance(value, ast.stmt):
        twin.lineno = value.lineno  # `unparse` asks statements for it
    _hide_named(twin)
    return twin


def _hide_named(node: ast.AST) -> None:
    """Hide the literals that `node` gives to secret-looking names."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
        targets = [node.target]
    if isinstance(node, ast.keyword) and looks_secret(node.arg or ""):
        node.value = _hidden(node.value)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and any(map(_is_secret, targets)):
        if node.value is not None:
            node.value = _hidden(node.value)
    elif isinstance(node, ast.Dict):
        node.values = [
            _hidden(value) if key is not None and _is_secret(key) else value
            for key, value in zip(node.keys, node.values, strict=True)
        ]
    elif isinstance(node, ast.arguments):
        _hide_defaults(node)


def _hide_defaults(node: ast.arguments) -> None:
    plain = [*node.posonlyargs, *node.args]
    offset = len(plain) - len(node.defaults)
    node.defaults = [
        _hidden(value) if looks_secret(plain[offset + place].arg) else value
        for place, value in enumerate(node.defaults)
    ]
    node.kw_defaults = [
        _hidden(value) if value and looks_secret(argument.arg) else value
        for argument, value in zip(node.kwonlyargs, node.kw_defaults, strict=True)
    ]


def _is_secret(target: ast.AST) -> bool:
    """Whether an assignment's target or a dict's key names something secret."""
    name = _word(target.slice if isinstance(target, ast.Subscript) else target)
    return looks_secret(name)


def _hidden(value: ast.expr) -> ast.expr:
    """The expression with its texts and numbers hidden; names and calls say nothing and stay."""
    return _Hider().visit(value)  # type: ignore[no-any-return]


class _Hider(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return node if node.value is None or isinstance(node.value, bool) else ast.Constant(HIDDEN)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:  # noqa: ARG002
        return ast.Constant(HIDDEN)


def is_sensitive(name: str, bindings: Mapping[str, Sequence[ast.stmt]]) -> bool:
    """Whether a module-level value may hold a secret: by its name, or by what its statements build it from.

    Args:
        name: Name of the value.
        bindings: Statements that bind the module's names.
    """
    pending, seen = [name], {name}
    while pending:
        current = pending.pop()
        if looks_secret(current):
            return True
        for statement in bindings.get(current, ()):
            for part in ast.walk(statement):
                word = _word(part)
                if word in {"environ", "environb", "getenv", "getenvb"} or looks_secret(word):
                    return True
                if isinstance(part, ast.Name) and word not in seen:
                    seen.add(word)
                    pending.append(word)
    return False


def _word(node: ast.AST) -> str:
    """The name that a node writes, or its text when that is one word."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.keyword):
        return node.arg or ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        return node.value
    return ""

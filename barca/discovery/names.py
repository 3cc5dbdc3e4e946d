"""Which names of a file mean barca's functions, read from its text.

Used to find the expressions that are put off, and to name the nodes of a file that cannot be imported.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barca._typing import NodeId

DECORATORS = ("asset", "task", "sensor")
_STARRED = (*DECORATORS, "sink", "partitions", "batches")

_BARCA_IMPORT = re.compile(r"^\s*from\s+barca(?:\.\w+)?\s+import\s+(\([^)]*|[^#\n(]*)", re.MULTILINE)
_ALIAS = re.compile(r"(\w+)\s+as\s+(\w+)")
_DECORATED = re.compile(
    r"^[ \t]*@[ \t]*(?:\w+[ \t]*\.[ \t]*)*(?P<decorator>\w+)(?P<between>.*?)^[ \t]*"
    r"(?:(?:async[ \t]+)?def|class)[ \t]+(?P<function>\w+)",
    re.MULTILINE | re.DOTALL,
)
_NAME_ARGUMENT = re.compile(r"\bname\s*=\s*(['\"])(?P<name>[^'\"\n]+)\1")


@dataclass(slots=True)
class BarcaNames:
    """Names of a file that mean barca, or something of barca.

    Attributes:
        modules: Names bound to the package `barca`.
        functions: Local name to barca's own name: `{"p": "partitions"}`.
    """

    modules: set[str] = field(default_factory=set)
    functions: dict[str, str] = field(default_factory=dict)

    def add(self, statement: ast.AST) -> None:
        """Note what an import statement binds."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name.partition(".")[0] == "barca":
                    self.modules.add(alias.asname or "barca")
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            if (statement.module or "").partition(".")[0] != "barca":
                return
            for alias in statement.names:
                given = {alias.asname or alias.name: alias.name}
                self.functions |= {name: name for name in _STARRED} if alias.name == "*" else given

    def meaning(self, called: ast.expr) -> str | None:
        """Barca's own name of what an expression names, if it names something of barca."""
        if isinstance(called, ast.Name):
            return self.functions.get(called.id)
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            return called.attr if called.value.id in self.modules else None
        return None


def declared_nodes(file: str, source: bytes) -> tuple[NodeId, ...]:
    """Ids of the nodes that a file declares, as far as its text shows them.

    Args:
        file: Path relative to the project root, with `/`.
        source: The file's content, which need not parse.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        names = _scan(source.decode("utf-8", "replace"))
    else:
        names = _read(tree)
    return tuple(dict.fromkeys(name if given else f"{file}:{name}" for name, given in names))


def _read(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Name or `name=` of each decorated function, or class by mistake, and whether it was `name=`."""
    statements = list(ast.walk(tree))
    names = BarcaNames()
    for statement in statements:
        names.add(statement)
    for statement in statements:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in statement.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if names.meaning(called) in DECORATORS:
                given = _given_name(decorator)
                yield (given, True) if given else (statement.name, False)


def _given_name(decorator: ast.expr) -> str | None:
    for argument in decorator.keywords if isinstance(decorator, ast.Call) else ():
        if argument.arg == "name" and isinstance(argument.value, ast.Constant):
            return str(argument.value.value)
    return None


def _scan(text: str) -> Iterable[tuple[str, bool]]:
    """As `_read`, from text that does not parse."""
    decorators = set(DECORATORS)
    for statement in _BARCA_IMPORT.finditer(text):
        decorators |= {local for own, local in _ALIAS.findall(statement[1]) if own in DECORATORS}
    for match in _DECORATED.finditer(text):
        stacked = re.findall(r"^[ \t]*@[ \t]*(?:\w+[ \t]*\.[ \t]*)*(\w+)", match["between"], re.MULTILINE)
        if decorators.isdisjoint([match["decorator"], *stacked]):
            continue
        given = _NAME_ARGUMENT.search(match["between"])
        yield (given["name"], True) if given else (match["function"], False)

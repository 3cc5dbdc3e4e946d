"""Writes docs/reference/, and the module map of docs/contributing.md, from the docstrings of the package.

    python docs/generate_reference.py            # write the pages
    python docs/generate_reference.py --check    # exit 1, naming them, when pages are not up to date

Signatures and docstrings are read from the source text, so that what stands there is what is shown; only the
schemas of frames and the command line are looked at as objects.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
NOTE = "<!-- Written by docs/generate_reference.py from docstrings: edit those. -->\n"

CONTRIBUTING = ROOT / "docs" / "contributing.md"
MAP_MARKS = ("<!-- modules: written by docs/generate_reference.py -->", "<!-- /modules -->")

SECTION = re.compile(r"^(Args|Keyword Args|Returns|Yields|Raises|Attributes|Columns|Examples):$")
ITEM = re.compile(r"^(?P<name>[\w.*`\[\], ]+?): (?P<text>.*)$", re.DOTALL)
WIDTH = 96


# --- docstrings to Markdown -------------------------------------------------------------------------


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a docstring; indented ones become code."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block and all(line.startswith("    ") for line in block.splitlines()):
            yield f"```python\n{textwrap.dedent(block)}\n```"
        elif block:
            yield block


def items(text: str) -> Iterator[str]:
    """`name: text` entries, each with its continuation lines, as a list."""
    for entry in re.split(r"\n(?=\S)", textwrap.dedent(text).strip()):
        flat = " ".join(line.strip() for line in entry.splitlines())
        match = ITEM.match(flat)
        yield f"- `{match['name'].strip('`')}`: {match['text']}" if match else f"- {flat}"


def section(name: str, text: str) -> str:
    """One section of a Google docstring."""
    if name == "Examples":
        return f"```pycon\n{textwrap.dedent(text).strip()}\n```"
    if name in ("Returns", "Yields"):
        body = "\n\n".join(paragraphs(textwrap.dedent(text)))
        return f"**{name}** {body}"
    return f"**{name}**\n\n" + "\n".join(items(text))


def markdown(docstring: str | None) -> str:
    """A Google docstring as Markdown."""
    if not docstring:
        return ""
    parts: list[str] = []
    plain: list[str] = []
    lines = inspect.cleandoc(docstring).splitlines()
    while lines:
        line = lines.pop(0)
        match = SECTION.match(line)
        if not match:
            plain.append(line)
            continue
        body = []
        while lines and (not lines[0].strip() or lines[0].startswith(" ")):
            body.append(lines.pop(0))
        parts += [*paragraphs("\n".join(plain)), section(match[1], "\n".join(body))]
        plain = []
    return "\n\n".join([*parts, *paragraphs("\n".join(plain))])


# --- source to Markdown -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    """A parsed module of the package."""

    name: str
    body: Sequence[ast.stmt]

    def find(self, name: str) -> ast.stmt:
        """The class, function or assignment called `name`; of overloads, the implementation."""
        found = [node for node in self.body if name in defined(node)]
        if not found:
            sys.exit(f"{self.name} has no `{name}`")
        return found[-1]

    def overloads(self, name: str) -> list[ast.FunctionDef]:
        return [
            node
            for node in self.body
            if isinstance(node, ast.FunctionDef)
            and node.name == name
            and any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)
        ]


def parse(name: str) -> Module:
    """The module's source."""
    path = ROOT / name.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return Module(name, ast.parse(file.read_text()).body)


def defined(node: ast.stmt) -> list[str]:
    """Names that a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return [target.id for target in targets if isinstance(target, ast.Name)]


def signature(function: ast.FunctionDef, name: str, *, method: bool = False) -> str:
    """`name(arguments) -> result`, on several lines when long."""
    result = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    arguments = ast.unparse(function.args)
    if method:
        arguments = re.sub(r"^(self|cls)(, )?", "", arguments)
    line = f"{name}({arguments}){result}"
    if len(line) <= WIDTH:
        return line
    module = ast.parse(f"def {name}({arguments}): ...").body[0]
    assert isinstance(module, ast.FunctionDef)
    lines = [f"{name}(", *(f"    {part}," for part in argument_list(module.args)), f"){result}"]
    return "\n".join(lines)


def argument_list(arguments: ast.arguments) -> Iterator[str]:
    """Each argument as it is written."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for index, (argument, default) in enumerate(zip(positional, defaults, strict=True), 1):
        yield written(argument, default)
        if index == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield written(argument, default)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def written(argument: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return ast.unparse(argument)
    equals = " = " if argument.annotation else "="
    return f"{ast.unparse(argument)}{equals}{ast.unparse(default)}"


def function_entry(module: Module, function: ast.FunctionDef, name: str, level: int) -> str:
    shown = module.overloads(function.name)[-1:] or [function]
    code = f"```python\n{signature(shown[0], name)}\n```"
    return f"{'#' * level} `{name}`\n\n{code}\n\n{markdown(ast.get_docstring(function))}"


def class_entry(node: ast.ClassDef, level: int) -> str:
    """A class with its documented public methods and properties."""
    parts = [f"{'#' * level} `{node.name}`", markdown(ast.get_docstring(node))]
    for member in node.body:
        if not isinstance(member, ast.FunctionDef) or not ast.get_docstring(member):
            continue
        if member.name.startswith("_") and member.name != "__call__":
            continue
        if any(ast.unparse(decorator) == "property" for decorator in member.decorator_list):
            kind = f": {ast.unparse(member.returns)}" if member.returns else ""
            code = f"{member.name}{kind}"
        else:
            code = signature(member, member.name, method=True)
        parts.append(f"{'#' * (level + 1)} `{node.name}.{member.name}`\n\n```python\n{code}\n```")
        parts.append(markdown(ast.get_docstring(member)))
    return "\n\n".join(part for part in parts if part)


def entries(module_name: str, names: Sequence[str] = (), *, level: int = 3, rename: str | None = None) -> str:
    """The named things of a module, or every documented public class and function."""
    module = parse(module_name)
    if not names:
        names = [
            node.name
            for node in module.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            and not node.name.startswith("_")
            and ast.get_docstring(node)
        ]
    parts = []
    for name in names:
        node = module.find(name)
        if isinstance(node, ast.ClassDef):
            parts.append(class_entry(node, level))
        else:
            assert isinstance(node, ast.FunctionDef)
            parts.append(function_entry(module, node, rename or name, level))
    return "\n\n".join(parts)


# --- pages ------------------------------------------------------------------------------------------


def python_page() -> str:
    parts = [
        "# Python",
        "What is declared and run is imported from `barca`, and so is `Project`.",
        "## Declaring",
        entries("barca.decorators", ["asset", "task", "sensor", "sink"]),
        entries(
            "barca.partitions",
            ["partitions", "partitions_from", "collect", "batches", "batches_by", "batches_auto"],
        ),
        entries("barca.errors", ["Failed"]),
        entries("barca.model", ["Always", "Manual", "Schedule"]),
        "## Running",
        entries("barca", ["get", "scan", "run", "sql"]),
        entries("barca", ["plan_target"], rename="plan"),
        entries("barca", ["status", "stats"]),
        "## Projects",
        entries("barca.project.facade", ["Project"]),
        entries("barca.project.reading", ["Reading"]),
        "## What they return",
        entries("barca.project.results", ["Result"]),
        entries("barca.project.lookback", ["Lookback"]),
        entries("barca.project.forecast", ["Forecast"]),
        entries("barca.project.state", ["Status"]),
    ]
    return "\n\n".join(parts)


def errors_page() -> str:
    module = importlib.import_module("barca.errors")
    tree = re.search(r"```\n(.*?)```", module.__doc__ or "", re.DOTALL)
    assert tree
    return "\n\n".join(
        ["# Errors", f"```text\n{tree[1]}```", entries("barca.errors", level=2)],
    )


def frames_page() -> str:
    """Every schema of `barca.schemas`, as a table of columns."""
    schemas = importlib.import_module("barca.schemas")
    parts = ["# Frames", markdown(schemas.__doc__)]
    body = parse("barca.schemas").body
    for node, following in zip(body, [*body[1:], None], strict=False):
        for name in defined(node):
            value = getattr(schemas, name)
            if type(value).__name__ != "Schema":
                continue
            parts.append(f"## `{name}`")
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                parts.append(markdown(str(following.value.value)))
            rows = "".join(f"| `{column}` | {dtype_text(dtype)} |\n" for column, dtype in value.items())
            parts.append(f"| column | dtype |\n|---|---|\n{rows.rstrip()}")
    nodes = importlib.import_module("barca.project.state").NODE_STATES
    sets = {"States of keys": schemas.STATES, "States of nodes": nodes, "Reasons": schemas.REASONS}
    told = [f"{what}: {', '.join(f'`{name}`' for name in names)}." for what, names in sets.items()]
    return "\n\n".join([*parts, "## Closed sets", *told])


def dtype_text(dtype: Any) -> str:
    text = str(dtype)
    return "Enum" if text.startswith("Enum") else text


def extending_page() -> str:
    parts = [
        "# Extending",
        "The seams that stores, executors and listeners are written against.",
        "## Ports",
        entries("barca.ports"),
        "## Work",
        entries("barca.model", ["InputBinding", "FunctionRef", "Work", "WorkResult", "WorkerDied"]),
        "## Events",
        entries("barca.events"),
    ]
    return "\n\n".join(parts)


def command_line_page() -> str:
    from typer.main import get_command

    from barca.cli.app import make_app

    group = get_command(make_app())
    commands: dict[str, Any] = vars(group)["commands"]
    parts = ["# Command line", markdown(group.help)]
    for name in sorted(commands):
        command = commands[name]
        parts += [f"## `barca {name}`", markdown(command.help), *parameters_of(command)]
    return "\n\n".join(part for part in parts if part)


def parameters_of(command: Any) -> Iterator[str]:
    """Arguments and options of a command, as a table."""
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        is_argument = parameter.param_type_name == "argument"
        names = parameter.metavar or parameter.name.upper() if is_argument else ", ".join(parameter.opts)
        text = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
        rows.append(f"| `{names}` | {text} |")
    if rows:
        yield "| | |\n|---|---|\n" + "\n".join(rows)


def with_module_map(text: str) -> str:
    """The contributor's page, with the first sentence of every module's docstring between its marks."""
    rows = []
    for path in sorted((ROOT / "barca").rglob("*.py"), key=lambda path: (path.parent, path.name)):
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        if docstring:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            sentence = " ".join(docstring.split("\n\n")[0].split())
            rows.append(f"| `{name}` | {sentence} |")
    begin, end = MAP_MARKS
    head, _, rest = text.partition(begin)
    table = "\n".join(["| module | what it is |", "|---|---|", *rows])
    return f"{head}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"


PAGES: dict[str, Callable[[], str]] = {
    "python.md": python_page,
    "command-line.md": command_line_page,
    "errors.md": errors_page,
    "frames.md": frames_page,
    "extending.md": extending_page,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when pages are not up to date"
    )
    check = parser.parse_args().check
    REFERENCE.mkdir(exist_ok=True)
    wanted = {REFERENCE / name: f"{NOTE}\n{page()}\n" for name, page in PAGES.items()}
    wanted[CONTRIBUTING] = with_module_map(CONTRIBUTING.read_text())
    stale = {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}
    if check and stale:
        names = ", ".join(path.name for path in stale)
        sys.exit(f"not up to date: {names}; run python docs/generate_reference.py")
    for path, text in stale.items():
        path.write_text(text)
    print(f"{len(wanted)} pages, {len(stale)} written")


if __name__ == "__main__":
    main()

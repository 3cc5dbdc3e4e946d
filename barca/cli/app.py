"""The `barca` command: its subcommands, and the boundary that turns errors into messages and exit codes."""

from __future__ import annotations

import os
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barca.cli.output import mode_of, report, show_version
from barca.cli.parsing import Command, Group
from barca.errors import BarcaError, Cancelled, StoreError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Typer ships its own copy of click since 0.21: the base of all it raises for a wrong command line.
CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

_COMPLETION: Final = "_BARCA_COMPLETE"

_COMMANDS: Final = {
    "get": ("computing:get", "Compute what is stale and give the results."),
    "run": ("computing:run", "Run a task, after what it reads."),
    "plan": ("viewing:plan", "Show the phases and steps of a run, cached or not."),
    "list": ("viewing:list_nodes", "List the nodes, and the files that cannot be loaded."),
    "graph": ("viewing:graph", "Draw which node reads which: a tree, Mermaid or SVG."),
    "status": ("viewing:status", "Show whether each node is up to date, and why not."),
    "head": ("reading:head", "Show the first rows of what a node holds now."),
    "sql": ("reading:sql", "Query what nodes hold now, each a view."),
    "export": ("reading:export", "Write what a node holds now to files."),
    "explain": ("inspecting:explain", "Show why keys run or not, and how code changed."),
    "diff": ("inspecting:diff", "Compare a key's result with the one before it."),
    "doctor": ("inspecting:doctor", "Check libraries, files, the store and what it holds."),
    "history": ("looking_back:history", "List runs, or show the steps and calls of one."),
    "logs": ("looking_back:logs", "Show what steps printed."),
    "stats": ("looking_back:stats", "Show what calls took by size, and suggest a batch=."),
    "tag": ("tidying:tag", "Pin what is held, so that gc keeps it."),
    "gc": ("tidying:gc", "Delete what nothing asks for, and keep to a size."),
    "new": ("starting:new", "Make a small project that works, to begin from."),
    "docs": ("about:docs", "Read the manual."),
    "version": ("about:version", "Show the version."),
}
"""Module and function of each subcommand, and what the help says of it; in the order of the help."""


def make_app(names: Iterable[str] = tuple(_COMMANDS), *, outline: bool = False) -> typer.Typer:
    """The command with some subcommands: making all of them takes longer than parsing a command line.

    Args:
        names: Which; all by default.
        outline: Whether they are only to be listed, and do nothing.
    """
    app = typer.Typer(
        name="barca",
        cls=Group,
        rich_markup_mode=None,
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(shared)
    for name in names:
        place, line = _COMMANDS[name]
        module, _, function = place.partition(":")
        called = _nothing if outline else getattr(import_module(f"barca.cli.{module}"), function)
        app.command(name, cls=Command, short_help=line)(called)
    return app


def _nothing() -> None:
    """Stands for a command whose name is all that matters."""


def _show_version(wanted: bool) -> None:
    if wanted:
        show_version("pretty")
        raise typer.Exit


def shared(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Compute only what changed, per partition key.

    stdout holds the result only: tables in a terminal, JSON in a pipe. Exit codes: 0 fine, 1 a step failed,
    2 wrong usage or a file that does not load, 3 the store or the machine failed, 130 interrupted.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: What follows `barca`; none shows the help.

    Returns:
        The exit code.
    """
    words = list(arguments) or ["--help"]
    if _COMPLETION in os.environ:
        from barca.cli.completing import join_words

        join_words(os.environ)
        app = make_app()
    else:
        app = make_app(words[:1]) if words[0] in _COMMANDS else make_app(outline=True)
    try:
        code = typer.main.get_command(app).main(words, prog_name="barca", standalone_mode=False)
    except BaseException as raised:
        if isinstance(raised, SystemExit):
            if isinstance(raised.__context__, BrokenPipeError):  # who read the help has seen enough
                return 0
            return raised.code if isinstance(raised.code, int) else int(raised.code is not None)
        return report(as_barca_error(raised), mode_of(words))
    if code == 130:
        return report(Cancelled("interrupted"), mode_of(words))
    return code if isinstance(code, int) else 0


def as_barca_error(raised: BaseException) -> BarcaError:
    """Whatever ended a command, as an error of the tree."""
    if isinstance(raised, BarcaError):
        return raised
    if isinstance(raised, CommandLineError):
        return _usage_error(raised)
    if isinstance(raised, KeyboardInterrupt | typer.Abort):
        return Cancelled("interrupted")
    return StoreError(
        f"unexpected {type(raised).__name__}: {raised}",
        code="internal",
        traceback="".join(traceback.format_exception(raised)),
        remediation="this is a fault of barca, not of the project; report it with the traceback",
    )


def _usage_error(raised: Any) -> UsageError:
    """What the parser refused, with the closest option."""
    context = getattr(raised, "ctx", None)
    command = context.command_path if context else "barca"
    hint = f"`{command} --help` shows what it takes"
    option = getattr(raised, "option_name", None)
    if option and context:
        known = [name for parameter in context.command.params for name in parameter.opts if name[0] == "-"]
        hint = f"{did_you_mean(option, known, limit=30)}; {hint}"
    return UsageError(_message(raised), code="command_line", remediation=hint)


def _message(raised: Any) -> str:
    # The message of an unknown option lists guesses that the hint gives better.
    told = raised.message if getattr(raised, "option_name", None) else raised.format_message()
    return " ".join(str(told).split())

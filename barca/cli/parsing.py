"""Typer's commands, with parameters that take what was typed as it is.

Typer converts values by Pydantic, whose import takes longer than all that barca does before it reads the
project. Every parameter of barca is a switch, a text or several texts; what a text means is decided by
`arguments`, with messages of our own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

from barca.errors import UsageError, did_you_mean


class Command(TyperCommand):
    """A subcommand."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, `--help` among them."""
        return _as_typed(super().get_params(ctx))


class Group(TyperGroup):
    """The command that has the subcommands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand that is meant.

        Raises:
            UsageError: There is none of that name.
        """
        name = args[0]
        if name in self.commands or name.startswith("-"):
            return super().resolve_command(ctx, args)
        raise UsageError(
            f"there is no command `{name}`",
            code="command_line",
            remediation=f"{did_you_mean(name, self.commands, limit=30)}; `barca --help` tells what each does",
        )

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, `--help` and those for shell completion among them."""
        return _as_typed(super().get_params(ctx))


def _as_typed(parameters: list[Any]) -> list[Any]:
    """The same parameters, none of which converts its value any more."""
    for parameter in parameters:
        parameter.process_value = partial(_take, parameter)
    return parameters


def _take(parameter: Any, context: Any, value: Any) -> Any:
    """The value of a parameter: what was typed, and no texts where several may be given and none was."""
    if value is None and (parameter.multiple or parameter.nargs == -1):
        value = ()
    return value if parameter.callback is None else parameter.callback(context, parameter, value)

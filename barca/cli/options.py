"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

OUTPUTS = ("path", "value")
EXECUTORS = ("inline", "processes")


def choices(*names: str) -> Callable[[], list[str]]:
    """What a shell offers for an option that takes one of these names."""
    return lambda: list(names)


def completed(name: str) -> Callable[[Any, str], list[str]]:
    """What a shell offers, by the name of a function of `completing`, which is imported when it is asked."""

    def offer(ctx: Any, incomplete: str) -> list[str]:
        from barca.cli import completing

        found: list[str] = getattr(completing, name)(ctx, incomplete)
        return found

    return offer


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET[,TARGET] FILES",
        help="Node names or ids, then project files or directories. Without files: every .py file under "
        "the project root that imports barca.",
        show_default=False,
        autocompletion=completed("words"),
    ),
]
OneTarget = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET FILES",
        help="A node's name or id, then project files or directories.",
        show_default=False,
        autocompletion=completed("words"),
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILES", help="Project files or directories.", show_default=False),
]
Partition = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="DIM=V[,V]",
        help="Only these keys (repeatable); or a JSON object.",
        show_default=False,
        autocompletion=completed("partitions"),
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="RUN|TIME|TAG",
        help='As it was then: after a run, at a time like 2026-11-30T14:00Z or "3 days ago", at a tag.',
        show_default=False,
        autocompletion=completed("moments"),
    ),
]
Batch = Annotated[
    list[str] | None,
    typer.Option(
        "--batch",
        metavar="V|NODE=V",
        help="Keys per call: all, none, auto or a number; NODE=V for one node (repeatable).",
        show_default=False,
    ),
]
Refresh = Annotated[
    str | None,
    typer.Option(
        "--refresh",
        metavar="A,B",
        help="Run these nodes again.",
        show_default=False,
        autocompletion=completed("targets"),
    ),
]
NoCascade = Annotated[
    bool, typer.Option("--no-cascade", help="Refresh the named nodes only, not what reads them.")
]
RefreshAll = Annotated[bool, typer.Option("--refresh-all", help="Run everything again.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would run and why; run nothing.")]
Env = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="NAME",
        help="Environment of barca.toml to run in.",
        show_default=False,
        autocompletion=completed("environments"),
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="|".join(OUTPUTS),
        help="Print one path per key, or the values themselves.",
        show_default=False,
        autocompletion=choices(*OUTPUTS),
    ),
]
Fields = Annotated[
    str | None, typer.Option("--fields", metavar="A,B", help="Only these fields.", show_default=False)
]
ExecutorName = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="|".join(EXECUTORS),
        help="Where steps run.",
        show_default=False,
        autocompletion=choices(*EXECUTORS),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON, even in a terminal.")]
Pretty = Annotated[bool, typer.Option("--pretty", help="Tables, even in a pipe.")]
Limit = Annotated[
    str | None, typer.Option("--limit", metavar="N", help="At most so many.", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="However many there are.")]

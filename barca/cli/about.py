"""`barca docs` and `barca version`: about barca itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from barca.cli import options as opt
from barca.cli.completing import TOPICS
from barca.cli.output import choose_mode, emit_json, emit_lines, emit_view, show_version
from barca.errors import UsageError, did_you_mean


def version(as_json: opt.Json = False, pretty: opt.Pretty = False) -> None:
    """Show the version."""
    show_version(choose_mode(as_json=as_json, pretty=pretty))


def docs(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", help="What to read about.", autocompletion=opt.completed("topics")),
    ] = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Read the manual: topics, or one of them."""
    mode = choose_mode(as_json=as_json, pretty=pretty)
    asked_for_json = as_json or os.environ.get("BARCA_OUTPUT") == "json"
    topics = {path.stem: path for path in sorted(TOPICS.glob("*.md"))}
    if topic is None:
        titles = {name: _title(path) for name, path in topics.items()}
        if asked_for_json:
            emit_json({"topics": titles})
        else:
            wide = max(map(len, titles))
            emit_lines([*(f"{name:{wide}}  {title}" for name, title in titles.items())])
        return
    if topic not in topics:
        raise UsageError(
            f"there is no topic `{topic}`", code="unknown_topic", remediation=did_you_mean(topic, topics)
        )
    written = topics[topic].read_text(encoding="utf-8")
    if asked_for_json:
        emit_json({"topic": topic, "text": written})
    elif mode == "pretty":
        from rich.markdown import Markdown

        emit_view([Markdown(written)])
    else:
        emit_lines([written.rstrip("\n")])


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines).lstrip("# ").strip()

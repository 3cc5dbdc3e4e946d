"""`barca new`: a small project that works, to begin from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barca.cli import options as opt
from barca.cli.output import choose_mode, emit_json, emit_lines, emit_view
from barca.errors import StoreError, UsageError

STARTER = Path(__file__).parent / "starter"
"""The files of the project, each with `.txt` behind its name, since they are no part of barca."""

_RENAMED = {"gitignore": ".gitignore"}


def starter_files() -> dict[str, Path]:
    """Where each file of the project is kept, by its path in the project."""
    files = sorted(path for path in STARTER.rglob("*.txt") if path.is_file())
    names = [path.relative_to(STARTER).as_posix().removesuffix(".txt") for path in files]
    return {_RENAMED.get(name, name): path for name, path in zip(names, files, strict=True)}


def new(
    directory: Annotated[
        str | None, typer.Argument(metavar="DIR", help="Where; made if it is not there.", show_default=False)
    ] = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
) -> None:
    """Make a small project that works, to begin from."""
    from barca.render.grid import text
    from barca.render.text import listing, safe

    mode = choose_mode(as_json=as_json, pretty=pretty)
    if not directory:
        raise UsageError(
            "new takes a directory", code="missing_directory", remediation="write `barca new weather`"
        )
    place, files = Path(directory), starter_files()
    taken = [name for name in files if (place / name).exists() or (place / name).is_symlink()]
    if taken or (place.exists() and not place.is_dir()):
        raise UsageError(
            f"`{directory}` already holds {listing(taken)}" if taken else f"`{directory}` is a file",
            code="exists",
            file=directory,
            remediation="name a new directory; nothing is overwritten",
        )
    try:
        for name, source in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            with (place / name).open("x", encoding="utf-8") as file:
                file.write(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(
            f"`{directory}` cannot be written: {error.strerror}", code="output", file=directory
        ) from error
    if mode == "json":
        emit_json({"path": str(place.resolve()), "files": list(files)})
        return
    emit_view([text(f"{directory} has {listing(files, limit=20)}")])
    emit_lines(["", f"  cd {safe(directory)}", "  barca get summary"])

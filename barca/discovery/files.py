"""Finding the project's files: which `.py` files import barca."""

from __future__ import annotations

import ast
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from barca.config import FILE_NAME
from barca.decorators.places import MARKER
from barca.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages"})
"""Folders that hold no code of the project, besides hidden ones, virtual environments and datasets."""

PACKAGE = Path(__file__).resolve().parents[1]
"""barca itself, which a checkout of barca holds and which is nobody's pipeline."""

_MENTION = re.compile(rb"\b(?:from|import)\b.*\bbarca\b")
_PLAIN = re.compile(rb"^(?:from[ ]barca[ ]import|import[ ]barca)\b", re.MULTILINE)
"""The usual import, which is code, not text about code, unless a text is open there."""

_IMPORT = re.compile(r"^\s*(?:from\s+barca[\s.]|import\s+(?:[^#\n]*,\s*)?barca\b)", re.MULTILINE)


def find_files(root: Path, files: Sequence[Path | str] = ()) -> list[Path]:
    """The files to read, absolute, sorted by path within what was asked for.

    Args:
        root: Project root; relative paths are relative to the working directory, then to the root.
        files: Files and folders. A file named outright is read whether or not it imports barca; of a
            folder, those that do. None is every file under the root that imports barca.

    Raises:
        UsageError: A path does not exist, or is not a Python file.
    """
    if not files:
        return list(_project_files(root))
    found: dict[Path, None] = {}
    for file in files:
        path = _located(root, Path(file))
        found.update(dict.fromkeys(_project_files(path) if path.is_dir() else [path]))
    return list(found)


def is_project_path(root: Path, path: Path) -> bool:
    """Whether the path is under the root, and in none of the folders that hold other people's code."""
    if not path.is_relative_to(root) or path.is_relative_to(PACKAGE):
        return False
    folders = path.relative_to(root).parts[:-1]
    return not any(folder.startswith(".") or folder in SKIPPED_FOLDERS for folder in folders)


def _located(root: Path, path: Path) -> Path:
    choices = [Path.cwd() / path, root / path]
    located = next((choice.resolve() for choice in choices if choice.exists()), None)
    if located is None:
        raise UsageError(
            f"there is no file `{path}`",
            code="file_not_found",
            remediation=f"paths are relative to the working directory or to the project root {root}",
        )
    if located.is_file() and located.suffix != ".py":
        raise UsageError(
            f"`{path}` is not a Python file",
            code="not_python",
            remediation="name a .py file or a folder; in a notebook, pass the functions themselves",
        )
    return located


def _project_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        here = Path(parent)
        folders[:] = sorted(name for name in folders if not _skipped(here / name))
        for name in sorted(names):
            if name.endswith(".py") and imports_barca(here / name):
                yield here / name


def stamps(root: Path) -> dict[str, tuple[int, int]]:
    """Time and size of every Python file of a project, and of its settings, by path; cheap enough to poll."""
    found: dict[str, tuple[int, int]] = {}
    for parent, folders, names in os.walk(root):
        here = Path(parent)
        folders[:] = [name for name in folders if not _skipped(here / name)]
        for name in names:
            if name.endswith(".py") or name == FILE_NAME:
                with suppress(OSError):  # gone since
                    status = (here / name).stat()
                    found[str(here / name)] = status.st_mtime_ns, status.st_size
    return found


def _skipped(folder: Path) -> bool:
    return (
        folder.name.startswith(".")
        or folder.name in SKIPPED_FOLDERS
        or (folder / "pyvenv.cfg").exists()
        or (folder / MARKER).exists()
        or folder.resolve() == PACKAGE
    )


def imports_barca(file: Path) -> bool:
    """Whether the file's code imports barca, anywhere; by its text where it does not parse."""
    try:
        content = file.read_bytes()
    except OSError:
        return False
    if not _MENTION.search(content):
        return False
    plain = _PLAIN.search(content)
    if plain and not any(content.count(quotes, 0, plain.start()) % 2 for quotes in (b'"""', b"'''")):
        return True
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return bool(_IMPORT.search(content.decode("utf-8", "replace")))
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            modules = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            modules = [statement.module or ""]
        else:
            continue
        if any(module.partition(".")[0] == "barca" for module in modules):
            return True
    return False

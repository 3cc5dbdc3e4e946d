"""What must be written out in a project file, so that it can be read without running anything."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from barca.errors import DefinitionError

if TYPE_CHECKING:
    from barca.discovery.rewrite import Survey


def check_sink_paths(found: Survey, file: str) -> None:
    """Make sure that the path of every `@sink` is a string literal.

    Args:
        found: The file's survey.
        file: The file, for the error.

    Raises:
        DefinitionError: A path is a constant, an f-string, a concatenation, or the like.
    """
    names = found.names()
    for call in found.decorators:
        if names.meaning(call.func) != "sink" or not call.args:
            continue
        path = call.args[0]
        if not (isinstance(path, ast.Constant) and isinstance(path.value, str)):
            raise DefinitionError(
                f"the path of @sink is the expression `{ast.unparse(path)}`, not a string literal",
                code="sink_path",
                remediation='write the path out: @sink("exports/orders.parquet"); '
                "the files of keys are told apart by barca",
                file=file,
                line=call.lineno,
            )

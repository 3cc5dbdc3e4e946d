"""What people write on the command line, as the values that `Project` takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barca.errors import SelectionError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

PARTITION_HINT = (
    'write --partition retailer=r1,r2 (repeatable), or --partition \'{"retailer": ["r1", "r2"]}\' '
    "for values with commas or blanks around, or several dimensions"
)
BATCH_HINT = "write --batch all, auto, none or a number like 20; --batch scored=20 for one node (repeatable)"


def is_file(word: str) -> bool:
    """Whether a first word names a project file or directory rather than a target.

    It does when it ends in `.py` or `/`, is `.` or `..`, or is an existing directory written with a `/`.
    """
    return word.endswith((".py", "/")) or word in (".", "..") or ("/" in word and Path(word).is_dir())


def names(text: str | None) -> list[str]:
    """Names joined by commas; blanks around them and empty names are dropped."""
    return [name for part in (text or "").split(",") if (name := part.strip())]


def split_positionals(words: Sequence[str]) -> tuple[list[str] | None, list[Path]]:
    """Targets, or `None` for all, and files.

    Raises:
        UsageError: A file that does not exist, or a second word that is no file.
    """
    first, *rest = words or ("",)
    if not words:
        return None, []
    if is_file(first):
        return None, files(words)
    targets = names(first)
    if not targets:
        raise UsageError(f"`{first}` names no target", remediation="name a node, e.g. `barca get scored`")
    for word in rest:
        if not is_file(word) and not Path(word).exists():
            joined = ",".join([*targets, word])
            raise UsageError(
                f"`{word}` is no project file",
                remediation=f"join targets by commas: `{joined}`; files end in .py, directories in /",
            )
    return targets, files(rest)


def one_target(verb: str, words: Sequence[str]) -> tuple[str, list[Path]]:
    """The target, and files.

    Raises:
        UsageError: Not exactly one target is named, or a file does not exist.
    """
    targets, paths = split_positionals(words)
    if targets is None or len(targets) != 1:
        raise UsageError(
            f"{verb} takes one target",
            code="missing_target",
            remediation=f"write `barca {verb} TARGET [FILES...]`; `barca list` shows the nodes",
        )
    return targets[0], paths


def files(words: Iterable[str]) -> list[Path]:
    """Project files and directories.

    Raises:
        UsageError: One does not exist.
    """
    paths = [Path(word) for word in words]
    for path in paths:
        if not path.exists():
            near = [entry.name for entry in path.parent.glob("*.py")] if path.parent.is_dir() else []
            raise UsageError(
                f"there is no file `{path}`",
                code="no_such_file",
                file=str(path),
                remediation=did_you_mean(path.name, sorted(near)) if near else "name an existing .py file",
            )
    return paths


# --- partition= -------------------------------------------------------------------------------------


def parse_partition(texts: Sequence[str]) -> dict[str, list[str]] | None:
    """Dimension to selected values, from every `--partition`; `None` when there is none.

    Raises:
        SelectionError: Not `DIM=V[,V]`, and not a JSON object of values or lists of values.
    """
    selection: dict[str, list[str]] = {}
    for text in texts:
        for dimension, values in _one_partition(text).items():
            chosen = selection.setdefault(dimension, [])
            chosen += values
    selection = {dimension: list(dict.fromkeys(values)) for dimension, values in selection.items()}
    return selection or None


def _one_partition(text: str) -> dict[str, list[str]]:
    if text.lstrip().startswith("{"):
        return _partition_object(text)
    dimension, equals, values = text.partition("=")
    listed = [value.strip() for value in values.split(",")]
    if not equals or not dimension.strip():
        raise _bad_partition(text, "it is not DIM=V[,V]")
    if not all(listed):
        what = "no value is given" if listed == [""] else "one of the values is empty"
        raise _bad_partition(text, f"{what} for `{dimension.strip()}`")
    return {dimension.strip(): listed}


def _partition_object(text: str) -> dict[str, list[str]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise _bad_partition(text, f"it is not JSON: {error}") from None
    selection = {}
    for dimension, given in document.items():
        values = given if isinstance(given, list) else [given]
        wrong = [value for value in values if isinstance(value, bool) or not isinstance(value, str | int)]
        if wrong or not values:
            shown = json.dumps(wrong[0] if wrong else given)
            raise _bad_partition(text, f"the values of `{dimension}` are strings or integers, not {shown}")
        selection[dimension] = [str(value) for value in values]
    return selection


def _bad_partition(text: str, problem: str) -> SelectionError:
    return SelectionError(f"--partition `{text}`: {problem}", code="partition", remediation=PARTITION_HINT)


# --- batch= -----------------------------------------------------------------------------------------


def parse_batch(texts: Sequence[str]) -> int | str | dict[str | None, int | str] | None:
    """A size, `"all"`, `"none"`, `"auto"`, or node to one of them, from every `--batch`; `None` without any.

    Beside values for nodes, the one for every other node stands under `None`.

    Raises:
        UsageError: Another value, or a value twice.
    """
    general: list[int | str] = []
    by_node: dict[str | None, int | str] = {}
    for text in texts:
        node, equals, value = text.rpartition("=")
        if equals:
            if not node.strip() or node in by_node:
                raise UsageError(f"--batch `{text}` names no node, or one twice", remediation=BATCH_HINT)
            by_node[node] = _grouping(text, value)
        else:
            general.append(_grouping(text, value))
    if len(general) > 1:
        raise UsageError(
            "--batch takes one value for every node, beside one for each node named",
            code="batch",
            remediation=BATCH_HINT,
        )
    if general and by_node:
        return {None: general[0], **by_node}
    return general[0] if general else (by_node or None)


def _grouping(text: str, value: str) -> int | str:
    value = value.strip()
    if value in ("all", "none", "auto"):
        return value
    if value.isascii() and value.isdigit() and int(value) > 0:
        return int(value)
    raise UsageError(
        f"--batch `{text}`: `{value}` is not all, none, auto or a positive integer",
        code="batch",
        remediation=BATCH_HINT,
    )


# --- closed sets, numbers and fields ----------------------------------------------------------------


def one_of(option: str, given: str, valid: Collection[str]) -> str:
    """A value of a closed set.

    Raises:
        UsageError: It is none of them.
    """
    if given not in valid:
        raise UsageError(f"{option} `{given}` is unknown", remediation=did_you_mean(given, valid))
    return given


def whole_number(option: str, given: str) -> int:
    """A whole number of at least 1.

    Raises:
        UsageError: It is none.
    """
    if not (given.isascii() and given.isdigit() and int(given) > 0):
        raise UsageError(
            f"{option} `{given}` is not a whole number of at least 1", remediation=f"write {option} 20"
        )
    return int(given)


def several_of(option: str, text: str | None, valid: Collection[str]) -> list[str] | None:
    """Values of a closed set, joined by commas; `None` when the option is not given.

    Raises:
        UsageError: None is named, or one is unknown.
    """
    if text is None:
        return None
    chosen = names(text)
    if not chosen:
        raise UsageError(f"{option} names nothing", remediation=did_you_mean("", valid))
    return [one_of(option, name, valid) for name in chosen]


def pick(document: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """The fields of a document that were asked for, in that order; those it does not have are left out."""
    return {name: document[name] for name in fields if name in document}


def seconds(option: str, given: str) -> float:
    """A positive number of seconds.

    Raises:
        UsageError: It is none.
    """
    try:
        value = float(given)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UsageError(f"{option} takes a positive number of seconds, not `{given}`", code="number")
    return value


def parse_params(texts: Sequence[str]) -> dict[str, Any]:
    """Values of a query's parameters, from every `--param`: JSON where it is that, else the text itself.

    Raises:
        UsageError: Not `NAME=VALUE`, or a name twice.
    """
    params: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in params:
            raise UsageError(
                f"--param `{text}` is not NAME=VALUE, or names one twice",
                code="query_parameter",
                remediation="write e.g. --param week=7; quotes make a text of a number: --param 'shop=\"7\"'",
            )
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params

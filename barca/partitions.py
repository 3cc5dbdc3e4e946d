"""Declaring keys and their grouping, and the text forms of a key.

A key is one value per dimension. Its identity is the Hive form (`key_text`), its display form
(`display_text`) is for people. Values are always strings: `1` is `"1"`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from barca.errors import DefinitionError
from barca.model import (
    Batches,
    BatchesAuto,
    BatchesBy,
    Collect,
    Deferred,
    Definition,
    Partitions,
    PartitionsFrom,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

UNSAFE = r"[\x00-\x1F!-,/:-@\[-^`{-}\x7F]"
"""Regular expression of a character that `ESCAPES` encodes, for telling the usual columns that need none."""

ESCAPES: dict[str, str] = {
    chr(code): f"%{code:02X}" for code in range(128) if not (chr(code).isalnum() or chr(code) in "_.~ -")
}
"""ASCII characters that are percent-encoded in a key, `%` among them, which keeps the form injective.
Other characters stay as they are: a key is an identity, never a file name."""

_TRANSLATION = str.maketrans(ESCAPES)
_ESCAPED = r"%([0-9A-F]{2})"  # regexes are compiled when first needed: `import barca` waits for none
_SURROGATE = r"[\ud800-\udfff]"


def encode_value(value: str) -> str:
    """A value as it stands in a key."""
    return value.translate(_TRANSLATION)


def decode_value(text: str) -> str:
    """The inverse of `encode_value`."""
    return re.sub(_ESCAPED, lambda match: chr(int(match[1], 16)), text) if "%" in text else text


def key_text(values: Mapping[str, str]) -> str:
    """The Hive form of a key: dimensions sorted by name, `dim=value` joined by `/`; `""` without any."""
    return "/".join(f"{name}={encode_value(values[name])}" for name in sorted(values))


def parse_key(key: str) -> dict[str, str]:
    """Dimension to raw value, from the Hive form."""
    if not key:
        return {}
    pairs = (part.partition("=") for part in key.split("/"))
    return {name: decode_value(value) for name, _, value in pairs}


def display_text(key: str) -> str:
    """The display form of a Hive form: `dim=value` joined by `,`, raw values."""
    return ",".join(f"{name}={value}" for name, value in parse_key(key).items())


def step_text(node: str, key: str) -> str:
    """A step as people read it: `pipeline.py:scored[retailer=r7]`, without brackets for the empty key."""
    return f"{node}[{display_text(key)}]" if key else node


def normalise_key(value: Any) -> str:
    """One declared key value as its string.

    Strings stay, integers and dates become their text.

    Raises:
        DefinitionError: The value is a bool or of another type, or a text that UTF-8 cannot write.
    """
    if isinstance(value, str):
        if not value.isascii() and re.search(_SURROGATE, value):
            raise DefinitionError(
                f"a key cannot be the text {value!r}, which holds half a surrogate pair",
                code="key_type",
                remediation="keys are texts that UTF-8 can write",
            )
        return value
    import datetime as dt

    if isinstance(value, bool) or not isinstance(value, int | dt.date) or isinstance(value, dt.datetime):
        raise DefinitionError(
            f"a key cannot be the {type(value).__name__} `{value!r}`",
            code="key_type",
            remediation="keys are strings, integers or dates; convert the value, e.g. with str(...)",
        )
    return str(value)


def normalise_keys(values: Any) -> tuple[str, ...]:
    """Declared keys as distinct strings in declared order.

    Accepts any iterable of key values except a bare string, mapping or set; Polars Series work.

    Raises:
        DefinitionError: Not a list of keys, a key of a wrong type, or a key twice.
    """
    if isinstance(values, str | bytes | dict | set | frozenset) or not hasattr(values, "__iter__"):
        raise DefinitionError(
            f"partitions(...) takes a list of keys, not the {type(values).__name__} `{values!r}`",
            code="key_list",
            remediation="write partitions([...]); sets have no order, sort them: partitions(sorted(keys))",
        )
    keys = tuple([normalise_key(value) for value in values])
    if len(set(keys)) != len(keys):
        twice = _first_twice(keys)
        raise DefinitionError(
            f"the key `{twice}` stands twice in partitions(...)",
            code="key_twice",
            remediation="keys are compared as strings (1 is `1`); list each once",
        )
    return keys


def _first_twice(keys: Iterable[Any]) -> Any:
    seen: set[Any] = set()
    return next((key for key in keys if key in seen or seen.add(key)), None)  # type: ignore[func-returns-value]


def _only(helper: str, example: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if len(args) == 1 and not kwargs:
        return args[0]
    given = [*(repr(arg) for arg in args), *(f"{name}=..." for name in kwargs)]
    raise DefinitionError(
        f"{helper}() takes exactly one argument, by position; given: ({', '.join(given)})",
        code="helper_arguments",
        remediation=f"write {example}",
    )


def partitions(*args: Any, **kwargs: Any) -> Partitions:
    """Explicit keys of one dimension: `partitions(["emea", "apac"])`.

    Takes one positional argument: a list (or other ordered iterable) of strings, integers or dates. In a
    project file the expression is evaluated when planning needs it; elsewhere at once.

    Raises:
        DefinitionError: Another number of arguments, or not a list of distinct keys.
    """
    values = _only("partitions", "partitions([...])", args, kwargs)
    return Partitions(values if isinstance(values, Deferred) else normalise_keys(values))


def _source(helper: str, value: Any) -> Any:
    if isinstance(value, Definition | str):
        return value
    raise DefinitionError(
        f"{helper}() takes a decorated function or a node id, not the {type(value).__name__} `{value!r}`",
        code="helper_arguments",
        remediation=f"decorate the function with @asset, @task or @sensor, then write {helper}(function)",
    )


def partitions_from(*args: Any, **kwargs: Any) -> PartitionsFrom:
    """The keys of a partitioned node, or the keys that an unpartitioned node returns.

    A partitioned source gives each key its own result of that source. An unpartitioned source returns a
    list of keys, or a dict of key to value, or a table with a column of keys, named like the dimension or
    else its first, and columns of values; each key then gets its value.

    Raises:
        DefinitionError: Not exactly one decorated function or node id.
    """
    value = _only("partitions_from", "partitions_from(source)", args, kwargs)
    return PartitionsFrom(_source("partitions_from", value))


def collect(*args: Any, **kwargs: Any) -> Collect:
    """Every key of a partitioned node as one input: a list of values in key order, or one table.

    Raises:
        DefinitionError: Not exactly one decorated function or node id.
    """
    return Collect(_source("collect", _only("collect", "collect(source)", args, kwargs)))


def batches(groups: Any = None, *, strict: bool = False) -> Batches:
    """Named groups of keys that run in one call: `batches([["r1", "r2"], ["r3"]])`.

    Args:
        groups: Lists of keys; for several dimensions each key is a dict of dimension to value.
        strict: Whether a key in no group is an error; otherwise it runs in a call of its own.

    Raises:
        DefinitionError: An empty group, or a key in two groups.
    """
    if not isinstance(strict, bool):
        raise DefinitionError(f"batches(strict=...) is True or False, not `{strict!r}`", code="batch")
    return Batches(groups if isinstance(groups, Deferred) else normalise_groups(groups), strict)


def normalise_groups(groups: Any) -> tuple[tuple[Any, ...], ...]:
    """Groups of `batches` as tuples of key strings, or of sorted `((dimension, value), ...)` tuples.

    Raises:
        DefinitionError: Not a list of non-empty lists, or a key in two groups.
    """
    if isinstance(groups, str | dict) or not hasattr(groups, "__iter__"):
        raise DefinitionError(
            f"batches(...) takes a list of lists of keys, {_not(groups)}",
            code="batch",
            remediation='write batches([["r1", "r2"], ["r3"]])',
        )
    seen: set[Any] = set()
    result = []
    for group in groups:
        listed = list(group) if hasattr(group, "__iter__") and not isinstance(group, str | dict) else []
        if not listed:
            raise DefinitionError(
                f"a group of batches(...) is a list with at least one key, not `{group!r}`",
                code="batch",
                remediation='write batches([["r1", "r2"], ["r3"]])',
            )
        keys = tuple(_group_key(key) for key in listed)
        if len(set(keys)) < len(keys) or not seen.isdisjoint(keys):
            twice = next((key for key in keys if key in seen), _first_twice(keys))
            raise DefinitionError(
                f"the key `{twice}` stands in batches(...) twice",
                code="batch",
                remediation="a key runs in one call; keep it in one group",
            )
        seen.update(keys)
        result.append(keys)
    return tuple(result)


def _not(given: Any) -> str:
    return "and none is given" if given is None else f"not `{given!r}`"


def _group_key(key: Any) -> Any:
    if isinstance(key, dict):
        return tuple(sorted((str(name), normalise_key(value)) for name, value in key.items()))
    return normalise_key(key)


def batches_by(label: Callable[[Any], str | int] | None = None, *, max_size: int | None = None) -> BatchesBy:
    """Keys with equal labels run in one call: `batches_by(region_of, max_size=20)`.

    Args:
        label: Called with the key's value, or with a dict of dimension to value when there are several;
            returns a string or an integer.
        max_size: Groups are split into calls of at most so many keys.

    Raises:
        DefinitionError: `label` cannot be called, or `max_size` is not a positive integer.
    """
    if not callable(label):
        raise DefinitionError(
            f"batches_by(...) takes a function of a key, {_not(label)}",
            code="batch",
            remediation="pass a function that returns a label, e.g. batches_by(region_of)",
        )
    if max_size is not None and (isinstance(max_size, bool) or not isinstance(max_size, int) or max_size < 1):
        raise DefinitionError(
            f"batches_by(max_size=...) is a positive integer, not `{max_size!r}`", code="batch"
        )
    return BatchesBy(label, max_size)


_UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SIZE = r"(?i)\s*(\d+(?:\.\d+)?)\s*([kmgt]i?b)\s*"


def batches_auto(*, target_seconds: float = 30.0, max_memory: int | str | None = None) -> BatchesAuto:
    """Calls as large as time and memory allow: `batches_auto(target_seconds=60, max_memory="2GB")`.

    How many keys that are is foretold from the calls before. The first calls are small; each next one may
    be four times as large as the largest that was measured. `batch="auto"` is `batches_auto()`.

    Args:
        target_seconds: A call shall take no longer.
        max_memory: What a call's worker may take up: bytes, or a text such as `"500MB"` or `"2GiB"`. By
            default the workers share half of the machine's memory.

    Raises:
        DefinitionError: No positive number of seconds, or no size.
    """
    number = isinstance(target_seconds, int | float) and not isinstance(target_seconds, bool)
    if not number or not 0 < target_seconds < float("inf"):
        raise DefinitionError(
            f"batches_auto(target_seconds=...) is a positive number of seconds, not `{target_seconds!r}`",
            code="batch",
            remediation="write e.g. batches_auto(target_seconds=60)",
        )
    return BatchesAuto(float(target_seconds), None if max_memory is None else parse_size(max_memory))


def parse_size(value: int | str) -> int:
    """A size in bytes: a positive integer, or a text such as `500MB` or `2GiB`.

    Raises:
        DefinitionError: It is none.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = re.fullmatch(_SIZE, value) if isinstance(value, str) else None
    if found is None or not (size := int(float(found[1]) * _UNITS[found[2].lower()])):
        raise DefinitionError(
            f"a size is a positive number of bytes or a text like `500MB`, not `{value!r}`",
            code="batch",
            remediation="a text has a unit: KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (of 1024)",
        )
    return size


def display_keys(keys: Iterable[str]) -> list[str]:
    """`display_text` of each Hive form."""
    return [display_text(key) for key in keys]


def size_text(size: int) -> str:
    """Bytes as `parse_size` reads them, in the largest unit in which they have two decimals at most."""
    for name in sorted(_UNITS, key=lambda name: -_UNITS[name]):
        if size >= _UNITS[name] and size * 100 % _UNITS[name] == 0:
            number = f"{size / _UNITS[name]:.2f}".rstrip("0").rstrip(".")
            return f"{number}{name.upper().replace('I', 'i')}"
    return str(size)

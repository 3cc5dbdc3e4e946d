"""Values in the place of `:name` in a query, as literals that cannot be anything else."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import TYPE_CHECKING, Any, Final

from barca.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOKEN: Final = re.compile(
    r"""
    (?P<text>
        (?<!\w)[eE]'(?:[^'\\]|\\.|'')*'    # a text with backslashes that mean something
      | '(?:[^']|'')*'
      | "(?:[^"]|"")*" | `[^`]*`           # names
      | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
    )
  | (?P<comment> --[^\n]* | /\*)
  | (?P<cast> ::)
  | (?P<open> ['"`] | \$\w*\$)
  | (?<![\w\])]) : (?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK: Final = re.compile(r"/\*|\*/")


def bind(query: str, params: Mapping[str, Any]) -> str:
    """The query with a literal in the place of each `:name` that stands in no text, name or comment.

    Args:
        query: SQL.
        params: Name to a text, number, boolean, date, datetime, `None`, or a list of them, for `IN`.

    Raises:
        UsageError: A name without a value, a value that no name asks for, or one that is no literal; a text
            or comment that does not end.
    """
    parts: list[str] = []
    used: set[str] = set()
    place = 0
    while (match := _TOKEN.search(query, place)) is not None:
        parts.append(query[place : match.start()])
        place = match.end()
        if match["comment"] == "/*":
            place = _end_of_comment(query, match.end())
        if match["open"]:
            raise UsageError(
                f"the query has a `{match['open']}` without its other half",
                code="query",
                remediation="within a text in single quotes, a quote is written twice",
            )
        if (name := match["name"]) is None:
            parts.append(query[match.start() : place])
            continue
        used.add(name)
        parts.append(_value(name, params))
    for name in params:
        if name not in used:
            raise UsageError(
                f"the query has no `:{name}`",
                code="query_parameter",
                remediation=did_you_mean(name, sorted(used)) if used else "leave the parameter out",
            )
    return "".join((*parts, query[place:]))


def without_comments(query: str) -> str:
    """The query without its comments, for looking at how it begins."""
    parts: list[str] = []
    place = 0
    while (match := _TOKEN.search(query, place)) is not None:
        parts.append(query[place : match.start() if match["comment"] else match.end()])
        place = _end_of_comment(query, match.end()) if match["comment"] == "/*" else match.end()
    return " ".join((*parts, query[place:]))


def _end_of_comment(query: str, place: int) -> int:
    """Where a comment ends that began before `place`; comments may stand in comments."""
    depth = 1
    while depth:
        match = _BLOCK.search(query, place)
        if match is None:
            raise UsageError(
                "the query has a comment that does not end", code="query", remediation="write `*/`"
            )
        depth += 1 if match[0] == "/*" else -1
        place = match.end()
    return place


def _value(name: str, params: Mapping[str, Any]) -> str:
    if name not in params:
        raise UsageError(
            f"the query asks for `:{name}`, which has no value",
            code="query_parameter",
            remediation=did_you_mean(name, params)
            if params
            else f"give it with --param {name}=VALUE, or params=",
        )
    value = params[name]
    if isinstance(value, list | tuple) and value:
        return f"({', '.join(_literal(name, item) for item in value)})"
    return _literal(name, value)


def _literal(name: str, value: Any) -> str:
    """A value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        shown = repr(value)
        if isinstance(value, float) and "e" not in shown:
            shown += "e0"  # without an exponent it is a decimal
        return f"({shown})" if shown[0] == "-" else shown  # after another `-` it would begin a comment
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.date) and getattr(value, "tzinfo", None) is None:
        kind = "TIMESTAMP" if isinstance(value, dt.datetime) else "DATE"
        return f"{kind} '{value}'"
    raise UsageError(
        f"`:{name}` cannot be `{value!r}`",
        code="query_parameter",
        remediation="give a text, a finite number, a boolean, a date or time without zone, None, or a list",
    )

"""Small pieces of text: escaping what comes from outside, counts, sizes, durations, times."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters, which move cursors and recolour terminals
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that reorder the text around them
    "\u2028\u2029"  # line ends that are no newline
    "\ud800-\udfff]"  # halves of surrogate pairs, which no stream can encode
)
_HARMFUL_BUT_BREAKS = re.compile(_HARMFUL.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_KIB = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}")


def safe(text: object) -> str:
    r"""Text on one line without anything a terminal would obey; `\x1b` and its like become visible."""
    return _HARMFUL.sub(_escape, str(text))


def safe_lines(text: object) -> str:
    """As `safe`, but newlines and tabs stay: for tracebacks and messages of several lines."""
    return _HARMFUL_BUT_BREAKS.sub(_escape, str(text))


def first_line(text: object) -> str:
    """The first line of a text, safe, with dots where there are more."""
    line, *more = str(text).strip().splitlines() or [""]
    return f"{safe(line)} ..." if more else safe(line)


def duration(seconds: float | None) -> str:
    """Seconds as `12 ms`, `0.25 s`, `3.1 s`, `2 m 05 s`, `1 h 02 m`; an empty text for `None`."""
    if seconds is None:
        return ""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m"


def size(count: int | None) -> str:
    """Bytes as `12 B`, `1.5 KiB`, `23 MiB`; an empty text for `None`."""
    if count is None:
        return ""
    if count < _KIB:
        return f"{count} B"
    power = min(4, (count.bit_length() - 1) // 10)
    value = count / _KIB**power
    return f"{value:.1f} {_UNITS[power]}" if value < 10 else f"{value:.0f} {_UNITS[power]}"


def timestamp(value: Any) -> str:
    """An ISO text or a datetime as `2026-10-23 01:57:48`, in UTC as recorded; empty for `None`."""
    if not value:
        return ""
    text = value if isinstance(value, str) else value.isoformat()
    return safe(text.replace("T", " ").split(".")[0].removesuffix("Z").split("+")[0])


def as_of_text(moment: Mapping[str, Any]) -> str:
    """`as of 2026-11-30 04:12:00 UTC (tag audit, after run 19ac0f3)`, from the JSON form of a moment."""
    named = [f"tag {safe(moment['tag'])}"] if moment["tag"] else []
    named += [f"after run {safe(moment['run_id'])}"] if moment["run_id"] else []
    return f"as of {timestamp(moment['at'])} UTC" + (f" ({', '.join(named)})" if named else "")


def words(reason: str | None) -> str:
    """A name of a closed set as words: `upstream_key_failed` is `upstream key failed`."""
    return safe((reason or "").replace("_", " "))


def listing(items: Sequence[Any] | Iterable[Any], *, total: int | None = None, limit: int = 5) -> str:
    """The first items, comma-separated, and how many more of `total` there are."""
    shown = [safe(item) for item in items]
    count = len(shown) if total is None else total
    shown = shown[:limit]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def shorten(text: str, width: int) -> str:
    """At most `width` characters, with an ellipsis where something is left out."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"

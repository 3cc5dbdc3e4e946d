"""Plain Python values as JSON text, many at once.

A value is *faithful* when reading its JSON gives back an equal value of the same types: None, bool, int,
float, str, and lists and str-keyed dicts of those, none of them a subclass.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SCALARS: Final = frozenset((type(None), bool, int, float, str))
_CHUNK: Final = 20_000
_MARK: Final = "\0barca"
_CUT: Final = ',"\\u0000barca",'
_FAITHFUL: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)
_CANONICAL: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False, sort_keys=True, allow_nan=False
)


class NotPlain(Exception):
    """A value, or a part of it, that JSON cannot write.

    Attributes:
        path: Where in the value, as `[2]["x"]`; empty for the value itself.
        why: What is wrong there.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why


def faithful_texts(values: Sequence[Any]) -> list[str | None]:
    """The JSON text of each value, `None` where it is not faithful; NaN as Python's JSON writes it."""
    good = _are_faithful(values)
    if all(good):
        return _texts(_FAITHFUL, values)
    texts = iter(_texts(_FAITHFUL, [value for value, fits in zip(values, good, strict=True) if fits]))
    return [next(texts) if fits else None for fits in good]


def canonical_texts(values: Sequence[Any]) -> list[str | None]:
    """The canonical JSON of each value: keys sorted at every level, no whitespace, characters as they are.

    `None` where it cannot be written; `why_not_canonical` says why.
    """
    plains = [
        value if fits else _plain_or_refused(value)
        for value, fits in zip(values, _are_faithful(values), strict=True)
    ]
    kept = [value for value in plains if value is not _REFUSED]
    if len(kept) == len(plains):
        return _texts(_CANONICAL, kept)
    texts = iter(_texts(_CANONICAL, kept))
    return [None if value is _REFUSED else next(texts) for value in plains]


def plain(value: Any, path: str = "") -> Any:
    """The faithful value that JSON makes of it: tuples are lists, int keys text, subclasses their base.

    Raises:
        NotPlain: It holds something else.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _encodable(str.__str__(value), path)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(item, f"{path}[{position}]") for position, item in enumerate(value)]
    if isinstance(value, dict):
        return _plain_dict(value, path)
    raise NotPlain(path, f"a {type(value).__qualname__} is not JSON")


def plain_text(value: Any) -> str:
    """The JSON text of a value that `plain` accepts; NaN as Python's JSON writes it.

    Raises:
        NotPlain: It is not such a value, an integer has too many digits, or the nesting is too deep.
    """
    try:
        text = _text(_FAITHFUL, plain(value))
    except RecursionError:
        text = None
    if text is None:
        raise NotPlain("", "a number is too long or the nesting too deep for JSON")
    return text


def why_not_canonical(value: Any) -> NotPlain:
    """Why `canonical_texts` has no text for a value."""
    try:
        _finite(plain(value))
    except NotPlain as error:
        return error
    except RecursionError:
        pass
    return NotPlain("", "a number is too long or the nesting too deep for JSON")


def _finite(value: Any, path: str = "") -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise NotPlain(path, f"JSON has no number `{value}`")
    if isinstance(value, list):
        for position, item in enumerate(value):
            _finite(item, f"{path}[{position}]")
    if isinstance(value, dict):
        for key, item in value.items():
            _finite(item, f'{path}["{key}"]')


def _plain_dict(value: dict[Any, Any], path: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise NotPlain(path, f"the key `{key!r}` is neither a string nor an integer")
        name = _encodable(str.__str__(key), path) if isinstance(key, str) else str(int(key))
        if name in result:
            raise NotPlain(path, f"the key `{name}` stands there twice, as text and as a number")
        result[name] = plain(item, f'{path}["{name}"]')
    return result


def _encodable(text: str, path: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotPlain(path, "the text holds half a surrogate pair, which UTF-8 cannot write") from None
    return text


def _are_faithful(values: Sequence[Any]) -> list[bool]:
    if set(map(type, values)) <= SCALARS:
        return [True] * len(values)
    try:
        return [*map(_all_plain, values)]
    except RecursionError:
        return [_is_faithful(value) for value in values]


def _is_faithful(value: Any) -> bool:
    try:
        return _all_plain(value)
    except RecursionError:
        return False


def _plain_or_refused(value: Any) -> Any:
    try:
        return plain(value)
    except (NotPlain, RecursionError):
        return _REFUSED


def _all_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        for key, item in value.items():  # a loop, not all(...): this runs for every value of every call
            if type(key) is not str or (type(item) not in SCALARS and not _all_plain(item)):
                return False
        return True
    if kind is list:
        for item in value:  # noqa: SIM110
            if type(item) not in SCALARS and not _all_plain(item):
                return False
        return True
    return kind in SCALARS


_REFUSED: Final = object()


def _texts(encoder: json.JSONEncoder, values: Sequence[Any]) -> list[str | None]:
    texts: list[str | None] = []
    for begin in range(0, len(values), _CHUNK):
        texts += _chunk(encoder, values[begin : begin + _CHUNK])
    return texts


def _chunk(encoder: json.JSONEncoder, values: Sequence[Any]) -> list[str | None]:
    """Each value's text, from one call of the encoder: values alternate with a mark, the text is cut there.

    A value that itself holds the mark as a list item gives too many pieces, and one that cannot be written
    raises; either way each value is then encoded alone.
    """
    marked: list[Any] = [_MARK] * (2 * len(values) - 1)
    marked[::2] = values
    joined = _text(encoder, marked)
    pieces: list[str | None] = [] if joined is None else [*joined[1:-1].split(_CUT)]
    return pieces if len(pieces) == len(values) else [_text(encoder, value) for value in values]


def _text(encoder: json.JSONEncoder, value: Any) -> str | None:
    """The JSON text, `None` where it cannot be written: numbers JSON lacks, half surrogate pairs, depth."""
    try:
        text = encoder.encode(value)
        if not text.isascii():
            text.encode()
    except (ValueError, RecursionError):
        return None
    return text

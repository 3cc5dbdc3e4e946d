"""Plain Python values as JSON text, many at once.

A value is *faithful* when reading its JSON gives back an equal value of the same types: None, bool, int,
float, str, and lists and str-keyed dicts of those, none of them a subclass.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCALARS: Final = frozenset((type(None), bool, int, float, str))
_CHUNK: Final = 20_000
_MARK: Final = "\0barca"
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
    good = [_is_faithful(value) for value in values]
    if all(good):
        return _texts(_FAITHFUL, values)
    texts = iter(_texts(_FAITHFUL, [value for value, fits in zip(values, good, strict=True) if fits]))
    return [next(texts) if fits else None for fits in good]


def canonical_texts(values: Sequence[Any]) -> list[str | None]:
    """The canonical JSON of each value: keys sorted at every level, no whitespace, characters as they are.

    `None` where `plain` says why it cannot be written.
    """
    plains: list[Any] = []
    for value in values:
        try:
            plains.append(value if _is_faithful(value) else plain(value))
        except (NotPlain, RecursionError):
            plains.append(_REFUSED)
    kept = [value for value in plains if value is not _REFUSED]
    if len(kept) == len(plains):
        return _texts(_CANONICAL, kept)
    texts = iter(_texts(_CANONICAL, kept))
    return [None if value is _REFUSED else next(texts) for value in plains]


def plain(value: Any, path: str = "") -> Any:
    """The faithful value that JSON would make of it: tuples as lists, int keys as text, subclasses as their base.

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


def finite(value: Any, path: str = "") -> None:
    """Make sure that a faithful value holds no NaN and no infinity.

    Raises:
        NotPlain: It does.
    """
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124
        raise NotPlain(path, f"JSON has no number `{value}`")
    if isinstance(value, list):
        for position, item in enumerate(value):
            finite(item, f"{path}[{position}]")
    if isinstance(value, dict):
        for key, item in value.items():
            finite(item, f'{path}["{key}"]')


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
    if not _is_text(text):
        raise NotPlain(path, "the text holds half of a surrogate pair, which UTF-8 cannot write")
    return text


def _is_text(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_faithful(value: Any) -> bool:
    try:
        return _all_plain(value)
    except RecursionError:
        return False


def _all_plain(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        return _is_text(value)
    if kind in _SCALARS:
        return True
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not _all_plain(item) or not _is_text(key):
                return False
        return True
    if kind is list:
        return all(map(_all_plain, value))
    return False


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
    try:
        pieces: list[str | None] = [*encoder.encode(marked)[1:-1].split(f',"\\u0000{_MARK[1:]}",')]
    except (ValueError, RecursionError):
        pieces = []
    return pieces if len(pieces) == len(values) else [_text(encoder, value) for value in values]


def _text(encoder: json.JSONEncoder, value: Any) -> str | None:
    try:
        return encoder.encode(value)
    except (ValueError, RecursionError):
        return None

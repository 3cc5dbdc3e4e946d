"""Small pieces of text."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barca.errors import plural
from barca.render.text import duration, first_line, listing, safe, safe_lines, shorten, size, timestamp


@given(st.text())
def test_safe_text_has_nothing_a_terminal_obeys(text):
    shown = safe(text)
    assert shown.isprintable() or all(ord(c) >= 0xA0 for c in shown if not c.isprintable())
    shown.encode()
    assert "\x1b" not in shown and "\n" not in shown


def test_safe_lines_keeps_breaks():
    assert safe_lines("a\n\tb\r\x1b[0m") == "a\n\tb\\r\\x1b[0m"
    assert safe("a\n\tb") == "a\\n\\tb"


def test_the_first_line_tells_that_there_are_more():
    assert first_line("1 of 1 failed: no column\n\nPlan:\n\tCSV") == "1 of 1 failed: no column ..."
    assert [first_line(text) for text in ("", "\n", "a\x1b", "\na\n")] == ["", "", "a\\x1b", "a"]


def test_usual_text_stays():
    assert safe("Zürich 東京 ü–x[1]") == "Zürich 東京 ü–x[1]"


def test_half_a_surrogate_pair_is_shown():
    assert safe("a\ud800") == "a\\ud800"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, ""), (0, "0 ms"), (0.0123, "12 ms"), (0.249, "0.25 s"), (3.14, "3.1 s"), (59.96, "1 m 00 s"),
        (75.2, "1 m 15 s"), (3600, "1 h 00 m"), (7322, "2 h 02 m"),
    ],
)  # fmt: skip
def test_duration(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, ""),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (4321987, "4.1 MiB"),
        (3 * 2**50, "3072 TiB"),
    ],
)
def test_size(count, shown):
    assert size(count) == shown


def test_timestamp():
    assert timestamp("2026-10-23T01:57:48.123+00:00") == "2026-10-23 01:57:48"
    assert timestamp(dt.datetime(2026, 10, 23, 1, 57, 48, tzinfo=dt.UTC)) == "2026-10-23 01:57:48"
    assert timestamp(None) == ""


def test_counts_and_listings():
    assert (plural(1, "key"), plural(10_000, "key")) == ("1 key", "10,000 keys")
    assert listing(["a", "b"]) == "a, b"
    assert listing([str(number) for number in range(9)], limit=2) == "0, 1 and 7 more"
    assert listing(["a"], total=2000) == "a and 1,999 more"
    assert shorten("abcdef", 4) == "abc…"

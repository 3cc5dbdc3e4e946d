"""Reads that begin while sources run."""

import threading

import pytest

from barca.project.ahead import Ahead


def test_what_was_noted_is_read_once_whether_begun_or_not():
    made = []
    ahead = Ahead[str]()
    ahead.add({"a": lambda: made.append("a") or "rows of a"})
    assert made == []
    assert (ahead.take("a"), ahead.take("a"), ahead.take("b")) == ("rows of a", None, None)
    ahead.add({"b": lambda: made.append("b") or "rows of b"})
    ahead.begin()
    ahead.begin()
    assert (ahead.take("b"), ahead.take("b")) == ("rows of b", None)
    assert made == ["a", "b"]


def test_begun_reads_go_on_beside_others():
    at_it, may_end = threading.Event(), threading.Event()

    def read():
        at_it.set()
        may_end.wait(60)
        return threading.current_thread().name

    ahead = Ahead[str]()
    ahead.add({"a": read})
    ahead.begin()
    assert at_it.wait(60)
    ahead.add({"b": lambda: "later"})
    assert ahead.take("b") == "later"
    may_end.set()
    assert ahead.take("a") != threading.current_thread().name


def test_what_reading_raises_is_told_to_who_takes_it():
    ahead = Ahead[str]()
    ahead.add({"a": lambda: 1 / 0})
    ahead.begin()
    with pytest.raises(ZeroDivisionError):
        ahead.take("a")

"""Forms of output, escaping, errors and exit codes."""

from __future__ import annotations

import datetime as dt
import decimal
import errno
import io
import json
import math
import os

import polars as pl
import pytest

from barca.cli.output import choose_mode, error_document, exit_code, mode_of, report, to_json, write
from barca.errors import Cancelled, LedgerError, LoadError, StepFailed, StoreError, UsageError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("BARCA_OUTPUT", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")


def test_the_mode_follows_stdout(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert choose_mode(as_json=False, pretty=False) == "json"
    monkeypatch.setattr("sys.stdout", Terminal())
    assert choose_mode(as_json=False, pretty=False) == "pretty"


@pytest.mark.parametrize(
    ("variable", "options", "mode"),
    [
        ("pretty", {}, "pretty"),
        ("json", {}, "json"),
        ("json", {"pretty": True}, "pretty"),
        ("pretty", {"as_json": True}, "json"),
    ],
)
def test_options_before_the_variable(monkeypatch, variable, options, mode):
    monkeypatch.setenv("BARCA_OUTPUT", variable)
    assert choose_mode(**{"as_json": False, "pretty": False, **options}) == mode


def test_wrong_modes(monkeypatch):
    with pytest.raises(UsageError, match="exclude"):
        choose_mode(as_json=True, pretty=True)
    monkeypatch.setenv("BARCA_OUTPUT", "jsno")
    with pytest.raises(UsageError) as raised:
        choose_mode(as_json=False, pretty=False)
    assert "did you mean `json`?" in raised.value.remediation
    assert mode_of(["get"]) in ("json", "pretty")


def test_json_is_one_line_of_ascii_whatever_the_values():
    document = {
        "day": dt.date(2026, 1, 2), "at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "took": dt.timedelta(minutes=1),
        "price": decimal.Decimal("1.50"), "bytes": b"\x00\xff", "set": {2, 1}, "key": "é\x1b\x9b\ud800",
        "table": pl.DataFrame({"a": [1]}), "nested": {"k=1": pl.DataFrame({"a": [float("nan")]})},
    }  # fmt: skip
    written = to_json(document)
    assert written.isascii() and "\n" not in written and "\x1b" not in written
    read = json.loads(written)
    assert read == {
        "day": "2026-01-02", "at": "2026-01-02T00:00:00+00:00", "took": 60.0, "price": "1.50", "bytes": "00ff",
        "set": [1, 2], "key": "é\x1b\x9b\ud800", "table": [{"a": 1}], "nested": {"k=1": [{"a": None}]},
    }  # fmt: skip


def test_json_has_no_numbers_that_json_lacks():
    assert to_json([math.nan, math.inf, {"a": (-math.inf, 1.5)}]) == '[null, null, {"a": [null, 1.5]}]'


def test_tables_of_other_libraries_are_rows():
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    assert (
        to_json({"a": pa.table({"x": [1]}), "p": pd.DataFrame({"x": [1]})})
        == '{"a": [{"x": 1}], "p": [{"x": 1}]}'
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (LoadError("x"), 2),
        (StepFailed("x"), 1),
        (LedgerError("x"), 3),
        (Cancelled("x"), 130),
    ],
)
def test_exit_codes(error, code):
    assert exit_code(error) == code


def test_an_error_as_json(capsys):
    error = StepFailed(
        "ValueError: no\nrows", node="a.py:b", key="k=1", traceback="Trace\n", remediation="fix it"
    )
    assert report(error, "json") == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert json.loads(captured.err) == {
        "error": "ValueError: no\nrows", "code": "step_failed", "kind": "step_failed", "remediation": "fix it",
        "node": "a.py:b", "key": "k=1", "traceback": "Trace\n",
    }  # fmt: skip
    assert error_document(UsageError("x")) == {
        "error": "x",
        "code": "usage",
        "kind": "usage",
        "remediation": None,
    }


def test_an_error_for_people(capsys, snapshot):
    report(
        StepFailed(
            "ValueError: [red]no\x1b[2J rows", node="a.py:b", key="k=[b]1\x1b", remediation="look at [i]it",
            traceback='Traceback:\n  File "a.py", line 1\nValueError: [red]no\x1b[2J rows\n',
        ),
        "pretty",
    )  # fmt: skip
    report(LoadError("cannot be parsed", file="a.py", line=3), "pretty")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == snapshot


def test_colour_only_where_it_is_wanted(monkeypatch):
    for variable, coloured in (("NO_COLOR", False), ("TERM", True)):
        err = Terminal()
        with monkeypatch.context() as patch:
            patch.setenv("TERM", "xterm-256color")
            patch.setenv(variable, "xterm-256color")
            patch.setattr("sys.stderr", err)
            report(UsageError("wrong"), "pretty")
        # without colour bold may stay, which is no colour
        assert ("\x1b[1;31m" in err.getvalue()) == coloured


def test_a_reader_that_went_away_is_no_error():
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    write(Closed(), "text")


def test_a_full_disk_is_an_error_of_the_machine():
    with pytest.raises(StoreError, match="the output cannot be written: .*No space left") as raised:
        write(Full(), "text")
    assert (raised.value.code, raised.value.traceback) == ("output", None)


def test_an_error_that_cannot_be_told_is_not_an_error_of_its_own(monkeypatch):
    monkeypatch.setattr("sys.stderr", Full())
    assert report(UsageError("wrong"), "json") == 2


class Full(io.StringIO):
    """A stream on a disk without room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_encoding_that_lacks_a_character():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    write(stream, "é…\n")
    assert raw.getvalue() == b"\\xe9\\u2026\n"

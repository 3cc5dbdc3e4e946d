"""The error tree: kinds, fields, texts, and crossing process boundaries."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator

import pytest

from barca import errors
from barca.errors import BarcaError, DefinitionError, Failed, StepFailed, did_you_mean

KINDS = {
    "UsageError": "usage",
    "DefinitionError": "usage",
    "LoadError": "usage",
    "SelectionError": "usage",
    "StepFailed": "step_failed",
    "OutputError": "step_failed",
    "InputError": "step_failed",
    "SinkError": "step_failed",
    "StoreError": "infra",
    "FragmentError": "infra",
    "LedgerError": "infra",
    "Cancelled": "cancelled",
}


def tree(root: type[BarcaError] = BarcaError) -> Iterator[type[BarcaError]]:
    for child in root.__subclasses__():
        yield child
        yield from tree(child)


def test_every_error_has_a_kind_and_stands_in_the_drawing():
    assert {error.__name__: error.kind for error in tree()} == KINDS
    for name in KINDS:
        assert name in errors.__doc__
    assert len({error.default_code for error in tree()}) == len(KINDS)


@pytest.mark.parametrize("error_type", sorted(tree(), key=lambda each: each.__name__))
def test_errors_pickle_whole(error_type: type[BarcaError]):
    fields = {
        "code": "c",
        "remediation": "r",
        "node": "n",
        "key": "k",
        "traceback": "t",
        "file": "f",
        "line": 3,
    }
    for error in (error_type("m", **fields), error_type("m")):
        twin = pickle.loads(pickle.dumps(error))
        assert type(twin) is error_type
        assert twin.fields() == error.fields()
        assert (twin.message, str(twin)) == (error.message, str(error))


def test_text_has_place_message_and_hint():
    assert str(DefinitionError("m", file="p.py", line=3, remediation="r")) == "p.py:3: m\nhint: r"
    assert str(StepFailed("m")) == "m"
    assert StepFailed("m").fields() == {"code": "step_failed"}


def test_did_you_mean():
    assert did_you_mean("retrys", ["retries", "env"]) == "did you mean `retries`? valid: `retries`, `env`"
    assert did_you_mean("zzz", ["retries"]) == "valid: `retries`"
    assert did_you_mean("x", []) == "there are none"
    assert did_you_mean("x", (str(n) for n in range(20)), limit=2) == "valid: `0`, `1` and 18 more"
    assert did_you_mean("new\nlin", ["new\nline", "é\x1b["]) == (
        r"did you mean `new\nline`? valid: `new\nline`, `é\x1b[`"
    )


def test_the_closest_of_very_many_begins_like_what_was_written():
    keys = [f"r{number:06}" for number in range(50_000)]
    assert (
        did_you_mean("r04321x", keys, limit=1) == "did you mean `r043219`? valid: `r000000` and 49,999 more"
    )


def test_failed_is_a_value_and_an_exception():
    failed = Failed("no prices")
    assert (
        failed == Failed("no prices")
        and failed != Failed("other")
        and len({failed, Failed("no prices")}) == 1
    )
    assert pickle.loads(pickle.dumps(failed)) == failed
    assert (repr(failed), str(failed)) == ("Failed('no prices')", "no prices")
    with pytest.raises(Failed, match="no prices"):
        raise failed


def test_the_traceback_of_a_step_is_shown_with_the_error():
    error = StepFailed("no", node="p.py:f", key="k=1", traceback="Traceback ...\nZeroDivisionError\n")
    error.show_step()
    shown = "".join(traceback.format_exception(error))
    assert shown.endswith("StepFailed: no\n\nIn p.py:f[k=1]:\nTraceback ...\nZeroDivisionError\n")
    whole = BarcaError("no")
    whole.show_step()
    assert not hasattr(whole, "__notes__")


def test_notebooks_show_frames_of_the_user_and_what_it_was_raised_from():
    def ask():
        from barca.partitions import partitions

        partitions([{}])

    try:
        ask()
    except BarcaError as raised:
        error = raised
    error.__cause__ = OSError("disk")
    shown = "\n".join(error._render_traceback_())
    assert "in ask\n    partitions([{}])" in shown
    assert "barca/partitions" not in shown.rpartition("\n\n")[0]
    assert "\x1b[31mDefinitionError: " in shown and shown.endswith("caused by OSError: disk")

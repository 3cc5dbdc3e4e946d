"""What goes between processes comes out as it went in, and mostly small."""

from __future__ import annotations

import datetime as dt
import os
import threading
from multiprocessing import Pipe

import polars as pl
import pytest
from hypothesis import given
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

from barca.exec.messages import receive, send
from barca.exec.wire import MANY_ROWS, from_parts, to_parts

KEYS = pl.DataFrame({"key": [f"k={n:09}" for n in range(MANY_ROWS)]})


def size(parts):
    return sum(memoryview(part).nbytes for part in parts)


@given(dataframes(max_cols=6, excluded_dtypes=[pl.Categorical]))
def test_frames_of_every_type_come_out_as_they_went_in(frame):
    (again,) = from_parts(to_parts([frame]))
    assert again.schema == frame.schema
    assert_frame_equal(again, frame, categorical_as_str=True)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("c", ["a text of more than twelve bytes"]),
        pl.Series("c", [None], dtype=pl.String),
        pl.Series("c", [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], dtype=pl.Datetime("ms", "UTC")),
        pl.Series("c", ["b"], dtype=pl.Enum(["a", "b"])),
        pl.Series("c", [7], dtype=pl.Int8),
    ],
    ids=lambda column: str(column.dtype),
)
def test_a_column_of_one_value_is_written_once(column):
    same = column.new_from_index(0, KEYS.height)
    frame = pl.DataFrame([same, *KEYS])
    parts = to_parts(frame)
    again = from_parts(parts)
    assert_frame_equal(again, frame)
    assert size(parts) < size(to_parts(KEYS)) + 2_000
    alone = frame.select("c")
    assert_frame_equal(from_parts(to_parts(alone)), alone)


@pytest.mark.parametrize(
    "values", [[0.0, -0.0], [[1], [1]], [b"a", b"a"], ["a", None], [None, "a"], ["a", "b"], ["", "a"]]
)
def test_a_column_that_only_looks_like_one_value_is_written_whole(values):
    column = pl.Series("c", values)
    frame = pl.concat([column[:1], *[column[1:]] * MANY_ROWS, column[:1]]).to_frame()
    again = from_parts(to_parts(frame))
    assert repr(again.to_dicts()) == repr(frame.to_dicts())


def test_columns_that_the_reader_has_are_not_written():
    answer = KEYS.with_columns(digest=pl.col("key").str.reverse(), status=pl.lit("success"))
    parts = to_parts({"answer": answer}, KEYS)
    again = from_parts(parts, KEYS)["answer"]
    assert_frame_equal(again, answer)
    assert size(parts) < size(to_parts(answer)) - size(to_parts(KEYS)) + 2_000
    only = KEYS.with_columns(status=pl.lit("success"))
    assert_frame_equal(from_parts(to_parts(only, KEYS), KEYS), only)


@pytest.mark.parametrize(
    "other",
    [
        KEYS.reverse(),
        KEYS.head(MANY_ROWS - 1).vstack(pl.DataFrame({"key": ["k=x"]})),
        KEYS.vstack(KEYS.head(1)),
        KEYS.with_columns(pl.col("key").cast(pl.Categorical)),
        KEYS.with_columns(pl.when(pl.col("key") != "k=000000003").then("key")),
        KEYS.rename({"key": "other"}),
    ],
)
def test_columns_that_differ_from_what_the_reader_has_are_written(other):
    assert_frame_equal(from_parts(to_parts(other, KEYS), KEYS), other)


def test_messages_arrive_with_their_parts_and_in_order():
    left, right = Pipe()
    sent = [b"", os.urandom(3), os.urandom(3_000_000), memoryview(b"view")]

    def send_all():
        send(left, "first", sent)
        send(left, "second")
        left.close()

    thread = threading.Thread(target=send_all)
    thread.start()
    message, parts = receive(right)
    assert message == "first" and [bytes(part) for part in parts] == [bytes(part) for part in sent]
    assert receive(right) == ("second", [])
    thread.join()
    with pytest.raises(EOFError):
        receive(right)


def test_a_message_that_is_cut_short_is_the_end():
    left, right = Pipe()
    left.send(("first", [10]))
    os.write(left.fileno(), b"12345")
    left.close()
    with pytest.raises(EOFError):
        receive(right)

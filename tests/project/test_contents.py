"""What results may hold, and what they are read back as, through whole projects."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

FORMS = {
    "nothing": ("", "pl.DataFrame", "value"),
    "polars": (": pl.DataFrame", "pl.DataFrame", "value"),
    "lazy": (": pl.LazyFrame", "pl.LazyFrame", "value.collect(engine='in-memory')"),
    "arrow": (": pa.Table", "pa.Table", "pl.from_arrow(value)"),
    "dataset": (": ds.Dataset", "ds.Dataset", "pl.from_arrow(value.to_table())"),
    "pandas": (": pd.DataFrame", "pd.DataFrame", "pl.from_pandas(value)"),
    "duckdb": (": duckdb.DuckDBPyRelation", "duckdb.DuckDBPyRelation", "value.pl()"),
}

MAKERS = {
    "polars": ("pl.DataFrame", "frame(k)"),
    "lazy": ("pl.LazyFrame", "frame(k).lazy()"),
    "arrow": ("pa.Table", "frame(k).to_arrow()"),
    "pandas": ("pd.DataFrame", "frame(k).to_pandas()"),
    "duckdb": ("duckdb.DuckDBPyRelation", "duckdb.from_arrow(frame(k).to_arrow())"),
}

HEADER = """
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from barca import asset, collect, partitions, partitions_from

def frame(k):
    return pl.DataFrame({"n": [int(k), int(k) + 1], "t": ["x", "y"]})
"""


def expected(key):
    return pl.DataFrame({"n": [int(key), int(key) + 1], "t": ["x", "y"]})


def test_inputs_are_read_as_annotated_whoever_made_them(project):
    """Every kind of table that a function returns, read back as every kind that another asks for."""
    code = HEADER
    for made, (_, expression) in MAKERS.items():
        code += f"""
@asset(partitions={{"k": partitions(["1", "2"])}})
def made_{made}(k: str):
    return {expression}
"""
        source = f"made_{made}"
        for form, (annotation, kind, framed) in FORMS.items():
            code += f"""
@asset(partitions={{"k": partitions_from({source})}})
def {made}_as_{form}(k: str, {source}{annotation}) -> dict:
    value = {source}
    assert isinstance(value, {kind}), type(value)
    return {{"rows": {framed}.sort("n").rows()}}
"""
    project.write("pipeline.py", code)
    names = [f"{made}_as_{form}" for made in MAKERS for form in FORMS]
    found = project.get(names).value
    for name in names:
        assert found[name] == {f"k={key}": {"rows": expected(key).rows()} for key in "12"}, name


def test_collected_and_batched_inputs_are_read_as_annotated(project):
    code = (
        HEADER
        + """
@asset(partitions={"k": partitions(["1", "2"])})
def made(k: str) -> pl.DataFrame:
    return frame(k)
"""
    )
    for form, (annotation, kind, framed) in FORMS.items():
        if form == "nothing":
            continue
        code += f"""
@asset(inputs={{"value": collect(made)}})
def all_{form}(value{annotation}) -> list:
    assert isinstance(value, {kind}), type(value)
    return {framed}.sort("k", "n").rows()

@asset(partitions={{"k": partitions_from(made)}}, batch="all")
def batch_{form}(k: list[str], made{annotation}) -> dict:
    value = made
    assert isinstance(value, {kind}), type(value)
    rows = {framed}.sort("k", "n").rows()
    return {{key: rows for key in k}}
"""
    project.write("pipeline.py", code)
    forms = [form for form in FORMS if form != "nothing"]
    found = project.get([f"{how}_{form}" for how in ("all", "batch") for form in forms]).value
    rows = [("1", 1, "x"), ("1", 2, "y"), ("2", 2, "x"), ("2", 3, "y")]
    for form in forms:
        assert [tuple(row) for row in found[f"all_{form}"]] == rows, form
        assert [tuple(row) for row in found[f"batch_{form}"]["k=1"]] == rows, form


def test_a_returned_table_comes_back_as_the_function_says(project):
    code = HEADER
    for form, (annotation, expression) in MAKERS.items():
        code += f"\n@asset\ndef a_{form}() -> {annotation}:\n    k = '1'\n    return {expression}\n"
    project.write("pipeline.py", code)
    import duckdb
    import pandas as pd
    import pyarrow as pa

    kinds = {
        "polars": pl.DataFrame,
        "lazy": pl.LazyFrame,
        "arrow": pa.Table,
        "pandas": pd.DataFrame,
        "duckdb": duckdb.DuckDBPyRelation,
    }
    found = project.get([f"a_{form}" for form in kinds]).value
    assert {form.removeprefix("a_"): type(value) for form, value in found.items()} == kinds


PLAIN = {
    "text": "'ä'",
    "number": "2**70",
    "floats": "[0.1, float('inf')]",
    "nothing": "None",
    "mapping": "{'a': [1, {'b': None}], 'ü': True}",
    "pairs": "{1: 'a', (2, 3): 'b'}",
    "tuple": "(1, 'a')",
    "set": "{1, 2}",
    "bytes": "b'\\x00\\xff'",
    "date": "datetime.date(2026, 11, 1)",
    "instance": "decimal.Decimal('1.10')",
    "empty": "[]",
}


def test_plain_values_come_back_as_they_were(project):
    import datetime
    import decimal

    code = "import datetime, decimal\nfrom barca import asset\n"
    for name, expression in PLAIN.items():
        code += f"\n@asset\ndef {name}():\n    return {expression}\n"
        code += f"\n@asset(inputs={{'value': {name}}})\ndef read_{name}(value):\n    return repr(value)\n"
    project.write("pipeline.py", code)
    names = list(PLAIN)
    found = project.get([*names, *(f"read_{name}" for name in names)]).value
    for name, expression in PLAIN.items():
        value = eval(expression, {"datetime": datetime, "decimal": decimal})
        assert (type(found[name]), found[name]) == (type(value), value), name
        assert found[f"read_{name}"] == repr(value), name
    assert project.ran([*names, *(f"read_{name}" for name in names)]) == {}


UNSTORABLE = """
    import socket
    import polars as pl
    from barca import asset, partitions

    KEYS = partitions(["good", "bad"])

    @asset(partitions={"k": KEYS})
    def object_column(k: str):
        return pl.DataFrame({"fine": [1], "odd": pl.Series([object()], dtype=pl.Object)}) if k == "bad" else 1

    @asset(partitions={"k": KEYS})
    def hollow(k: str):
        return pl.DataFrame({"fine": [1], "odd": [{}]}) if k == "bad" else 1

    @asset(partitions={"k": KEYS})
    def sock(k: str):
        if k == "bad":
            with socket.socket() as closed:
                return closed
        return 1

    def numbers():
        yield 1

    @asset(partitions={"k": KEYS})
    def generator(k: str):
        return numbers() if k == "bad" else 1
"""


@pytest.mark.parametrize("executor", ["inline", pytest.param("processes", marks=pytest.mark.slow)])
def test_f10_unstorable_results_fail_their_key_every_time(project, executor):
    project.write("pipeline.py", UNSTORABLE)
    words = {"object_column": "odd", "hollow": "odd", "sock": "socket", "generator": "generator"}
    for _ in range(2):  # never "done but not cached": it fails again, and the good key is served
        result = project.open(executor=executor).get()
        out = result.to_dict()
        assert out["status"] == "failed"
        steps = project.open().history(out["run_id"])["steps"]
        failed = {step["node_id"]: step["error_message"] for step in steps if step["status"] == "failed"}
        assert set(failed) == {f"pipeline.py:{name}[k=bad]" for name in words}
        for name, word in words.items():
            message = failed[f"pipeline.py:{name}[k=bad]"]
            assert f"`{word}`" in message or word in message
            assert "k=bad" in message
    assert out["steps_executed"] == 4
    assert project.get(list(words), partition={"k": ["good"]}).value["sock"] == {"k=good": 1}


ODD = """
    import datetime as dt
    from decimal import Decimal
    import polars as pl
    from barca import asset, partitions_from, partitions

    def frames():
        nested = [{"x": [{"y": 1, "z": ["a", None]}], "e": []}, None]
        return {
            "empty": pl.DataFrame(schema={"a": pl.Int64, "b": pl.List(pl.String)}),
            "no columns": pl.DataFrame(),
            "nulls": pl.DataFrame({"a": [None, None], "b": pl.Series([None, None], dtype=pl.String)}),
            "names": pl.DataFrame({"a": [1], "A": [2], "é": [3], "e\\u0301": [4], "dim:k": [5], "key": [6], "": [7]}),
            "nested": pl.DataFrame({"n": nested}),
            "decimal": pl.DataFrame({"d": [Decimal("1.10"), Decimal("-0.01")]}),
            "binary": pl.DataFrame({"b": [b"", b"\\x00\\xff", None]}),
            "zones": pl.DataFrame({"t": [dt.datetime(2026, 1, 1)]}).select(
                pl.col("t").dt.replace_time_zone("Europe/Rome"), z=pl.col("t").cast(pl.Datetime("ns"))
            ),
            "enum": pl.DataFrame({"e": pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"]))}),
            "floats": pl.DataFrame({"f": [0.0, -0.0, float("nan"), float("-inf"), None]}),
            "categories": pl.DataFrame({"c": pl.Series(ORDER, dtype=pl.Categorical)}),
        }

    ORDER = ["x", "y", "z"]
    STEP = 1

    @asset(partitions={"k": partitions(list(frames()))}, cutoff=True)
    def odd(k: str):
        frame = frames()[k]
        return frame[::STEP] if frame.width else frame

    @asset(partitions={"k": partitions_from(odd)})
    def read(k: str, odd):
        return [odd.shape, str(odd.schema)]
"""


def test_f13_odd_frames_are_read_back_equal_and_rows_in_another_order_are_the_same(project):
    project.write("pipeline.py", ODD)
    assert project.ran(["odd", "read"]) == {"odd": 11, "read": 11}
    scope: dict = {}
    import textwrap

    exec(textwrap.dedent(ODD), scope)
    frames = scope["frames"]()
    found = project.get("odd").value
    assert set(found) == {f"k={name}" for name in frames}
    for name, frame in frames.items():
        assert found[f"k={name}"].schema == frame.schema, name
        assert_frame_equal(found[f"k={name}"], frame, check_row_order=frame.width == 0)
    read = project.get("read").value
    assert read["k=empty"] == [(0, 2), str(frames["empty"].schema)]
    # the rows backwards: other code, the same content, so that nothing behind the cutoff runs
    project.edit("pipeline.py", "STEP = 1", "STEP = -1")
    assert project.ran(["odd", "read"]) == {"odd": 11}
    # categories that are built in another order
    project.edit("pipeline.py", 'ORDER = ["x", "y", "z"]', 'ORDER = ["z", "y", "x"]')
    assert project.ran(["odd", "read"]) == {"odd": 11}
    # one content that is another
    project.edit("pipeline.py", 'Decimal("-0.01")', 'Decimal("-0.02")')
    assert project.ran(["odd", "read"]) == {"odd": 11, "read": 1}


def test_f13_ten_thousand_columns(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset

        @asset
        def wide() -> pl.DataFrame:
            return pl.DataFrame({f"c{number}": [number, None] for number in range(10_000)})

        @asset(inputs={"wide": wide})
        def count(wide: pl.DataFrame) -> list:
            return [wide.width, wide.height, wide["c9999"].max()]
        """,
    )
    assert project.get("count").value == [10_000, 2, 9999]
    wide = project.get("wide").value
    assert_frame_equal(
        wide, pl.DataFrame({f"c{number}": [number, None] for number in range(10_000)}), check_row_order=False
    )
    assert project.ran("count") == {}


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_f13_one_row_of_fifty_megabytes(project, executor):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions, partitions_from

        @asset(partitions={"k": partitions(["small", "huge"])}, batch="all")
        def texts(k: list[str]) -> pl.DataFrame:
            return pl.DataFrame({"k": k, "text": ["y" if key == "small" else "x" * 50_000_000 for key in k]})

        @asset(partitions={"k": partitions(["plain"])})
        def plain(k: str) -> str:
            return "z" * 50_000_000

        @asset(partitions={"k": partitions_from(texts)})
        def length(k: str, texts: pl.DataFrame) -> int:
            return texts["text"].str.len_bytes().item()
        """,
    )
    result = project.open(executor=executor).get("length")
    assert result.value == {"k=small": 1, "k=huge": 50_000_000}
    assert project.get("texts", partition={"k": ["huge"]}).value["k=huge"]["text"].item() == "x" * 50_000_000
    assert len(project.open(executor=executor).get("plain").value["k=plain"]) == 50_000_000
    assert project.ran(["length", "plain"]) == {}


def test_f14_contents_that_look_alike_run_what_reads_them(project):
    project.write("frames.py", "FRAME = 'pl.DataFrame({\"a\": [1, 2]})'\n")
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset
        from frames import FRAME

        @asset(cutoff=True)
        def made():
            return eval(FRAME)

        @asset(inputs={"made": made})
        def read(made) -> str:
            return repr(made.schema)
        """,
    )
    project.ran("read")
    alike = [
        'pl.DataFrame({"b": [1, 2]})',
        'pl.DataFrame({"b": [1, 2]}, schema={"b": pl.Int32})',
        'pl.DataFrame({"b": ["1", None]})',
        'pl.DataFrame({"b": ["1", ""]})',
        'pl.DataFrame({"b": [[[1, 2], [3]]]})',
        'pl.DataFrame({"b": [[[1], [2, 3]]]})',
        'pl.DataFrame({"b": list(range(9999)) + [0]})',
        'pl.DataFrame({"b": list(range(9999)) + [1]})',
    ]
    for expression in alike:
        project.write("frames.py", f"FRAME = {expression!r}\n")
        assert project.ran("read") == {"made": 1, "read": 1}, expression


def test_f11_key_values(project):
    project.write(
        "pipeline.py",
        """
        import datetime as dt
        from barca import asset, partitions

        @asset(partitions={"k": partitions([1, 2, "01", dt.date(2026, 11, 1)])})
        def a(k: str) -> str:
            assert isinstance(k, str)
            return k
        """,
    )
    assert project.get("a").value == {"k=1": "1", "k=2": "2", "k=01": "01", "k=2026-11-01": "2026-11-01"}
    assert project.get("a", partition={"k": [1]}).value == {"k=1": "1"}
    for values, named in (('[1, "1"]', "1"), ("[True]", "True"), ('"abc"', "abc"), ('["x", "x"]', "x")):
        project.write(
            "pipeline.py",
            f"from barca import asset, partitions\n@asset(partitions={{'k': partitions({values})}})\n"
            "def a(k: str) -> str:\n    return k\n",
        )
        done = project.cli("get", "a", "--json")
        assert done.returncode == 2 and done.stdout == ""
        assert f"`{named}`" in done.stderr or repr(named) in done.stderr, done.stderr
        assert "pipeline.py" in done.stderr

"""`barca head`, `barca sql` and `barca export`: results in a terminal of any width, and in a pipe."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys

import polars as pl
import pytest

PIPELINE = """
    import polars as pl
    from barca import asset, partitions

    @asset(partitions={"shop": partitions(["r1", "r2", "r3"])}, batch="all")
    def sales(shop: list[str]) -> pl.DataFrame:
        return pl.DataFrame({
            "shop": shop, "units": [1, 20, 300], "note": ["plain", "[red]\\x1b[31m", None],
            **{f"measure_{number}": [0.5, 1.5, 2.5] for number in range(9)},
        })

    @asset(partitions={"shop": partitions(["r1", "r2"])})
    def limits(shop: str) -> dict:
        return {"low": 1, "high": [2, 3]}
"""


@pytest.fixture
def sales(commands):
    commands.write("pipeline.py", PIPELINE)
    assert commands.cli("get").returncode == 0
    return commands


@pytest.mark.parametrize("width", [60, 100, 200])
def test_head(sales, snapshot, width):
    done = sales.cli("head", "sales", "-n", "2", "--pretty", env={"COLUMNS": str(width)})
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= width
    assert done.stdout == snapshot(name="table")
    assert sales.cli("head", "limits", "--pretty", env={"COLUMNS": str(width)}).stdout == snapshot(
        name="values"
    )


def test_head_in_a_pipe(sales):
    found = sales.cli_json("head", "sales", "--partition", "shop=r2,r3", "-n", "1")
    assert found["target"] == "pipeline.py:sales" and found["keys"] == 2
    assert [row["units"] for row in found["rows"]] == [20]
    assert found["columns"][:2] == [{"name": "shop", "dtype": "String"}, {"name": "units", "dtype": "Int64"}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["head"], "takes one target"),
        (["head", "sales,limits"], "takes one target"),
        (["head", "sale"], "did you mean `sales`"),
        (["head", "sales", "-n", "0"], "whole number"),
        (["head", "sales", "--partition", "shop=r9"], "`r1`, `r2`, `r3`"),
    ],
)
def test_what_head_refuses(sales, arguments, said):
    done = sales.cli(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


QUERY = "SELECT shop, units, note FROM sales ORDER BY units DESC"


@pytest.mark.parametrize("width", [60, 100, 200])
def test_sql(sales, snapshot, width):
    done = sales.cli("sql", QUERY, "--pretty", env={"COLUMNS": str(width)})
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= width
    assert done.stdout == snapshot


def test_sql_in_a_pipe(sales):
    found = sales.cli_json("sql", QUERY + " LIMIT :n", "--param", "n=1")
    assert found == {
        "columns": [
            {"name": "shop", "dtype": "String"},
            {"name": "units", "dtype": "Int64"},
            {"name": "note", "dtype": "String"},
        ],
        "rows": [{"shop": "r3", "units": 300, "note": None}],
    }


@pytest.mark.parametrize(
    ("param", "units"),
    [("shop=r1", [1]), ('shop="r1"', [1]), ("shop=' OR 1=1 --", []), ("shop=7", [])],
)
def test_a_parameter_is_json_or_text(sales, param, units):
    done = sales.cli("sql", "SELECT units FROM sales WHERE shop = :shop", "--param", param, "--json")
    assert [row["units"] for row in json.loads(done.stdout)["rows"]] == units


def test_more_rows_than_a_terminal_shows(commands):
    commands.write(
        "pipeline.py",
        "import polars as pl\nfrom barca import asset\n\n"
        "@asset\ndef many() -> pl.DataFrame:\n    return pl.DataFrame({'x': range(1000)})\n",
    )
    commands.cli("get")
    done = commands.cli("sql", "SELECT * FROM many", "-o", "table")
    assert len(done.stdout.splitlines()) == 105 and "1,000 rows" in done.stdout
    assert done.stderr == "note: the first 100 of 1,000 rows are shown\n"


def test_the_forms_of_a_table(sales):
    assert sales.cli("sql", QUERY, "-o", "csv").stdout.splitlines() == [
        "shop,units,note", "r3,300,", "r2,20,[red]\x1b[31m", "r1,1,plain",
    ]  # fmt: skip
    for name, read in {
        "out.parquet": pl.read_parquet, "out.csv": pl.read_csv, "out.ndjson": pl.read_ndjson, "out.json": pl.read_json,
        "out.arrow": pl.read_ipc,
    }.items():  # fmt: skip
        done = sales.cli("sql", QUERY, "-o", name)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == f"note: 3 rows, 3 columns written to {name}\n"
        assert read(sales.root / name).get_column("units").to_list() == [300, 20, 1]
    assert not list(sales.root.glob(".barca-*"))


def test_parquet_in_a_pipe(project):
    project.write("pipeline.py", PIPELINE)
    project.get()
    done = subprocess.run(
        [sys.executable, "-m", "barca", "sql", "SELECT units FROM sales", "-o", "parquet"],
        cwd=project.root,
        capture_output=True,
        check=True,
    )
    assert pl.read_parquet(io.BytesIO(done.stdout)).get_column("units").to_list() == [1, 20, 300]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sql"], "takes a query"),
        (["sql", "DROP TABLE sales"], "is no query"),
        (["sql", QUERY, "-o", "parqet"], "did you mean `parquet`"),
        (["sql", QUERY, "-o", "out.xlsx"], ".parquet"),
        (["sql", QUERY, "--param", "units"], "NAME=VALUE"),
        (["sql", QUERY, "--param", "units=1"], "no `:units`"),
        (["sql", QUERY, "nothing.py"], "there is no file"),
        (["sql", "SELECT [1] AS x", "-o", "csv"], "cannot be computed"),
        (["sql", "SELECT * FROM sale"], "did you mean `sales`"),
    ],
)
def test_what_sql_refuses(sales, arguments, said):
    done = sales.cli(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_export(sales):
    told = sales.cli_json("export", "sales", "out", "--format", "csv", "--partition", "shop=r1,r2")
    assert (told["keys"], told["format"], told["path"]) == (2, "csv", str((sales.root / "out").resolve()))
    done = sales.cli("export", "sales", "out.parquet", "--pretty")
    assert re.fullmatch(r"3 keys of sales written to out.parquet: 1 file \(parquet, .* KiB\)\n", done.stdout)
    assert pl.read_parquet(sales.root / "out.parquet").height == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export", "sales"], "a target and a directory"),
        (["export", "sale", "out"], "did you mean `sales`"),
        (["export", "sales", "out", "--format", "xlsx"], "valid: `parquet`"),
        (["export", "sales", "pipeline.py"], "format"),
    ],
)
def test_what_export_refuses(sales, arguments, said):
    done = sales.cli(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "asset" in (sales.root / "pipeline.py").read_text()

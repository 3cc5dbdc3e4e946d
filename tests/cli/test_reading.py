"""`barca head`: results in a terminal of any width, and in a pipe."""

from __future__ import annotations

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

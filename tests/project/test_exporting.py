"""Current results as files: laid out by key, whole or not at all, never over files of others."""

from __future__ import annotations

import polars as pl
import pytest

from barca.errors import SelectionError, SinkError, UsageError

PIPELINE = """
    import polars as pl
    from barca import asset, partitions, sink

    KEYS = partitions(["r1", "r/2", "r3"])

    @asset(partitions={"shop": KEYS}, batch="all")
    def sales(shop: list[str]) -> pl.DataFrame:
        return pl.DataFrame({"shop": shop, "units": range(len(shop))})

    @asset
    def totals(sales: pl.DataFrame = None) -> pl.DataFrame:
        return pl.DataFrame({"units": [1, 2]})

    @asset(partitions={"shop": KEYS})
    def score(shop: str) -> int:
        return len(shop)
"""

READERS = {"parquet": pl.read_parquet, "csv": pl.read_csv, "ndjson": pl.read_ndjson, "ipc": pl.read_ipc}
EXTENSIONS = {"parquet": "parquet", "csv": "csv", "ndjson": "jsonl", "ipc": "arrow"}


@pytest.fixture
def sales(project):
    project.write("pipeline.py", PIPELINE.replace("sales: pl.DataFrame = None", ""))
    project.ran()
    return project


def files(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize("form", READERS)
def test_a_directory_for_each_key(sales, form):
    place = sales.root / "out"
    told = sales.open().export("sales", place, format=form)
    name = f"part-0.{EXTENSIONS[form]}"
    assert files(place) == [
        "_barca_sink.json", f"shop=r%2F2/{name}", f"shop=r1/{name}", f"shop=r3/{name}",
    ]  # fmt: skip
    assert READERS[form](place / "shop=r%2F2" / name).to_dict(as_series=False) == {"units": [1]}
    assert (told["keys"], told["files"], told["rows"], told["format"]) == (3, 3, 3, form)
    assert told["bytes"] == sum((place / name).stat().st_size for name in files(place)[1:])


def test_other_tools_read_the_layout(sales):
    sales.open().export("sales", sales.root / "out")
    read = pl.read_parquet(sales.root / "out/**/*.parquet", hive_partitioning=True)
    assert sorted(read.rows()) == [(0, "r1"), (1, "r/2"), (2, "r3")]


def test_an_export_replaces_the_one_before_whole(sales):
    place = sales.root / "out"
    sales.open().export("sales", place, format="csv")
    (place / ".notes").write_text("mine")
    sales.open().export("sales", place, partition={"shop": "r3"})
    assert files(place) == [".notes", "_barca_sink.json", "shop=r3/part-0.parquet"]
    assert [path.name for path in sales.root.iterdir() if "staging" in path.name] == []


def test_a_node_without_dimensions_is_one_file(sales):
    told = sales.open().export("totals", sales.root / "out")
    assert files(sales.root / "out") == ["_barca_sink.json", "part-0.parquet"]
    assert (told["keys"], told["rows"]) == (1, 2)
    sales.open().export("totals", sales.root / "out")


@pytest.mark.parametrize("form", READERS)
def test_a_file_of_every_key(sales, form):
    place = sales.root / "deep" / f"out.{EXTENSIONS[form]}"
    assert sales.open().export("sales", place)["format"] == form
    assert sorted(READERS[form](place).rows()) == [("r/2", 1), ("r1", 0), ("r3", 2)]
    with pytest.raises(UsageError, match="--overwrite"):
        sales.open().export("score", place)
    sales.open().export("score", place, overwrite=True)
    assert sorted(READERS[form](place).rows()) == [("r/2", 3), ("r1", 2), ("r3", 2)]
    assert files(place.parent) == [place.name]


def test_files_of_others_stay(sales):
    place = sales.root / "out"
    place.mkdir()
    (place / "mine.parquet").write_text("mine")
    with pytest.raises(UsageError, match="mine.parquet"):
        sales.open().export("sales", place)
    assert files(place) == ["mine.parquet"]
    (place / "mine.parquet").unlink()
    sales.open().export("sales", place)
    (place / "shop=r1" / "mine.parquet").write_text("mine")
    before = files(place)
    with pytest.raises(UsageError, match="mine.parquet"):
        sales.open().export("sales", place, format="csv")
    assert files(place) == before
    with pytest.raises(UsageError, match="belongs to export of pipeline.py:sales"):
        sales.open().export("totals", place)
    with pytest.raises(UsageError, match="inside"):
        sales.open().export("totals", place / "below")


def test_the_prefix_of_a_sink_is_not_an_exports(sales):
    sales.edit("pipeline.py", "@asset\ndef totals", '@sink("published/")\n@asset\ndef totals')
    sales.ran()
    with pytest.raises(UsageError, match="belongs to pipeline.py:totals"):
        sales.open().export("totals", sales.root / "published")


def test_what_fails_leaves_what_was_there(sales):
    place = sales.root / "out"
    sales.open().export("score", place, format="ndjson")
    before = files(place)
    with pytest.raises(SinkError, match="a table is needed") as raised:
        sales.open().export("score", place, format="parquet")
    assert raised.value.key is not None and files(place) == before
    assert [path.name for path in sales.root.iterdir() if "staging" in path.name] == []


@pytest.mark.parametrize(
    ("place", "options", "error", "said"),
    [
        ("out", {"format": "parqet"}, UsageError, "did you mean `parquet`"),
        ("out.csv", {"format": "parquet"}, UsageError, "a directory"),
        ("out.json", {}, UsageError, ".ndjson"),
        ("out", {"partition": {"shop": "r9"}}, SelectionError, "no result for shop=r9"),
    ],
)
def test_what_is_refused(sales, place, options, error, said):
    with pytest.raises(error) as raised:
        sales.open().export("sales", sales.root / place, **options)
    assert said in str(raised.value)
    assert not (sales.root / place).exists()

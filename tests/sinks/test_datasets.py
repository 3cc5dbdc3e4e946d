"""Dataset sinks: layout, formats, names, the prefix and its owner, keys that leave, size warnings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from barca.io.sinks import local

SCORED = """
    import polars as pl
    from barca import asset, partitions, sink

    @asset(partitions={"retailer": partitions(["r1", "r2"])})
    @sink("./exports/scored/", partition_by=["order_date"])
    def scored(retailer: str) -> pl.DataFrame:
        return pl.DataFrame({
            "order_date": ["2026-10-21", "2026-10-22", "2026-10-22"],
            "amount": [1.0, 2.0, 3.0],
        })
"""

WHOLE = """
    import polars as pl
    from barca import asset, partitions, sink

    @asset
    @sink("out/"{options})
    def orders() -> {returns}:
        return {value}
"""

KEYED = """
    import polars as pl
    from barca import asset, partitions, sink

    @asset(partitions={{"k": partitions({keys})}}{more})
    @sink("out/"{options})
    def scored(k):
        return {value}
"""


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def whole(
    project,
    options: str = "",
    value: str = 'pl.DataFrame({"d": ["x", "y", "y"], "v": [1, 2, 3]})',
    returns="pl.DataFrame",
):
    project.write("pipeline.py", WHOLE.format(options=options, value=value, returns=returns))


def keyed(project, keys, options: str = "", value: str = 'pl.DataFrame({"v": [1]})', more: str = ""):
    project.write("pipeline.py", KEYED.format(keys=keys, options=options, value=value, more=more))


def error(project) -> str:
    result = project.get()
    assert result.status == "failed"
    return result.error.message


def notes(project, target=None, **options):
    told = []
    result = project.open(listener=told.append).get(target, **options)
    assert result.status == "success", result.error
    return [event.message for event in told if type(event).__name__ == "Noted"]


def read_with_polars(root: Path, **types) -> pl.DataFrame:
    return pl.scan_parquet(f"{root}/**/*.parquet", hive_partitioning=True, hive_schema=types).collect(
        engine="in-memory"
    )


def read_with_pyarrow(root: Path, *names: str) -> pl.DataFrame:
    schema = pa.schema([(name, pa.string()) for name in names])
    return pl.from_arrow(ds.dataset(root, partitioning=ds.partitioning(schema, flavor="hive")).to_table())


def read_with_duckdb(root: Path, options: str = "") -> pl.DataFrame:
    return duckdb.sql(f"from read_parquet('{root}/**/*.parquet', hive_partitioning = true{options})").pl()


# --- layout -----------------------------------------------------------------------------------------


def test_a_level_for_each_dimension_and_each_column(project):
    project.write("pipeline.py", SCORED)
    project.ran()
    root = project.root / "exports/scored"
    assert files(root) == [
        "_barca_sink.json",
        "retailer=r1/order_date=2026-10-21/part-0.parquet",
        "retailer=r1/order_date=2026-10-22/part-0.parquet",
        "retailer=r2/order_date=2026-10-21/part-0.parquet",
        "retailer=r2/order_date=2026-10-22/part-0.parquet",
    ]
    assert os.listdir(project.root / "exports") == ["scored"]


def test_polars_pyarrow_and_duckdb_read_it_as_one_table(project):
    project.write("pipeline.py", SCORED)
    project.ran()
    root = project.root / "exports/scored"
    rows = sorted(
        (r, day, amount)
        for r in ("r1", "r2")
        for day, amount in (("2026-10-21", 1.0), ("2026-10-22", 2.0), ("2026-10-22", 3.0))
    )
    columns = ["retailer", "order_date", "amount"]
    assert (
        sorted(read_with_polars(root, retailer=pl.String, order_date=pl.String).select(columns).rows())
        == rows
    )
    assert sorted(read_with_pyarrow(root, "retailer", "order_date").select(columns).rows()) == rows
    assert (
        sorted(
            read_with_duckdb(root).select(columns).with_columns(pl.col("order_date").cast(pl.String)).rows()
        )
        == rows
    )


def test_columns_of_the_path_are_left_out_of_the_files(project):
    keyed(project, '["a"]', ', partition_by=["d"]', 'pl.DataFrame({"k": [k], "d": [1], "v": [2]})')
    project.ran()
    assert pl.read_parquet(
        project.root / "out/k=a/d=1/part-0.parquet", hive_partitioning=False
    ).to_dicts() == [{"v": 2}]


def test_dimensions_stand_in_declared_order(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"z": partitions(["1"]), "a": partitions(["2"])})
        @sink("out/")
        def scored(z, a):
            return pl.DataFrame({"v": [1]})
        """,
    )
    project.ran()
    assert files(project.root / "out")[1:] == ["z=1/a=2/part-0.parquet"]


def test_an_unpartitioned_asset_has_its_files_at_the_prefix(project):
    whole(project)
    project.ran()
    assert files(project.root / "out") == ["_barca_sink.json", "part-0.parquet"]
    whole(project, ', partition_by=["d"]')
    project.ran()
    assert files(project.root / "out") == ["_barca_sink.json", "d=x/part-0.parquet", "d=y/part-0.parquet"]


def test_an_unpartitioned_dataset_is_replaced_whole_but_for_hidden_files(project):
    whole(project, ', partition_by=["d"]')
    project.ran()
    (project.root / "out/.gitkeep").write_text("kept")
    whole(project, ', partition_by=["d"]', 'pl.DataFrame({"d": ["z"], "v": [1]})')
    project.ran()
    assert files(project.root / "out") == [".gitkeep", "_barca_sink.json", "d=z/part-0.parquet"]


def test_rows_per_file_caps_the_rows_of_each_file(project):
    whole(project, ", rows_per_file=2", 'pl.DataFrame({"v": range(5)})')
    project.ran()
    heights = [pl.read_parquet(project.root / f"out/part-{n}.parquet").height for n in range(3)]
    assert heights == [2, 2, 1]
    assert read_with_polars(project.root / "out")["v"].to_list() == [0, 1, 2, 3, 4]


def test_parquet_is_compressed_with_zstd(project):
    whole(project)
    project.ran()
    chunk = (
        __import__("pyarrow.parquet")
        .parquet.ParquetFile(project.root / "out/part-0.parquet")
        .metadata.row_group(0)
        .column(0)
    )
    assert chunk.compression == "ZSTD"


@pytest.mark.parametrize("serializer", ["csv", "json", "ndjson"])
def test_csv_and_json_lines_write_one_file_a_partition(project, serializer):
    whole(project, f', serializer="{serializer}", partition_by=["d"]')
    project.ran()
    extension = "csv" if serializer == "csv" else "jsonl"
    assert files(project.root / "out")[1:] == [f"d=x/part-0.{extension}", f"d=y/part-0.{extension}"]
    read = pl.read_csv if serializer == "csv" else pl.read_ndjson
    assert read(project.root / f"out/d=y/part-0.{extension}").to_dicts() == [{"v": 2}, {"v": 3}]
    function = "read_csv" if serializer == "csv" else "read_json"
    rows = duckdb.sql(
        f"select d, v from {function}('{project.root}/out/**/*.{extension}', hive_partitioning = true)"
    )
    assert sorted(rows.fetchall()) == [("x", 1), ("y", 2), ("y", 3)]


def test_a_value_that_is_no_table_is_one_json_document(project):
    whole(project, value='{"a": [1, 2]}', returns="dict")
    project.ran()
    assert json.loads((project.root / "out/part-0.jsonl").read_text()) == {"a": [1, 2]}


@pytest.mark.parametrize(
    "options", [', partition_by=["a"]', ", rows_per_file=2", ', serializer="csv"', ', serializer="parquet"']
)
def test_such_a_value_takes_no_options_of_tables(project, options):
    whole(project, options, value='{"a": 1}', returns="dict")
    assert "sink out/: Unfit: " in error(project)


def test_a_pickled_table_is_a_table(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, sink

        @asset(serializer="pickle")
        @sink("out/", partition_by=["d"])
        def orders():
            return pl.DataFrame({"d": [1], "v": [2]})
        """,
    )
    project.ran()
    assert files(project.root / "out")[1:] == ["d=1/part-0.parquet"]


@pytest.mark.parametrize(
    "value",
    [
        '__import__("pandas").DataFrame({"d": ["x"], "v": [1]})',
        '__import__("pyarrow").table({"d": ["x"], "v": [1]})',
        '__import__("duckdb").sql("select \'x\' d, 1::bigint v")',
        'pl.LazyFrame({"d": ["x"], "v": [1]})',
    ],
)
def test_every_library_gives_the_same_layout(project, value):
    whole(project, ', partition_by=["d"]', value, "object")
    project.ran()
    assert files(project.root / "out")[1:] == ["d=x/part-0.parquet"]
    assert read_with_pyarrow(project.root / "out", "d").to_dicts() == [{"v": 1, "d": "x"}]


def test_a_column_that_is_missing_or_nested_is_refused_by_name(project):
    whole(project, ', partition_by=["day"]')
    assert "`day`" in error(project)
    whole(project, ', partition_by=["d"]', 'pl.DataFrame({"d": [[1]], "v": [1]})')
    assert "values of `d`" in error(project)
    whole(project, ', partition_by=["d"]', 'pl.DataFrame({"d": [1]})')
    assert "no column is left" in error(project)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("pl.Series([2**64 - 1, 0], dtype=pl.UInt64)", ["0", "18446744073709551615"]),
        (
            "pl.Series([2**127 - 1, -2**127], dtype=pl.Int128)",
            ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"],
        ),
        ("pl.Series(['1.50', '-7.00']).cast(pl.Decimal(10, 2))", ["-7.00", "1.50"]),
        ("pl.Series([0.1, float('nan'), float('inf'), 1e300])", ["0.1", "1e+300", "NaN", "inf"]),
        ("pl.Series([b'a', b'b c'])", ["a", "b c"]),
        ("pl.Series(['b', 'a'], dtype=pl.Categorical)", ["a", "b"]),
        ("pl.Series([True, False])", ["false", "true"]),
        ("pl.Series([dt.time(1, 2, 3, 4), dt.time(1, 2, 3)])", ["01:02:03", "01:02:03.000004"]),
        (
            "pl.Series([dt.datetime(2026, 1, 1, 0, 0, 0, 5), dt.datetime(2026, 1, 1)])",
            ["2026-01-01 00:00:00", "2026-01-01 00:00:00.000005"],
        ),
        (
            "pl.Series(['2026-10-25 00:30', '2026-10-25 01:30']).str.to_datetime(time_zone='UTC')"
            ".dt.convert_time_zone('Europe/Berlin')",
            ["2026-10-25 02:30:00+01:00", "2026-10-25 02:30:00+02:00"],
        ),
    ],
)
def test_values_of_every_type_name_directories_of_their_own(project, value, texts):
    whole(project, ', partition_by=["d"]', f'pl.DataFrame({{"d": {value}}}).with_row_index("v")')
    project.edit("pipeline.py", "import polars as pl", "import datetime as dt, polars as pl")
    project.ran()
    root = project.root / "out"
    found = read_with_polars(root, d=pl.String)
    assert sorted(found["d"]) == texts
    assert found["v"].n_unique() == len(texts)
    assert read_with_pyarrow(root, "d").sort("v")["d"].to_list() == found.sort("v")["d"].to_list()
    decoded = read_with_duckdb(root, ", hive_types_autocast = false").sort("v")
    assert decoded["d"].to_list() == found.sort("v")["d"].to_list()


def test_zeros_of_both_signs_are_one_value_as_in_the_store(project):
    whole(project, ', partition_by=["d"]', 'pl.DataFrame({"d": [0.0, -0.0], "v": [1, 2]})')
    project.ran()
    assert files(project.root / "out") == ["_barca_sink.json", "d=0.0/part-0.parquet"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('{"d": [b"\\xff"], "v": [1]}', "`d` holds bytes that are no UTF-8 text"),
        ('{"d": ["x"], "D": [1]}', "the column `D` and the directories of `d` differ in case only"),
        ('{"d": [dt.timedelta(1)], "v": [1]}', "no directory can be named after values of `d`"),
        ('{"d": [[1]], "v": [1]}', "no directory can be named after values of `d`"),
    ],
)
def test_what_paths_cannot_carry_is_refused_before_writing(project, value, why):
    whole(project, ', partition_by=["d"]', f"pl.DataFrame({value})")
    project.edit("pipeline.py", "import polars as pl", "import datetime as dt, polars as pl")
    assert why in error(project)
    assert files(project.root / "out") == ["_barca_sink.json"]


def test_a_column_that_is_like_a_dimension_but_for_its_case_is_refused(project):
    keyed(project, '["a"]', value='pl.DataFrame({"K": [1], "v": [1]})')
    assert "the column `K` and the directories of `k` differ in case only" in error(project)


@pytest.mark.parametrize("path", ["out/", "out.csv"])
def test_keys_that_differ_in_case_only_do_not_meet_where_that_is_one_name(project, monkeypatch, path):
    """A file system that takes both for one is played: it says so, the names are really two."""
    from barca.io.sinks.local import LocalDepot

    keyed(project, '["a", "A", "b"]', value='pl.DataFrame({"v": [k]})')
    project.edit("pipeline.py", '"out/"', f'"{path}"')
    with monkeypatch.context() as patch:
        patch.setattr(LocalDepot, "_folds_case", True)
        result = project.get()
        assert result.status == "failed"
        assert "differ in case only, and this file system" in result.error.message
        assert project.get(partition={"k": "a"}).status == "failed"
        assert project.get(partition={"k": "A"}).status == "success"
    names = {"out/": ["k=A", "k=b"], "out.csv": ["out_k_A.csv", "out_k_b.csv"]}[path]
    where = project.root / ("out" if path == "out/" else ".")
    assert sorted(name for name in os.listdir(where) if "k=" in name or "out_" in name) == names
    project.ran()  # where they are two, they stand side by side


def test_whether_case_counts_is_found_out_on_the_file_system(tmp_path):
    from barca.io.sinks.local import LocalDepot

    depot = LocalDepot(tmp_path / "out")
    with depot.staging() as staging:
        assert depot._folds_case == staging.parent.with_name(staging.parent.name.upper()).exists()


# --- names ------------------------------------------------------------------------------------------

ODD = [
    "*",
    "[1]",
    "a/b",
    "..",
    "%2F",
    "a b",
    "😀",
    "new\nline",
    "null",
    "01",
    "true",
    "x=y",
    "a?b",
    "a\\b",
    "'",
    '"',
    "~",
    "é",
]


@pytest.mark.parametrize("as_column", [False, True])
def test_s6_odd_values_come_back_from_every_reader(project, as_column):
    if as_column:
        whole(project, ', partition_by=["k"]', f'pl.DataFrame({{"k": {ODD!r}, "v": {ODD!r}}})')
    else:
        keyed(project, repr(ODD), value='pl.DataFrame({"v": [k]})')
    project.ran()
    root = project.root / "out"
    assert len(files(root)) == len(ODD) + 1
    for read in (
        read_with_polars(root, k=pl.String),
        read_with_pyarrow(root, "k"),
        read_with_duckdb(root, ", hive_types_autocast = false"),
    ):
        assert sorted(read.select("k", "v").rows()) == sorted((odd, odd) for odd in ODD)


def test_s6_nothing_is_written_outside_of_the_prefix(project, tmp_path):
    before = set(tmp_path.rglob("*"))
    keyed(project, '["..", "../..", "/etc", "."]')
    project.ran()
    new = set(tmp_path.rglob("*")) - before
    outside = [
        path for path in new if not path.is_relative_to(project.root / "out") and ".barca" not in path.parts
    ]
    assert {path.name for path in outside} <= {"out", "pipeline.py", "barca.toml", "project"}


def test_a_link_out_of_the_prefix_is_not_followed(project, tmp_path):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"a": partitions(["1"]), "b": partitions(["2"])})
        @sink("out/")
        def scored(a, b):
            return pl.DataFrame({"v": [1]})
        """,
    )
    project.ran()
    (tmp_path / "elsewhere").mkdir()
    (project.root / "out/a=1/b=2/part-0.parquet").unlink()
    (project.root / "out/a=1/b=2").rmdir()
    (project.root / "out/a=1").rmdir()
    (project.root / "out/a=1").symlink_to(tmp_path / "elsewhere")
    result = project.get(refresh=["scored"])
    assert "a link there leads out of the prefix" in result.error.message
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_link_to_the_directories_of_other_keys_is_not_followed(project):
    two = """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"a": partitions(["1", "2"]), "b": partitions(["x"])})
        @sink("out/")
        def scored(a, b):
            return pl.DataFrame({"v": [a]})
        """
    project.write("pipeline.py", two)
    project.ran()
    (project.root / "out/a=2").rename(project.root / "kept")
    (project.root / "out/a=2").symlink_to("a=1")
    before = (project.root / "out/a=1/b=x/part-0.parquet").read_bytes()
    project.write("pipeline.py", two.replace("[a]", "[a + '!'] if a == '2' else [a]"))
    assert "a link there leads to other keys" in project.get(refresh=["scored"]).error.message
    assert (project.root / "out/a=1/b=x/part-0.parquet").read_bytes() == before


def test_tidying_up_follows_no_link_out_of_the_prefix(project, tmp_path):
    """Another layout is tidied after by looking at every directory, which must not lead elsewhere."""
    two = """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"a": partitions(["1", "2"]), "b": partitions(["x"])})
        @sink("out/")
        def scored(a, b):
            return pl.DataFrame({"v": [a]})
        """
    project.write("pipeline.py", two)
    project.ran()
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "b=y").mkdir(parents=True)
    (elsewhere / "part-0.parquet").write_text("theirs")
    (elsewhere / "b=y/part-0.parquet").write_text("theirs")
    (project.root / "out/a=2").rename(project.root / "kept")
    (project.root / "out/a=2").symlink_to(elsewhere)
    (project.root / "out/a=3").symlink_to(elsewhere)
    project.write("pipeline.py", two.replace('sink("out/"', 'sink("out/", serializer="csv"'))
    assert "a link there leads out of the prefix" in project.get().error.message
    assert files(elsewhere) == ["b=y/part-0.parquet", "part-0.parquet"]
    (project.root / "out/a=2").unlink()
    project.ran()
    assert files(elsewhere) == ["b=y/part-0.parquet", "part-0.parquet"]
    assert (project.root / "out/a=3").is_symlink()
    assert files(project.root / "out/a=2") == ["b=x/part-0.csv"]


def test_a_name_too_long_for_a_directory_fails_its_key_alone(project):
    keyed(project, '["a", "é" * 100]')
    assert "more than the 255" in error(project)
    assert files(project.root / "out")[1:] == ["k=a/part-0.parquet"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('[None, "", "null", "x"]', "empty texts and missing values"),
        ('["__HIVE_DEFAULT_PARTITION__", "x"]', "which readers take for a missing value"),
        ('[None, "", "null", "__HIVE_DEFAULT_PARTITION__"]', "empty texts and missing values"),
    ],
)
def test_s4_values_that_would_be_read_as_others_are_refused_before_writing(project, value, why):
    whole(project, ', partition_by=["d"]', f'pl.DataFrame({{"d": {value}}}).with_columns(v=pl.lit(1))')
    assert why in error(project)
    assert files(project.root / "out") == ["_barca_sink.json"]


def test_s4_each_column_and_key_is_looked_at_for_empty_texts_beside_missing_values(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"k": partitions(["a", "b"])}, batch="all")
        @sink("out/", partition_by=["c", "owner"])
        def scored(k: list[str]) -> pl.DataFrame:
            columns = {"k": ["a", "b", "b"], "c": [None, "", ""], "owner": ["x", "", None], "v": [1, 2, 3]}
            return pl.DataFrame(columns)
        """,
    )
    assert "`owner` holds empty texts and missing values" in error(project)
    missing = "__HIVE_DEFAULT_PARTITION__"
    assert files(project.root / "out") == ["_barca_sink.json", f"k=a/c={missing}/owner=x/part-0.parquet"]


def test_s4_missing_values_and_the_text_null_come_back(project):
    whole(
        project,
        ', partition_by=["d"]',
        'pl.DataFrame({"d": [None, "null", "NULL", "None"], "v": [1, 2, 3, 4]})',
    )
    project.ran()
    root = project.root / "out"
    assert "d=__HIVE_DEFAULT_PARTITION__/part-0.parquet" in files(root)
    rows = [(None, 1), ("null", 2), ("NULL", 3), ("None", 4)]
    for read in (read_with_polars(root, d=pl.String), read_with_pyarrow(root, "d"), read_with_duckdb(root)):
        assert sorted(read.select("d", "v").rows(), key=lambda row: row[1]) == rows


def test_an_empty_value_alone_is_written_as_a_missing_one(project):
    keyed(project, '["", "x"]')
    project.ran()
    assert files(project.root / "out")[1:] == [
        "k=__HIVE_DEFAULT_PARTITION__/part-0.parquet",
        "k=x/part-0.parquet",
    ]


# --- the prefix -------------------------------------------------------------------------------------


def test_the_marker_names_the_owner_and_the_layout(project):
    project.write("pipeline.py", SCORED)
    project.ran()
    assert json.loads((project.root / "exports/scored/_barca_sink.json").read_text()) == {
        "asset": "pipeline.py:scored",
        "dimensions": ["retailer"],
        "partition_by": ["order_date"],
        "format": None,
    }


def test_a_prefix_that_lost_its_marker_is_refused_until_it_is_back(project):
    whole(project)
    project.ran()
    marker = project.root / "out/_barca_sink.json"
    content = marker.read_bytes()
    marker.unlink()
    told = project.get(refresh_all=True).error.message
    assert "out/ holds files of a dataset (part-0.parquet) and no _barca_sink.json" in told
    assert "empty the old one, or put the file back if barca wrote it" in told
    marker.write_bytes(content)
    assert project.ran(refresh_all=True)


def test_a_prefix_with_files_of_others_is_refused(project):
    whole(project)
    project.write("out/deep/theirs.csv", "kept")
    assert "the dataset prefix out/ holds files barca did not write (deep/theirs.csv)" in error(project)
    assert files(project.root / "out") == ["deep/theirs.csv"]
    (project.root / "out/deep/theirs.csv").rename(project.root / "out/deep/.hidden")
    project.ran()
    assert "part-0.parquet" in files(project.root / "out")


OTHER = """
    import polars as pl
    from barca import asset, sink

    @asset
    @sink("{path}")
    def other():
        return pl.DataFrame({{"v": [1]}})
"""


def test_two_assets_cannot_share_a_prefix(project):
    keyed(project, '["a"]')
    project.ran()
    project.write("other.py", OTHER.format(path="out/"))
    result = project.open("other.py").get()  # one file, so that the other one's sinks are not known
    assert result.status == "failed"
    assert "belongs to the asset pipeline.py:" in result.error.message
    assert files(project.root / "out") == ["_barca_sink.json", "k=a/part-0.parquet"]


@pytest.mark.parametrize("path", ["out/sub/", "out/sub/deep/", "out/file.csv"])
def test_a_sink_inside_of_another_is_refused(project, path):
    whole(project)
    project.ran()
    project.write("other.py", OTHER.format(path=path))
    result = project.open("other.py").get()
    assert result.status == "failed"
    assert f"{path} is inside of {project.root}/out" in result.error.message
    assert files(project.root / "out") == ["_barca_sink.json", "part-0.parquet"]


def test_a_damaged_marker_is_refused(project):
    whole(project)
    project.write("out/_barca_sink.json", "{")
    assert "out/_barca_sink.json cannot be read" in error(project)


STRANGERS = ["notes.txt", "part-0.txt", "sub/part-0.parquet", "d=x/report.csv", "_SUCCESS"]


@pytest.mark.parametrize("name", STRANGERS)
def test_files_of_others_are_never_deleted_with_a_whole_dataset(project, name):
    whole(project, ', partition_by=["d"]')
    project.ran()
    before = files(project.root / "out")
    project.write(f"out/{name}", "theirs")
    whole(project, ', partition_by=["d"]', 'pl.DataFrame({"d": ["z"], "v": [9]})')
    told = error(project)
    assert f"sink out/: {project.root}/out holds files barca did not write: {name}; move them" in told
    assert files(project.root / "out") == sorted([*before, name])
    assert (project.root / "out" / name).read_text() == "theirs"
    (project.root / "out" / name).unlink()
    project.ran()
    assert files(project.root / "out") == ["_barca_sink.json", "d=z/part-0.parquet"]


@pytest.mark.parametrize("name", STRANGERS)
def test_files_of_others_are_never_deleted_with_a_key(project, name):
    keyed(project, '["a", "b", "c"]')
    project.ran()
    project.write(f"out/k=a/{name}", "theirs")
    keyed(project, '["a", "b", "c"]', value='pl.DataFrame({"v": [2]})')
    told = error(project)
    assert f"out/k=a holds files barca did not write: {name}; move them" in told
    assert (project.root / "out/k=a" / name).read_text() == "theirs"
    assert pl.read_parquet(project.root / "out/k=a/part-0.parquet", hive_partitioning=False)["v"][0] == 1
    assert pl.read_parquet(project.root / "out/k=b/part-0.parquet", hive_partitioning=False)["v"][0] == 2


def test_files_of_others_stay_where_a_key_left_and_do_not_keep_the_rest(project):
    keyed(project, '["a", "b", "c"]')
    project.ran()
    project.write("out/k=a/notes.txt", "theirs")
    keyed(project, '["c"]')
    result = project.get()
    assert result.status == "success"
    [warning] = result.to_dict()["warnings"]
    assert "keys that left could not be deleted" in warning
    assert "holds files barca did not write: notes.txt" in warning
    assert files(project.root / "out") == [
        "_barca_sink.json",
        "k=a/notes.txt",
        "k=a/part-0.parquet",
        "k=c/part-0.parquet",
    ]


def test_hidden_files_stay_wherever_they_are(project):
    keyed(project, '["a", "b"]', ', partition_by=["d"]', 'pl.DataFrame({"d": ["x"], "v": [1]})')
    project.ran()
    hidden = ["k=a/.note", "k=a/d=x/.part-0.parquet.crc", "k=a/.git/config", "k=b/.note"]
    for name in hidden:
        project.write(f"out/{name}", "theirs")
    (project.root / "out/k=a/.link").symlink_to("nowhere")
    keyed(project, '["a"]', ', partition_by=["d"]', 'pl.DataFrame({"d": ["y"], "v": [1]})')
    project.ran()
    found = files(project.root / "out")
    assert found == sorted([*hidden, "_barca_sink.json", "k=a/d=y/part-0.parquet"])
    assert os.readlink(project.root / "out/k=a/.link") == "nowhere"


# --- another layout ---------------------------------------------------------------------------------

TWO_DIMENSIONS = """
    import polars as pl
    from barca import asset, partitions, sink

    @asset(partitions={{{dimensions}}})
    @sink("out/"{options})
    def scored(k, m):
        return pl.DataFrame({{"d": ["x"], "v": [{value}]}})
"""
K, M = '"k": partitions(["a", "b"])', '"m": partitions(["1"])'


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ((f"{K}, {M}", ""), (f"{M}, {K}", ""), ["m=1/k=a/part-0.parquet", "m=1/k=b/part-0.parquet"]),
        (
            (f"{K}, {M}", ""),
            (f"{K}, {M}", ', partition_by=["d"]'),
            ["k=a/m=1/d=x/part-0.parquet", "k=b/m=1/d=x/part-0.parquet"],
        ),
        (
            (f"{K}, {M}", ', partition_by=["d"]'),
            (f"{K}, {M}", ""),
            ["k=a/m=1/part-0.parquet", "k=b/m=1/part-0.parquet"],
        ),
        (
            (f"{K}, {M}", ""),
            (f"{K}, {M}", ', serializer="csv"'),
            ["k=a/m=1/part-0.csv", "k=b/m=1/part-0.csv"],
        ),
    ],
)
def test_another_layout_is_for_all_keys_or_none(project, first, second, left):
    def declare(layout, value):
        dimensions, options = layout
        text = TWO_DIMENSIONS.format(dimensions=dimensions, options=options, value=value)
        project.write("pipeline.py", text)

    declare(first, 1)
    project.ran()
    before = files(project.root / "out")
    declare(second, 2)
    result = project.get(partition={"k": "a"})
    assert result.status == "failed"
    assert "sink out/: the dataset out/ has parquet files in k=/m=" in result.error.message
    assert "run the asset whole, without --partition" in result.error.message
    assert files(project.root / "out") == before
    project.ran()
    assert files(project.root / "out") == ["_barca_sink.json", *left]
    assert "unfinished" not in (project.root / "out/_barca_sink.json").read_text()
    assert project.get(partition={"k": "a"}).status == "success"


def test_fewer_rows_in_a_file_are_no_other_layout(project):
    keyed(project, '["a", "b"]', value='pl.DataFrame({"v": [1, 2]})')
    project.ran()
    keyed(project, '["a", "b"]', ", rows_per_file=1", value='pl.DataFrame({"v": [1, 2]})')
    assert project.get(partition={"k": "a"}).status == "success"
    assert [name for name in files(project.root / "out") if "part-1" in name] == ["k=a/part-1.parquet"]


def test_a_run_that_failed_in_between_layouts_is_tidied_after_by_the_one_that_does_not(project):
    keyed(project, '["a", "b"]')
    project.ran()
    text = TWO_DIMENSIONS.format(dimensions=f"{M}, {K}", options="", value="1 // (k == 'a')")
    project.write("pipeline.py", text)
    assert project.get().status == "failed"
    assert "unfinished" in (project.root / "out/_barca_sink.json").read_text()
    assert files(project.root / "out") == ["_barca_sink.json", "m=1/k=a/part-0.parquet"]
    project.edit("pipeline.py", "1 // (k == 'a')", "1")
    project.ran()
    assert files(project.root / "out")[1:] == ["m=1/k=a/part-0.parquet", "m=1/k=b/part-0.parquet"]
    assert "unfinished" not in (project.root / "out/_barca_sink.json").read_text()


# --- keys -------------------------------------------------------------------------------------------


def stamps(root: Path) -> dict[str, int]:
    return {name: (root / name).stat().st_ino for name in files(root)}


KEYED_BY_SENSOR = """
    import json, pathlib
    import polars as pl
    from barca import asset, partitions_from, sensor, sink

    @sensor
    def versions() -> dict:
        return json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())

    @asset(partitions={"k": partitions_from(versions)}, batch="all")
    @sink("out/")
    def scored(k: list[str], versions: dict) -> pl.DataFrame:
        rows = [(key, n) for key in k for n in range(versions[key])]
        return pl.DataFrame(rows, schema={"k": pl.String, "n": pl.Int64}, orient="row")
"""


@pytest.fixture
def sensed(project):
    project.write("pipeline.py", KEYED_BY_SENSOR)
    set_versions(project, a=1, b=2, c=3)
    return project


def set_versions(project, **values):
    (project.root / "versions.json").write_text(json.dumps(values))


def test_a_changed_key_rewrites_its_own_directory_and_no_other(sensed):
    sensed.ran()
    before = stamps(sensed.root / "out")
    set_versions(sensed, a=1, b=5, c=3)
    sensed.ran()
    after = stamps(sensed.root / "out")
    assert [name for name in after if after[name] != before[name]] == ["k=b/part-0.parquet"]


def test_s1_keys_that_leave_and_keys_without_rows(sensed):
    assert notes(sensed) == []
    set_versions(sensed, a=1, c=0)
    assert notes(sensed) == ["dataset sink out/: deleted 1 key its asset no longer has"]
    root = sensed.root / "out"
    assert files(root) == ["_barca_sink.json", "k=a/part-0.parquet", "k=c/part-0.parquet"]
    assert read_with_polars(root, k=pl.String).to_dicts() == [{"n": 0, "k": "a"}]
    before = stamps(root)
    assert notes(sensed) == []
    assert stamps(root) == before
    set_versions(sensed, a=1, b=2, c=0)
    sensed.ran()
    assert read_with_polars(root, k=pl.String).sort("k", "n").rows() == [(0, "a"), (0, "b"), (1, "b")]


def test_a_key_without_rows_has_no_directory_where_columns_make_levels(project):
    keyed(project, '["a", "b"]', ', partition_by=["d"]', 'pl.DataFrame({"d": ["x"], "v": [1]})')
    project.ran()
    keyed(
        project, '["a", "b"]', ', partition_by=["d"]', 'pl.DataFrame({"d": ["x"], "v": [1]}).head(k == "a")'
    )
    project.ran()
    assert files(project.root / "out")[1:] == ["k=a/d=x/part-0.parquet"]
    assert not (project.root / "out/k=b").exists()


def test_a_selection_deletes_nothing(project):
    keyed(project, '["a", "b"]')
    project.ran()
    keyed(project, '["a"]')
    project.ran(partition={"k": ["a"]})
    assert "k=b/part-0.parquet" in files(project.root / "out")
    assert notes(project) == ["dataset sink out/: deleted 1 key its asset no longer has"]
    assert "k=b/part-0.parquet" not in files(project.root / "out")


def test_a_deletion_that_fails_is_a_warning(project, monkeypatch):
    keyed(project, '["a", "b"]')
    project.ran()
    keyed(project, '["a"]')
    from barca.io.sinks.local import LocalDepot

    def refuse(self, name, aside):
        raise PermissionError(13, "not allowed", name)

    with monkeypatch.context() as patch:
        patch.setattr(LocalDepot, "remove", refuse)
        result = project.get()
    assert result.status == "success"
    assert "keys that left could not be deleted: PermissionError" in result.to_dict()["warnings"][0]
    assert notes(project) == ["dataset sink out/: deleted 1 key its asset no longer has"]


def test_another_layout_of_dimensions_leaves_nothing_of_the_old_one(project):
    keyed(project, '["a", "b"]')
    project.ran()
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"k": partitions(["a", "b"]), "m": partitions(["1"])})
        @sink("out/")
        def scored(k, m):
            return pl.DataFrame({"v": [1]})
        """,
    )
    project.ran()
    assert files(project.root / "out") == [
        "_barca_sink.json",
        "k=a/m=1/part-0.parquet",
        "k=b/m=1/part-0.parquet",
    ]
    assert json.loads((project.root / "out/_barca_sink.json").read_text())["dimensions"] == ["k", "m"]
    keyed(project, '["a", "b"]')
    project.ran()
    assert files(project.root / "out") == ["_barca_sink.json", "k=a/part-0.parquet", "k=b/part-0.parquet"]


def test_a_dataset_of_a_project_whose_store_was_deleted_is_tidied_once(project):
    keyed(project, '["a", "b"]')
    project.ran()
    __import__("shutil").rmtree(project.root / ".barca")
    keyed(project, '["a"]')
    assert notes(project) == ["dataset sink out/: deleted 1 key its asset no longer has"]


def test_a_failed_key_keeps_what_it_had(project):
    keyed(project, '["a", "b"]')
    project.ran()
    keyed(project, '["a", "b"]', value='pl.DataFrame({"v": [2]}) if k == "a" else 1 / 0')
    assert project.get().status == "failed"
    assert read_with_polars(project.root / "out", k=pl.String).sort("k").rows() == [(2, "a"), (1, "b")]


# --- sizes ------------------------------------------------------------------------------------------


def warnings(project) -> list[str]:
    return project.get().to_dict()["warnings"]


@pytest.mark.parametrize(("directories", "warned"), [(99, False), (1000, False), (1001, True)])
def test_a_write_of_many_directories_is_warned_of(project, directories, warned):
    whole(project, ', partition_by=["id"]', f'pl.DataFrame({{"id": range({directories}), "v": 1}})')
    found = [warning for warning in warnings(project) if "directories" in warning]
    assert bool(found) == warned
    if warned:
        assert "sink out/: one write created 1001 directories (partition_by=[id]). " in found[0]


def test_a_write_of_many_small_files_is_warned_of(project):
    whole(project, ", rows_per_file=1", 'pl.DataFrame({"v": range(100)})')
    assert "one write created 100 files of" in warnings(project)[0]
    whole(project, ", rows_per_file=2", 'pl.DataFrame({"v": range(100)})')
    assert warnings(project) == []


def test_many_keys_of_one_file_each_are_no_reason_to_warn(project):
    keyed(
        project, "[str(n) for n in range(150)]", more=', batch="all"', value='pl.DataFrame({"k": k, "v": 1})'
    )
    assert warnings(project) == []


def test_empty_texts_that_readers_take_for_missing_ones_are_warned_of(project):
    whole(project, ', partition_by=["d"]', 'pl.DataFrame({"d": ["", "x"], "v": [1, 2]})')
    assert warnings(project) == ["sink out/: readers will take the empty texts in `d` for missing values"]
    assert files(project.root / "out")[1] == "d=__HIVE_DEFAULT_PARTITION__/part-0.parquet"


def test_files_of_others_in_a_prefix_of_barca_stay_where_it_is_tidied(project):
    keyed(project, '["a", "b"]')
    project.ran()
    project.write("out/README.md", "ours")
    project.write("out/notes/one.txt", "ours")
    __import__("shutil").rmtree(project.root / ".barca")
    keyed(project, '["a"]')
    project.ran()
    assert files(project.root / "out") == [
        "README.md",
        "_barca_sink.json",
        "k=a/part-0.parquet",
        "notes/one.txt",
    ]


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_at_a_keys_directory_is_replaced_and_not_followed_and_a_file_is_refused(
    project, tmp_path, kind
):
    keyed(project, '["a"]')
    project.ran()
    (project.root / "out/k=a/part-0.parquet").unlink()
    (project.root / "out/k=a").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/kept.txt").touch()
    if kind == "link":
        (project.root / "out/k=a").symlink_to(tmp_path / "elsewhere")
    else:
        (project.root / "out/k=a").write_text("theirs")
        result = project.get(refresh=["scored"])
        assert "out/k=a is a file barca did not write" in result.error.message
        assert (project.root / "out/k=a").read_text() == "theirs"
        return
    project.get(refresh=["scored"])
    assert files(project.root / "out") == ["_barca_sink.json", "k=a/part-0.parquet"]
    assert not (project.root / "out/k=a").is_symlink()
    assert os.listdir(tmp_path / "elsewhere") == ["kept.txt"]


@pytest.mark.parametrize("options", ["", ', format="delta"'])
def test_a_prefix_that_is_a_file_system_of_its_own_has_its_staging_inside(project, monkeypatch, options):
    """No file can be renamed from beside it into it."""
    root, homes = (project.root / "out").resolve(), set()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == root)
    real = local.staging
    monkeypatch.setattr(local, "staging", lambda home: (homes.add(home), real(home))[1])
    for value in ("1", "2"):
        keyed(project, '["a", "b"]', options, f'pl.DataFrame({{"v": [{value}]}})')
        project.ran()
    assert homes == {root / ".out.barca-staging"}
    assert not (root / ".out.barca-staging").exists()
    if options:
        assert pl.read_delta(str(root))["v"].to_list() == [2, 2]
    else:
        assert read_with_polars(root, k=pl.String)["v"].to_list() == [2, 2]


def test_workers_that_begin_together_do_not_take_each_other_for_strangers(project, monkeypatch):
    """The marker is read, another worker writes it and a file, and only then the prefix is looked at."""
    from barca.io.sinks import marker

    keyed(project, '["a", "b"]')
    project.ran()
    real, answers = marker.read_marker, [None]
    monkeypatch.setattr(
        marker, "read_marker", lambda *arguments: answers.pop() if answers else real(*arguments)
    )
    assert project.get(refresh=["scored"]).status == "success"


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_one_key_calls_in_several_workers(project, executor):
    keyed(project, "[str(n) for n in range(40)]", value='pl.DataFrame({"v": [k]})')
    assert project.get(executor=executor).status == "success"
    found = read_with_polars(project.root / "out", k=pl.String)
    assert sorted(found.select("k", "v").rows()) == sorted((str(n), str(n)) for n in range(40))

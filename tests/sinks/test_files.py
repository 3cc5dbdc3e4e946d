"""File sinks: formats, names, what stands at the path, and failures."""

from __future__ import annotations

import json
import pickle
from urllib.parse import unquote

import pandas as pd
import polars as pl
import pytest

TABLE = """
    import polars as pl
    from barca import asset, partitions, sink

    @asset
    {sinks}
    def orders() -> {returns}:
        return {value}
"""


def write(
    project,
    *sinks: str,
    value: str = 'pl.DataFrame({"id": [1, 2], "amount": [9.5, 20.0]})',
    returns="pl.DataFrame",
):
    decorators = "\n    ".join(f"@sink({arguments})" for arguments in sinks)
    project.write("pipeline.py", TABLE.format(sinks=decorators, value=value, returns=returns))


def error(project, target="orders") -> str:
    result = project.get(target)
    assert result.status == "failed"
    return result.error.message


ROWS = [{"id": 1, "amount": 9.5}, {"id": 2, "amount": 20.0}]
READERS = {
    "out.parquet": pl.read_parquet,
    "out.csv": pl.read_csv,
    "out.json": pl.read_json,
    "out.ndjson": pl.read_ndjson,
    "out.jsonl": pl.read_ndjson,
    "out.ipc": pl.read_ipc,
    "out.arrow": pl.read_ipc,
    "out.pkl": lambda path: pickle.loads(path.read_bytes()),
    "out.pickle": lambda path: pickle.loads(path.read_bytes()),
}


@pytest.mark.parametrize("name", READERS)
def test_the_extension_decides_the_format(project, name):
    write(project, f'"./exports/{name}"')
    project.ran()
    assert READERS[name](project.root / "exports" / name).to_dicts() == ROWS


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "ndjson", "ipc", "pickle"])
def test_serializer_decides_before_the_extension(project, form):
    write(project, f'"exports/out.txt", serializer="{form}"')
    project.ran()
    extension = {"pickle": "pkl"}.get(form, form)
    assert READERS[f"out.{extension}"](project.root / "exports/out.txt").to_dicts() == ROWS


@pytest.mark.parametrize(
    ("value", "returns", "read"),
    [
        (
            'pl.DataFrame({"id": [1]})',
            "pl.DataFrame",
            lambda path: pl.read_parquet(path).to_dicts() == [{"id": 1}],
        ),
        ('{"id": 1}', "dict", lambda path: json.loads(path.read_text()) == {"id": 1}),
        ("{1, 2}", "set", lambda path: pickle.loads(path.read_bytes()) == {1, 2}),
    ],
)
def test_without_either_it_is_the_format_of_the_result(project, value, returns, read):
    write(project, '"exports/out"', '"exports/out.txt"', value=value, returns=returns)
    project.ran()
    assert read(project.root / "exports/out")
    assert read(project.root / "exports/out.txt")


def test_several_sinks_on_one_asset(project):
    write(project, '"a.csv"', '"sub/deep/b.parquet"', '"c.json"')
    project.ran()
    assert pl.read_csv(project.root / "a.csv").to_dicts() == ROWS
    assert pl.read_parquet(project.root / "sub/deep/b.parquet").to_dicts() == ROWS
    assert json.loads((project.root / "c.json").read_text()) == ROWS


def test_a_path_may_be_absolute_or_a_file_uri(project, tmp_path):
    write(project, f'"{tmp_path}/abs.csv"', f'"file://{tmp_path}/uri.csv"')
    project.ran()
    assert pl.read_csv(tmp_path / "abs.csv").equals(pl.read_csv(tmp_path / "uri.csv"))


def test_csv_has_a_header_and_no_pandas_index(project):
    write(
        project,
        '"out.csv"',
        value='__import__("pandas").DataFrame({"id": [1, 2]}, index=[7, 8])',
        returns="object",
    )
    project.ran()
    assert (project.root / "out.csv").read_text() == "id\n1\n2\n"


def test_a_pickle_holds_the_annotated_form(project):
    write(project, '"out.pkl"', value='__import__("pandas").DataFrame({"id": [1]})', returns='"pd.DataFrame"')
    project.ran()
    assert isinstance(pickle.loads((project.root / "out.pkl").read_bytes()), pd.DataFrame)


def test_arrow_and_duckdb_results_are_written(project):
    for module, value in (("pyarrow", 'm.table({"id": [1]})'), ("duckdb", 'm.sql("select 1::bigint id")')):
        write(project, '"out.parquet"', value=f'(m := __import__("{module}"), {value})[1]', returns="object")
        project.ran()
        assert pl.read_parquet(project.root / "out.parquet").to_dicts() == [{"id": 1}]


def test_a_dict_as_json_and_as_pickle(project):
    write(project, '"out.json"', '"out.pkl"', value='{"orders": 2}', returns="dict")
    project.ran()
    assert json.loads((project.root / "out.json").read_text()) == {"orders": 2}
    assert pickle.loads((project.root / "out.pkl").read_bytes()) == {"orders": 2}


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.ipc", "out.ndjson"])
@pytest.mark.parametrize("value", ['{"a": 1}', "[1, 2]", "{1}"])
def test_what_is_no_table_never_gets_a_tables_name(project, name, value):
    write(project, f'"{name}"', value=value, returns="object")
    assert f"sink {name}: Unfit: a table is needed" in error(project)
    assert not (project.root / name).exists()


def test_json_refuses_what_it_cannot_hold(project):
    write(project, '"out.json"', value="{1, 2}", returns="set")
    assert "JSON cannot hold" in error(project)


# --- keys -------------------------------------------------------------------------------------------

KEYED = """
    import polars as pl
    from barca import asset, partitions, sink

    @asset(partitions={partitions}{more})
    @sink("exports/out.csv")
    def orders({parameters}):
        {body}
"""


def test_each_key_writes_a_file_of_its_own(project):
    project.write(
        "pipeline.py",
        KEYED.format(
            partitions='{"region": partitions(["emea", "a/b", "a b"])}',
            more="",
            parameters="region",
            body='return pl.DataFrame({"name": [region]})',
        ),
    )
    project.ran()
    files = {path.name: path.read_text() for path in (project.root / "exports").iterdir()}
    assert files == {
        "out_region_emea.csv": "name\nemea\n",
        "out_region_a%2Fb.csv": "name\na/b\n",
        "out_region_a%20b.csv": "name\na b\n",
    }


def test_a_batched_asset_writes_a_file_of_each_key(project):
    project.write(
        "pipeline.py",
        KEYED.format(
            partitions='{"region": partitions(["emea", "apac"])}',
            more=', batch="all"',
            parameters="region: list[str]",
            body='return pl.DataFrame({"region": region, "n": [1, 2]})',
        ),
    )
    project.ran()
    assert (project.root / "exports/out_region_apac.csv").read_text() == "region,n\napac,2\n"


def test_keys_of_several_dimensions_never_meet_in_one_file(project):
    project.write(
        "pipeline.py",
        KEYED.format(
            partitions='{"a": partitions(["1", "1_b_2"]), "b": partitions(["2_b_3", "3"])}',
            more="",
            parameters="a, b",
            body='return pl.DataFrame({"v": [a + "|" + b]})',
        ),
    )
    project.ran()
    files = sorted((project.root / "exports").iterdir())
    assert len(files) == 4
    assert "out_a_1_b_3.csv" in [path.name for path in files]
    assert len({path.read_text() for path in files}) == 4


def test_odd_keys_name_files_in_the_directory_and_too_long_ones_fail_alone(project):
    odd = ["..", ".", "/", "../../x", "%2F", "a\nb", "a=b", "", "~", "é", "x" * 300]
    project.write(
        "pipeline.py",
        KEYED.format(
            partitions=f'{{"k": partitions({odd!r})}}',
            more=', batch="all"',
            parameters="k: list[str]",
            body='return pl.DataFrame({"k": k, "value": [repr(key) for key in k]})',
        ),
    )
    message = error(project)
    assert "File name too long" in message
    found = {
        unquote(path.name.removeprefix("out_k_").removesuffix(".csv")): pl.read_csv(path)["value"].to_list()
        for path in (project.root / "exports").iterdir()
    }
    assert found == {key: [repr(key)] for key in odd[:-1]}
    assert not list(project.root.parent.glob("*x*.csv"))
    assert not list(project.root.glob("*.csv"))


# --- what is at the path ----------------------------------------------------------------------------


def test_a_link_stays_and_its_file_is_written(project, tmp_path):
    write(project, '"out.csv"')
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/real.csv").write_text("old")
    (tmp_path / "elsewhere/real.csv").chmod(0o640)
    (project.root / "out.csv").symlink_to(tmp_path / "elsewhere/real.csv")
    project.ran()
    assert (project.root / "out.csv").is_symlink()
    assert pl.read_csv(tmp_path / "elsewhere/real.csv").to_dicts() == ROWS
    assert (tmp_path / "elsewhere/real.csv").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["real.csv"]


@pytest.mark.parametrize("link", [False, True])
def test_a_directory_at_the_path_fails_and_is_left(project, tmp_path, link):
    write(project, '"out.csv"')
    place = tmp_path / "directory" if link else project.root / "out.csv"
    place.mkdir()
    (place / "kept.txt").write_text("kept")
    if link:
        (project.root / "out.csv").symlink_to(place)
    assert "sink out.csv: IsADirectoryError" in error(project)
    assert [path.name for path in place.iterdir()] == ["kept.txt"]


def test_nothing_else_is_left_beside_the_file(project):
    write(project, '"exports/out.csv"')
    project.ran()
    assert [path.name for path in (project.root / "exports").iterdir()] == ["out.csv"]


# --- failures ---------------------------------------------------------------------------------------


def test_every_sink_is_tried_and_each_failure_named(project):
    write(project, '"bad.parquet"', '"good.json"', '"worse.csv"', value='{"a": 1}', returns="dict")
    message = error(project)
    assert message.startswith("SinkError: sink bad.parquet: Unfit: ")
    assert "; sink worse.csv: Unfit: " in message
    assert json.loads((project.root / "good.json").read_text()) == {"a": 1}


def test_sinks_around_one_that_is_refused_are_tried(project):
    for name in ("first", "last"):
        project.write(f"{name}/theirs.txt", "")
    write(project, '"first/"', '"good.json"', '"last/"', value='{"a": 1}', returns="dict")
    message = error(project)
    assert "sink first/: the dataset prefix first/ holds files barca did not write" in message
    assert "sink last/: the dataset prefix last/ holds files barca did not write" in message
    assert json.loads((project.root / "good.json").read_text()) == {"a": 1}


def test_a_step_whose_sink_failed_runs_again(project):
    write(project, '"out.csv"')
    (project.root / "out.csv").mkdir()
    error(project)
    (project.root / "out.csv").rmdir()
    assert project.ran() == {"orders": 1}
    assert project.ran() == {}


def test_on_the_command_line_it_is_a_failed_step(project):
    write(project, '"out.csv"')
    (project.root / "out.csv").mkdir()
    done = project.cli("get", "orders", "--json")
    assert done.returncode == 1
    told = json.loads(done.stderr.strip().splitlines()[-1])
    assert told["kind"] == "step_failed"
    assert told["error"].startswith("SinkError: sink out.csv: IsADirectoryError")


def test_a_failed_key_fails_alone(project):
    project.write(
        "pipeline.py",
        KEYED.format(
            partitions='{"region": partitions(["emea", "apac"])}',
            more="",
            parameters="region",
            body='return pl.DataFrame({"name": [region]})',
        ),
    )
    (project.root / "exports/out_region_emea.csv").mkdir(parents=True)
    result = project.get()
    assert result.to_dict()["failed_node"] == "pipeline.py:orders[region=emea]"
    assert (project.root / "exports/out_region_apac.csv").exists()
    (project.root / "exports/out_region_emea.csv").rmdir()
    assert project.ran() == {"orders": 1}


def test_nothing_reads_a_key_whose_sink_failed(project):
    write(project, '"out.csv"')
    with (project.root / "pipeline.py").open("a") as file:
        file.write('\n@asset(inputs={"orders": orders})\ndef total(orders): return orders.height\n')
    (project.root / "out.csv").mkdir()
    result = project.get("total").to_dict()
    assert result["steps_skipped"] == 1


# --- when it is written -----------------------------------------------------------------------------


def test_adding_and_editing_a_sink_runs_the_asset(project):
    write(project)
    assert project.ran() == {"orders": 1}
    write(project, '"out.csv"')
    assert project.ran() == {"orders": 1}
    write(project, '"out.csv", serializer="parquet"')
    assert project.ran() == {"orders": 1}
    assert pl.read_parquet(project.root / "out.csv").to_dicts() == ROWS


def test_a_cache_hit_writes_nothing(project):
    write(project, '"out.csv"')
    project.ran()
    (project.root / "out.csv").unlink()
    assert project.ran() == {}
    assert not (project.root / "out.csv").exists()
    project.get(refresh=["orders"])
    assert (project.root / "out.csv").exists()


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.json"])
def test_each_file_of_a_batched_asset_holds_the_rows_of_its_key(project, name):
    project.write(
        "pipeline.py",
        f"""
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={{"k": partitions(["a", "b", "c"])}}, batch="all")
        @sink("{name}")
        def scored(k: list[str]) -> pl.DataFrame:
            return pl.DataFrame({{"k": ["a", "a", "a", "c", "c"], "v": [1, 2, 3, 4, 5]}}, schema_overrides={{"v": pl.Int64}})
        """,
    )
    project.ran()
    read = {"parquet": pl.read_parquet, "csv": pl.read_csv, "json": pl.read_json}[name.rpartition(".")[2]]
    found = {key: read(project.root / name.replace("out", f"out_k_{key}")) for key in "ac"}
    assert {key: rows["v"].to_list() for key, rows in found.items()} == {"a": [1, 2, 3], "c": [4, 5]}
    assert (project.root / name.replace("out", "out_k_b")).exists()

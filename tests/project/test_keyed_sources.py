"""What gives other nodes their keys: dicts, lists and tables, and what runs when they change."""

from __future__ import annotations

import json

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from barca.errors import FragmentError, StepFailed

TABLE = """
    import datetime as dt
    import pathlib
    import polars as pl
    from barca import asset, collect, partitions_from, sensor

    HERE = pathlib.Path(__file__).parent

    @sensor
    def versions() -> pl.LazyFrame:
        return pl.scan_csv(HERE / "versions.csv", try_parse_dates=True, schema_overrides={"store": pl.String})

    @asset(partitions={"store": partitions_from(versions)})
    def one(store: str, versions: dict) -> dict:
        return versions

    @asset(partitions={"store": partitions_from(versions)}, inputs={"row": versions})
    def framed(store: str, row: pl.DataFrame) -> list:
        return [row.columns, [str(dtype) for dtype in row.dtypes], row.height, row["sales"].item()]

    @asset(partitions={"store": partitions_from(versions)}, batch="all")
    def many(store: list[str], versions: pl.DataFrame) -> pl.DataFrame:
        return versions.with_columns(next=pl.col("at").dt.offset_by("1d"))

    @asset(partitions={"store": partitions_from(many)})
    def below(store: str, many: pl.DataFrame) -> int:
        return many["sales"].item()
"""


@pytest.fixture
def stores(project):
    project.write("pipeline.py", TABLE)
    project.write("versions.csv", "at,store,sales\n2026-01-01,07,10\n2026-01-02,12,20\n2026-01-03,03,30\n")
    return project


def test_a_table_gives_keys_by_the_column_named_like_the_dimension(stores):
    targets = ["one", "framed", "many", "below"]
    assert stores.ran(targets) == {"versions": 1, "one": 3, "framed": 3, "many": 3, "below": 3}
    value = stores.get(targets).value
    assert value["one"] == {
        "store=03": {"at": "2026-01-03", "sales": 30},
        "store=07": {"at": "2026-01-01", "sales": 10},
        "store=12": {"at": "2026-01-02", "sales": 20},
    }
    assert value["framed"]["store=07"] == [["at", "store", "sales"], ["Date", "String", "Int64"], 1, 10]
    assert value["many"]["store=03"].schema == {
        "store": pl.String, "at": pl.Date, "sales": pl.Int64, "next": pl.Date,
    }  # fmt: skip
    assert value["below"] == {"store=03": 30, "store=07": 10, "store=12": 20}


def test_a_changed_row_runs_its_key_and_order_and_other_tables_do_not_count(stores):
    stores.ran("below")
    stores.write("versions.csv", "store,sales,at\n03,30,2026-01-03\n07,10,2026-01-01\n12,20,2026-01-02\n")
    assert stores.ran("below") == {"versions": 1}, "rows and columns in another order"
    stores.write("versions.csv", "store,sales,at\n03,31,2026-01-03\n07,10,2026-01-01\n12,20,2026-01-02\n")
    assert stores.ran("below") == {"versions": 1, "many": 1, "below": 1}
    stores.write("versions.csv", "store,sales,at\n03,31,2026-01-03\n12,20,2026-01-02\n99,1,2026-01-02\n")
    assert stores.ran("below") == {"versions": 1, "many": 1, "below": 1}
    assert list(stores.get("below").value) == ["store=03", "store=12", "store=99"]
    assert stores.get("below", partition={"store": "12"}).value == {"store=12": 20}
    frame = stores.open().scan("versions").collect(engine="in-memory")
    assert frame.schema == {"store": pl.String, "sales": pl.Int64, "at": pl.Date}


def test_a_table_and_a_dict_of_the_same_values_are_the_same_keys_and_values(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions_from
        @asset(cutoff=True)
        def source() -> dict:
            return {"b": 1.5, "a": None}
        @asset(partitions={"k": partitions_from(source)})
        def reader(k: str, source: float | None) -> str:
            return f"{k} {source}"
        """,
    )
    assert project.ran("reader") == {"source": 1, "reader": 2}
    project.edit("pipeline.py", '{"b": 1.5, "a": None}', 'pl.DataFrame({"k": ["a", "b"], "v": [None, 1.5]})')
    assert project.ran("reader") == {"source": 1}


def test_a_renamed_dimension_takes_the_column_of_its_name(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions_from
        @asset
        def source() -> pl.DataFrame:
            return pl.DataFrame({"shop": ["s1", "s2"], "town": ["oslo", "rome"]})
        @asset(partitions={"shop": partitions_from(source)})
        def reader(shop: str) -> str:
            return shop
        """,
    )
    assert list(project.get("reader").value) == ["shop=s1", "shop=s2"]
    path = project.root / "pipeline.py"
    head, tail = path.read_text().split("@asset(partitions")
    path.write_text(head + "@asset(partitions" + tail.replace("shop", "town"))
    assert list(project.get("reader").value) == ["town=oslo", "town=rome"]


def test_a_table_that_two_dimensions_would_take_keys_from_is_refused(project):
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions_from
        @asset
        def source() -> pl.DataFrame:
            return pl.DataFrame({"shop": ["s1", "s2"], "town": ["oslo", "rome"]})
        @asset(partitions={"shop": partitions_from(source)})
        def shops(shop: str) -> str: return shop
        @asset(partitions={"town": partitions_from(source)})
        def towns(town: str) -> str: return town
        """,
    )
    result = project.get("shops")
    assert result.to_dict()["failed_node"] == "pipeline.py:source"
    assert "`shop` and `town`" in result.error.message


SOURCE = """
    from typing import Any
    from barca import asset, collect, partitions_from, sensor

    @asset
    def source() -> Any:
        return {returned}

    @asset(partitions={{"k": partitions_from(source)}})
    def own(k: str) -> str:
        return k

    @asset(partitions={{"k": partitions_from(source)}}, inputs={{"mine": source}})
    def valued(k: str, mine: Any = "nothing") -> Any:
        return mine
"""


@pytest.mark.parametrize(
    ("returned", "values"),
    [
        ('["b", 2, "a"]', {"k=2": "nothing", "k=a": "nothing", "k=b": "nothing"}),
        ('("b", "a")', {"k=a": "nothing", "k=b": "nothing"}),
        ('{1: "a", "x": {"n": [None, 1.5]}}', {"k=1": "a", "k=x": {"n": [None, 1.5]}}),
        ("{}", {}),
        ("[]", {}),
    ],
)
def test_what_a_source_may_return(project, returned, values):
    project.write("pipeline.py", SOURCE.format(returned=returned))
    result = project.get(["own", "valued"]).value
    assert result == {"own": {key: key.removeprefix("k=") for key in values}, "valued": values}


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ('{True: "a"}', "the key `True`, of type `bool`"),
        ('{None: "a"}', "the key `None`"),
        ('{("a", 1): "a"}', "the key `('a', 1)`"),
        ('{1: "a", "1": "b"}', "the key `1` twice"),
        ('{"a": float("nan")}', "the key `a` that is not JSON"),
        ('{"a": object()}', "the key `a` that is not JSON"),
        ('"abc"', "return a dict of key to value, a list of keys, or a table"),
    ],
)
def test_anything_else_fails_the_source_by_name(project, returned, told):
    project.write("pipeline.py", SOURCE.format(returned=returned))
    done = project.cli("get", "own", "--json", "--executor", "inline")
    assert done.returncode == 1
    assert json.loads(done.stdout)["failed_node"] == "pipeline.py:source"
    assert told in json.loads(done.stderr.strip().splitlines()[-1])["error"]
    with pytest.raises(StepFailed):
        raise project.get("own").error


KEYED = """
    import json, pathlib
    from barca import Schedule, asset, collect, partitions_from, sensor

    HERE = pathlib.Path(__file__).parent

    @sensor(freshness=Schedule("*/5 * * * *"))
    def versions() -> dict:
        return json.loads((HERE / "versions.json").read_text())

    @asset(partitions={"retailer": partitions_from(versions)})
    def cleaned(retailer: str, versions) -> list:
        return [retailer, versions]

    @asset(partitions={"retailer": partitions_from(cleaned)}, batch="all")
    def scored(retailer: list[str], cleaned: dict) -> dict:
        return {name: str(cleaned[name][1]) for name in retailer}
"""


@pytest.fixture
def retailers(project):
    project.write("pipeline.py", KEYED)
    return project


def returned(project, values):
    (project.root / "versions.json").write_text(json.dumps(values))


@pytest.mark.slow
def test_p2_ten_thousand_keys_and_every_change(retailers):
    """Change one value; reorder; reorder inside; remove one; add one; the same again; 3 becomes "3"."""
    versions = {f"r{number:06}": {"a": number, "b": [1, {"x": 1, "y": 2}]} for number in range(10_000)}

    def tick(values):
        returned(retailers, values)
        return retailers.ran("scored")

    assert tick(versions) == {"versions": 1, "cleaned": 10_000, "scored": 10_000}
    changed = {**versions, "r000010": 3}
    assert tick(changed) == {"versions": 1, "cleaned": 1, "scored": 1}
    [last] = retailers.open().history(limit=1)["runs"]
    assert (last["steps_executed"], last["steps_cached"]) == (3, 19_998)
    backwards = dict(reversed(changed.items()))
    assert tick(backwards) == {"versions": 1}
    inside = {
        name: {"b": [1, {"y": 2, "x": 1}], "a": value["a"]} if isinstance(value, dict) else value
        for name, value in backwards.items()
    }
    assert tick(inside) == {"versions": 1}
    removed = {name: value for name, value in inside.items() if name != "r000020"}
    assert tick(removed) == {"versions": 1}
    total = retailers.get("scored").to_dict()["final_output"]["_barca_partitions"]
    assert (total["keys"], total["computed"]) == (9_999, 0)
    assert tick({**removed, "new": 1}) == {"versions": 1, "cleaned": 1, "scored": 1}
    assert tick({**removed, "new": 1}) == {"versions": 1}
    returned(retailers, {**removed, "new": 1, "r000010": "3"})
    retailers.ran("versions")
    told = retailers.cli(
        "get", "scored", "pipeline.py", "--dry-run", "--pretty", env={"COLUMNS": "200"}
    ).stdout
    assert (
        "9,999 of 10,000 keys cached; will run: retailer=r000010 (value pipeline.py:versions changed)" in told
    )
    assert "will run: retailer=r000010 (input pipeline.py:cleaned changed)" in told
    assert "3 will run, 19,998 cached, 0 unknown" in told
    assert retailers.ran("scored") == {"versions": 1, "cleaned": 1, "scored": 1}


def test_a_new_key_has_no_entry_among_what_changed(retailers):
    returned(retailers, {"a": 1, "b": 1})
    retailers.ran("scored")
    returned(retailers, {"a": 2, "b": 1, "c": 1})
    retailers.ran("versions")
    plan = {step["id"]: step for step in retailers.open().plan("scored").to_dict()["steps"]}
    cleaned = plan["pipeline.py:cleaned"]["partitions"]
    assert cleaned["will_run_keys"] == ["retailer=a", "retailer=c"]
    assert cleaned["changed"] == {"retailer=a": ["value pipeline.py:versions"]}
    assert cleaned["reasons"] == [
        {"reason": "not_materialized", "changed": None, "keys": 1, "first": ["retailer=c"]},
        {
            "reason": "not_materialized",
            "changed": ["value pipeline.py:versions"],
            "keys": 1,
            "first": ["retailer=a"],
        },
    ]
    status = {node["name"]: node for node in retailers.open().status().to_dict()["nodes"]}
    assert status["cleaned"]["partitions"]["reasons"] == cleaned["reasons"]
    assert status["cleaned"]["partitions"]["changed"] == cleaned["changed"]


def test_editing_the_source_runs_every_key_and_its_schedule_does_not_count(retailers):
    returned(retailers, {"a": 1, "b": 1})
    retailers.ran("scored")
    retailers.edit("pipeline.py", 'Schedule("*/5 * * * *")', 'Schedule("0 * * * *")')
    assert retailers.ran("scored") == {"versions": 1}
    retailers.edit("pipeline.py", "return json.loads(", "return {} | json.loads(")
    assert retailers.ran("scored") == {"versions": 1, "cleaned": 2, "scored": 2}


def test_many_keys_that_run_are_told_by_reason(retailers):
    returned(retailers, {f"r{number:03}": 1 for number in range(40)})
    retailers.write("util.py", "def clean(text):\n    return text\n")
    retailers.edit(
        "pipeline.py", "from barca import Schedule", "from util import clean\nfrom barca import Schedule"
    )
    retailers.edit("pipeline.py", "return [retailer, versions]", "return [clean(retailer), versions]")
    retailers.ran("scored")
    retailers.write("util.py", "def clean(text):\n    return text.strip()\n")
    returned(retailers, {**{f"r{number:03}": 1 for number in range(40)}, "r001": 2, "zz": 1})
    retailers.ran("versions")
    parts = retailers.open().status("cleaned").to_dict()["nodes"][-1]["partitions"]
    assert len(parts["missing_keys"]) == 20 and list(parts["changed"]) == parts["missing_keys"]
    told = retailers.cli("status", "--pretty", env={"COLUMNS": "300"}).stdout
    assert (
        "39 keys: helper util.py:clean changed (retailer=r000, retailer=r002, retailer=r003 and 36 more)"
        in told
    )
    assert "1 key: helper util.py:clean, value pipeline.py:versions changed (retailer=r001)" in told
    assert "1 key: no result yet (retailer=zz)" in told


@pytest.mark.parametrize("cutoff", [False, True])
def test_an_asset_as_source_with_and_without_cutoff(project, cutoff):
    project.write(
        "pipeline.py",
        f"""
        import pathlib
        from barca import asset, partitions_from, sensor

        @sensor
        def day() -> str:
            return (pathlib.Path(__file__).parent / "day").read_text()

        @asset(inputs={{"day": day}}, cutoff={cutoff})
        def versions(day: str) -> dict:
            return {{"a": "1", "b": day[:1]}}

        @asset(partitions={{"k": partitions_from(versions)}})
        def reader(k: str, versions: str) -> str:
            return versions
        """,
    )
    project.write("day", "1 monday")
    assert project.ran("reader") == {"day": 1, "versions": 1, "reader": 2}
    project.write("day", "1 tuesday")
    assert project.ran("reader") == {"day": 1, "versions": 1} | ({} if cutoff else {"reader": 2})
    project.write("day", "2 tuesday")
    assert project.ran("reader") == {"day": 1, "versions": 1, "reader": 1 if cutoff else 2}


@pytest.mark.parametrize("cutoff", [False, True])
def test_what_changed_is_named_though_the_result_is_told_by_its_content(retailers, cutoff):
    retailers.edit(
        "pipeline.py",
        "partitions_from(versions)}",
        f"partitions_from(versions)}}, cutoff={cutoff}",
    )
    returned(retailers, {"a": 1, "b": 2})
    retailers.ran("scored")
    returned(retailers, {"a": 3, "b": 2})
    steps = {step["id"]: step for step in retailers.get("scored").to_dict()["steps"]}
    assert {
        name: steps[f"pipeline.py:{name}"]["partitions"]["changed"] for name in ("cleaned", "scored")
    } == {
        "cleaned": {"retailer=a": ["value pipeline.py:versions"]},
        "scored": {"retailer=a": ["input pipeline.py:cleaned"]},
    }


@pytest.mark.parametrize("options", [{"refresh": ["versions"]}, {"refresh_all": True}])
def test_a_refresh_stores_anew_what_cannot_be_read_any_more(project, options):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions_from, sensor

        @sensor
        def versions() -> dict:
            return {"07": "x", "12": "y"}

        @asset(partitions={"store": partitions_from(versions)})
        def one(store: str, versions: str) -> str:
            return versions
        """,
    )
    assert project.ran("one") == {"versions": 1, "one": 2}
    (pack,) = (project.root / ".barca/artifacts").glob("*versions/*.parquet")
    pack.write_bytes(b"PAR1" + b"\xff" * 40 + pack.read_bytes()[44:])  # its footer, and the order, are whole
    with pytest.raises(FragmentError, match=r"(?s)cannot be read.*delete the file and run again"):
        project.get("one")
    [last] = project.open().history(limit=1)["runs"]
    assert last["status"] == "failed"
    assert last["error"].startswith("FragmentError: the pack `") and "cannot be read" in last["error"]
    assert project.get("one", **options).status == "success"
    assert project.ran("one") == {"versions": 1}
    assert project.get("one").value == {"store=07": "x", "store=12": "y"}


def test_a_list_source_is_not_passed_and_its_readers_are_unknown_before_it_ran(project):
    project.write("pipeline.py", SOURCE.format(returned='["a", "b"]'))
    steps = {step["id"].rpartition(":")[2]: step for step in project.open().plan("own").to_dict()["steps"]}
    assert (steps["own"]["action"], steps["own"]["reason"]) == ("unknown", "partitions_unknown")
    assert "`source`" in steps["own"]["detail"]
    (own,) = (one for one in project.open().status("own").to_dict()["nodes"] if one["name"] == "own")
    assert (own["cache"]["state"], own["partitions"]["total"]) == ("unknown", None)
    assert project.ran("own") == {"source": 1, "own": 2}
    project.edit("pipeline.py", '["a", "b"]', '["c", "a", "b"]')
    assert project.ran("own") == {"source": 1, "own": 1}, "a key is the same whatever else the list holds"


@pytest.mark.parametrize("batch", ["", ', batch="all"'])
@pytest.mark.parametrize("returned", ['["a", "b"]', 'pl.DataFrame({"k": ["a", "b"]})'])
def test_a_parameter_for_values_that_a_source_of_keys_does_not_have_is_named(project, returned, batch):
    project.write(
        "pipeline.py",
        f"""
        import polars as pl
        from barca import asset, partitions_from, sensor
        @sensor
        def source(): return {returned}
        @asset(partitions={{"k": partitions_from(source)}}{batch})
        def valued(k, source): return dict.fromkeys(k, 1)
        @asset(partitions={{"k": partitions_from(source)}})
        def spared(k: str, source=3) -> int: return source
        """,
    )
    result = project.get("valued").to_dict()
    assert (result["status"], result["failed_node"]) == ("failed", "pipeline.py:valued[k=a]")
    assert "the parameter `source` of `pipeline.py:valued`" in result["error"]
    assert "`pipeline.py:source` returned no value for `k=a`" in result["error"]
    assert "return a dict of key to value, or leave the parameter out" in result["error"]
    assert project.get("spared").value == {"k=a": 3, "k=b": 3}


def test_whole_numbers_of_any_size_are_told_apart(project):
    project.write("pipeline.py", SOURCE.format(returned='{"a": 2**64, "b": 1}'))
    assert project.get("valued").value == {"k=a": 2**64, "k=b": 1}


WAREHOUSE = """
    import duckdb
    from barca import Schedule, asset, partitions_from, sensor

    @sensor(freshness=Schedule("*/5 * * * *"))
    def retailer_versions() -> dict:
        rows = duckdb.connect("warehouse.duckdb", read_only=True).execute(
            "select retailer, max(updated_at)::varchar from orders group by retailer"
        ).fetchall()
        return dict(rows)

    @asset(partitions={"retailer": partitions_from(retailer_versions)})
    def cleaned(retailer: str, retailer_versions: str) -> dict:
        orders = duckdb.connect("warehouse.duckdb", read_only=True).execute(
            "select * from orders where retailer = ?", [retailer]
        ).fetchall()
        return {"retailer": retailer, "rows": len(orders), "as_of": retailer_versions}

    @asset(partitions={"retailer": partitions_from(cleaned)})
    def scored(retailer: str, cleaned: dict) -> dict:
        return {**cleaned, "score": cleaned["rows"] * 10}
"""


def test_one_query_over_a_warehouse_says_which_retailers_run(project):
    import duckdb

    def order(*rows):
        with duckdb.connect(str(project.root / "warehouse.duckdb")) as warehouse:
            warehouse.execute("create table if not exists orders (retailer varchar, updated_at timestamp)")
            warehouse.executemany("insert into orders values (?, ?)", [list(row) for row in rows])

    project.write("pipeline.py", WAREHOUSE)
    order(("r1", "2026-01-01 09:00:00"), ("r2", "2026-01-01 10:00:00"), ("r1", "2026-01-02 08:30:00"))

    def tick():
        done = project.cli("get", "scored", "pipeline.py", "-o", "value", "--json", "--executor", "inline")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first = tick()
    assert first["final_output"]["retailer=r1"] == {
        "retailer": "r1", "rows": 2, "as_of": "2026-01-02 08:30:00", "score": 20,
    }  # fmt: skip
    assert tick()["steps_executed"] == 1
    order(("r2", "2026-01-03 10:00:00"))
    again = tick()
    assert (again["steps_executed"], again["steps_cached"]) == (3, 2)
    assert again["final_output"]["retailer=r2"]["score"] == 20


def test_who_reads_a_table_of_keys_whole_may_have_its_rows_as_of_any_table(project):
    project.write(
        "pipeline.py",
        """
    import polars as pl
    from barca import asset, partitions_from

    @asset
    def stores() -> pl.DataFrame:
        return pl.DataFrame({"store": ["oslo", "rome"], "sold": [4, 7]})

    @asset(partitions={"store": partitions_from(stores)})
    def sold(store: str, stores: int) -> int:
        return stores

    @asset(inputs={"every": stores})
    def rows(every: list[dict]) -> list:
        return every

    @asset(inputs={"every": stores})
    def framed(every: pl.DataFrame) -> list:
        return every.rows()

    @asset(inputs={"every": stores})
    def mapped(every: dict) -> list:
        return list(every.items())
    """,
    )
    pairs = [["oslo", 4], ["rome", 7]]
    assert project.get("rows").value == [{"store": store, "sold": sold} for store, sold in pairs]
    assert (
        list(map(list, project.get("framed").value)) == list(map(list, project.get("mapped").value)) == pairs
    )

"""Why keys run, what changed in a result, what is wrong with a project."""

from __future__ import annotations

import json

import pytest

from barca.errors import UsageError

PIPELINE = """
    import json, pathlib
    import polars as pl
    from barca import asset, partitions_from, sensor

    HERE = pathlib.Path(__file__).parent
    RATE = 2

    def priced(amount):
        return amount * RATE

    @sensor
    def versions() -> dict:
        return json.loads((HERE / "versions.json").read_text())

    @asset(partitions={"store": partitions_from(versions)})
    def sales(store: str, versions: dict) -> pl.DataFrame:
        return pl.DataFrame({"item": list(versions), "amount": [priced(n) for n in versions.values()]})

    @asset(partitions={"store": partitions_from(sales)})
    def total(store: str, sales: pl.DataFrame) -> dict:
        return {"amount": sales["amount"].sum(), "items": sales.height}
"""


@pytest.fixture
def stores(project):
    project.write("pipeline.py", PIPELINE)
    returned(project, oslo={"tea": 1, "rice": 5}, rome={"tea": 2})
    project.ran("total")
    return project


def returned(project, **versions):
    (project.root / "versions.json").write_text(json.dumps(versions))


def test_an_explanation_of_what_is_up_to_date(stores):
    told = stores.open().explain("total").to_dict()
    assert told["target"] == "pipeline.py:total"
    assert [node["id"].rpartition(":")[2] for node in told["nodes"]] == ["total", "sales", "versions"]
    assert [(key["key"], key["state"], key["changed"]) for key in told["keys"]] == [
        ("store=oslo", "cached", []),
        ("store=rome", "cached", []),
    ]
    assert all(key["last_success"]["run_id"] for key in told["keys"])
    assert [node["definition"]["changed"] for node in told["nodes"]] == [False, False, False]


def test_an_explanation_names_keys_reasons_and_the_changed_lines(stores):
    returned(stores, oslo={"tea": 1, "rice": 6}, rome={"tea": 2}, bern={"tea": 3})
    stores.ran("versions")
    stores.edit("pipeline.py", "RATE = 2", "RATE = 3")
    told = stores.open().explain("sales").to_dict()
    keys = {key["key"]: (key["state"], key["reason"], key["changed"]) for key in told["keys"]}
    rate = "constant pipeline.py:RATE"
    assert keys == {
        "store=bern": ("stale", "not_materialized", []),
        "store=oslo": ("stale", "not_materialized", [rate, "value pipeline.py:versions"]),
        "store=rome": ("stale", "not_materialized", [rate]),
    }
    diff = told["nodes"][0]["definition"]["diff"]
    assert "-RATE = 2\n+RATE = 3" in diff
    assert "pipeline.py:sales at the last success" in diff
    one = stores.open().explain("sales", partition={"store": "rome"}).to_dict()
    assert [key["key"] for key in one["keys"]] == ["store=rome"]
    assert one["nodes"][0]["partitions"]["total"] == 1
    shown = stores.cli("explain", "sales", "--partition", "store=rome", "--pretty").stdout
    assert "constant pipeline.py:RATE changed" in shown and "+RATE = 3" in shown
    page = stores.open().explain("sales")._repr_html_()
    assert "constant pipeline.py:RATE" in page and "+RATE = 3" in page


def test_an_explanation_before_anything_ran_and_of_two_targets(project):
    project.write("pipeline.py", PIPELINE)
    returned(project)
    told = project.open().explain("total").to_dict()
    assert told["keys"] == [] and told["nodes"][0]["definition"] is None
    assert told["nodes"][0]["reason"] == "sensor_output_unknown"
    for command in ("explain", "diff"):
        done = project.cli(command, "total,sales", "--json")
        assert done.returncode == 2 and f"{command} takes one target" in done.stderr
    assert not (project.root / ".barca").exists()


def test_an_explanation_of_many_keys_says_how_many_there_are_and_tells_those_that_run(project):
    project.write("pipeline.py", PIPELINE)
    versions = {f"s{number:02}": {"tea": number} for number in range(25)}
    returned(project, **versions)
    project.ran("total")
    returned(project, **{**versions, "s24": {"tea": 1}})
    project.ran("versions")
    told = project.open().explain("sales").to_dict()["keys"]
    assert [key["key"] for key in told] == [f"store=s{number:02}" for number in (*range(19), 24)]
    shown = project.cli("explain", "sales", "--pretty", env={"COLUMNS": "120"}).stdout
    assert "25 keys in all, 20 shown, those that run first; --partition selects others" in shown
    assert "25 keys in all, 20 shown" in project.open().explain("sales")._repr_html_()
    few = project.cli("explain", "sales", "--partition", "store=s01,s02", "--pretty").stdout
    assert "in all" not in few


def test_an_edit_of_a_helper_of_another_file_is_shown_below_what_calls_it(project):
    project.write("util.py", "def clean(text):\n    return text\n")
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, partitions_from
        from util import clean
        @asset(partitions={"k": partitions(["a", "b"])})
        def own(k: str) -> str: return clean(k)
        @asset(partitions={"k": partitions_from(own)})
        def below(k: str, own: str) -> str: return own
        """,
    )
    project.ran()
    project.edit("util.py", "return text", "return text.upper()")
    below, own = project.open().explain("below", partition={"k": "b"}).to_dict()["nodes"]
    assert (below["definition"]["changed"], own["definition"]["changed"]) == (False, True)
    assert below["partitions"]["changed"] == {"k=b": ["input pipeline.py:own"]}
    assert own["partitions"]["changed"] == {"k=b": ["helper util.py:clean"]}
    shown = project.cli("explain", "below", "--pretty").stdout
    assert "# helper util.py:clean" in shown
    assert "-    return text\n+    return text.upper()" in shown
    project.ran("below", partition={"k": "b"})
    (_, own) = project.open().explain("below", partition={"k": "b"}).to_dict()["nodes"]
    assert own["definition"] == {**own["definition"], "changed": False, "diff": None}


def test_the_changed_lines_are_shown_also_where_some_keys_are_up_to_date(stores):
    stores.edit("pipeline.py", "RATE = 2", "RATE = 3")
    stores.ran("sales", partition={"store": "rome"})
    told = stores.open().explain("sales").to_dict()
    assert {key["key"]: key["state"] for key in told["keys"]} == {
        "store=oslo": "stale",
        "store=rome": "cached",
    }
    assert "-RATE = 2\n+RATE = 3" in told["nodes"][0]["definition"]["diff"]
    done = stores.open().explain("sales", partition={"store": "rome"}).to_dict()
    assert done["nodes"][0]["definition"]["changed"] is False


def test_a_difference_has_rows_added_removed_and_changed(stores):
    returned(stores, oslo={"tea": 4, "salt": 9}, rome={"tea": 2})
    stores.ran("total")
    found = stores.open().diff("sales", partition={"store": "oslo"}).to_dict()
    assert (found["key"], found["on"], found["unchanged"]) == ("store=oslo", ["item"], 0)
    assert found["rows"] == {
        "added": [{"item": "salt", "amount": 18}],
        "removed": [{"item": "rice", "amount": 10}],
        "changed": [{"item": "tea", "amount": {"before": 2, "after": 8}}],
    }
    assert found["current"]["run_id"] != found["previous"]["run_id"]
    shown = stores.cli("diff", "sales", "--partition", "store=oslo", "--pretty").stdout
    assert "1 added, 1 removed, 1 changed, 0 unchanged, rows told apart by item" in shown
    assert "2 -> 8" in shown
    page = stores.open().diff("sales", partition={"store": "oslo"})._repr_html_()
    assert "1 added, 1 removed, 1 changed" in page and "salt" in page
    values = stores.open().diff("total", partition={"store": "oslo"}).to_dict()
    assert values["rows"]["changed"] == [{"key": "amount", "value": {"before": "12", "after": "26"}}]
    source = stores.open().diff("versions").to_dict()
    assert source["rows"]["changed"][0]["key"] == "oslo"


def test_a_difference_is_of_the_result_that_is_served_when_code_is_as_it_was(stores):
    stores.edit("pipeline.py", "RATE = 2", "RATE = 3")
    stores.ran("sales")
    stores.edit("pipeline.py", "RATE = 3", "RATE = 2")
    assert stores.ran("sales") == {"versions": 1}, "it is there already"
    rome = {"partition": {"store": "rome"}}
    found = stores.open().diff("sales", **rome).to_dict()
    assert found["rows"]["changed"] == [{"item": "tea", "amount": {"before": 6, "after": 4}}]
    stores.edit("pipeline.py", "RATE = 2", "RATE = 5")
    found = stores.open().diff("sales", **rome).to_dict()
    assert found["rows"]["changed"] == [{"item": "tea", "amount": {"before": 4, "after": 6}}], "not run yet"


def test_equal_results_are_one_and_columns_may_be_named(stores):
    assert stores.ran("sales", refresh="sales", cascade=False)["sales"] == 2
    with pytest.raises(UsageError, match="has one result"):
        stores.open().diff("sales", partition={"store": "rome"})
    stores.edit("pipeline.py", '"amount": [', '"kind": ["food"] * len(versions), "amount": [')
    stores.ran("sales")
    found = stores.open().diff("sales", partition={"store": "oslo"}, on=["item"]).to_dict()
    assert (found["columns"], found["unchanged"], found["changed"]) == ({"kind": "added"}, 2, 0)
    with pytest.raises(UsageError, match="`kind` is not a column of both"):
        stores.open().diff("sales", partition={"store": "oslo"}, on=["kind"])


def test_a_difference_is_of_one_key(stores):
    with pytest.raises(UsageError, match="2 keys of `sales`") as caught:
        stores.open().diff("sales")
    assert "`store=oslo`, `store=rome`" in str(caught.value.remediation)


@pytest.mark.parametrize(
    ("target", "selected", "code", "told", "fix"),
    [
        (
            "sales",
            "store=bonn",
            "unknown_key",
            "`bonn` is not a key of `store` that `sales` has a result of",
            "valid: `oslo`, `rome`",
        ),
        ("sales", "store=osslo", "unknown_key", "`osslo` is not a key", "did you mean `oslo`?"),
        ("sales", "shop=oslo", "unknown_dimension", "`sales` has no dimension `shop`", "valid: `store`"),
        (
            "versions",
            "store=oslo",
            "unknown_dimension",
            "`versions` has no dimension `store`",
            "it has one result",
        ),
    ],
)
def test_a_wrong_selection_of_a_difference_names_what_is_valid(stores, target, selected, code, told, fix):
    done = stores.cli("diff", target, "--partition", selected, "--json")
    error = json.loads(done.stderr)
    assert (done.returncode, done.stdout, error["code"]) == (2, "", code)
    assert told in error["error"] and fix in error["remediation"]


def test_values_of_several_dimensions_that_no_key_has_together(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions
        @asset(partitions={"a": partitions(["1", "2"]), "b": partitions(["x", "y"])})
        def grid(a: str, b: str) -> str: return a + b
        """,
    )
    project.ran(partition={"a": "1", "b": "x"})
    project.ran(partition={"a": "2", "b": "y"})
    with pytest.raises(
        UsageError, match="no key of `grid` with a result has these values together"
    ) as caught:
        project.open().diff("grid", partition={"a": "1", "b": "y"})
    assert caught.value.remediation == (
        "select one with --partition, each dimension by itself, of `a=1,b=x`, `a=2,b=y`"
    )
    for command in ("diff", "get"):
        done = project.cli(command, "grid", "--partition", "a=1,b=x", "--json")
        error = json.loads(done.stderr)
        assert (done.returncode, error["error"].partition(" that")[0]) == (2, "`b=x` is not a key of `a`")
        assert error["remediation"] == "select each dimension by itself: --partition b=x"


def test_a_doctor_finds_lost_results(stores):
    assert stores.cli_json("doctor")["ok"] is True
    pack = next(
        path for path in (stores.root / ".barca/artifacts").rglob("*.parquet") if "sales" in str(path)
    )
    pack.write_bytes(b"")
    done = stores.cli("doctor", "--json")
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 3
    assert [name for name, check in checks.items() if not check["ok"]] == ["results"]
    assert pack.name in checks["results"]["detail"]

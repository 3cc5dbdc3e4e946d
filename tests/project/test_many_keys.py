"""Past a thousand keys results list what the run computed and count the rest."""

from __future__ import annotations

import json

import pytest

import barca
from barca import BarcaError
from barca.errors import InputError

PIPELINE = """
    import json, pathlib
    import polars as pl
    from barca import asset, collect, partitions_from, sensor

    HERE = pathlib.Path(__file__).parent

    @sensor
    def versions() -> pl.DataFrame:
        return pl.DataFrame({"k": [f"k{n:04}" for n in range(1_200)]}).with_columns(
            version=pl.when(pl.col("k").is_in(json.loads((HERE / "changed.json").read_text()))).then(2).otherwise(1)
        )

    @asset(partitions={"k": partitions_from(versions)}, batch="all")
    def scored(k: list[str], versions: dict) -> dict:
        return {key: [key, versions[key]] for key in k}

    @asset(partitions={"day": __import__("barca").partitions(["mo", "tu"])})
    def days(day: str) -> str:
        return day
"""


@pytest.fixture
def many(project):
    project.write("pipeline.py", PIPELINE)
    project.write("changed.json", "[]")
    return project


def listed(result):
    return result["final_output"]["_barca_partitions"]


def test_a_task_that_has_run_for_many_keys_gives_them_all(project):
    project.write(
        "pipeline.py",
        """
        from barca import partitions, task

        @task(partitions={"k": partitions([str(number) for number in range(1_001)])}, batch="all")
        def sent(k: list[str]) -> dict:
            return dict.fromkeys(k, "sent")
        """,
    )
    result = project.open().run("sent")
    assert result.value == {f"k={number}": "sent" for number in range(1_001)}


def test_outputs_are_those_computed(many):
    cold = listed(many.get("scored").to_dict())
    assert (cold["keys"], cold["computed"], cold["cached"], cold["truncated"]) == (1_200, 1_200, 0, True)
    assert list(cold["outputs"]) == [f"k=k{n:04}" for n in range(1_000)]
    many.write("changed.json", '["k0007", "k1100"]')
    result = many.get("scored")
    warm = listed(result.to_dict())
    assert (warm["keys"], warm["computed"], warm["cached"], warm["truncated"]) == (1_200, 2, 1_198, False)
    assert list(warm["outputs"]) == ["k=k0007", "k=k1100"]
    assert set(warm["outputs"]["k=k0007"]["_barca_artifact"]) >= {"path", "format", "size_bytes"}
    assert "1200 keys, more than 1000" in warm["hint"] and "--partition" in warm["hint"]
    values = listed(result.to_dict("value"))
    assert values["outputs"] == {"k=k0007": ["k0007", 2], "k=k1100": ["k1100", 2]}


def test_outputs_are_those_computed_also_where_every_key_is_looked_at(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions
        COUNT = 1_001
        @asset(partitions={"k": partitions([f"{n:04}" for n in range(COUNT)])}, batch="all")
        def own(k: list[str]) -> dict: return dict.fromkeys(k, 1)
        """,
    )
    assert listed(project.get("own").to_dict())["truncated"] is True
    project.edit("pipeline.py", "1_001", "1_002")
    warm = listed(project.get("own").to_dict("value"))
    assert (warm["keys"], warm["computed"], warm["cached"]) == (1_002, 1, 1_001)
    assert warm["outputs"] == {"k=1001": 1}


def test_a_selection_lists_all_it_selects_of_what_it_narrows(many):
    chosen = [f"k{n:04}" for n in range(1_100)]
    result = many.get("scored", partition={"k": chosen})
    assert len(result.value) == len(result.to_dict()["final_output"]) == 1_100
    other = many.get(["scored", "days"], partition={"day": "mo"}).to_dict()
    assert other["targets"]["scored"]["_barca_partitions"]["keys"] == 1_200, "it is not narrowed"


def test_python_names_scan_and_partition(many, monkeypatch):
    monkeypatch.chdir(many.root)
    with pytest.raises(BarcaError, match="1200 keys") as caught:
        barca.get("scored", "pipeline.py", executor="inline")
    told = str(caught.value.remediation)
    assert "partition=" in told and "collect(...)" in told and "if all are records, use barca.scan" in told
    with pytest.raises(InputError, match=r"`get` gives values of keys"):
        many.open().scan("scored")


def test_paths_and_tables_list_what_was_computed_and_note_the_rest(many):
    cold = many.cli("get", "scored", "-o", "path", "--executor", "inline")
    assert len(cold.stdout.splitlines()) == 1_000
    assert "200 of 1,200 keys not listed (0 cached): of so many keys, only the first of those" in cold.stderr
    shown = many.cli("get", "scored", "--pretty", "--executor", "inline").stdout
    assert "1,200 keys in all, 0 shown\n" in shown, "there are no paths to list"
    many.write("changed.json", '["k0007"]')
    done = many.cli("get", "scored", "-o", "path", "--executor", "inline")
    [line] = done.stdout.splitlines()
    assert line.startswith(".barca/artifacts/") and (many.root / line).exists(), (
        "the file holds that key alone"
    )
    assert "note: 1,199 of 1,200 keys not listed (1,199 cached)" in done.stderr
    many.write("changed.json", '["k0008", "k0009"]')
    done = many.cli("get", "scored", "--pretty", "--executor", "inline")
    assert "k=k0008" in done.stdout and "1,200 keys in all, 2 shown" in done.stdout
    assert "1,198 of 1,200 keys not listed" in done.stderr, "k0007 is as it was before"


def test_one_path_per_key(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions
        @asset(partitions={"k": partitions(["b", "a"])})
        def apart(k: str) -> str: return k
        @asset(partitions={"k": partitions(["b", "a"])}, batch="all")
        def together(k: list[str]) -> dict: return dict.fromkeys(k, 1)
        """,
    )
    done = project.cli("get", "together", "-o", "path", "--executor", "inline")
    first, second = done.stdout.splitlines()
    assert first.endswith(".parquet#k=a") and second == first.removesuffix("a") + "b"
    document = json.loads(project.cli("get", "apart", "--json", "--executor", "inline").stdout)
    assert list(document["final_output"]) == ["k=a", "k=b"]


@pytest.mark.parametrize("batch", ["None", '"all"', "7"])
def test_previews_are_the_first_twenty_in_lexical_order(project, batch):
    """Whatever the order declared, the number of digits and the calls that keys are in."""
    project.write(
        "pipeline.py",
        f"""
        from barca import asset, partitions
        @asset(partitions={{"k": partitions([n * 37 % 101 for n in range(101)])}}, batch={batch})
        def node(k): return {"1" if batch == "None" else "dict.fromkeys(k, 1)"}
        """,
    )
    first = [f"k={text}" for text in sorted(map(str, range(101)))[:20]]
    dry = project.open().plan("node").to_dict()["steps"][0]["partitions"]
    (state,) = project.open().status("node").to_dict()["nodes"]
    (ran,) = project.get("node").to_dict()["steps"]
    assert dry["will_run_keys"] == ran["partitions"]["will_run_keys"] == first
    assert state["partitions"]["missing_keys"] == first

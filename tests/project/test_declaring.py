"""Declaring keys: what is evaluated when, what runs when declarations change, and what is refused how."""

from __future__ import annotations

import json
import re
import sys

import pytest

from barca import BarcaError

PARTITIONS = """
    from barca import asset, collect, partitions, partitions_from

    {constant}

    @asset(partitions={{"region": partitions({keys})}})
    def sales(region: str) -> dict:
        return {{"region": region, "revenue": len(region) * 100}}

    @asset(partitions={{"region": partitions_from(sales)}})
    def margin(region: str, sales: dict) -> dict:
        return {{"region": region, "margin": sales["revenue"] * 0.2}}

    @asset(inputs={{"all_sales": collect(sales)}})
    def summary(all_sales: list[dict]) -> dict:
        return {{"total": sum(row["revenue"] for row in all_sales), "order": [row["region"] for row in all_sales]}}
"""

WAYS = {
    "a literal list": lambda names: ("", repr(names)),
    "a constant": lambda names: (f"REGIONS = {names!r}", "REGIONS"),
    "an expression": lambda names: ("", f"[name.lower() for name in {names!r}]"),
    "a function of a file beside it": lambda names: ("from regions import regions", "regions()"),
}


@pytest.mark.parametrize("way", WAYS)
def test_keys_are_added_removed_and_reordered(project, way):
    """A key runs when it is new, nothing runs for one that is gone or moved, however keys are written."""

    def declare(*names):
        constant, keys = WAYS[way](list(names))
        project.write("regions.py", f"def regions():\n    return {list(names)!r}\n")
        project.write("pipeline.py", PARTITIONS.format(constant=constant, keys=keys))

    declare("emea", "amer", "apac")
    assert project.ran() == {"sales": 3, "margin": 3, "summary": 1}
    assert project.get("summary").value == {"total": 1200, "order": ["amer", "apac", "emea"]}
    declare("apac", "emea", "amer")
    assert project.ran() == {}
    declare("apac", "emea", "amer", "anz")
    assert project.ran() == {"sales": 1, "margin": 1, "summary": 1}
    declare("apac", "emea", "anz")
    assert project.ran() == {"summary": 1}
    assert list(project.get("margin").value) == ["region=anz", "region=apac", "region=emea"]


def test_renaming_the_dimension_runs_every_key(project):
    project.write("pipeline.py", PARTITIONS.format(constant="", keys='["emea", "amer"]'))
    project.ran()
    path = project.root / "pipeline.py"
    path.write_text(path.read_text().replace("region", "area"))
    assert project.ran("margin") == {"sales": 2, "margin": 2}


def test_an_expression_is_evaluated_once_for_its_nodes_and_their_consumers_in_any_file(project):
    project.write(
        "listing.py",
        """
        import pathlib
        def keys():
            with open(pathlib.Path(__file__).parent / "calls", "a") as file:
                file.write("x")
            return ["a", "b"]
        """,
    )
    project.write(
        "first.py",
        """
        from barca import asset, partitions, partitions_from
        from listing import keys
        KEYS = partitions(keys())
        @asset(partitions={"k": KEYS})
        def one(k: str) -> str: return k
        @asset(partitions={"k": KEYS})
        def two(k: str) -> str: return k
        @asset(partitions={"k": partitions_from(one)})
        def below(k: str, one: str) -> str: return one
        """,
    )
    project.write(
        "second.py",
        """
        from barca import asset, partitions_from
        from first import below
        @asset(partitions={"k": partitions_from(below)})
        def far(k: str, below: str) -> str: return below
        """,
    )
    opened = project.open()
    assert opened.get().to_dict()["steps_executed"] == 8
    assert opened.status().to_dict()["summary"]["cached"] == 4
    assert (project.root / "calls").read_text() == "x"


BROKEN = """
    from barca import asset, collect, partitions, partitions_from, task
    from helper import boom

    @asset(partitions={"k": partitions(boom())})
    def lost(k: str) -> str: return k

    @asset(partitions={"k": partitions_from(lost)})
    def lost_too(k: str, lost: str) -> str: return lost

    @asset
    def fine() -> int: return 1

    @task(inputs={"fine": fine})
    def report(fine: int) -> int: return fine
"""


def test_an_expression_that_raises_costs_its_node_and_what_reads_it(project):
    project.write("helper.py", "def boom():\n    raise RuntimeError('no keys today')\n")
    project.write("pipeline.py", BROKEN)
    for command in ("list", "status", "doctor"):
        done = project.cli(command, "--json")
        assert done.returncode == (2 if command == "doctor" else 0), (command, done.stderr)
        found = json.loads(done.stdout)
        assert [error["nodes"] for error in found["load_errors"]] == [
            ["pipeline.py:lost"],
            ["pipeline.py:lost_too"],
        ]
        for error in found["load_errors"]:
            assert "RuntimeError: no keys today" in error["error"]
            assert 'helper.py", line 2, in boom' in error["traceback"]
        if command != "doctor":
            assert [node["id"] for node in found["nodes"]] == ["pipeline.py:fine", "pipeline.py:report"]
        pretty = project.cli(command, "--pretty").stdout
        assert "pipeline.py:lost" in pretty and pretty.count("in boom") == 1
    for target in ("lost", "lost_too"):
        done = project.cli("get", target, "--json")
        error = json.loads(done.stderr)
        assert (done.returncode, done.stdout, error["code"]) == (2, "", "load_error")
        assert "no keys today" in error["error"] and "in boom" in error["traceback"]
    done = project.cli("get", "fine", "-o", "value", "--json")
    assert (done.returncode, json.loads(done.stdout)["final_output"], done.stderr) == (0, 1, "")


@pytest.mark.parametrize(
    ("code", "told", "fix"),
    [
        ("@asset(partitions={'z': partitions(['a'])})\ndef n(k): ...", "`z`", "is not a parameter"),
        (
            "@asset(partitions={'k': partitions(values=['a'])})\ndef n(k): ...",
            "exactly one argument",
            "partitions([...])",
        ),
        (
            "@asset(partitions={'k': partitions()})\ndef n(k): ...",
            "exactly one argument",
            "partitions([...])",
        ),
        (
            "@asset(partitions={'k': partitions_from(one, one)})\ndef n(k): ...",
            "exactly one",
            "partitions_from(source)",
        ),
        (
            "@asset(inputs={'x': collect(asset_fn=one)})\ndef n(x): ...",
            "exactly one argument",
            "collect(source)",
        ),
        ("@asset(inputs={'x': one})\ndef n(x): ...", "collect(one)", "partitions_from(one)"),
        (
            "@asset(partitions={'z': partitions_from(one)})\ndef n(z, one): ...",
            "whose dimension is `k`",
            "call the dimension",
        ),
        (
            "@asset(partitions={'a': partitions(['1']), 'b': partitions(['1'])})\ndef two(a, b): ...\n"
            "@asset(partitions={'a': partitions_from(two)})\ndef n(a, two): ...",
            "2 dimensions",
            "partitions([...])",
        ),
        (
            "@asset(partitions={'k': partitions_from(one), 'b': partitions(['1'])})\ndef n(k, b, one): ...",
            "must be the only dimension",
            "declare every dimension with partitions([...])",
        ),
        (
            "@asset(partitions={'k': partitions([1, 2])})\ndef n(k: int): ...",
            "keys are strings, but `k` of `n` is annotated `int`",
            "annotate it `k: str`",
        ),
        (
            "@asset(partitions={'k': partitions([1, 2])}, batch='all')\ndef n(k: list[int]): ...",
            "keys are strings, but `k` of `n` is annotated `list[int]`",
            "annotate it `k: list[str]`",
        ),
    ],
)
def test_what_does_not_fit_is_a_usage_error_that_names_the_fix(project, code, told, fix):
    head = "from barca import asset, collect, partitions, partitions_from\n"
    head += "@asset(partitions={'k': partitions(['a'])})\ndef one(k): ...\n"
    project.write("pipeline.py", head + code)
    done = project.cli("get", "n", "pipeline.py", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr and fix in done.stderr and "pipeline.py" in done.stderr


MISTAKEN = """
    from barca import asset, partitions, partitions_from

    @asset(partitions={"k": partitions(["a"])})
    def one(k: str) -> str: return k

    @asset(inputs={"one": one})
    def whole(one) -> int: return 1

    @asset(inputs={"whole": whole})
    def below(whole: int) -> int: return whole

    @asset(inputs={"x": "gone.py:y"})
    def unknown(x) -> int: return x
"""


def test_a_node_that_does_not_fit_costs_itself_and_what_reads_it(project):
    project.write("pipeline.py", MISTAKEN)
    lost = [["pipeline.py:unknown"], ["pipeline.py:whole"], ["pipeline.py:below"]]
    for command in ("list", "status", "doctor"):
        done = project.cli(command, "--json")
        assert done.returncode == (2 if command == "doctor" else 0), (command, done.stderr)
        found = json.loads(done.stdout)
        assert [error["nodes"] for error in found["load_errors"]] == lost
        told = found["load_errors"][1]["error"]
        assert told.startswith("DefinitionError: pipeline.py:6: `whole` reads `one` as `one`, but")
        assert "collect(one)" in told and "partitions_from(one)" in told
    assert "pipeline.py:6: `whole` reads `one`" in project.cli("list", "--pretty").stdout
    done = project.cli("get", "one", "-o", "value", "--json")
    assert (done.returncode, json.loads(done.stdout)["final_output"], done.stderr) == (0, {"k=a": "a"}, "")
    for target, code, line in (
        ("whole", "definition", ":6:"),
        ("below", "load_error", ":6:"),
        ("unknown", "unknown_input", ":12:"),
    ):
        for command in ("get", "plan", "explain", "status"):
            done = project.cli(command, target, "--json")
            error = json.loads(done.stderr)
            assert (done.returncode, done.stdout, error["code"]) == (2, "", code)
            place = f"{error['file']}:{error.get('line')}: {error['error']}"
            assert f"pipeline.py{line}" in place
    done = project.cli("get", "--json")
    assert (done.returncode, json.loads(done.stdout)["steps_executed"]) == (0, 0)
    assert done.stderr.count("pipeline.py:whole") and done.stderr.count("pipeline.py:below")


def test_a_function_that_was_lost_says_why(project):
    project.write(
        "pipeline.py",
        MISTAKEN
        + """
    @asset(partitions={"k": partitions([1 / n for n in (0,)])})
    def raises(k: str) -> str: return k
""",
    )
    opened = project.open()
    assert list(opened.graph.nodes) == ["pipeline.py:one", "pipeline.py:raises"]
    module = sys.modules[opened.graph.nodes["pipeline.py:one"].definition.function.__module__]
    for name, told in {
        "whole": "collect(one)",
        "below": "it reads `pipeline.py:whole`",
        "raises": "ZeroDivisionError",
    }.items():
        with pytest.raises(BarcaError, match=re.escape(told)) as raised:
            opened.get(getattr(module, name))
        assert raised.value.kind == "usage"


def test_tasks_and_sensors_run_once_per_key(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, partitions_from, sensor, task
        @sensor(partitions={"k": partitions(["a", "b"])})
        def polled(k: str) -> str: return k
        @asset(partitions={"k": partitions_from(polled)})
        def kept(k: str, polled: str) -> str: return polled
        @task(partitions={"k": partitions_from(kept)})
        def sent(k: str, kept: str) -> str: return kept.upper()
        """,
    )
    assert project.open().run("sent").value == {"k=a": "A", "k=b": "B"}
    again = {step["id"]: step for step in project.open().run("sent").to_dict()["steps"]}
    assert [
        again[f"pipeline.py:{name}"]["partitions"]["will_run"] for name in ("polled", "kept", "sent")
    ] == [2, 0, 2]
    result = project.open().run("sent", partition={"k": "b"})
    assert (result.value, result.steps_executed) == ({"k=b": "B"}, 2)


def test_an_input_under_another_name(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, partitions_from
        @asset(partitions={"region": partitions(["emea", "apac"])})
        def sales(region: str) -> str: return region
        @asset(inputs={"s": sales}, partitions={"region": partitions_from(sales)})
        def margin(region: str, s: str) -> list: return [region, s]
        """,
    )
    assert project.get("margin").value == {
        "region=apac": ["apac", "apac"],
        "region=emea": ["emea", "emea"],
    }


def test_a_plan_lists_one_step_per_key(project):
    project.write("pipeline.py", PARTITIONS.format(constant="", keys='["emea", "amer", "apac"]'))
    plan = project.cli_json("plan", "pipeline.py")
    sales, margin, summary = (f"pipeline.py:{name}" for name in ("sales", "margin", "summary"))
    steps = [[stream["steps"] for stream in phase["streams"]] for phase in plan["phases"]]
    assert steps == [[[sales] * 3 + [margin] * 3], [[summary]]], "the fan-in has a phase of its own"
    assert plan["total_steps"] == 7
    some = project.cli_json("plan", "pipeline.py", "--partition", "region=emea")
    assert some["phases"][0]["streams"][0]["steps"] == [sales, margin]
    assert (some["total_steps"], len(some["phases"])) == (2, 1)
    pool = project.cli_json("plan", "pipeline.py", env={"BARCA_POOL_SIZE": "3"})
    assert (pool["pool_size"], pool["phases"]) == (3, plan["phases"])


@pytest.mark.parametrize("names", [["emea"], ["emea", "amer"]])
def test_a_fan_in_has_a_phase_of_its_own_with_one_key_and_with_one_worker(project, names):
    project.write("pipeline.py", PARTITIONS.format(constant="", keys=repr(names)))
    one = {"BARCA_POOL_SIZE": "1"}
    plan = project.cli_json("plan", env=one)
    assert (plan["pool_size"], plan["capacity"]) == (1, 1)
    first, last = (stream["steps"] for phase in plan["phases"] for stream in phase["streams"])
    assert first == ["pipeline.py:sales"] * len(names) + ["pipeline.py:margin"] * len(names)
    assert last == ["pipeline.py:summary"]
    assert project.cli_json("get", "summary", env=one)["phases"] == 2


def test_steps_of_a_plan_are_counted_past_a_thousand_keys(project):
    text = PARTITIONS.format(constant="COUNT = 1000", keys="[f'r{n:04}' for n in range(COUNT)]")
    project.write("pipeline.py", text)
    sales, margin, summary = (f"pipeline.py:{name}" for name in ("sales", "margin", "summary"))
    (first,), _ = (phase["streams"] for phase in project.cli_json("plan")["phases"])
    assert (len(first["steps"]), first["truncated"]) == (2000, False)
    project.edit("pipeline.py", "COUNT = 1000", "COUNT = 1001")
    plan = project.cli_json("plan")
    (first,), (last,) = (phase["streams"] for phase in plan["phases"])
    assert (first["steps"], first["truncated"]) == ([sales, margin], True)
    assert first["nodes"] == [{"id": sales, "steps": 1001}, {"id": margin, "steps": 1001}]
    assert (last["steps"], last["truncated"]) == ([summary], False)
    assert plan["total_steps"] == 2003
    told = project.cli("plan", "--pretty", env={"COLUMNS": "200"}).stdout
    assert f"{sales} (1,001)" in told and f"{margin} (1,001)" in told and "2,003 steps" in told


def test_keys_and_hashes_do_not_depend_on_the_number_of_workers(make_project):
    seen = []
    for workers in ("1", "3"):
        project = make_project(f"workers-{workers}")
        project.write("pipeline.py", PARTITIONS.format(constant="", keys="[f'r{n}' for n in range(7)]"))
        done = project.cli("get", "--json", env={"BARCA_POOL_SIZE": workers})
        assert done.returncode == 0, done.stderr
        rows = project.open()._reader().scan("materializations").collect(engine="in-memory")
        seen.append(sorted(rows.select("node", "key", "run_hash", "digest").rows()))
        assert project.cli_json("get", env={"BARCA_POOL_SIZE": "2"})["steps_executed"] == 0
    assert seen[0] == seen[1] and len(seen[0]) == 15

"""A failed key holds up what reads it, and nothing else."""

from __future__ import annotations

import pytest

PLANNING = """
    import pathlib
    from barca import asset, collect, partitions, partitions_from

    BAD = pathlib.Path(__file__).parent / "bad"

    @asset(partitions={"account": partitions(["a", "b", "c", "d", "e"])})
    def forecast(account: str) -> str:
        if BAD.exists() and account in BAD.read_text().split():
            raise ValueError(f"no history of {account}")
        return account

    @asset(partitions={"account": partitions_from(forecast)})
    def promo(account: str, forecast: str) -> str:
        return forecast.upper()

    @asset(inputs={"promo": promo}, partitions={"account": partitions(["a", "b", "c", "d", "e"])})
    def mailed(account: str, promo: str) -> str:
        return promo + "!"

    @asset(inputs={"every": collect(promo)})
    def plan(every: list[str]) -> str:
        return "".join(every)

    @asset(inputs={"plan": plan}, partitions={"half": partitions([1, 2])})
    def halves(half: str, plan: str) -> str:
        return plan[: len(plan) // int(half)]
"""


@pytest.fixture
def planning(project):
    project.write("planning.py", PLANNING)
    project.write("bad", "b")
    return project


def steps_of(result):
    return {step["id"].removeprefix("planning.py:"): step for step in result["steps"]}


@pytest.mark.parametrize("cutoff", [False, True])
def test_p1_other_keys_go_on_and_the_next_run_computes_the_rest(planning, cutoff):
    if cutoff:  # its readers are decided when it has ended
        planning.edit(
            "planning.py", 'partitions(["a", "b", "c", "d", "e"])})\ndef forecast',
            'partitions(["a", "b", "c", "d", "e"])}, cutoff=True)\ndef forecast',
        )  # fmt: skip
    result = planning.get().to_dict()
    assert (result["status"], result["failed_node"]) == ("failed", "planning.py:forecast[account=b]")
    steps = steps_of(result)
    assert steps["forecast"]["partitions"]["failed_keys"] == ["account=b"]
    blocked = {name: step for name, step in steps.items() if step["reason"] == "upstream_key_failed"}
    assert {name: (step["status"], step["detail"]) for name, step in blocked.items()} == {
        "promo[account=b]": ("skipped", "depends on 'forecast[account=b]', which failed"),
        "mailed[account=b]": ("skipped", "depends on 'promo[account=b]', which was skipped"),
    }
    whole = {name: step for name, step in steps.items() if step["reason"] == "upstream_failed"}
    assert {name: (step["status"], step["detail"]) for name, step in whole.items()} == {
        "plan": ("skipped", "depends on 'promo', which was skipped"),
        "halves": ("skipped", "depends on 'plan', which was skipped"),
    }
    assert result["steps_executed"] == 5 + 4 + 4
    assert result["steps_skipped"] == 2 + 2
    handed = steps["promo"]["partitions"]["will_run"]
    assert handed == (4 if cutoff else 5), "what an earlier phase lost is not planned"
    planning.write("bad", "")
    assert planning.ran() == {"forecast": 1, "promo": 1, "mailed": 1, "plan": 1, "halves": 2}
    assert planning.ran() == {}


def test_what_succeeded_is_returned_and_the_failed_key_runs_again(planning):
    result = planning.get("promo").to_dict("value")
    assert result["final_output"] == {f"account={key}": key.upper() for key in "acde"}
    again = planning.get("promo").to_dict()
    assert steps_of(again)["forecast"]["partitions"]["will_run_keys"] == ["account=b"]
    assert again["failed_node"] == "planning.py:forecast[account=b]"


def test_cached_keys_are_served_beside_failed_ones(planning):
    planning.write("bad", "")
    planning.ran()
    planning.edit("planning.py", 'raise ValueError(f"no history of {account}")', "raise KeyError(account)")
    planning.write("bad", "a e")
    result = planning.get("mailed", refresh="forecast", cascade=False).to_dict()
    steps = steps_of(result)
    assert result["failed_node"] == "planning.py:forecast[account=a]", "the first that failed"
    assert result["steps_executed"] == 5 + 3 + 3, "the code changed, so every key below runs again"
    assert [name for name in steps if name.startswith("mailed[")] == [
        "mailed[account=a]",
        "mailed[account=e]",
    ]


def test_status_says_what_waits_and_on_what(planning):
    planning.get()
    planning.write("bad", "b d")
    planning.edit("planning.py", "promo.upper()" if False else "forecast.upper()", "forecast.lower()")
    planning.get()
    found = planning.open().status().to_dict()
    caches = {node["name"]: node["cache"] for node in found["nodes"]}
    assert {name: cache["state"] for name, cache in caches.items()} == {
        "forecast": "partial",
        "promo": "blocked",
        "mailed": "blocked",
        "plan": "blocked",
        "halves": "blocked",
    }
    assert caches["forecast"]["detail"] == "1 of 1 missing keys failed: ValueError: no history of b"
    assert caches["promo"]["reason"] == "upstream_failed"
    assert caches["promo"]["detail"] == "1 of 1 missing keys wait on 'forecast': the same keys of it failed"
    assert caches["mailed"]["detail"] == "1 of 1 missing keys wait on 'promo': the same keys of it wait too"
    assert caches["plan"]["detail"] == "waits on 'promo': some keys of it wait too"
    assert caches["halves"]["detail"] == "2 of 2 missing keys wait on 'plan', which waits too"
    assert found["summary"]["blocked"] == 4


def test_status_gives_the_first_of_several_errors_as_such(planning):
    planning.write("bad", "d b")
    planning.get("forecast")
    caches = {node["name"]: node["cache"] for node in planning.open().status().to_dict()["nodes"]}
    assert caches["forecast"]["detail"] == (
        "2 of 2 missing keys failed, the first: ValueError: no history of b"
    )
    planning.edit("planning.py", 'raise ValueError(f"no history of {account}")', 'raise ValueError("no")')
    planning.get("forecast")
    caches = {node["name"]: node["cache"] for node in planning.open().status().to_dict()["nodes"]}
    assert caches["forecast"]["detail"] == "2 of 2 missing keys failed: ValueError: no"


def test_an_explanation_says_what_failed_and_what_waits(planning):
    planning.get()
    own = planning.open().explain("forecast", partition={"account": "b"}).to_dict()
    assert [(key["key"], key["state"], key["error"]) for key in own["keys"]] == [
        ("account=b", "stale", "ValueError: no history of b")
    ]
    below = planning.open().explain("promo").to_dict()
    assert below["nodes"][0]["blocked"].startswith("1 of 1 missing keys wait on 'forecast'")
    shown = planning.cli("explain", "forecast", "--pretty", env={"COLUMNS": "200"}).stdout
    assert "no result yet; it failed: ValueError: no history of b" in shown


def test_a_node_with_failed_keys_of_its_own_is_told_by_those(planning):
    planning.edit(
        "planning.py", "return forecast.upper()", "return forecast.upper() if account != 'c' else 1 / 0"
    )
    planning.get()
    caches = {node["name"]: node["cache"] for node in planning.open().status().to_dict()["nodes"]}
    assert (caches["promo"]["state"], caches["promo"]["detail"]) == (
        "partial",
        "1 of 2 missing keys failed: ZeroDivisionError: division by zero",
    )
    assert caches["mailed"]["state"] == "blocked"


def test_a_node_of_which_some_keys_only_are_held_up_is_stale_for_its_own_reason(planning):
    planning.get()
    planning.edit("planning.py", 'return promo + "!"', 'return promo + "?"')
    cache = {node["name"]: node["cache"] for node in planning.open().status().to_dict()["nodes"]}["mailed"]
    assert (cache["state"], cache["changed"]) == ("stale", ["function"])


def test_the_command_line_counts_what_was_skipped_and_selects_what_is_blocked(planning):
    done = planning.cli("get", "planning.py", "--json")
    assert done.returncode == 1
    assert "note: 4 downstream steps skipped" in done.stderr
    assert '"node": "planning.py:forecast"' in done.stderr and '"key": "account=b"' in done.stderr
    found = planning.cli_json("status", "planning.py", "--state", "blocked")
    assert [node["name"] for node in found["nodes"]] == ["promo", "mailed", "plan", "halves"]
    assert found["summary"]["blocked"] == 4


POLLED = """
    import pathlib
    from barca import asset, collect, partitions, partitions_from, sensor

    BAD = pathlib.Path(__file__).parent / "bad"

    @{kind}
    def polled(k: str) -> str:
        if BAD.exists() and k == "b":
            raise ConnectionError("no answer")
        return k

    @asset(partitions={{"k": partitions_from(polled)}})
    def kept(k: str, polled: str) -> str:
        return polled

    @asset(partitions={{"k": partitions_from(kept)}})
    def below(k: str, kept: str) -> str:
        return kept

    @asset(inputs={{"every": collect(below)}})
    def total(every: list[str]) -> str:
        return "".join(every)
"""

KINDS = {
    "a sensor": ('sensor(partitions={"k": partitions(["a", "b", "c"])})', {}),
    "a refreshed cutoff": (
        'asset(partitions={"k": partitions(["a", "b", "c"])}, cutoff=True)',
        {"refresh": "polled"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_content_decides_is_not_served_from_before_when_its_key_failed(project, kind):
    """What the key returned in an earlier run says nothing about what it would return now."""
    code, options = KINDS[kind]
    project.write("planning.py", POLLED.format(kind=code))
    assert project.get("total").value == "abc"
    project.write("bad", "")
    result = project.get(["below", "total"], **options).to_dict("value")
    assert result["failed_node"] == "planning.py:polled[k=b]"
    assert result["targets"] == {"below": {"k=a": "a", "k=c": "c"}, "total": None}
    steps = steps_of(result)
    assert steps["kept[k=b]"]["detail"] == "depends on 'polled[k=b]', which failed"
    assert steps["below[k=b]"]["detail"] == "depends on 'kept[k=b]', which was skipped"
    assert steps["kept"]["partitions"]["cached"] == 2
    assert steps["total"]["reason"] == "upstream_failed"
    assert result["steps_executed"] == 3
    (project.root / "bad").unlink()
    again = project.get(["below", "total"], **options)
    assert again.steps_executed == 3, "the answers are the same, so that nothing below runs"
    assert again.value["total"] == "abc"


@pytest.mark.parametrize("batch", [None, "all"])
@pytest.mark.parametrize("cutoff", [False, True])
def test_a_key_that_an_input_does_not_have_fails_alone(project, batch, cutoff):
    """Same dimension, other keys: nothing can be computed for it, and nothing is passed over in silence."""
    body = "return {x: y[x] for x in k}" if batch else "return y"
    project.write(
        "planning.py",
        f"""
        from barca import asset, collect, partitions
        @asset(partitions={{"k": partitions(["a", "b"])}}, cutoff={cutoff})
        def y(k: str) -> str: return k
        @asset(partitions={{"k": partitions(["a", "c", "b"])}}, inputs={{"y": y}}, batch={batch!r})
        def x(k{": list[str]" if batch else ""}, y): {body}
        @asset(inputs={{"every": collect(x)}})
        def total(every: list[str]) -> str: return "".join(every)
        """,
    )
    result = project.get(["x", "total"])
    told = result.to_dict("value")
    assert told["failed_node"] == "planning.py:x[k=c]"
    assert "the input `planning.py:y` has no result for `k=c`" in told["error"]
    assert told["targets"] == {"x": {"k=a": "a", "k=b": "b"}, "total": None}
    caches = {node["name"]: node["cache"] for node in project.open().status().to_dict()["nodes"]}
    assert (caches["x"]["state"], caches["total"]["state"]) == ("partial", "blocked")
    project.edit("planning.py", 'partitions(["a", "b"])', 'partitions(["a", "b", "c"])')
    assert project.ran(["x", "total"]) == {"y": 1, "x": 1, "total": 1}


def test_what_was_skipped_serves_nothing_of_an_earlier_run(project):
    project.write("numbers.json", '{"a": 1, "b": 2}')
    project.write(
        "pipeline.py",
        """
        import json, pathlib
        from barca import asset, collect, partitions_from, sensor

        @sensor
        def numbers() -> dict:
            return json.loads((pathlib.Path(__file__).parent / "numbers.json").read_text())

        @asset(partitions={"k": partitions_from(numbers)})
        def doubled(k: str, numbers: int) -> int:
            return numbers * 2

        @asset(inputs={"every": collect(doubled)})
        def total(every: list) -> int:
            return sum(every)
        """,
    )
    assert project.open().get("total").to_dict("value")["final_output"] == 6
    (project.root / "numbers.json").unlink()
    for target, nothing in (("total", None), ("doubled", {})):
        failed = project.open().get(target).to_dict("value")
        assert (failed["status"], failed["final_output"]) == ("failed", nothing)
        assert (failed["steps_executed"], failed["steps_cached"]) == (1, 0)
        run = project.open().history()["runs"][0]
        assert (run["status"], run["steps_executed"], run["steps_cached"]) == ("failed", 1, 0)


def test_the_command_line_counts_failed_keys_that_it_does_not_tell_one_by_one(project):
    project.write(
        "many.py",
        """
        from barca import Failed, asset, partitions

        @asset(partitions={"k": partitions([str(n) for n in range(1_200)])}, batch="all")
        def few(k: list[str]) -> dict:
            return {key: Failed("no") if int(key) < 5 else key for key in k}

        @asset(partitions={"k": partitions([str(n) for n in range(1_200)])}, batch="all")
        def many(k: list[str]) -> dict:
            return {key: Failed("no") for key in k}
        """,
    )
    done = project.cli("get", "few,many", "many.py", "--json")
    assert done.returncode == 1
    assert done.stderr.count("failed many.py:many[") == 5
    assert "note: 1,200 keys of many.py:many failed\n" in done.stderr
    assert "keys of many.py:few" not in done.stderr


def test_steps_of_a_large_run_are_listed_with_those_that_failed(project):
    project.write(
        "many.py",
        """
        from barca import Failed, asset, partitions

        @asset(partitions={"k": partitions([f"{n:04}" for n in range(1_200)])}, batch="all")
        def few(k: list[str]) -> dict:
            return {key: Failed("no") if key >= "1198" else key for key in k}
        """,
    )
    run = project.get("few").run_id
    told = project.open().history(run)
    assert told["steps_page"] == {"total": 1_200, "truncated": True}
    keys = [step["partition_key"] for step in told["steps"]]
    assert keys == [f"k={n:04}" for n in (*range(998), 1198, 1199)]
    shown = project.cli("history", run, "--pretty").stdout
    assert "1,000 of 1,200 steps shown, failed ones before others" in shown


def test_a_sensor_that_fails_is_a_problem_until_it_answers_again(project):
    project.write(
        "planning.py",
        """
    import pathlib
    from barca import Always, asset, partitions, partitions_from, sensor

    BAD = pathlib.Path(__file__).parent / "bad"

    @sensor
    def seen() -> dict:
        if BAD.exists():
            raise ConnectionError("no server")
        return {"a": 1}

    @asset(partitions={"key": partitions_from(seen)})
    def size(key: str, seen: int) -> int:
        return seen

    @asset(partitions={"key": partitions(["a", "b"])}, freshness=Always())
    def looked(key: str) -> str:
        if BAD.exists() and key == "b":
            raise ValueError("no b")
        return key
    """,
    )
    project.get(["size", "looked"])
    assert project.cli_json("status", "--problems")["nodes"] == []
    project.write("bad", "")
    project.get(["size", "looked"])
    problems = project.cli_json("status", "--problems")["nodes"]
    assert {node["name"]: node["cache"]["detail"] for node in problems} == {
        "seen": "ConnectionError: no server",
        "looked": "1 of 2 keys failed: ValueError: no b",
    }
    assert all(node["cache"]["failed"] and node["cache"]["state"] == "always_runs" for node in problems)
    (project.root / "bad").unlink()
    project.get(["size", "looked"])
    assert project.cli_json("status", "--problems")["nodes"] == []


def test_an_error_that_says_nothing_is_told_by_its_type(project, caplog):
    project.write("pipeline.py", """
    from barca import asset

    @asset(retries=2)
    def checked() -> int:
        assert False
    """)  # fmt: skip
    done = project.cli("get", "checked", "--json")
    assert "failed pipeline.py:checked: AssertionError\n" in done.stderr
    found = project.open().history()["runs"][0]
    (step,) = project.open().history(found["run_id"])["steps"]
    assert (found["error"], step["error"]) == ("AssertionError", "AssertionError")
    result = project.get("checked")
    assert (result.error.message, result.to_dict()["error"]) == ("AssertionError", "AssertionError")
    messages = [record.getMessage() for record in caplog.records]
    assert "pipeline.py:checked failed: AssertionError" in messages
    assert "pipeline.py:checked: attempt 2 of 1 key in 0 s, after AssertionError" in messages

"""Batching changes how many calls do the work, and nothing about results or what is cached."""

from __future__ import annotations

import itertools
import json

import pytest

from barca.errors import SelectionError

CHAIN = """
    import pathlib
    import polars as pl
    from barca import asset, batches, batches_by, collect, partitions_from, sensor

    HERE = pathlib.Path(__file__).parent

    def note(name, keys):
        with open(HERE / f"{name}.calls", "a") as file:
            file.write(",".join(keys) + "\\n")

    def region_of(key):
        return int(key[1:]) % 3

    def groups():
        return [["r00", "r03"], ["r01", "r02", "r05"]]

    @sensor
    def versions() -> dict:
        import json
        return json.loads((HERE / "versions.json").read_text())

    @asset(partitions={"r": partitions_from(versions)}, batch=FORM)
    def cleaned(r: list[str], versions: dict) -> pl.DataFrame:
        note("cleaned", r)
        rows = [(key, n, versions[key]) for key in r for n in range(int(key[1:]) % 4)]
        return pl.DataFrame(rows, schema={"r": pl.String, "n": pl.Int64, "version": pl.String}, orient="row")

    @asset(partitions={"r": partitions_from(cleaned)}, batch=FORM)
    def scored(r: list[str], cleaned: pl.LazyFrame) -> dict:
        note("scored", r)
        totals = dict(cleaned.group_by("r").agg(pl.col("n").sum()).collect().iter_rows())
        return {key: {"total": totals.get(key, 0)} for key in r}

    @asset(inputs={"every": collect(scored)})
    def total(every: list) -> int:
        return sum(one["total"] for one in every)
"""
FORMS = {
    "none": "1",
    "int": "4",
    "all": '"all"',
    "auto": '"auto"',
    "groups": "batches(groups())",
    "label": "batches_by(region_of)",
    "label and size": "batches_by(region_of, max_size=2)",
}
KEYS = [f"r{number:02d}" for number in range(12)]


def write(project, form):
    project.write("pipeline.py", CHAIN.replace("FORM", FORMS[form]))
    if not (project.root / "versions.json").exists():
        versions(project, {key: "v1" for key in KEYS})


def versions(project, values):
    (project.root / "versions.json").write_text(json.dumps(values))


def calls(project, name):
    path = project.root / f"{name}.calls"
    found = [line.split(",") for line in path.read_text().splitlines()] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def results(project):
    """Key of each node to run hash and digest, of the newest results."""
    reader = project.open()._reader()
    return {
        (node, row["key"]): (row["run_hash"], row["digest"])
        for node in ("cleaned", "scored", "total")
        for row in reader.materialized(f"pipeline.py:{node}").iter_rows(named=True)
    }


@pytest.mark.parametrize("form", FORMS)
def test_a_result_of_one_grouping_is_a_cache_hit_for_every_other(project, form):
    write(project, form)
    assert project.ran("total") == {"versions": 1, "cleaned": 12, "scored": 12, "total": 1}
    before = results(project)
    for other in FORMS:
        write(project, other)
        assert project.ran("total") == {"versions": 1}, "nothing but the sensor"
    assert results(project) == before


def test_every_grouping_gives_the_same_hashes_and_digests(make_project):
    found = []
    for form in FORMS:
        project = make_project(form)
        write(project, form)
        project.get("total")
        found.append(results(project))
        covered = [key for call in calls(project, "scored") for key in call]
        assert sorted(covered) == KEYS, "each key in one call"
    assert all(other == found[0] for other in found)
    assert len(found[0]) == 25


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("none", [[key] for key in KEYS]),
        ("int", [KEYS[:4], KEYS[4:8], KEYS[8:]]),
        ("all", [KEYS]),
        ("groups", [["r00", "r03"], ["r01", "r02", "r05"], *[[key] for key in ["r04", *KEYS[6:]]]]),
        ("label", [KEYS[0::3], KEYS[1::3], KEYS[2::3]]),
        ("label and size", [KEYS[0:4:3], KEYS[1:5:3], KEYS[2:6:3], KEYS[6::3], KEYS[7::3], KEYS[8::3]]),
    ],
)
def test_keys_are_grouped_in_declared_order(project, form, expected):
    write(project, form)
    project.get("cleaned")
    assert calls(project, "cleaned") == expected


@pytest.mark.parametrize("form", FORMS)
def test_only_keys_that_need_to_run_are_passed(project, form):
    write(project, form)
    project.get("total")
    calls(project, "cleaned"), calls(project, "scored")
    versions(project, {**{key: "v1" for key in KEYS}, "r02": "v2", "r05": "v2", "r11": "v2"})
    assert project.ran("total") == {"versions": 1, "cleaned": 3, "scored": 3, "total": 1}
    made = calls(project, "cleaned")
    assert sorted(itertools.chain(*made)) == ["r02", "r05", "r11"]
    assert len(made) == {"none": 3, "groups": 2, "label and size": 2}.get(form, 1)
    assert sorted(itertools.chain(*calls(project, "scored"))) == ["r02", "r05", "r11"]


def test_the_order_of_a_source_is_the_order_of_keys(project):
    write(project, "int")
    versions(project, {key: "v1" for key in reversed(KEYS)})
    project.get("cleaned")
    assert calls(project, "cleaned")[0] == ["r11", "r10", "r09", "r08"]


# --- what a run overrides ---------------------------------------------------------------------------


def grouping(project, **options):
    steps = project.open().plan("total", **options).to_dict()["steps"]
    return {
        step["id"].rpartition(":")[2]: (step["batch"]["grouping"], step["batch"]["calls"])
        for step in steps
        if step.get("batch")
    }


def test_a_run_overrides_the_declared_grouping(project):
    write(project, "groups")
    project.get("versions")
    declared = ("batches([...])", 9)
    assert grouping(project) == {"cleaned": declared, "scored": declared}
    assert grouping(project, batch="all") == {"cleaned": ("batch=all", 1), "scored": ("batch=all", 1)}
    assert grouping(project, batch=5) == {"cleaned": ("batch=5", 3), "scored": ("batch=5", 3)}
    assert grouping(project, batch="none")["cleaned"] == ("batch=1", 12)
    assert grouping(project, batch={"scored": "all"}) == {"cleaned": declared, "scored": ("batch=all", 1)}
    both = {None: 6, "pipeline.py:scored": "all"}
    assert grouping(project, batch=both) == {"cleaned": ("batch=6", 2), "scored": ("batch=all", 1)}


def test_the_override_on_the_command_line(project):
    write(project, "groups")
    project.get("versions")

    def told(*options):
        steps = project.cli_json("get", "total", "--dry-run", *options)["steps"]
        return {step["id"].rpartition(":")[2]: step["batch"]["calls"] for step in steps if step.get("batch")}

    assert told("--batch", "all") == {"cleaned": 1, "scored": 1}
    assert told("--batch", "cleaned=5", "--batch", "scored=none") == {"cleaned": 3, "scored": 12}
    assert told("--batch", "4", "--batch", "scored=all") == {"cleaned": 3, "scored": 1}
    for wrong, named in (("total=2", "takes one key a call"), ("0", "positive"), ("nobody=2", "nobody")):
        done = project.cli("get", "total", "--batch", wrong, "--json")
        assert done.returncode == 2
        assert named in done.stderr
    shown = project.cli("get", "total", "--dry-run", "--pretty", "--batch", "all", env={"COLUMNS": "200"})
    assert "12 keys in 1 call (batch=all)" in shown.stdout


# --- selections, fan-ins, dimensions ----------------------------------------------------------------


def test_b3_a_selection_is_a_set_and_is_grouped_after_it(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions

        @asset(partitions={"k": partitions(list("abcdefghij"))}, batch=10)
        def node(k: list[str]) -> dict:
            return {key: k for key in k}
        """,
    )
    seen = project.get("node", partition={"k": ["a", "c", "g"]}).value
    assert seen == {f"k={key}": ["a", "c", "g"] for key in "acg"}, "one call with exactly those"
    rest = project.get("node").value
    assert rest["k=b"] == list("bdefhij")


def test_b4_labels_of_two_dimensions_get_a_dict_and_groups_never_mix(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, batches_by, partitions

        def shop(key):
            assert sorted(key) == ["month", "shop"], key
            return key["shop"]

        @asset(
            partitions={"shop": partitions(["x", "y", "z"]), "month": partitions([1, 2, 3])},
            batch=batches_by(shop),
        )
        def node(shop: list[str], month: list[str]) -> dict:
            return {pair: sorted(zip(shop, month)) for pair in zip(shop, month)}
        """,
    )
    seen = project.get("node", partition={"shop": ["x", "z"], "month": ["1", "3"]}).value
    assert seen == {
        f"month={month},shop={shop}": [(shop, "1"), (shop, "3")] for month in "13" for shop in "xz"
    }
    [step] = project.open().plan("node").to_dict()["steps"]
    assert step["batch"] == {"grouping": "batches_by(shop)", "keys": 5, "calls": 3}


def test_groups_of_two_dimensions_name_each_key_by_a_dict(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, batches, partitions

        GROUPS = [[{"a": "1", "b": "x"}, {"b": "y", "a": "2"}]]

        @asset(partitions={"a": partitions([1, 2]), "b": partitions(["x", "y"])}, batch=batches(GROUPS))
        def node(a: list[str], b: list[str]) -> dict:
            return {pair: len(a) for pair in zip(a, b)}
        """,
    )
    assert project.get("node").value == {"a=1,b=x": 2, "a=1,b=y": 1, "a=2,b=x": 1, "a=2,b=y": 2}


def test_batched_tasks_run_whenever_they_are_asked(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, partitions_from, task

        @asset(partitions={"k": partitions(["a", "b"])})
        def one(k: str) -> str:
            return k.upper()

        @task(partitions={"k": partitions_from(one)}, batch="all")
        def publish(k: list[str], one: dict[str, str]) -> dict:
            return {key: one[key] + str(len(k)) for key in k}
        """,
    )
    opened = project.open()
    assert opened.run("publish").value == {"k=a": "A2", "k=b": "B2"}
    steps = project.open().run("publish", batch=1).to_dict()["steps"]
    assert {step["id"].rpartition(":")[2]: step["status"] for step in steps} == {
        "one": "cached",
        "publish": "ran",
    }


# --- what fails -------------------------------------------------------------------------------------

ANSWERS = """
    import pathlib
    from barca import Failed, asset, partitions

    HERE = pathlib.Path(__file__).parent

    @asset(partitions={"k": partitions([f"c{n:02d}" for n in range(100)])}, batch="all", retries=RETRIES)
    def node(k: list[str]) -> dict:
        with open(HERE / "node.calls", "a") as file:
            file.write(",".join(k) + "\\n")
        print(f"asked for {len(k)} keys")
        ANSWER
"""


def write_answer(project, answer, retries=1):
    project.write("pipeline.py", ANSWERS.replace("RETRIES", str(retries)).replace("ANSWER", answer))


def steps_of(project, result):
    return {step["partition_key"]: step for step in project.open().history(result.run_id)["steps"]}


RAISES = """if "c42" in k:
            raise ValueError(f"c42 is bad, of {len(k)}")
        return {key: 1 for key in k}"""


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_b1_one_bad_key_is_found_by_halving_and_has_its_own_message_and_log(project, executor):
    write_answer(project, RAISES)
    result = project.open(executor=executor).get("node")
    sizes = [len(call) for call in calls(project, "node")]
    assert sizes[0] == 100 and max(sizes[1:]) <= 50 and sum(size == 1 for size in sizes) >= 1
    out = result.to_dict()
    assert (out["status"], out["failed_node"]) == ("failed", "pipeline.py:node[k=c42]")
    assert len(out["final_output"]) == 99
    assert out["steps"][0]["batch"]["calls"] == len(sizes), "those that were made"
    steps = steps_of(project, result)
    assert steps["k=c42"]["error_message"] == "c42 is bad, of 1"
    assert "raise ValueError" in steps["k=c42"]["error_traceback"]
    assert sum(step["status"] == "success" for step in steps.values()) == 99
    lines = [line["line"] for line in project.open().logs(result.run_id, step="node[k=c42]")]
    assert lines[0] == "asked for 100 keys" and lines[-1] == "asked for 1 keys", "every call it was in"


def test_lines_of_a_key_are_those_of_the_newest_run_that_ran_it(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions

        @asset(partitions={"k": partitions(["a", "b", "c"])}, batch="all")
        def node(k: list[str]) -> dict:
            print("asked for", *k)
            return dict.fromkeys(k, 1)

        @asset(partitions={"k": partitions(["a", "b"])}, batch="all")
        def other(k: list[str]) -> dict:
            print("another")
            return dict.fromkeys(k, 1)

        @asset(partitions={"k": partitions(["a"])})
        def single(k: str) -> int:
            print("alone")
            return 1
        """,
    )
    first = project.get(["node", "other", "single"], partition={"k": ["a", "b"]}).run_id
    second = project.get("node").run_id

    def told(step, run_id=None):
        return [(line["run_id"], line["line"]) for line in project.open().logs(run_id, step=step)]

    assert told("node[k=a]") == [(first, "asked for a b")], "it was cached in the newest run"
    assert told("node[k=c]") == told("node") == [(second, "asked for c")]
    # a batched call is named as it is shown
    assert told("node[2 keys]") == told("node[2 keys]", first) == [(first, "asked for a b")]
    assert told("pipeline.py:node[1 key]") == [(second, "asked for c")]
    for step, run_id in (
        ("node[2 keys]", second),
        ("node[7 keys]", None),
        ("node[d]", None),
        ("node[]", first),
    ):
        with pytest.raises(SelectionError, match=r"has no step `node\[|`node\[.*` was never run") as raised:
            told(step, run_id)
        assert raised.value.remediation.endswith("valid: `k=a`, `k=b`, `k=c`")
    with pytest.raises(SelectionError, match=r"`single\[1 key\]` was never run"):
        told("single[1 key]")
    with pytest.raises(SelectionError, match="there is no node `nodes`") as raised:
        told("nodes[k=a]")
    assert raised.value.remediation.startswith("did you mean `node`?")
    assert told("node[k=a]", second) == [], "it was cached there"
    done = project.cli("logs", "--step", "node[k=d]")
    assert (done.returncode, done.stdout) == (2, "")
    assert json.loads(done.stderr)["code"] == "unknown_key"
    assert len(json.loads(project.cli("logs", "--step", "node[2 keys]").stdout)) == 1
    assert told("node[k=a]", second) == [], "a run that is named is the one that is shown"
    done = project.cli("logs", "--step", "node[k=a]", "--pretty")
    assert "asked for a b" in done.stdout
    assert done.stderr == f"from run {first}, the newest that ran node[k=a]\n"
    assert project.cli("logs", "--step", "node[k=c]", "--pretty").stderr == ""


def test_b1_after_the_fix_outside_of_the_code_the_bad_key_runs_alone(project):
    write_answer(
        project,
        """if "c42" in k and not (HERE / "fixed").exists():
            raise ValueError("bad")
        return {key: 1 for key in k}""",
    )
    assert project.get("node").status == "failed"
    calls(project, "node")
    (project.root / "fixed").touch()
    assert project.ran("node") == {"node": 1}
    assert calls(project, "node") == [["c42"]]


def test_b2_keys_without_an_answer_fail_by_name(project):
    write_answer(project, "return {key: 1 for key in k if key not in ('c03', 'c50', 'c99')}")
    done = project.cli("get", "node", "--json")
    assert done.returncode == 1
    steps = project.open().history(json.loads(done.stdout)["run_id"])["steps"]
    failed = {step["partition_key"]: step["error_message"] for step in steps if step["status"] == "failed"}
    assert failed == {f"k={key}": f"no result for k={key}" for key in ("c03", "c50", "c99")}
    assert len(steps) == 100


def test_b2_an_answer_for_another_key_fails_the_whole_call_naming_it(project):
    write_answer(project, "return {key: 1 for key in [*k, 'zz']}")
    result = project.get("node")
    steps = steps_of(project, result)
    assert {step["status"] for step in steps.values()} == {"failed"}
    assert all("answered for `k=zz`" in step["error_message"] for step in steps.values())


def test_b2_one_key_that_is_answered_under_another_name_does_not_cost_the_others(project):
    write_answer(project, "return {'C42' if key == 'c42' else key: 1 for key in k}")
    steps = steps_of(project, project.get("node"))
    assert [key for key, step in steps.items() if step["status"] == "failed"] == ["k=c42"]
    assert "answered for `k=C42`" in steps["k=c42"]["error_message"]


def test_cutoff_is_by_key_and_rows_in_another_order_are_the_same(project):
    project.write(
        "pipeline.py",
        """
        import pathlib
        import polars as pl
        from barca import asset, partitions, partitions_from

        @asset(partitions={"k": partitions(["a", "b", "c"])}, batch="all", cutoff=True)
        def rows(k: list[str]) -> pl.DataFrame:
            table = pl.DataFrame({"k": [x for x in k for _ in range(3)]})
            table = table.with_columns(n=pl.int_range(pl.len()).over("k"))
            return table  # CHANGED

        @asset(partitions={"k": partitions_from(rows)}, batch="all")
        def total(k: list[str], rows: pl.LazyFrame) -> pl.LazyFrame:
            with open(pathlib.Path(__file__).with_name("total.calls"), "a") as file:
                file.write(",".join(k) + "\\n")
            return rows.group_by("k").agg(pl.col("n").sum())
        """,
    )
    project.get("total")
    calls(project, "total")
    project.edit("pipeline.py", "return table  # CHANGED", "return table.reverse()")
    assert project.ran("total") == {"rows": 3}, "the rows backwards"
    project.edit("pipeline.py", "table.reverse()", "table.with_columns(pl.col('n') + (pl.col('k') == 'b'))")
    assert project.ran("total") == {"rows": 3, "total": 1}
    assert calls(project, "total") == [["b"]]


def test_b2_a_key_given_twice_is_an_error_naming_it(project):
    write_answer(project, "yield from [('c00', 1), ('c00', 2)]")
    result = project.get("node", partition={"k": ["c00", "c01"]})
    assert "answered twice for `k=c00`" in steps_of(project, result)["k=c00"]["error_message"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("return None", "returned nothing"),
        ("return 5", "returned a value of type `int`"),
        ("return [(key, 1) for key in k]", "returned a value of type `list`"),
        ("yield 5", "yielded a value of type `int`"),
        ("return Failed('no prices')", "returned Failed('no prices') without a key"),
        ("import polars as pl; return pl.DataFrame({'other': k})", "without a column `k`"),
    ],
)
def test_an_answer_that_has_no_form_of_one_fails_each_key_once_and_is_not_asked_for_again(
    project, answer, told
):
    write_answer(project, answer, retries=3)
    result = project.get("node")
    assert len(calls(project, "node")) == 1
    steps = steps_of(project, result)
    assert len(steps) == 100 and {step["status"] for step in steps.values()} == {"failed"}
    assert all(told in step["error_message"] for step in steps.values())


def test_failed_may_be_raised(project):
    write_answer(
        project,
        """if "c42" in k:
            raise Failed("no prices yet")
        return {key: 1 for key in k}""",
    )
    steps = steps_of(project, project.get("node"))
    assert [key for key, step in steps.items() if step["status"] == "failed"] == ["k=c42"]
    assert (steps["k=c42"]["error_type"], steps["k=c42"]["error_message"]) == ("Failed", "no prices yet")


def test_failed_keys_alone_are_tried_again_as_often_as_configured(project):
    write_answer(
        project,
        """attempts = len((HERE / "node.calls").read_text().splitlines())
        answer = {key: 1 for key in k}
        if "c04" in k and attempts < 3:
            answer["c04"] = Failed("not yet")
        if "c07" in k:
            answer["c07"] = Failed("never")
        return answer""",
        retries=3,
    )
    result = project.get("node")
    assert [len(call) for call in calls(project, "node")] == [100, 2, 2], "the failed keys only"
    steps = steps_of(project, result)
    assert (steps["k=c04"]["status"], steps["k=c04"]["attempts"]) == ("success", 3)
    assert (steps["k=c07"]["status"], steps["k=c07"]["attempts"]) == ("failed", 3)
    assert steps["k=c07"]["error_message"] == "never"
    assert steps["k=c00"]["attempts"] == 1


def test_attempts_in_larger_calls_count_for_a_single_key(project):
    write_answer(project, RAISES, retries=3)
    project.get("node", partition={"k": ["c41", "c42"]})
    assert [len(call) for call in calls(project, "node")] == [2, 1, 1, 1], "two and then two more of c42"
    project.get("node", partition={"k": [f"c{n}" for n in range(40, 48)]})
    with_bad = [len(call) for call in calls(project, "node") if "c42" in call]
    assert with_bad == [7, 3, 1], "the third attempt is its last"


def test_b5_retries_of_one_key_calls_are_counted_key_by_key(project):
    project.write(
        "pipeline.py",
        """
        import pathlib, time
        from barca import asset, partitions

        HERE = pathlib.Path(__file__).parent

        def tries(k):
            with open(HERE / f"{k}.tries", "a") as file:
                file.write("x")
            return len((HERE / f"{k}.tries").read_text())

        @asset(
            partitions={"k": partitions([f"k{n}" for n in range(10)])}, batch=1, retries=3, timeout_seconds=1.5
        )
        def node(k: list[str]) -> dict:
            [key] = k
            if key == "k7":
                raise ValueError("always")
            if key == "k4" and tries(key) < 3:
                time.sleep(60)
            return {key: 1}
        """,
    )
    result = project.open(executor="processes").get("node")
    attempts = {key: step["attempts"] for key, step in steps_of(project, result).items()}
    assert attempts == {f"k=k{n}": 3 if n in (4, 7) else 1 for n in range(10)}
    failed = [key for key, step in steps_of(project, result).items() if step["status"] == "failed"]
    assert failed == ["k=k7"]


def test_a_call_is_recorded_once_with_its_keys_time_and_memory(project):
    write_answer(project, "return {key: 1 for key in k}")
    result = project.get("node", batch=60)
    record = project.open().history(result.run_id)
    assert [(call["step"], call["keys"]) for call in record["calls"]] == [
        ("pipeline.py:node[60 keys]", 60),
        ("pipeline.py:node[40 keys]", 40),
    ]
    for call in record["calls"]:
        assert call["status"] == "success" and call["attempts"] == 1 and call["parent"] is None
        assert call["elapsed_seconds"] > 0 and call["max_rss_bytes"] > 10**6
        members = [step for step in record["steps"] if step["batch"] == call["batch"]]
        assert len(members) == call["keys"], "keys are linked to their call"
    lines = project.open().logs(result.run_id, step="node[k=c99]")
    assert [line["line"] for line in lines] == ["asked for 40 keys"]
    assert len(project.open().logs(result.run_id)) == 2, "recorded once"
    shown = project.cli("history", result.run_id, "--pretty", env={"COLUMNS": "200"})
    assert "pipeline.py:node[60 keys]" in shown.stdout


@pytest.mark.slow
def test_a_call_starts_once_its_own_keys_are_ready(project):
    project.write(
        "pipeline.py",
        """
        import pathlib, time
        from barca import asset, partitions, partitions_from

        HERE = pathlib.Path(__file__).parent

        @asset(partitions={"k": partitions([f"k{n}" for n in range(6)])}, batch=2)
        def first(k: list[str]) -> dict:
            if "k4" in k:
                deadline = time.monotonic() + 60
                while not (HERE / "begun").exists():
                    assert time.monotonic() < deadline, "the second asset waits for all of the first"
                    time.sleep(0.05)
            return {key: 1 for key in k}

        @asset(partitions={"k": partitions_from(first)}, batch=2)
        def second(k: list[str], first: dict) -> dict:
            (HERE / "begun").touch()
            return {key: first[key] + 1 for key in k}
        """,
    )
    project.write("barca.toml", "[execution]\npool_size = 2\n")
    result = project.open(executor="processes").get("second")
    assert result.status == "success"
    assert result.value == {f"k=k{n}": 2 for n in range(6)}


RUNS = [  # form, options, workers, threads of Polars
    ("all", (), 1, 1),
    ("all", ("--batch", "500"), 2, 2),
    ("label", (), 1, 2),
    ("none", ("--batch", "cleaned=all"), 2, 1),
]


@pytest.mark.slow
def test_b6_grouping_workers_and_threads_change_nothing(make_project):
    found = []
    for form, options, workers, threads in RUNS:
        project = make_project(f"run-{len(found)}")
        write(project, form)
        versions(project, {f"r{number:04d}": "v1" for number in range(5000)})
        project.write("barca.toml", f"[execution]\npool_size = {workers}\n")
        environment = {"POLARS_MAX_THREADS": str(threads)}
        done = project.cli("get", "scored", *options, "--json", env=environment, timeout=600)
        assert done.returncode == 0, done.stderr
        found.append(results(project))
        sizes = {len(call) for call in calls(project, "scored")}
        assert sizes == {"none": {1}, "label": {1667, 1666}}.get(form, {500} if options else {5000})
    assert len(found[0]) == 10_000
    assert all(other == found[0] for other in found)


QUICK = """
    import os, pathlib
    import polars as pl
    from barca import asset, partitions, partitions_from

    HERE = pathlib.Path(__file__).parent
    KEYS = [f"r{number:02d}" for number in range(60)]

    @asset(partitions={"r": partitions(KEYS)}, batch=3)
    def quick(r: list[str]) -> pl.DataFrame:
        with open(HERE / "quick.calls", "a") as file:
            file.write(",".join(r) + "\\n")
        if "r40" in r and (HERE / "deadly").exists():
            os._exit(1)
        if "r25" in r and (HERE / "wrong").exists():
            raise ValueError("r25")
        return pl.DataFrame({"r": r, "n": range(len(r))})

    @asset(partitions={"r": partitions_from(quick)}, batch=3)
    def again(r: list[str], quick: pl.DataFrame) -> dict:
        return {key: n for key, n in quick.rows()}
"""


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_quick_calls_travel_together_and_each_is_recorded_as_a_call(project, executor):
    project.write("barca.toml", "[execution]\npool_size = 1\n")
    project.write("pipeline.py", QUICK)
    opened = project.open(executor=executor)
    result = opened.get("again")
    calls = [line.split(",") for line in (project.root / "quick.calls").read_text().split()]
    assert calls == [[f"r{number + more:02d}" for more in range(3)] for number in range(0, 60, 3)]
    counts = {step["id"]: step["batch"]["calls"] for step in result.to_dict()["steps"]}
    assert counts == {"pipeline.py:quick": 20, "pipeline.py:again": 20}
    for name in ("quick", "again"):
        [size] = opened.stats(name)["sizes"]
        assert (size["calls"], size["keys"]) == (20, {"from": 3, "to": 3})
        assert len(list((project.root / ".barca/artifacts").rglob(f"*{name}*/*.parquet"))) < 8
    assert project.get("again").to_dict()["steps_executed"] == 0
    assert set(project.get("again").value.values()) == {0, 1, 2}


def test_a_worker_that_dies_among_quick_calls_costs_the_keys_of_its_own_call(project):
    project.write("barca.toml", "[execution]\npool_size = 1\n")
    project.write("pipeline.py", QUICK)
    (project.root / "deadly").touch()
    (project.root / "wrong").touch()
    result = project.open(executor="processes").get("quick")
    out = result.to_dict()
    calls = [line.split(",") for line in (project.root / "quick.calls").read_text().split()]
    assert out["steps"][0]["partitions"]["failed"] == 2
    made = {f"r{number:02d}": sum(f"r{number:02d}" in call for call in calls) for number in range(60)}
    assert {key for key, count in made.items() if count > 1} == {f"r{n}" for n in (24, 25, 26, 39, 40, 41)}
    assert [call for call in calls if "r25" in call] == [["r24", "r25", "r26"], ["r25"]]
    assert [call for call in calls if "r40" in call] == [["r39", "r40", "r41"], ["r40"]]
    (project.root / "deadly").unlink()
    (project.root / "wrong").unlink()
    assert project.get("quick").to_dict()["steps_executed"] == 2


def test_quick_calls_of_a_node_with_sinks_are_written_one_by_one(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, sink

        @asset(partitions={"k": partitions(["a", "b", "c", "d", "e", "f"])}, batch=1)
        @sink("out/node.json")
        def node(k: list[str]) -> dict:
            return {key: {"key": key} for key in k}
        """,
    )
    assert project.open(executor="inline").get("node").status == "success"
    texts = [(project.root / f"out/node_k_{key}.json").read_text().strip() for key in "abcdef"]
    assert [text.replace(" ", "") for text in texts] == [f'{{"key":"{key}"}}' for key in "abcdef"]

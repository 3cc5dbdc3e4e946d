"""The JSON that scripts rely on: every documented field is there, in every command, for runs good and bad."""

from __future__ import annotations

import json

import pytest

PIPELINE = """
    import os
    from barca import asset, collect, partitions_from, sensor

    @sensor
    def versions() -> dict:
        return {"r1": 1, "r2": 2}

    @asset(partitions={"r": partitions_from(versions)}, batch="all")
    def scored(r: list[str], versions: dict) -> dict:
        print("scoring")
        return {key: versions[key] for key in r}

    @asset(partitions={"r": partitions_from(scored)}, env=["BAD"])
    def checked(r: str, scored: int) -> int:
        if r == os.environ.get("BAD"):
            raise ValueError("no good")
        return scored

    @asset(inputs={"every": collect(checked)})
    def total(every: list) -> int:
        return sum(every)
"""

RUN = "run_id command target status steps_executed steps_cached elapsed_seconds started_at finished_at triggered_by error failed_node"
STEP = "node_id partition_key batch status attempts elapsed_seconds max_rss_bytes run_hash content_hash error error_type error_message error_traceback"
CALL = "batch node_id keys status attempts elapsed_seconds max_rss_bytes"
STATES = "cached stale never_run partial unknown always_runs blocked"


def has(found: dict, names: str) -> bool:
    """Whether every field is there; more may be."""
    missing = set(names.split()) - found.keys()
    assert not missing, missing
    return True


@pytest.fixture
def computed(project):
    project.write("pipeline.py", PIPELINE)
    return project


def test_a_result(computed):
    out = computed.cli_json("get", "total", "--executor", "inline")
    assert has(out, "status run_id elapsed_seconds phases steps_executed steps final_output warnings")
    assert (out["status"], out["steps_executed"], out["warnings"]) == ("success", 6, [])
    steps = {step["id"]: step for step in out["steps"]}
    assert all(has(step, "id kind status reason") for step in out["steps"])
    assert [steps[f"pipeline.py:{name}"]["kind"] for name in ("versions", "total")] == ["sensor", "asset"]
    scored = steps["pipeline.py:scored"]
    assert has(scored["partitions"], "total cached will_run will_run_keys")
    assert scored["partitions"]["will_run_keys"] == ["r=r1", "r=r2"]
    assert scored["batch"] == {"grouping": "batch=all", "keys": 2, "calls": 1}
    pointer = out["final_output"]["_barca_artifact"]
    assert has(pointer, "path format row_offset rows size_bytes digest")
    assert (computed.root / pointer["path"]).exists()

    selected = computed.cli_json("get", "checked", "--partition", "r=r1", "--executor", "inline")
    assert set(selected["final_output"]) == {"r=r1"}
    assert has(selected["partition_selection"], "selection nodes skipped_nodes")
    assert all(has(node, "id selected skipped") for node in selected["partition_selection"]["nodes"])
    two = computed.cli_json("get", "total,checked", "--executor", "inline")
    assert set(two["targets"]) == {"total", "checked"} and "final_output" not in two


def test_a_failed_run_prints_its_result_and_one_line_of_error(computed):
    done = computed.cli("get", "total", "--json", "--executor", "inline", env={"BAD": "r2"})
    assert done.returncode == 1
    out = json.loads(done.stdout)
    assert (out["status"], out["failed_node"]) == ("failed", "pipeline.py:checked[r=r2]")
    assert "no good" in json.dumps(out["error"])
    [error] = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert has(error, "error code kind remediation node key traceback")
    assert (error["kind"], error["node"], error["key"]) == ("step_failed", "pipeline.py:checked", "r=r2")
    run = computed.cli_json("history", out["run_id"])
    [failed] = [step for step in run["steps"] if step["status"] == "failed"]
    assert (failed["error_type"], failed["error_message"]) == ("ValueError", "no good")
    assert "raise ValueError" in failed["error_traceback"]
    [listed] = computed.cli_json("history", "--status", "failed")["runs"]
    assert (listed["run_id"], listed["failed_node"]) == (out["run_id"], "pipeline.py:checked[r=r2]")


def test_a_dry_run_and_the_phases(computed):
    out = computed.cli_json("get", "total", "--dry-run")
    assert out["dry_run"] is True and has(out["summary"], "will_run cached unknown")
    assert all(has(step, "id kind action reason detail") for step in out["steps"])
    computed.cli_json("get", "total", "--executor", "inline")
    computed.edit("pipeline.py", "return scored", "return scored + 1")
    out = computed.cli_json("get", "total", "--dry-run")
    [checked] = [step for step in out["steps"] if step["id"] == "pipeline.py:checked"]
    assert has(checked["partitions"], "total cached will_run will_run_keys changed")
    assert checked["partitions"]["changed"] == {"r=r1": ["function"], "r=r2": ["function"]}

    phases = computed.cli_json("plan", "total")
    assert has(phases, "plan_version total_steps pool_size capacity phases warnings")
    assert phases["total_steps"] == 6, "keys are counted"
    assert all(has(phase, "reason streams") for phase in phases["phases"])
    streams = [stream for phase in phases["phases"] for stream in phase["streams"]]
    assert all(has(stream, "stream_id steps") for stream in streams)
    assert {step.partition("[")[0] for stream in streams for step in stream["steps"]} == {
        f"pipeline.py:{name}" for name in ("versions", "scored", "checked", "total")
    }


def test_what_the_states_are(computed):
    computed.cli_json("get", "total", "--executor", "inline")
    computed.edit("pipeline.py", "return sum(every)", "return -sum(every)")
    out = computed.cli_json("status")
    assert has(out, "nodes summary total truncated") and has(out["summary"], STATES)
    nodes = {node["name"]: node for node in out["nodes"]}
    for node in nodes.values():
        has(node, "id name kind partitioned cache partitions last_materialization shape inputs env")
        has(node["cache"], "state reason detail changed failed")
        has(
            node["last_materialization"],
            "run_hash content_hash created_at elapsed_seconds status format size_bytes",
        )
        assert not node["partitioned"] or has(node["partitions"], "total cached missing missing_keys changed")
    states = {name: node["cache"]["state"] for name, node in nodes.items()}
    assert states == {
        "versions": "always_runs",
        "scored": "cached",
        "checked": "cached",
        "total": "stale",
    }
    assert out["summary"] == {
        **dict.fromkeys(STATES.split(), 0),
        "cached": 2,
        "stale": 1,
        "always_runs": 1,
    }
    some = computed.cli_json("status", "--problems", "--fields", "id,cache")
    assert [node["id"] for node in some["nodes"]] == ["pipeline.py:total"]
    assert some["summary"] == out["summary"], "it counts every node in scope"
    listed = computed.cli_json("list")
    assert has(listed, "nodes load_errors total")
    assert all(has(node, "id kind freshness inputs env") for node in listed["nodes"])


def test_what_was(computed):
    run_id = computed.cli_json("get", "total", "--executor", "inline")["run_id"]
    runs = computed.cli_json("history")
    assert has(runs, "runs total truncated") and has(runs["runs"][0], RUN)
    one = computed.cli_json("history", run_id)
    assert has(one, "run steps calls steps_page") and has(one["run"], RUN)
    assert has(one["steps_page"], "total truncated")
    assert all(has(step, STEP) for step in one["steps"]) and all(has(call, CALL) for call in one["calls"])
    steps = {step["node_id"]: step for step in one["steps"]}
    assert steps["pipeline.py:scored[r=r1]"]["partition_key"] == "r=r1"
    assert steps["pipeline.py:total"]["partition_key"] is None
    [call] = [call for call in one["calls"] if call["node_id"] == "pipeline.py:scored"]
    assert steps["pipeline.py:scored[r=r1]"]["batch"] == call["batch"]
    # a line of a batched call is found from any of its keys
    for key in ("r=r1", "r=r2"):
        [line] = computed.cli_json("logs", run_id, "--step", f"scored[{key}]")
        assert has(line, "node_id stream ts line") and line["line"] == "scoring"
    assert computed.cli_json("logs", run_id, "--stream", "stderr") == []


def test_a_file_that_does_not_load(computed):
    computed.write(
        "broken.py", "from barca import asset\n\n@asset\ndef lost() -> int:\n    return 1\n\n1 / 0\n"
    )
    [error] = computed.cli_json("list")["load_errors"]
    assert has(error, "file nodes error traceback")
    assert (error["file"], error["nodes"]) == ("broken.py", ["broken.py:lost"])

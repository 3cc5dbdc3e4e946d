"""`batch="auto"` in whole runs, and what `stats` tells of calls."""

from __future__ import annotations

import json

import pytest

import barca
from barca.errors import DefinitionError, UsageError
from barca.plan.batching import grouping_text

PIPELINE = """
    import os
    import pathlib
    import signal
    import time
    from barca import asset, batches_auto, partitions, partitions_from

    HERE = pathlib.Path(__file__).parent

    def note(name, k):
        with open(HERE / f"{name}.calls", "a") as file:
            file.write(f"{len(k)}\\n")

    @asset(partitions={"k": partitions([f"k{n:04d}" for n in range(600)])}, batch="auto")
    def a(k: list[str]) -> dict:
        note("a", k)
        return {key: {"key": key} for key in k}

    @asset(partitions={"k": partitions_from(a)}, batch=batches_auto(target_seconds=1e-6))
    def careful(k: list[str], a: dict) -> dict:
        note("careful", k)
        return {key: a[key]["key"] for key in k}

    @asset(partitions={"k": partitions_from(a)}, batch=batches_auto(target_seconds=1e-6))
    def slow(k: list[str]) -> dict:
        note("slow", k)
        time.sleep(0.02 * len(k))
        return dict.fromkeys(k, 1)

    @asset(partitions={"k": partitions([f"k{n:04d}" for n in range(100)])}, batch="auto")
    def hungry(k: list[str]) -> dict:
        note("hungry", k)
        if len(k) > LIMIT or "BAD" in k:
            os.kill(os.getpid(), signal.SIGKILL)
        return dict.fromkeys(k, 1)
"""


def calls(project, name):
    return [int(line) for line in (project.root / f"{name}.calls").read_text().split()]


def test_calls_start_small_grow_and_stay_grown(project):
    project.write("pipeline.py", PIPELINE)
    [step] = project.open().plan("a").to_dict()["steps"]
    assert step["batch"] == {
        "grouping": "batch=auto",
        "keys": 600,
        "calls": 4,
        "size": 8,
        "why": "nothing is measured yet: calls start small and grow",
    }
    result = project.get("a")
    sizes = calls(project, "a")
    assert sizes[0] == 8 and sum(sizes) == 600
    assert sizes[:-1] == sorted(sizes[:-1])
    assert all(bigger <= 4 * smaller for smaller, bigger in zip(sizes, sizes[1:], strict=False))
    [step] = result.to_dict()["steps"]
    assert step["batch"]["calls"] == len(sizes)

    [step] = project.open().plan("a", refresh="a").to_dict()["steps"]
    assert step["batch"]["size"] > 8, "the next run begins where this one ended"
    assert "measured" in step["batch"]["why"] or "a key" in step["batch"]["why"]


def test_limits_that_nothing_keeps_give_single_keys(project):
    project.write("pipeline.py", PIPELINE)
    project.get("slow", partition={"k": [f"k{n:04d}" for n in range(20)]})
    assert calls(project, "slow") == [8, *[1] * 12]


def hungry(project, limit, bad):
    """Sizes of the calls of `hungry`, and what is planned of it next."""
    project.write("pipeline.py", PIPELINE.replace("LIMIT", str(limit)).replace("BAD", bad))
    result = project.open(executor="processes").get("hungry")
    [step] = project.open().plan("hungry", refresh="hungry").to_dict()["steps"]
    return result, calls(project, "hungry"), step["batch"]


def test_calls_that_were_killed_for_their_size_limit_the_next_ones(project, monkeypatch):
    monkeypatch.setenv("BARCA_POOL_SIZE", "1")
    result, sizes, planned = hungry(project, limit=20, bad="none")
    assert result.status == "success"
    assert sizes[:2] == [8, 32] and max(sizes[2:]) == 16
    assert (planned["size"], planned["why"]) == (16, "calls of more keys ran out of memory or time")
    found = project.open().stats("hungry")
    assert [size["keys"] for size in found["exhausted"]] == [{"from": 32, "to": 32}]
    assert found["suggested"]["batch"] == 16
    history = project.open().history(result.run_id)["calls"]
    assert [call["status"] for call in history if call["keys"] == 32] == ["failed"]
    told = project.cli("stats", "hungry", "--pretty").stdout
    assert "32 keys: 1 call ran out of memory or time" in told


def test_a_key_that_kills_its_calls_limits_no_others(project, monkeypatch):
    monkeypatch.setenv("BARCA_POOL_SIZE", "1")
    result, sizes, planned = hungry(project, limit=1_000, bad="k0050")
    assert result.to_dict()["failed_node"] == "pipeline.py:hungry[k=k0050]"
    assert 1 in sizes and planned["size"] > 8, (sizes, planned)


def test_auto_gives_the_results_of_every_other_grouping(make_project):
    found = []
    for batch in ("all", "auto"):
        project = make_project(batch)
        project.write("pipeline.py", PIPELINE)
        result = project.get("careful", batch=batch)
        steps = project.open().history(result.run_id)["steps"]
        found.append({step["node_id"]: (step["run_hash"], step["content_hash"]) for step in steps})
    assert found[0] == found[1]
    assert len(found[0]) == 1_000, "as many as history shows"


def test_stats_tell_calls_by_size_and_suggest_a_batch(project, monkeypatch):
    project.write("pipeline.py", PIPELINE)
    nothing = project.open().stats("a")
    assert (nothing["calls"], nothing["sizes"], nothing["suggested"]) == (0, [], None)
    project.get("a", batch=100)
    stats = project.open().stats("a")
    assert stats["node_id"] == "pipeline.py:a"
    assert (stats["batch"], stats["calls"], stats["failed"], stats["keys"]) == ("batch=auto", 6, 0, 600)
    [size] = stats["sizes"]
    assert size["keys"] == {"from": 100, "to": 100}
    assert size["calls"] == 6
    assert 0 < size["seconds"]["median"] <= size["seconds"]["max"]
    assert size["seconds_per_key"] > 0
    assert size["memory_bytes"]["max"] >= size["memory_bytes"]["median"] > 10**6
    assert stats["suggested"] == {
        "batch": 400,
        "why": "4 times the largest call measured, of 100 keys",
    } or (stats["suggested"]["batch"] < 400 and "a key" in stats["suggested"]["why"])
    assert project.open().stats("a", target_seconds=1e-9)["suggested"]["batch"] == 1
    assert project.open().stats("a", max_memory="1KB")["suggested"]["batch"] == 1
    monkeypatch.chdir(project.root)
    assert barca.stats("a", "pipeline.py") == stats


def test_stats_suggest_within_the_limits_that_the_node_declares(project):
    project.write("pipeline.py", PIPELINE)
    project.get("careful", batch=100)
    assert project.open().stats("careful")["suggested"]["batch"] == 1, "its target_seconds= is 1e-6"
    assert project.open().stats("careful", target_seconds=3600)["suggested"]["batch"] > 1
    assert project.open().stats("careful", max_memory="1KB")["suggested"]["batch"] == 1


def test_stats_on_the_command_line(project):
    project.write("pipeline.py", PIPELINE)
    project.get("a", batch=100)
    told = project.cli_json("stats", "a", "--target-seconds", "1e-9")
    assert told["suggested"]["batch"] == 1
    drawn = project.cli("stats", "a", "pipeline.py", "--pretty")
    assert drawn.returncode == 0
    assert "pipeline.py:a (batch=auto): 6 calls" in drawn.stdout
    assert "most memory" in drawn.stdout and "suggested: batch=" in drawn.stdout
    for wrong, named in (
        (["nobody"], "nobody"),
        (["a,b"], "one node"),
        (["a", "--target-seconds", "soon"], "positive number of seconds"),
        (["a", "--max-memory", "much"], "500MB"),
    ):
        refused = project.cli("stats", *wrong, "--json")
        assert refused.returncode == 2, refused
        error = json.loads(refused.stderr.splitlines()[-1])
        assert named in error["error"] + (error["remediation"] or "")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"target_seconds": 0}, "target_seconds"),
        ({"target_seconds": True}, "target_seconds"),
        ({"target_seconds": float("inf")}, "target_seconds"),
        ({"max_memory": 0}, "size"),
        ({"max_memory": "2 elephants"}, "2 elephants"),
        ({"max_memory": "0MB"}, "0MB"),
    ],
)
def test_limits_are_checked(options, named):
    with pytest.raises(DefinitionError, match=named):
        barca.batches_auto(**options)


def test_sizes_are_read_in_both_kinds_of_units():
    found = [barca.batches_auto(max_memory=size).max_memory for size in (1, "2kb", "1.5 MB", "2GiB", "1TB")]
    assert found == [1, 2_000, 1_500_000, 2 * 2**30, 10**12]
    told = [
        grouping_text(barca.batches_auto(max_memory=size)) for size in (1, "2kb", "1.5 MB", "2GiB", 1_234_567)
    ]
    shown = ["1", "2KB", "1.5MB", "2GiB", "1234567"]
    assert told == [f'batches_auto(target_seconds=30, max_memory="{size}")' for size in shown]


def test_an_override_may_say_auto_and_only_for_nodes_that_batch(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions

        @asset(partitions={"k": partitions(range(40))}, batch=5)
        def many(k: list[str]) -> dict:
            return {key: 1 for key in k}

        @asset(partitions={"k": partitions(["1"])})
        def single(k: str) -> int:
            return 1
        """,
    )
    step = project.open().plan("many", batch="auto").to_dict()["steps"][0]
    assert step["batch"]["grouping"] == "batch=auto" and step["batch"]["calls"] == 2
    with pytest.raises(UsageError, match="takes one key a call"):
        project.open().plan(["many", "single"], batch={"single": "auto"})

"""Tags: a name for a moment, whose results nothing takes."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from barca.errors import BarcaError, LedgerError, SelectionError, UsageError
from barca.io.locks import CLAIM
from barca.project import tagging

PIPELINE = """
import json, pathlib
from barca import asset, partitions_from, sensor

@sensor
def versions() -> dict:
    return json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())

@asset(partitions={"shop": partitions_from(versions)})
def size(shop: str, versions: int) -> int:
    return versions
"""


@pytest.fixture
def shops(project: Any) -> Any:
    project.write("pipeline.py", PIPELINE)
    return project


def run(project: Any, **versions: int) -> str:
    project.write("versions.json", json.dumps(versions))
    result = project.get()
    assert result.status == "success"
    return result.run_id


def test_a_tag_is_a_moment_that_gc_keeps(shops):
    first = run(shops, a=1, b=1)
    told = shops.open().tag("before", first)
    assert (told["run_id"], told["keys"], told["gone"]) == (first, 3, 0)
    run(shops, a=2)
    shops.open().tag("after")
    run(shops, a=3)
    shops.open().gc(1)
    assert shops.open().get("size", as_of="before").value == {"shop=a": 1, "shop=b": 1}
    assert shops.open().get("size", as_of="after").value == {"shop=a": 2}
    assert [tag["tag"] for tag in shops.open().tags()] == ["before", "after"]
    assert shops.open().moment("before").tag == "before"
    shops.open().untag("before")
    gc = shops.open().gc(1)
    assert gc["tagged"] == 2 and gc["tagged_bytes"] > gc["limit_bytes"]
    assert shops.open().get("size", as_of="after").value == {"shop=a": 2}
    with pytest.raises(BarcaError, match="was collected by gc"):
        shops.open().get("size", as_of=first)


def test_what_was_gone_before_there_was_a_tag_is_told(shops):
    first = run(shops, a=1)
    shops.open().gc(1)
    told = shops.open().tag("late", first)
    assert (told["keys"], told["gone"], told["bytes"]) == (2, 2, 0)
    assert shops.open().tags() == [told]


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a b",
        "1a",
        "2h",
        "2026-11-30",
        "../x",
        "a/b",
        "-x",
        "é",
        "a\n",
        "x" * 65,
        "\x1b[31m",
        "a'; --",
    ],
)
def test_names_that_are_none(shops, name: str):
    run(shops, a=1)
    with pytest.raises(UsageError) as caught:
        shops.open().tag(name)
    assert caught.value.code == "tag_name" and shops.open().tags() == []


def test_what_cannot_be_tagged(shops):
    with pytest.raises(UsageError, match="nothing was held as of"):
        shops.open().tag("empty")
    assert not (shops.root / ".barca").exists()
    run(shops, a=1)
    shops.open().tag("x")
    with pytest.raises(UsageError, match="there is a tag `x` already, as of 20") as caught:
        shops.open().tag("x")
    assert caught.value.remediation.endswith("`barca tag x --delete`")
    with pytest.raises(SelectionError, match="no tag `y`") as lost:
        shops.open().untag("y")
    assert "`x`" in lost.value.remediation
    with pytest.raises(UsageError, match="nothing was held"):
        shops.open().tag("early", "2h")
    with pytest.raises(UsageError, match="no tag, run or time"):
        shops.open().tag("odd", "whenever")


def test_a_deleted_name_can_be_taken_again(shops):
    first, second = run(shops, a=1), run(shops, a=2)
    for run_id in (first, second):
        shops.open().tag("x", run_id)
        assert shops.open().tags()[0]["run_id"] == run_id
        shops.open().untag("x")
    assert shops.open().tags() == []
    shops.open().tag("x", second)
    shops.open().tag("y", "x")  # of another tag
    assert {tag["run_id"] for tag in shops.open().tags()} == {second}


def test_of_several_who_make_one_tag_at_once_one_does(shops):
    runs = [run(shops, a=number) for number in range(1, 3)]

    def tag(run_id: str) -> str:
        try:
            shops.open().tag("x", run_id)
        except UsageError as error:
            return error.code
        return run_id

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(tag, runs * 2))
    assert sorted(told)[-3:] == ["tag_exists"] * 3
    assert shops.open().tags()[0]["run_id"] in told
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: shops.open().tag(name), "abcd"))
    assert sorted(tag["tag"] for tag in shops.open().tags()) == ["a", "b", "c", "d", "x"]


def test_who_was_killed_leaves_no_tag_and_keeps_nobody_waiting(shops, monkeypatch: pytest.MonkeyPatch):
    run(shops, a=1)
    lock = shops.root / ".barca/ledger" / CLAIM
    script = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script, str(lock)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"
        monkeypatch.setattr(tagging, "WAIT_SECONDS", 0.1)
        with pytest.raises(LedgerError, match="another process collects garbage or makes a tag"):
            shops.open().tag("x")
        process.kill()
    shops.open().tag("x")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("barca.io.appending.GroupedWriter.flush", killed)
    with pytest.raises(KeyboardInterrupt):
        shops.open().tag("y")
    monkeypatch.undo()
    assert [tag["tag"] for tag in shops.open().tags()] == ["x"]
    shops.open().tag("y")


def test_the_end_of_a_run_does_not_wait_for_a_claim(shops, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("barca.project.tidying.MANY_NEW", 0)
    run(shops, a=1)
    with shops.open()._ledger.claim(0):
        shops.write("versions.json", '{"a": 2}')
        assert shops.get().to_dict()["warnings"] == []


def test_the_command_line(shops):
    first = run(shops, a=1, b=2)
    assert shops.cli("tag", "--pretty").stdout == "no tags; `barca tag NAME` pins what is held now\n"
    made = shops.cli_json("tag", "audit", first)
    assert made["keys"] == 3 and made["run_id"] == first
    assert shops.cli_json("tag")["tags"] == [made]
    table = shops.cli("tag", "--pretty").stdout
    assert table.split()[:7] == ["tag", "as", "of", "(UTC)", "run", "keys", "size"] and "audit" in table
    for width in ("60", "200"):
        lines = shops.cli("tag", "--pretty", env={"COLUMNS": width}).stdout.splitlines()
        assert len(lines) == 2 and max(map(len, lines)) <= int(width)
    assert "after run" in shops.cli("tag", "other", first, "--pretty", env={"COLUMNS": "200"}).stdout
    assert shops.cli_json("get", "size", "--as-of", "audit", "-o", "value")["as_of"]["tag"] == "audit"
    assert "tags keep 3 results" in shops.cli("gc", "--pretty").stdout
    assert shops.cli_json("tag", "other", "--delete") == {"tag": "other", "deleted": True}
    assert shops.cli("tag", "audit", "--delete", "--pretty").stdout.startswith("tag audit deleted")
    for wrong in (
        ["tag", "--delete"],
        ["tag", "x", "2h", "--delete"],
        ["tag", "9x"],
        ["tag", "gone", "--delete"],
    ):
        assert shops.cli(*wrong).returncode == 2


def test_completion_offers_tags_then_runs(shops, monkeypatch: pytest.MonkeyPatch):
    from barca.cli import completing

    first, second = run(shops, a=1), run(shops, a=2)
    shops.open().tag("audit")
    monkeypatch.chdir(shops.root)
    assert completing.moments(None, "") == ["audit", second, first]
    monkeypatch.chdir(shops.root.parent)
    assert completing.moments(None, "") == []

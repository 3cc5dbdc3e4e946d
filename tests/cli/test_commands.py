"""Commands over a project of samples: what they ask it, what they print, how they exit."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from barca.errors import Cancelled, LedgerError, LoadError, SelectionError, StepFailed
from barca.events import KeyFailed, Warned

DEFAULTS = {"partition": None, "batch": None, "refresh": None, "refresh_all": False, "cascade": True}


def asked(fake, method):
    [call] = [call for call in fake.calls if call[0] == method]
    return call[1:]


# --- get and run ------------------------------------------------------------------------------------


def test_get_asks_for_what_was_written(barca, fake):
    ended = barca(
        "get", "scored,ranked", "pipeline.py", "src/", "--partition", "r=r1,r2", "--partition", '{"m": 1}', "--batch", "scored=all",
        "--refresh", "a, b", "--no-cascade", "--refresh-all", "--env", "prod", "--executor", "inline", "--json",
    )  # fmt: skip
    assert ended.code == 0
    assert asked(fake, "Project") == ((), {"files": [Path("pipeline.py"), Path("src")], "env": "prod"})
    assert asked(fake, "get") == (
        (["scored", "ranked"],),
        {
            "partition": {"r": ["r1", "r2"], "m": ["1"]}, "batch": {"scored": "all"}, "refresh": ["a", "b"],
            "refresh_all": True, "cascade": False, "executor": "inline",
        },
    )  # fmt: skip


def test_get_without_anything(barca, fake):
    assert barca("get").code == 0
    assert asked(fake, "get") == ((None,), {**DEFAULTS, "executor": None})


def test_a_pipe_gets_one_line_of_json(barca, sample):
    ended = barca("get", "scored")
    assert ended.json == sample("result")
    assert ended.err == (
        "note: 9,999 of 10,000 keys not listed (9,999 cached): of so many keys, only those that this run "
        "computed are; select others with --partition, or read all of them with barca.scan\n"
    )


def test_get_pretty(barca, fake, document, sample, snapshot):
    assert barca("get", "scored", "--pretty").out == snapshot(name="capped")
    fake.answers["get"] = document(sample("keys"))
    assert barca("get", "scored", "--pretty").out == snapshot(name="keys")
    frame = pl.DataFrame({"department": ["[b]x", None], "units": [1, 2]})
    fake.answers["get"] = document(sample("whole"), value=frame)
    assert barca("get", "totals", "--pretty").out == snapshot(name="table")
    fake.answers["get"] = document(sample("several"), value={"totals": frame, "scored": {}})
    assert barca("get", "totals,scored", "--pretty").out == snapshot(name="several")


def test_get_value(barca, fake, document, sample, snapshot):
    fake.answers["get"] = document(
        sample("keys"), as_value={"retailer=r1": [{"x": 1.5}], "retailer=r2": "[red]"}
    )
    assert barca("get", "scored", "-o", "value").json["final_output"] == {
        "retailer=r1": [{"x": 1.5}], "retailer=r2": "[red]",
    }  # fmt: skip
    assert barca("get", "scored", "-o", "value", "--pretty").out == snapshot


@pytest.mark.parametrize("mode", ["--json", "--pretty"])
def test_get_path_is_one_line_per_key(barca, fake, document, sample, mode):
    fake.answers["get"] = document(sample("keys"))
    b1 = ".barca/artifacts/pipeline.py--scored/b1.parquet"
    assert barca("get", "scored", "-o", "path", mode).out.splitlines() == [
        f"{b1}#retailer=r1", f"{b1}#retailer=r2", ".barca/artifacts/pipeline.py--scored/c3.parquet",
        f"{b1}#retailer=[red]r\\x1b[31m<b>7</b>\\u202e",
    ]  # fmt: skip
    fake.answers["get"] = document(sample("whole"))
    assert (
        barca("get", "totals", "-o", "path", mode).out == ".barca/artifacts/pipeline.py--totals/c1.parquet\n"
    )
    fake.answers["get"] = document(sample("several"))
    assert len(barca("get", "a,b", "-o", "path", mode).out.splitlines()) == 3


@pytest.mark.parametrize("kind", ["polars", "duckdb"])
def test_a_lazy_table_that_is_shown_whole_is_counted(barca, fake, document, sample, kind):
    for rows, shape in ((0, "0 rows, 1 column"), (1, "1 row, 1 column"), (10, "the first 10 rows, 1 column")):
        frame = pl.DataFrame({"x": range(rows)}, schema={"x": pl.Int64})
        lazy = (
            frame.lazy() if kind == "polars" else pytest.importorskip("duckdb").from_arrow(frame.to_arrow())
        )
        fake.answers["get"] = document(sample("whole"), value=lazy)
        assert barca("get", "totals", "--pretty").out.splitlines()[-1].strip() == shape


def test_get_path_of_many_keys_notes_what_is_missing(barca):
    ended = barca("get", "scored", "-o", "path")
    assert ended.out == ".barca/artifacts/pipeline.py--scored/b1.parquet\n"
    assert ended.err.startswith("note: 9,999 of 10,000 keys not listed")


def test_a_file_that_goes_on_after_the_only_key(barca, fake, document, sample, tmp_path):
    result = sample("result")
    outputs = result["final_output"]["_barca_partitions"]["outputs"]
    outputs["retailer=r000010"]["_barca_artifact"]["path"] = "b1.parquet"
    fake.answers["get"] = document(result)
    for rows, line in ((3, "b1.parquet\n"), (4, "b1.parquet#retailer=r000010\n")):
        pl.DataFrame({"x": range(rows)}).write_parquet(tmp_path / "b1.parquet")
        assert barca("get", "scored", "-o", "path").out == line


def test_fields(barca):
    assert barca("get", "scored", "--fields", "status,run_id", "--json").json == {
        "status": "success", "run_id": "7a0c4e7b7357",
    }  # fmt: skip
    assert barca("get", "scored", "--fields", "status", "--pretty").out.split() == [
        "field",
        "value",
        "status",
        "success",
    ]
    ended = barca("get", "scored", "--fields", "statu")
    assert ended.code == 2 and "did you mean `status`?" in ended.error["remediation"]


def test_run_takes_one_task(barca, fake):
    assert barca("run", "report", "pipeline.py", "--batch", "20").code == 0
    assert asked(fake, "run") == (("report",), {**DEFAULTS, "batch": 20, "executor": None})
    for words in (["run"], ["run", "pipeline.py"], ["run", "a,b"]):
        ended = barca(*words)
        assert ended.code == 2 and ended.error["code"] == "missing_task"


@pytest.mark.parametrize("verb", ["get", "run"])
def test_dry_run_only_plans(barca, fake, sample, verb):
    ended = barca(verb, "scored", "--dry-run", "--refresh", "a")
    assert ended.code == 0 and ended.json == sample("dry_run")
    assert asked(fake, "plan") == ((["scored"],), {**DEFAULTS, "refresh": ["a"]})
    assert not [call for call in fake.calls if call[0] in ("get", "run")]
    assert ended.err == (
        "warning: `margin` reads the environment variable REGION without declaring it\n"
        "note: --partition skips a fan-in that reads every key: summary. Run without --partition to update it.\n"
    )


def test_dry_run_pretty(barca, snapshot):
    assert barca("get", "ranked", "--dry-run", "--pretty").out == snapshot


def test_dry_run_has_nothing_to_output(barca):
    ended = barca("get", "scored", "--dry-run", "-o", "path")
    assert ended.code == 2 and "dry run" in ended.error["error"]


def test_stdout_holds_the_result_only(barca, fake):
    fake.events += [
        Warned("careful"), Warned("careful"),
        KeyFailed("pipeline.py:scored", "retailer=r2", "ValueError", "no rows"),
    ]  # fmt: skip
    ended = barca("get", "scored")
    assert ended.json["status"] == "success"
    assert ended.err.splitlines()[:2] == [
        "warning: careful", "failed pipeline.py:scored[retailer=r2]: ValueError: no rows",
    ]  # fmt: skip


# --- failures ---------------------------------------------------------------------------------------


def test_a_failed_run_prints_its_result_and_its_error(barca, fake, document, sample):
    error = StepFailed(
        "ValueError: no rows", node="pipeline.py:scored", key="retailer=r2", traceback="Traceback ..."
    )
    fake.answers["get"] = document(sample("failed"), error=error)
    ended = barca("get", "ranked")
    assert ended.code == 1
    assert ended.json == sample("failed")
    assert ended.error == {
        "error": "ValueError: no rows", "code": "step_failed", "kind": "step_failed", "remediation": None,
        "node": "pipeline.py:scored", "key": "retailer=r2", "traceback": "Traceback ...",
    }  # fmt: skip
    ended = barca("get", "ranked", "--pretty")
    assert ended.code == 1 and "2 of 3 keys failed: retailer=r2, retailer=r3" in ended.out
    assert ended.err.startswith(
        "note: 3 downstream steps skipped\n"
        "error: pipeline.py:scored[retailer=r2]: ValueError: no rows\nTraceback ...\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (SelectionError("there is no node `x`", code="unknown_target"), 2, "usage"),
        (LoadError("cannot be parsed"), 2, "usage"),
        (LedgerError("the last commit is cut"), 3, "infra"),
        (Cancelled("interrupted; 12 keys are kept"), 130, "cancelled"),
        (KeyboardInterrupt(), 130, "cancelled"),
        (RuntimeError("surprise"), 3, "infra"),
    ],
)
def test_errors_become_exit_codes(barca, fake, error, code, kind):
    fake.answers["get"] = error
    ended = barca("get", "x")
    assert ended.code == code and ended.out == ""
    assert ended.error["kind"] == kind
    assert set(ended.error) >= {"error", "code", "kind", "remediation"}


def test_an_internal_error_says_so(barca, fake):
    fake.answers["status"] = RuntimeError("surprise")
    ended = barca("status")
    assert ended.error["code"] == "internal"
    assert ended.error["error"] == "unexpected RuntimeError: surprise"
    assert "RuntimeError: surprise" in ended.error["traceback"]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["get", "x", "--refesh", "y"], "No such option: --refesh", "did you mean `--refresh`?"),
        (["gett"], "there is no command `gett`", "did you mean `get`?"),
        (["get", "x", "-o", "paths"], "`paths`", "did you mean `path`?"),
        (["history", "a", "b"], "unexpected extra argument", "`barca history --help`"),
        (["status", "--limit", "0"], "--limit `0` is not a whole number of at least 1", "--limit 20"),
        (["history", "--limit", "ten"], "--limit `ten` is not", "--limit 20"),
        (["get", "--executor", "process"], "`process`", "did you mean `processes`?"),
        (["logs", "--stream", "out"], "--stream `out`", "`stdout`"),
        (["get", "--partition"], "--partition", "`barca --help`"),
        (["get", "--json", "--pretty"], "exclude each other", "one of them"),
        (["get", "x", "--refresh", ","], "--refresh names no node", "--refresh scored"),
    ],
)
def test_wrong_command_lines(barca, words, message, hint):
    ended = barca(*words)
    assert ended.code == 2 and ended.out == ""
    assert ended.error["kind"] == "usage"
    assert message in ended.error["error"] and hint in ended.error["remediation"]


def test_a_wrong_command_line_for_people(barca, snapshot):
    ended = barca("get", "x", "--refesh", "y", "--pretty")
    assert ended.code == 2 and ended.out == ""
    assert ended.err == snapshot


# --- looking ----------------------------------------------------------------------------------------


def test_status(barca, fake, sample, snapshot):
    ended = barca("status", "scored", "pipeline.py")
    assert ended.json == sample("status")
    assert asked(fake, "status") == ((["scored"],), {})
    assert barca("status", "--pretty").out == snapshot


def ids(ended):
    return [node["name"] for node in ended.json["nodes"]]


def test_status_narrowed(barca, sample):
    assert ids(barca("status", "--state", "stale,blocked")) == ["margin", "broken", "promo"]
    assert ids(barca("status", "--problems")) == ["scored", "ranked", "margin", "broken", "promo", "listed"]
    limited = barca("status", "--limit", "2", "--problems")
    assert ids(limited) == ["scored", "ranked"]
    assert (limited.json["total"], limited.json["truncated"]) == (6, True)
    assert limited.json["summary"] == sample("status")["summary"]
    assert "2 of 6 nodes shown; --all" in barca("status", "--limit", "2", "--problems", "--pretty").out


def test_status_shows_a_hundred_nodes_unless_told(barca, fake, document, sample):
    status = sample("status")
    status["nodes"] = [status["nodes"][1]] * 150
    fake.answers["status"] = document(status)
    ended = barca("status")
    assert len(ended.json["nodes"]) == 100 and ended.json["truncated"]
    ended = barca("status", "--all")
    assert len(ended.json["nodes"]) == 150 and not ended.json["truncated"]


def test_status_fields(barca):
    [first, *_] = barca("status", "--fields", "id,cache").json["nodes"]
    assert list(first) == ["id", "cache"]
    assert barca("status", "--fields", "state").code == 2


def test_plan(barca, fake, document, sample, snapshot):
    fake.answers["plan"] = document(sample("plan"))
    assert barca("plan", "scored", "--partition", "r=r1").json == sample("plan")
    assert asked(fake, "plan") == ((["scored"],), {"partition": {"r": ["r1"]}, "batch": None})
    assert barca("plan", "--pretty").out == snapshot


def test_list(barca, fake, sample, snapshot):
    assert barca("list", "pipeline.py").json == sample("list")
    assert barca("list", "--pretty").out == snapshot
    assert barca("list", "nothing.py").code == 2


def test_history(barca, fake, sample, snapshot):
    assert barca("history").json == sample("history")
    assert barca("history", "--pretty").out == snapshot
    fake.calls.clear()
    barca("history", "--status", "failed", "--target", "scored", "--limit", "3")
    assert asked(fake, "history") == ((None,), {"status": "failed", "target": "scored", "limit": 3})
    fake.calls.clear()
    barca("history", "--all")
    assert asked(fake, "history") == ((None,), {"status": None, "target": None, "limit": None})
    assert "did you mean `failed`?" in barca("history", "--status", "faild").error["remediation"]


def test_one_run(barca, fake, sample, snapshot):
    fake.answers["history"] = sample("run")
    assert barca("history", "7a0c").json == sample("run")
    assert barca("history", "7a0c", "--pretty").out == snapshot
    assert barca("history", "7a0c", "--status", "failed").code == 2


def test_logs(barca, fake, sample):
    assert barca("logs", "7a0c", "--step", "scored[retailer=r1]", "--stream", "stdout").json == sample("logs")
    assert asked(fake, "logs") == (("7a0c",), {"step": "scored[retailer=r1]", "stream": "stdout"})
    assert "careful \\x1b[31mred" in barca("logs", "--pretty").out
    assert barca("logs", "--stream", "stdin").code == 2


# --- about ------------------------------------------------------------------------------------------

TOPICS = ["assets", "batched-partitions", "cache", "cli", "executors", "fragments", "partitions", "sinks"]


def test_version(barca):
    from importlib.metadata import version

    assert barca("version").json == {"version": version("barca")}
    assert barca("version", "--pretty").out == barca("--version").out == f"barca {version('barca')}\n"


def test_help(barca):
    assert barca("--help").code == 0
    ended = barca()
    assert ended.code == 0 and ended.err == ""
    for command in "get run plan list status history logs docs version".split():
        assert f"  {command} " in ended.out
        assert barca(command, "--help").code == 0


def test_docs_lists_its_topics(barca):
    assert list(barca("docs", "--json").json["topics"]) == TOPICS
    assert [line.split()[0] for line in barca("docs").out.splitlines()] == TOPICS


@pytest.mark.parametrize("topic", TOPICS)
def test_docs(barca, topic):
    written = barca("docs", topic).out
    assert written.startswith("# ") and len(written) > 500
    assert barca("docs", topic, "--json").json == {"topic": topic, "text": written}
    assert barca("docs", topic, "--pretty").code == 0


def test_the_manual_has_every_command(barca):
    from barca.cli.app import _COMMANDS

    written = barca("docs", "cli", "--json").json["text"]
    assert sorted(re.findall(r"^\| `barca (\w+)", written, re.MULTILINE)) == sorted(_COMMANDS)


def test_an_unknown_topic(barca):
    ended = barca("docs", "partition")
    assert ended.code == 2 and "did you mean `partitions`?" in ended.error["remediation"]

"""Retries, timeouts, sources, files and packs in whole runs."""

from __future__ import annotations

import signal

import pytest

from barca.errors import Cancelled, DefinitionError

TRIES = """
    import pathlib, time
    from barca import asset, partitions

    HERE = pathlib.Path(__file__).parent

    def tries(name):
        with open(HERE / f"{name}.tries", "a") as file:
            file.write("x")
        return len((HERE / f"{name}.tries").read_text())

    @asset(partitions={"k": partitions(["1", "2", "3"])}, retries=3, retry_backoff=0.01)
    def shaky(k: str) -> int:
        count = tries(k)
        if k == "2" and count < 3:
            raise OSError("not yet")
        if k == "3":
            raise OSError("never")
        return count

    @asset(partitions={"k": partitions(["1", "2", "3"])}, timeout_seconds=0.5)
    def slow(k: str) -> str:
        if k == "2":
            time.sleep(60)
        return k
"""


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_retries_are_counted_per_key(project, executor):
    project.write("pipeline.py", TRIES)
    result = project.open(executor=executor).get("shaky")
    steps = {
        step["partition_key"]: (step["status"], step["attempts"])
        for step in project.open().history(result.run_id)["steps"]
    }
    assert steps == {"k=1": ("success", 1), "k=2": ("success", 3), "k=3": ("failed", 3)}
    assert [len((project.root / f"{k}.tries").read_text()) for k in "123"] == [1, 3, 3]
    assert "never" in result.to_dict()["error"]


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_a_timeout_stops_its_key_and_spares_the_others(project, executor):
    project.write("pipeline.py", TRIES)
    out = project.open(executor=executor).get("slow").to_dict()
    assert out["failed_node"] == "pipeline.py:slow[k=2]"
    assert "timed out after 0.5 s" in out["error"]
    assert out["elapsed_seconds"] < 30, "the sleep of a minute was cut short"
    assert project.get("slow", partition={"k": ["1", "3"]}).value == {"k=1": "1", "k=3": "3"}


INTERRUPTED = """
    import os, pathlib, signal, time
    from barca import asset, partitions

    HERE = pathlib.Path(__file__).parent

    @asset(partitions={"k": partitions(["1", "2", "3"])}, BATCH)
    def step(k):
        with open(HERE / "calls", "a") as file:
            file.write("".join(k))
        if "2" in k:
            os.kill(os.getppid() if (HERE / "in_workers").exists() else os.getpid(), signal.SIGINT)
            time.sleep(600)
        return {one: one for one in k} if isinstance(k, list) else k
"""


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal: a shell that runs tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("executor", "batch"), [("inline", "weight=1"), ("inline", "batch=1"), ("processes", "batch=1")]
)
def test_ctrl_c_begins_no_further_call(project, ctrl_c, executor, batch):
    project.write("barca.toml", "[execution]\npool_size = 1\n")
    project.write("pipeline.py", INTERRUPTED.replace("BATCH", batch))
    if executor == "processes":
        (project.root / "in_workers").touch()
    with pytest.raises(Cancelled):
        project.open(executor=executor).get("step")
    assert (project.root / "calls").read_text() == "12"


WEIGHTS = """
    import pathlib, time
    from barca import asset

    HERE = pathlib.Path(__file__).parent

    def waits_for(other, name, seconds):
        (HERE / f"{name}.on").touch()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if (HERE / f"{other}.on").exists():
                return True
            time.sleep(0.01)
        return False

    @asset
    def left() -> bool:
        return waits_for("right", "left", 30)

    @asset
    def right() -> bool:
        return waits_for("left", "right", 30)

    def alone(name):
        met = [path.name for path in HERE.glob("*.busy")]
        (HERE / f"{name}.busy").touch()
        time.sleep(0.3)
        (HERE / f"{name}.busy").unlink()
        return met

    @asset(weight=2)
    def heavy() -> list:
        return alone("heavy")

    @asset(weight=2)
    def bulky() -> list:
        return alone("bulky")

    @asset(weight=9)
    def vast() -> list:
        return alone("vast")
"""


def test_calls_run_beside_one_another_as_far_as_their_weights_allow(project):
    project.write("barca.toml", "[execution]\npool_size = 3\ncapacity = 3\n")
    project.write("pipeline.py", WEIGHTS)
    together = project.open(executor="processes").get(["left", "right"])
    assert together.value == {"left": True, "right": True}, "each saw the other while it ran"
    apart = project.open(executor="processes").get(["heavy", "bulky", "vast"])
    assert apart.value == {"heavy": [], "bulky": [], "vast": []}, "one that weighs too much runs alone"


def test_f9_another_nodes_pack_of_the_same_form_is_never_read(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, partitions_from

        KEYS = partitions(["1", "2"])

        @asset(partitions={"k": KEYS}, batch="all")
        def right(k: list[str]) -> dict:
            return {key: "right" for key in k}

        @asset(partitions={"k": KEYS}, batch="all")
        def wrong(k: list[str]) -> dict:
            return {key: "wrong" for key in k}

        @asset(partitions={"k": partitions_from(right)})
        def reader(k: str, right: str) -> str:
            return right
        """,
    )
    project.ran(["right", "wrong"])
    packs = {path.parent.name: path for path in (project.root / ".barca/artifacts").rglob("*.parquet")}
    [right] = [path for name, path in packs.items() if "right" in name]
    [wrong] = [path for name, path in packs.items() if "wrong" in name]
    right.write_bytes(wrong.read_bytes())
    result = project.get("reader")
    assert result.value == {"k=1": "right", "k=2": "right"}
    reasons = {step["id"].rpartition(":")[2]: step["reason"] for step in result.to_dict()["steps"]}
    assert reasons == {"right": "artifact_missing", "reader": "not_materialized"}


def test_a_list_gives_keys_and_a_change_of_it_runs_new_keys_only(project):
    project.write("names.py", 'NAMES = ["x", "y"]\n')
    project.write(
        "pipeline.py",
        """
        from barca import asset, collect, partitions_from
        from names import NAMES

        @asset
        def listed() -> list:
            return NAMES

        @asset(partitions={"k": partitions_from(listed)})
        def each(k: str) -> str:
            return k.upper()

        @asset(inputs={"every": collect(each)})
        def joined(every: list) -> str:
            return "".join(every)
        """,
    )
    assert project.ran("joined") == {"listed": 1, "each": 2, "joined": 1}
    project.write("names.py", 'NAMES = ["y", "z", "x"]\n')
    assert project.ran("joined") == {"listed": 1, "each": 1, "joined": 1}
    assert project.get("joined").value == "XYZ", "collected in key order, which the list does not change"
    project.write("names.py", 'NAMES = ["z", "y", "x"]\n')
    project.edit("pipeline.py", '"".join(every)', '"-".join(every)')
    assert project.ran("joined") == {"listed": 1, "joined": 1}
    assert project.get("joined").value == "X-Y-Z"


def test_inputs_of_other_files_by_function_and_by_id(project):
    project.write("sources/base.py", "from barca import asset\n\n@asset\ndef base() -> int:\n    return 2\n")
    project.write("sources/__init__.py", "")
    project.write(
        "by_function.py",
        "from barca import asset\nfrom sources.base import base\n\n@asset(inputs={'base': base})\n"
        "def doubled(base: int) -> int:\n    return base * 2\n",
    )
    project.write(
        "by_id.py",
        "from barca import asset\n\n@asset(inputs={'base': 'sources/base.py:base'})\n"
        "def tripled(base: int) -> int:\n    return base * 3\n",
    )
    assert project.ran(["doubled", "tripled"]) == {"base": 1, "doubled": 1, "tripled": 1}
    assert project.open("by_id.py").get("tripled").value == 6, "the file of the id need not be named"
    project.edit("sources/base.py", "return 2", "return 3")
    assert project.get(["doubled", "tripled"]).value == {"doubled": 6, "tripled": 9}


def test_many_one_key_calls_share_a_few_files(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions

        @asset(partitions={"k": partitions(range(1500))})
        def each(k: str) -> int:
            return int(k)
        """,
    )
    result = project.get("each")
    assert result.steps_executed == 1500
    packs = list((project.root / ".barca/artifacts").rglob("*.parquet"))
    assert 1 <= len(packs) <= 50
    assert len(list((project.root / ".barca/ledger/materializations").rglob("*.parquet"))) <= 50
    assert project.ran("each") == {}
    assert project.get("each", partition={"k": ["1499"]}).value == {"k=1499": 1499}


def test_objects_show_themselves_in_notebooks(project):
    project.write("pipeline.py", TRIES)
    opened = project.open()
    shown = [opened.plan("slow"), opened.get("slow", partition={"k": "1"}), opened.status()]
    for thing in shown:
        html = thing._repr_html_()
        assert "pipeline.py:slow" in html and "<table" in html
        assert repr(thing).startswith("<")


def test_wrong_arguments_are_refused_when_the_file_is_read(project):
    project.write(
        "pipeline.py", "from barca import asset\n\n\n@asset(retrys=3)\ndef node() -> int:\n    return 1\n"
    )
    done = project.cli("get", "node", "--json")
    assert done.returncode == 2
    for word in ("retrys", "retries", "pipeline.py", "node"):
        assert word in done.stderr
    project.write(
        "pipeline.py", "from barca import asset\n\n@asset\ndef node(unfilled: int) -> int:\n    return 1\n"
    )
    [error] = project.open().list_nodes()["load_errors"]
    assert DefinitionError.__name__ in error["error"] and "unfilled" in error["error"]
    assert error["nodes"] == ["pipeline.py:node"]

"""Running again what nothing changed: refresh, what it reaches, and where it stops."""

from __future__ import annotations

import pytest

CHAIN = """
    import pathlib
    from barca import asset, collect, partitions, partitions_from, task

    RATE = pathlib.Path(__file__).parent / "rate"

    @asset(cutoff={cutoff})
    def multiplier() -> int:
        return int(RATE.read_text())

    @asset(inputs={{"m": multiplier}}, partitions={{"k": partitions(["a", "b"])}})
    def times(k: str, m: int) -> str:
        return k * m

    @asset(partitions={{"k": partitions_from(times)}})
    def louder(k: str, times: str) -> str:
        return times.upper()

    @asset(inputs={{"every": collect(louder)}})
    def joined(every: list[str]) -> str:
        return "".join(every)
"""


@pytest.fixture
def chain(project):
    project.write("pipeline.py", CHAIN.format(cutoff=False))
    project.write("rate", "2")
    assert project.ran() == {"multiplier": 1, "times": 2, "louder": 2, "joined": 1}
    return project


def test_a_refresh_reaches_everything_below_and_nothing_above(chain):
    assert chain.ran("joined", refresh="multiplier") == {
        "multiplier": 1,
        "times": 2,
        "louder": 2,
        "joined": 1,
    }
    assert chain.ran("joined", refresh="times") == {"times": 2, "louder": 2, "joined": 1}
    assert chain.ran("joined", refresh=["louder", "joined"]) == {"louder": 2, "joined": 1}
    assert chain.ran("joined") == {}


def test_an_input_of_every_key_that_changed_runs_every_key(chain):
    chain.write("rate", "3")
    chain.edit("pipeline.py", "return int(RATE.read_text())", "return 0 + int(RATE.read_text())")
    assert chain.ran("joined") == {"multiplier": 1, "times": 2, "louder": 2, "joined": 1}
    assert chain.get("joined").value == "AAABBB"


def test_a_refresh_within_a_selection_reaches_its_keys_only(chain):
    assert chain.ran("louder", refresh="times", partition={"k": "a"}) == {"times": 1, "louder": 1}
    steps = {step["id"].rpartition(":")[2]: step for step in chain.open().plan(
        "louder", refresh="times", partition={"k": "a"}
    ).to_dict()["steps"]}  # fmt: skip
    assert (steps["times"]["reason"], steps["louder"]["reason"]) == ("refresh", "refresh_cascade")
    assert steps["times"]["partitions"]["will_run_keys"] == ["k=a"]


def test_no_cascade_runs_what_is_named_and_warns_of_what_stays_behind(chain):
    assert chain.ran("joined", refresh="times", cascade=False) == {"times": 2}
    done = chain.cli("get", "joined", "--refresh", "times", "--no-cascade", "--json")
    assert done.returncode == 0
    for name in ("louder", "joined"):
        assert f"warning: `{name}` keeps what it computed from earlier results of `times`" in done.stderr
    assert "multiplier" not in done.stderr
    assert len(chain.open().plan("joined", refresh="times", cascade=False).warnings) == 2
    assert chain.open().plan("joined", refresh="times").warnings == []


def test_no_cascade_warns_of_nothing_that_runs_whole(chain):
    chain.edit("pipeline.py", "times.upper()", "times.upper() + '!'")
    planned = chain.open().plan("joined", refresh="times", cascade=False)
    assert planned.warnings == [], "louder runs for its own sake, and joined after it"
    result = chain.get("joined", refresh="times", cascade=False)
    assert (result.to_dict()["warnings"], result.value) == ([], "AA!BB!")
    chain.edit("pipeline.py", '["a", "b"]', '["a", "b", "c"]')
    (warning,) = chain.open().plan("joined", refresh="times", cascade=False).warnings
    assert warning.startswith("`louder` keeps what"), "of two keys it does"


def test_no_cascade_warns_of_nothing_that_has_no_result(project):
    project.write(
        "pipeline.py",
        """
    from barca import asset, collect, partitions_from, sensor

    @sensor
    def seen() -> dict:
        return {"a": 1}

    @asset(partitions={"k": partitions_from(seen)})
    def size(k: str, seen: int) -> int:
        return seen

    @asset(inputs={"sizes": collect(size)})
    def total(sizes: list) -> int:
        return sum(sizes)
    """,
    )
    project.get("size")
    first = project.get("total", refresh="size", cascade=False).to_dict()
    assert (first["steps_executed"], first["warnings"]) == (3, [])
    (warning,) = project.get("total", refresh="size", cascade=False).to_dict()["warnings"]
    assert warning.startswith("`total` keeps what it computed")


def test_refresh_all_runs_everything(chain):
    assert chain.ran("joined", refresh_all=True) == {"multiplier": 1, "times": 2, "louder": 2, "joined": 1}
    steps = chain.open().plan("joined", refresh_all=True).to_dict()["steps"]
    assert {step["reason"] for step in steps} == {"refresh_all"}


def test_a_cutoff_stops_a_cascade_where_content_is_the_same(project):
    project.write("pipeline.py", CHAIN.format(cutoff=True))
    project.write("rate", "2")
    project.ran()
    assert project.ran("joined", refresh="multiplier") == {"multiplier": 1}
    project.write("rate", "3")
    waiting = {step["id"].rpartition(":")[2]: step for step in project.open().plan(
        "joined", refresh="multiplier"
    ).to_dict()["steps"]}  # fmt: skip
    assert {
        name: (step["action"], step["reason"]) for name, step in waiting.items() if name != "multiplier"
    } == {name: ("unknown", "cutoff_pending") for name in ("times", "louder", "joined")}
    assert project.ran("joined", refresh="multiplier") == {
        "multiplier": 1,
        "times": 2,
        "louder": 2,
        "joined": 1,
    }
    assert project.open().plan("joined", refresh="multiplier", cascade=False).warnings == [], "content says"


def test_what_nothing_reads_cannot_be_refreshed(chain):
    done = chain.cli("get", "times", "--refresh", "joined", "--json")
    assert done.returncode == 2 and "no target reads it" in done.stderr


def test_a_sensor_that_is_named_takes_what_reads_it_along(project):
    project.write(
        "pipeline.py",
        """
        from barca import Manual, asset, partitions_from, sensor
        @sensor
        def versions() -> dict: return {"a": 1, "b": 1}
        @asset(partitions={"k": partitions_from(versions)})
        def kept(k: str, versions: int) -> int: return versions
        @asset(partitions={"k": partitions_from(kept)}, freshness=Manual())
        def frozen(k: str, kept: int) -> int: return kept
        @asset(partitions={"k": partitions_from(frozen)})
        def below(k: str, frozen: int) -> int: return frozen
        """,
    )
    assert project.ran() == {"versions": 1, "kept": 2, "frozen": 2, "below": 2}
    assert project.ran() == {"versions": 1}
    assert project.ran(refresh="versions", cascade=False) == {"versions": 1}
    assert project.ran(refresh="versions") == {"versions": 1, "kept": 2}, (
        "a manual node runs when it is named"
    )
    assert project.ran(refresh="frozen")["frozen"] == 2


def test_warnings_are_sorted_by_node(project):
    project.write(
        "pipeline.py",
        """
        from barca import asset
        @asset
        def source() -> int: return 1
        @asset(inputs={"source": source})
        def middle(source: int) -> int: return source
        @asset(inputs={"source": source})
        def zebra(source: int) -> int: return source
        @asset(inputs={"source": source})
        def apple(source: int) -> int: return source
        @asset(inputs={"x": "gone"})
        def lost(x) -> int: return x
        """,
    )
    project.ran()
    asked = {"refresh": "source", "cascade": False}
    warnings = project.get(**asked).to_dict()["warnings"]
    assert [text.split()[0] for text in warnings] == ["`apple`", "`middle`", "`zebra`", "cannot"]
    assert project.open().plan(**asked).warnings == warnings


def test_after_a_refresh_what_reads_contents_is_planned_and_run_as_ever(project):
    """Of two commits the first has no row any more that counts: Polars panics over columns that lie so."""
    project.write(
        "pipeline.py",
        """
        from barca import asset, partitions, partitions_from

        @asset(partitions={"k": partitions(["a", "b", "c"])}, cutoff=True)
        def one(k: str) -> str:
            return k

        @asset(partitions={"k": partitions_from(one)})
        def two(k: str, one: str) -> str:
            return one
        """,
    )
    assert project.ran("two") == {"one": 3, "two": 3}
    assert project.ran("two", refresh=["one"])["one"] == 3
    assert project.open().plan("two").to_dict()["summary"]["cached"] == 6
    assert project.ran("two") == {}
    assert project.ran("two", refresh_all=True) == {"one": 3, "two": 3}
    assert project.ran("two") == {}

"""Writers that raise, are killed, or meet each other, while somebody reads."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from barca.io.sinks.exchange import put_in_place
from barca.io.sinks.local import LocalDepot

FILES = 50

PIPELINE = """
    import pathlib
    import polars as pl
    from barca import asset, partitions, sink

    HERE = pathlib.Path(__file__).parent

    @asset(partitions={"k": partitions(["a", "b"])}, freshness=__import__("barca").Always())
    @sink("out/", rows_per_file=1)
    def scored(k: str) -> pl.DataFrame:
        return pl.DataFrame({"version": (HERE / "version.txt").read_text(), "n": range(50)})
"""

RUN = """
    import os, pathlib, signal, sys
    from barca import Project

    {patch}
    for version in sys.argv[1:]:
        pathlib.Path("version.txt").write_text(version)
        assert Project(".", ["pipeline.py"], executor="inline").get("scored").status == "success"
    """

KILL = "os.kill(os.getpid(), signal.SIGKILL)"
AT = {
    "while it writes": "import barca.io.sinks.dataset as m; m.write_tables = lambda files: (pathlib.Path(files[0].path).parent.mkdir(exist_ok=True), pathlib.Path(files[0].path).write_bytes(b'half'), {KILL})",
    "before it swaps": "import barca.io.sinks.local as m; m.put_in_place = lambda *arguments: {KILL}",
    "after it swapped": "import barca.io.sinks.local as m; real = m.put_in_place; m.put_in_place = lambda *arguments: (real(*arguments), {KILL})",
    "while it deletes": "import barca.io.sinks.dataset as m; m.discard = lambda path: (next(pathlib.Path(path).rglob('*.parquet')).unlink(), {KILL})",
}


@pytest.fixture
def versioned(project):
    project.write("pipeline.py", PIPELINE)
    publish(project, "one")
    return project


def publish(project, version: str) -> None:
    """Publish a version from this process."""
    project.write("version.txt", version)
    assert project.open("pipeline.py").get("scored").status == "success"


def run(project, patch: str, *versions: str, check: bool = True) -> int:
    """Publish versions from a process of its own, in which code of barca is replaced."""
    project.write("run.py", RUN.format(patch=patch.replace("{KILL}", KILL)))
    done = subprocess.run([sys.executable, "run.py", *versions], cwd=project.root, check=check)
    return done.returncode


def read_key(directory: Path) -> list[str]:
    """The versions of the rows of a key, all from the directory that stood there at one moment."""
    while True:
        try:
            descriptor = os.open(directory, os.O_RDONLY)
        except FileNotFoundError:
            return []
        try:
            frames = []
            for name in os.listdir(descriptor):
                file = os.open(name, os.O_RDONLY, dir_fd=descriptor)
                with os.fdopen(file, "rb") as opened:
                    frames.append(pl.read_parquet(io.BytesIO(opened.read())))
            if len(frames) != FILES:
                continue  # it was replaced, and is being deleted: this is another moment
            return [version for frame in frames for version in frame["version"].to_list()]
        except FileNotFoundError:
            continue
        finally:
            os.close(descriptor)


@contextmanager
def reading(directory: Path):
    """Read a key over and over; yields what was seen, by versions."""
    seen: Counter[tuple[tuple[str, int], ...]] = Counter()
    over = threading.Event()

    def loop():
        while not over.is_set():
            seen[tuple(sorted(Counter(read_key(directory)).items()))] += 1

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def whole(*versions: str) -> set:
    return {((version, FILES),) for version in versions}


def leftovers(root: Path) -> list[Path]:
    return [
        path
        for path in root.rglob("*")
        if "staging" in str(path.relative_to(root)) and ".barca/" not in str(path)
    ]


def test_s2_a_reader_sees_the_old_or_the_new_rows(versioned):
    with reading(versioned.root / "out/k=a") as seen:
        run(versioned, "", "two", "three", "four")
    assert set(seen) <= whole("one", "two", "three", "four")
    assert sum(seen.values()) > len(seen)
    assert set(Counter(read_key(versioned.root / "out/k=a")).items()) == {("four", FILES)}


@pytest.mark.slow
@pytest.mark.parametrize("moment", AT)
def test_s2_a_killed_writer_leaves_the_old_or_the_new_rows(versioned, moment):
    with reading(versioned.root / "out/k=a") as seen:
        assert run(versioned, AT[moment], "two", check=False) == -signal.SIGKILL
    assert set(seen) <= whole("one", "two")
    expected = "one" if moment in {"while it writes", "before it swaps"} else "two"
    assert set(read_key(versioned.root / "out/k=a")) == {expected}
    assert leftovers(versioned.root)
    publish(versioned, "three")
    assert set(read_key(versioned.root / "out/k=a")) == {"three"}
    assert set(read_key(versioned.root / "out/k=b")) == {"three"}
    assert not leftovers(versioned.root)


@pytest.mark.parametrize("moment", ["while it writes", "before it is put in place"])
def test_a_killed_writer_of_a_file_leaves_the_old_one(project, moment):
    project.write("pipeline.py", PIPELINE.replace('"out/", rows_per_file=1', '"out.csv"'))
    publish(project, "one")
    patch = {
        "while it writes": AT[moment].replace("dataset", "files") if moment in AT else "",
        "before it is put in place": "import barca.io.sinks.local as m; "
        "m.LocalDepot.install_file = lambda *arguments: {KILL}",
    }[moment]
    assert run(project, patch, "two", check=False) == -signal.SIGKILL
    assert leftovers(project.root)
    for key in "ab":
        assert set(pl.read_csv(project.root / f"out_k_{key}.csv")["version"]) == {"one"}
    publish(project, "three")
    for key in "ab":
        assert set(pl.read_csv(project.root / f"out_k_{key}.csv")["version"]) == {"three"}
    assert not leftovers(project.root)


@pytest.mark.slow
def test_s2_kills_at_any_time(versioned):
    chance = random.Random(7)
    versioned.write("run.py", RUN.format(patch=""))
    for number in range(6):
        version = versioned.write("version.txt", "not begun")
        process = subprocess.Popen([sys.executable, "run.py", *"abcdefgh"], cwd=versioned.root)
        with reading(versioned.root / "out/k=a") as seen:
            while version.read_text() == "not begun":
                time.sleep(0.01)
            time.sleep(chance.random() * 1.5)
            process.kill()
            process.wait()
        assert set(seen) <= whole("one", *"abcdefgh"), number
        assert len(set(read_key(versioned.root / "out/k=a"))) == 1
    publish(versioned, "last")
    assert set(read_key(versioned.root / "out/k=a")) == {"last"}
    assert not leftovers(versioned.root)


def test_s2_a_writer_that_raises_leaves_the_old_rows(versioned, monkeypatch):
    def refuse(self, staged, name):
        raise OSError(28, "No space left on device")

    (versioned.root / "version.txt").write_text("two")
    with monkeypatch.context() as patch:
        patch.setattr(LocalDepot, "install", refuse)
        result = versioned.get()
    assert "sink out/: OSError" in result.error.message
    assert set(read_key(versioned.root / "out/k=a")) == {"one"}
    assert not leftovers(versioned.root)


@pytest.mark.slow
def test_two_processes_never_mix_the_files_of_a_key(versioned):
    versioned.write("run.py", RUN.format(patch=""))
    with reading(versioned.root / "out/k=a") as seen:
        both = [
            subprocess.Popen([sys.executable, "run.py", *letters], cwd=versioned.root)
            for letters in ("abcd", "wxyz")
        ]
        assert [process.wait() for process in both] == [0, 0]
    assert all(len(versions) == 1 and versions[0][1] == FILES for versions in seen)
    assert not leftovers(versioned.root)


def test_names_are_exchanged_in_one_step(tmp_path):
    """Nothing is put aside first, so that there is no moment without the directory."""
    for name in ("new", "place"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    put_in_place(tmp_path / "new", tmp_path / "place", tmp_path / "aside")
    assert os.listdir(tmp_path / "place") == ["new"]
    left = "new" if sys.platform in {"linux", "darwin"} else "aside"
    assert sorted(os.listdir(tmp_path)) == sorted([left, "place"])
    assert os.listdir(tmp_path / left) == ["place"]


def test_where_names_cannot_be_exchanged_the_old_is_put_aside(tmp_path, monkeypatch):
    monkeypatch.setattr("barca.io.sinks.exchange._exchange_function", lambda: None)
    for name in ("new", "place"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    put_in_place(tmp_path / "new", tmp_path / "place", tmp_path / "aside")
    assert os.listdir(tmp_path / "place") == ["new"]
    assert os.listdir(tmp_path / "aside") == ["place"]


@pytest.mark.slow
@pytest.mark.parametrize("after", ["", "_after"])
def test_a_killed_delta_commit_leaves_the_table_before_or_after_it(project, after):
    project.write("pipeline.py", PIPELINE.replace('"out/", rows_per_file=1', '"table/", format="delta"'))
    publish(project, "one")
    patch = "import barca.io.sinks.delta.table as m; m.Snapshot.commit = lambda *arguments: {KILL}"
    if after:
        patch = "import barca.io.sinks.delta.publishing as m; m.tidy = lambda *arguments: {KILL}"
    assert run(project, patch, "two", check=False) == -signal.SIGKILL
    found = pl.read_delta(str(project.root / "table"))
    assert set(found["version"]) == {"two" if after else "one"}
    assert found.height == 2 * FILES
    publish(project, "three")
    found = pl.read_delta(str(project.root / "table"))
    assert (set(found["version"]), found.height) == ({"three"}, 2 * FILES)


@pytest.mark.slow
def test_kills_at_any_time_leave_whole_runs_in_a_delta_table(project):
    project.write("pipeline.py", PIPELINE.replace('"out/", rows_per_file=1', '"table/", format="delta"'))
    publish(project, "one")
    chance, over, seen = random.Random(5), threading.Event(), Counter()
    project.write("run.py", RUN.format(patch=""))

    def loop():
        while not over.is_set():
            found = pl.read_delta(str(project.root / "table"))
            seen[tuple(sorted(Counter(found.select("k", "version").rows()).items()))] += 1

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        for _ in range(4):
            version = project.write("version.txt", "not begun")
            process = subprocess.Popen([sys.executable, "run.py", *"abcdefgh"], cwd=project.root)
            while version.read_text() == "not begun":
                time.sleep(0.01)
            time.sleep(chance.random() * 1.5)
            process.kill()
            process.wait()
    finally:
        over.set()
        thread.join()
    runs = {((("a", name), FILES), (("b", name), FILES)) for name in ("one", *"abcdefgh")}
    assert set(seen) <= runs
    assert sum(seen.values()) > len(seen) > 1
    publish(project, "last")
    assert set(pl.read_delta(str(project.root / "table"))["version"]) == {"last"}
    assert not leftovers(project.root)


@pytest.mark.slow
def test_two_processes_on_one_delta_table_double_nothing(project):
    project.write("pipeline.py", PIPELINE.replace('"out/", rows_per_file=1', '"table/", format="delta"'))
    publish(project, "one")
    project.write("run.py", RUN.format(patch=""))
    both = [
        subprocess.Popen([sys.executable, "run.py", *letters], cwd=project.root) for letters in ("abc", "xyz")
    ]
    assert [process.wait() for process in both] == [0, 0]
    found = pl.read_delta(str(project.root / "table"))
    assert found.height == 2 * FILES
    assert found.group_by("k").agg(pl.col("version").n_unique())["version"].to_list() == [1, 1]

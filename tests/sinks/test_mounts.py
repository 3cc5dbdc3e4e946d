"""Places that nothing can be put in the place of: mount points, and what file systems refuse to rename."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import polars as pl
import pytest

from barca.io.sinks import mounts

PIPELINE = """
    import polars as pl
    from barca import asset, partitions, sink

    @asset({partitions})
    @sink("{path}")
    def scored({key}) -> pl.DataFrame:
        return pl.DataFrame({{"v": [{value}]}})
"""


def publish(project, path: str, value: int, *, keyed: bool = True):
    declared = {"partitions": 'partitions={"k": partitions(["a", "b"])}', "key": "k: str"}
    if not keyed:
        declared = dict.fromkeys(declared, "")
    project.write("pipeline.py", PIPELINE.format(path=path, value=value, **declared))
    return project.get("scored")


def published(root: Path) -> dict[str, int]:
    return {
        path.relative_to(root).as_posix(): pl.read_parquet(path)["v"].item()
        for path in sorted(root.rglob("*.parquet"))
        if ".barca/" not in str(path)
    }


@pytest.fixture
def refuse(monkeypatch):
    """Have the file system refuse to put anything at, or to move, a place."""

    def place(refused: Path, number: int) -> None:
        for name in ("rename", "replace"):

            def spy(self, target, real=getattr(Path, name)):
                if refused in (self, Path(target)):
                    raise OSError(number, os.strerror(number), str(self), None, str(target))
                return real(self, target)

            monkeypatch.setattr(Path, name, spy)

    return place


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EBUSY])
def test_a_key_that_is_a_mount_point_fails_alone_and_is_as_it_was(project, refuse, number):
    publish(project, "out/", 1)
    place = Path(os.path.realpath(project.root / "out/k=a"))
    refuse(place, number)
    result = publish(project, "out/", 2)
    assert result.status == "failed"
    assert f"sink out/: {place} cannot be replaced in one step, and is as it was" in result.error.message
    assert published(project.root / "out") == {"k=a/part-0.parquet": 1, "k=b/part-0.parquet": 2}
    assert os.listdir(project.root / "out/k=a") == ["part-0.parquet"]
    assert not [name for name in os.listdir(project.root) if "staging" in name]


def test_a_departed_key_that_is_a_mount_point_is_warned_of(project, refuse):
    publish(project, "out/", 1)
    refuse(Path(os.path.realpath(project.root / "out/k=b")), errno.EBUSY)
    text = PIPELINE.format(
        path="out/", value=1, partitions='partitions={"k": partitions(["a"])}', key="k: str"
    )
    project.write("pipeline.py", text)
    result = project.get("scored")
    assert result.status == "success"
    assert [warning for warning in result.to_dict()["warnings"] if "it is a mount point" in str(warning)]
    assert "k=b/part-0.parquet" in published(project.root / "out")


def test_a_file_that_is_a_mount_point_is_as_it_was(project, refuse):
    publish(project, "out.parquet", 1, keyed=False)
    refuse(Path(os.path.realpath(project.root / "out.parquet")), errno.EBUSY)
    result = publish(project, "out.parquet", 2, keyed=False)
    assert "out.parquet cannot be replaced in one step, and is as it was" in result.error.message
    assert published(project.root) == {"out.parquet": 1}
    assert not [name for name in os.listdir(project.root) if "staging" in name]


def test_a_mount_point_is_not_replaced_whole_and_gets_no_file(project, monkeypatch):
    out = project.root / "out"
    out.mkdir(parents=True)
    real = os.path.realpath(out)
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == real)
    result = publish(project, "out/", 1, keyed=False)
    assert f"{real} is a mount point, which cannot be replaced as a whole" in result.error.message
    assert os.listdir(out) == []
    assert publish(project, "out/scored/", 1, keyed=False).status == "success"
    assert published(out) == {"scored/part-0.parquet": 1}


def test_nothing_is_exported_in_the_place_of_a_mount_point(project, monkeypatch):
    from barca.errors import UsageError

    publish(project, "out/", 1)
    place = project.root / "exported"
    place.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == os.path.realpath(place))
    with pytest.raises(UsageError, match="is a mount point"):
        project.open().export("scored", place)
    assert os.listdir(place) == []


def test_what_shows_a_directory_of_the_same_file_system_is_a_mount_point(tmp_path, monkeypatch):
    place = tmp_path / "a b\\c"
    place.mkdir()
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(mounts, "_MOUNTS", table)
    assert not mounts.is_mount(place)
    listed = str(place).replace("\\", "\\134").replace(" ", "\\040")
    table.write_text(f"22 1 8:1 / / rw - ext4 /dev/a rw\n40 22 8:1 /elsewhere {listed} rw - ext4 /dev/a rw\n")
    assert mounts.is_mount(place)
    assert not mounts.is_mount(tmp_path)

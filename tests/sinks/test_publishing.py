"""In which steps many keys are written: prepared, flushed together, put in place, and those names flushed."""

from __future__ import annotations

import polars as pl

from barca.io.sinks import local, publishing
from barca.io.sinks.contents import Content
from barca.io.sinks.dataset import DatasetSink
from barca.io.sinks.targets import Target
from barca.model import SinkSpec


class Sink:
    """Takes what keys hold, and counts what waits."""

    def __init__(self):
        self.waiting: list[str] = []
        self.installed: list[int] = []

    def prepare(self, contents):
        self.waiting += [content.key for content in contents]

    def install(self):
        failures = {key: "refused" for key in self.waiting if key.endswith("7")}
        self.installed.append(len(self.waiting))
        self.waiting = []
        return failures


def groups(*sizes: int):
    """Groups of two keys, each of so many bytes."""
    for number, size in enumerate(sizes):
        yield [Content(f"k={2 * number + place}", "table", size) for place in range(2)]


def test_so_many_keys_or_bytes_are_prepared_and_then_put_in_place(monkeypatch):
    monkeypatch.setattr(publishing, "_STAGED_KEYS", 6)
    monkeypatch.setattr(publishing, "_STAGED_BYTES", 100)
    sink = Sink()
    failures = publishing.write_all(sink, groups(1, 1, 1, 1, 1, 1, 1))
    assert sink.installed == [6, 6, 2]
    assert failures == {"k=7": "refused"}
    sink = Sink()
    publishing.write_all(sink, groups(60, 10, 10, 20, 20))
    assert sink.installed == [2, 6, 2], "a large key does not wait for others"


def test_files_are_on_the_disk_before_they_are_named_and_names_before_they_count(project, monkeypatch):
    done: list[str] = []
    for name in ("flush_files", "_put", "flush_directory"):
        real = getattr(local, name)
        spy = lambda *places, name=name, real=real: (done.append(f"{name} {places[-1].name}"), real(*places))
        monkeypatch.setattr(local, name, spy)
    project.write(
        "pipeline.py",
        """
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={"k": partitions(["a", "b"])}, batch="all")
        @sink("out/")
        def scored(k: list[str]) -> pl.DataFrame:
            return pl.DataFrame({"k": k, "v": [1, 2]})
        """,
    )
    project.ran()
    assert [step.split()[0] for step in done] == ["flush_files", "_put", "_put", "flush_directory"]
    assert [step.split()[1] for step in done[1:]] == ["k=a", "k=b", "out"]


def test_what_was_replaced_gets_into_no_directory_that_is_prepared_later(tmp_path):
    target = Target(SinkSpec(path="out/", rows_per_file=1), "a.py:scored", ("k",), tmp_path)
    depot = local.LocalDepot(tmp_path / "out")
    with depot.staging() as staging:
        sink = DatasetSink(target, depot, staging)
        for key, rows in (("a", 3), ("a", 2), ("b", 1)):
            sink.prepare([Content(f"k={key}", "table", 1, pl.DataFrame({"v": range(rows)}))])
            assert sink.install() == {}
            assert list(staging.iterdir()) == []
    files = [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.parquet")]
    assert sorted(files) == ["k=a/part-0.parquet", "k=a/part-1.parquet", "k=b/part-0.parquet"]

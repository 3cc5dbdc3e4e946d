"""Sinks in an object store: a real S3 server on this machine."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import uuid
from typing import ClassVar

import fsspec
import polars as pl
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from moto.server import ThreadedMotoServer

from barca.io.sinks.remote import RemoteDepot
from tests.sinks.test_datasets import KEYED_BY_SENSOR, set_versions


CLASSES = sys.modules["fsspec.registry"]._registry
"""Schemes to the classes of their stores, as far as they are loaded."""


@pytest.fixture(scope="module")
def server():
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def bucket(server, monkeypatch):
    """An empty bucket, and credentials that fsspec and the AWS libraries find in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    fs = fsspec.filesystem("s3", use_listings_cache=False)
    name = f"bucket-{uuid.uuid4().hex[:8]}"
    fs.mkdir(name)
    return Bucket(fs, name)


class Bucket:
    def __init__(self, fs, name):
        self.fs = fs
        self.name = name

    def files(self, prefix="") -> list[str]:
        root = f"{self.name}/{prefix}".rstrip("/")
        return sorted(path.removeprefix(f"{root}/") for path in self.fs.find(root))

    def read(self, name) -> bytes:
        return self.fs.cat_file(f"{self.name}/{name}")

    def options(self) -> dict[str, str]:
        from barca.io.sinks.credentials import storage_options

        return storage_options(f"s3://{self.name}/x")


def one(project, bucket, path: str, value: str, options: str = ""):
    project.write(
        "pipeline.py",
        f"""
        import polars as pl
        from barca import asset, sink

        @asset
        @sink("s3://{bucket.name}/{path}"{options})
        def orders():
            return {value}
        """,
    )


def error(project) -> str:
    result = project.get()
    assert result.status == "failed"
    return result.error.message


def test_a_file_sink_is_uploaded(project, bucket):
    one(project, bucket, "exports/orders.parquet", 'pl.DataFrame({"id": [1, 2]})')
    project.ran()
    assert pl.read_parquet(bucket.read("exports/orders.parquet")).to_dicts() == [{"id": 1}, {"id": 2}]
    one(project, bucket, "exports/orders.json", '{"a": 1}')
    project.ran()
    assert json.loads(bucket.read("exports/orders.json")) == {"a": 1}
    one(project, bucket, "exports/orders.pkl", "{1}")
    project.ran()
    assert pickle.loads(bucket.read("exports/orders.pkl")) == {1}


def test_local_and_remote_sinks_stack(project, bucket):
    one(project, bucket, "a.csv", 'pl.DataFrame({"id": [1]})')
    project.edit("pipeline.py", "@asset", '@asset\n@sink("a.csv")')
    project.ran()
    assert bucket.read("a.csv") == (project.root / "a.csv").read_bytes()


def test_a_bucket_that_is_not_there_fails_the_step_and_the_others_are_written(project, bucket):
    one(project, bucket, "a.csv", 'pl.DataFrame({"id": [1]})')
    project.edit("pipeline.py", f"s3://{bucket.name}", "s3://no-such-bucket")
    project.edit("pipeline.py", "@asset", '@asset\n@sink("a.csv")')
    assert "sink s3://no-such-bucket/a.csv: " in error(project)
    assert (project.root / "a.csv").exists()


@pytest.fixture
def sensed(project, bucket):
    project.write("pipeline.py", KEYED_BY_SENSOR.replace('"out/"', f'"s3://{bucket.name}/out/"'))
    set_versions(project, a=1, b=2, c=3)
    return project


def test_a_dataset_is_uploaded_key_by_key(sensed, bucket):
    sensed.ran()
    assert bucket.files("out") == [
        "_barca_sink.json",
        "k=a/part-0.parquet",
        "k=b/part-0.parquet",
        "k=c/part-0.parquet",
    ]
    modified = {name: bucket.fs.info(f"{bucket.name}/out/{name}")["ETag"] for name in bucket.files("out")}
    set_versions(sensed, a=1, b=5)
    told = []
    sensed.open(listener=told.append).get()
    assert [event.message for event in told if type(event).__name__ == "Noted"] == [
        f"dataset sink s3://{bucket.name}/out/: deleted 1 key its asset no longer has"
    ]
    after = {name: bucket.fs.info(f"{bucket.name}/out/{name}")["ETag"] for name in bucket.files("out")}
    assert [name for name in after if after[name] != modified[name]] == ["k=b/part-0.parquet"]
    assert "k=c/part-0.parquet" not in after
    assert not any((sensed.root / ".barca/staging").glob("*"))


def test_polars_reads_it_with_the_credentials_that_barca_passes(sensed, bucket):
    sensed.ran()
    found = pl.scan_parquet(
        f"s3://{bucket.name}/out/**/*.parquet",
        hive_partitioning=True,
        hive_schema={"k": pl.String},
        storage_options=bucket.options(),
    )
    assert found.collect(engine="in-memory").height == 6


def test_new_objects_come_before_old_ones_go(project, bucket, monkeypatch):
    one(project, bucket, "out/", 'pl.DataFrame({"d": ["x", "y"], "v": [1, 2]})', ', partition_by=["d"]')
    project.ran()
    one(project, bucket, "out/", 'pl.DataFrame({"d": ["y", "z"], "v": [3, 4]})', ', partition_by=["d"]')
    seen = []
    real = bucket.fs.rm

    def rm(paths):
        seen.append(bucket.files("out"))
        return real(paths)

    monkeypatch.setattr(bucket.fs, "rm", rm)
    project.ran()
    assert seen == [["_barca_sink.json", "d=x/part-0.parquet", "d=y/part-0.parquet", "d=z/part-0.parquet"]]
    assert bucket.files("out") == ["_barca_sink.json", "d=y/part-0.parquet", "d=z/part-0.parquet"]


def test_a_prefix_with_objects_of_others_is_refused(project, bucket):
    bucket.fs.pipe_file(f"{bucket.name}/out/theirs.csv", b"kept")
    bucket.fs.pipe_file(f"{bucket.name}/ok/.hidden", b"kept")
    one(project, bucket, "out/", 'pl.DataFrame({"v": [1]})')
    assert "holds files barca did not write" in error(project)
    one(project, bucket, "ok/", 'pl.DataFrame({"v": [1]})')
    project.ran()
    assert bucket.files("ok") == [".hidden", "_barca_sink.json", "part-0.parquet"]


def test_objects_of_others_are_never_deleted(project, bucket):
    one(project, bucket, "out/", 'pl.DataFrame({"d": ["x"], "v": [1]})', ', partition_by=["d"]')
    project.ran()
    bucket.fs.pipe_file(f"{bucket.name}/out/d=x/report.csv", b"theirs")
    bucket.fs.pipe_file(f"{bucket.name}/out/d=x/.crc", b"theirs")
    project.edit("pipeline.py", '"v": [1]', '"v": [2]')
    project.edit("pipeline.py", '["x"]', '["y"]')
    assert f"{bucket.name}/out holds files barca did not write: d=x/report.csv; move" in error(project)
    assert "d=x/part-0.parquet" in bucket.files("out")
    bucket.fs.rm_file(f"{bucket.name}/out/d=x/report.csv")
    project.ran()
    assert bucket.files("out") == ["_barca_sink.json", "d=x/.crc", "d=y/part-0.parquet"]


LAID_OUT = """
    import polars as pl
    from barca import asset, partitions, sink

    @asset(partitions={{{dimensions}}})
    @sink("s3://{bucket}/out/"{options})
    def scored({names}):
        return pl.DataFrame({{"v": [1]}})
"""
K, M = '"k": partitions(["a", "b"])', '"m": partitions(["1"])'


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ("", ["_barca_sink.json", "m=1/k=a/part-0.parquet", "m=1/k=b/part-0.parquet"]),
        (', format="delta"', None),
    ],
)
def test_another_layout_is_for_all_keys_or_none(project, bucket, options, left):
    def declare(dimensions, names):
        text = LAID_OUT.format(dimensions=dimensions, bucket=bucket.name, options=options, names=names)
        project.write("pipeline.py", text)

    declare(K, "k")
    project.ran()
    before = bucket.files("out")
    declare(f"{M}, {K}", "m, k")
    result = project.get(partition={"k": "a"})
    assert result.status == "failed"
    assert "run the asset whole, without --partition" in result.error.message
    assert bucket.files("out") == before
    project.ran()
    if left is not None:
        assert bucket.files("out") == left
    else:
        found = pl.read_delta(f"s3://{bucket.name}/out", storage_options=bucket.options())
        assert sorted(found.rows()) == [("1", "a", 1), ("1", "b", 1)]
    assert project.get(partition={"k": "a"}).status == "success"


def test_a_delta_table_that_is_gone_is_written_again(sensed, bucket):
    sensed.edit("pipeline.py", 'out/")', 'out/", format="delta")')
    sensed.ran()
    bucket.fs.rm(f"{bucket.name}/out/_delta_log", recursive=True)
    set_versions(sensed, a=1, b=1, c=2)
    assert sensed.ran() == {"versions": 1, "scored": 2}
    found = pl.read_delta(f"s3://{bucket.name}/out", storage_options=bucket.options())
    assert sorted(found.rows()) == [("a", 0), ("b", 0), ("c", 0), ("c", 1)]


def test_odd_keys_stay_below_the_prefix(project, bucket):
    odd = ["..", "a/b", "a b", "*", "%2F", "é"]
    project.write(
        "pipeline.py",
        f"""
        import polars as pl
        from barca import asset, partitions, sink

        @asset(partitions={{"k": partitions({odd!r})}})
        @sink("s3://{bucket.name}/out/")
        def scored(k):
            return pl.DataFrame({{"v": [k]}})
        """,
    )
    project.ran()
    assert len(bucket.files("out")) == len(odd) + 1
    assert bucket.files() == [f"out/{name}" for name in bucket.files("out")]
    found = pl.scan_parquet(
        f"s3://{bucket.name}/out/**/*.parquet",
        hive_partitioning=True,
        hive_schema={"k": pl.String},
        storage_options=bucket.options(),
    ).collect(engine="in-memory")
    assert sorted(found.select("k", "v").rows()) == sorted((key, key) for key in odd)


def test_a_delta_table_lives_there_too(sensed, bucket):
    sensed.edit("pipeline.py", 'out/")', 'table/", format="delta", compact_files=1)')
    sensed.ran()
    set_versions(sensed, a=1, b=5)
    sensed.ran()
    uri = f"s3://{bucket.name}/table"
    found = pl.scan_delta(uri, storage_options=bucket.options()).collect(engine="in-memory")
    assert sorted(found.rows()) == [("a", 0), *(("b", n) for n in range(5))]
    from deltalake import DeltaTable

    assert DeltaTable(uri, storage_options=bucket.options()).version() == 1
    old = pl.scan_delta(uri, version=0, storage_options=bucket.options()).collect(engine="in-memory")
    assert old.height == 6


def test_going_back_uploads_again(project, bucket):
    for value in (1, 2, 1):
        one(project, bucket, "out.json", f'{{"v": {value}}}')
        project.get()
        assert json.loads(bucket.read("out.json")) == {"v": value}


def test_a_run_that_is_killed_leaves_no_staged_files_after_the_next(sensed, bucket):
    sensed.write(
        "killed.py",
        """
        import os
        from barca import Project
        from barca.io.sinks.remote import RemoteDepot
        RemoteDepot.install = lambda *arguments: os._exit(9)
        Project(".", ["pipeline.py"], executor="inline").get("scored")
        """,
    )
    assert subprocess.run([sys.executable, "killed.py"], cwd=sensed.root, check=False).returncode == 9
    staged = sensed.root / ".barca/staging"
    assert any(staged.rglob("*.parquet"))
    assert sensed.open("pipeline.py").get("scored").status == "success"
    assert not any(staged.rglob("*"))


def test_any_store_of_fsspec_will_do(project):
    name = uuid.uuid4().hex
    project.write(
        "pipeline.py",
        f"""
        import polars as pl
        from barca import asset, sink

        @asset
        @sink("memory://{name}/out/", partition_by=["d"])
        @sink("memory://{name}/one.csv")
        def orders():
            return pl.DataFrame({{"d": [1], "v": [2]}})
        """,
    )
    project.ran()
    fs = fsspec.filesystem("memory")
    assert sorted(fs.find(f"/{name}")) == [
        f"/{name}/one.csv",
        f"/{name}/out/_barca_sink.json",
        f"/{name}/out/d=1/part-0.parquet",
    ]


@pytest.mark.parametrize(
    ("scheme", "extra"), [("gs", "gcs"), ("abfss", "azure"), ("s3", "s3"), ("what", "remote")]
)
def test_a_missing_library_is_told_with_its_extra(project, monkeypatch, scheme, extra):
    def refuse(uri, **options):
        raise ImportError("Please install something")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    from barca.errors import SinkError

    with pytest.raises(SinkError) as raised:
        RemoteDepot(f"{scheme}://bucket/prefix", project.root)
    assert raised.value.remediation == f"install the extra `barca[{extra}]`"


@pytest.mark.parametrize(
    ("scheme", "module", "extra"),
    [
        ("gs", "gcsfs", "gcs"),
        ("gcs", "gcsfs", "gcs"),
        ("abfs", "adlfs", "azure"),
        ("abfss", "adlfs", "azure"),
    ],
)
@pytest.mark.parametrize("sink", ["x.json", "out/"])
def test_without_its_library_a_store_is_no_sink_and_the_extra_is_named(
    project, monkeypatch, scheme, module, extra, sink
):
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    monkeypatch.delitem(CLASSES, scheme, raising=False)
    text = f"from barca import asset, sink\n@asset\n@sink('{scheme}://b/{sink}')\ndef one(): return {{}}\n"
    project.write("pipeline.py", text)
    told = error(project)
    assert f"sink {scheme}://b/{sink}: {scheme}://b" in told
    assert f"install the extra `barca[{extra}]`" in told


def played(scheme: str) -> type:
    """A store of a scheme that is kept in memory."""

    class Played(MemoryFileSystem):
        protocol = scheme
        store: ClassVar[dict] = {}
        pseudo_dirs: ClassVar[list] = [""]

        @classmethod
        def _strip_protocol(cls, path):
            return MemoryFileSystem._strip_protocol(str(path).removeprefix(f"{scheme}://"))

    return Played


@pytest.mark.parametrize("scheme", ["gs", "gcs", "abfs", "abfss", "az"])
def test_other_clouds_are_published_to_in_the_same_way(project, monkeypatch, scheme):
    store = played(scheme)
    monkeypatch.setitem(CLASSES, scheme, store)
    project.write(
        "pipeline.py",
        KEYED_BY_SENSOR.replace(
            '@sink("out/")', f'@sink("{scheme}://b/out/")\n    @sink("{scheme}://b/one.csv")'
        ),
    )
    set_versions(project, a=1, b=2)
    project.ran()
    fs = store()
    assert sorted(fs.find("b")) == [
        "/b/one_k_a.csv",
        "/b/one_k_b.csv",
        "/b/out/_barca_sink.json",
        "/b/out/k=a/part-0.parquet",
        "/b/out/k=b/part-0.parquet",
    ]
    set_versions(project, a=3)
    project.ran()
    assert sorted(fs.find("b/out")) == ["/b/out/_barca_sink.json", "/b/out/k=a/part-0.parquet"]
    assert pl.read_parquet(fs.cat_file("b/out/k=a/part-0.parquet")).height == 3
    assert fs.cat_file("b/one_k_a.csv").decode() == "k,n\na,0\na,1\na,2\n"
    fs.pipe_file("b/out/k=a/notes.txt", b"theirs")
    set_versions(project, a=4)
    assert "holds files barca did not write: notes.txt" in error(project)


def test_the_remedy_stands_in_the_steps_error(project, monkeypatch):
    monkeypatch.setattr(
        "fsspec.core.url_to_fs", lambda uri, **options: (_ for _ in ()).throw(ImportError("no gcsfs"))
    )
    project.write(
        "pipeline.py", "from barca import asset, sink\n@asset\n@sink('gs://b/x.json')\ndef one(): return {}\n"
    )
    assert "barca[gcs]" in error(project)

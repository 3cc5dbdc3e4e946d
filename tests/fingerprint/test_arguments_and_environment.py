"""Decorator arguments that count, environment reads, and what is never shown."""

from __future__ import annotations

import pytest

BASE = """
    import functools
    from barca import asset, partitions, partitions_from, sensor, sink, Always, batches

    @sensor
    def one():
        return {"a": 1}

    @sensor
    def two():
        return 2

    def deco(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs)
        return wrapper

    MARK
    def node(DIM, two):
        return two
"""
DECORATOR = '@asset(inputs={"two": two}, partitions={"DIM": partitions(["a", "b"])})'


def write(code, decorator: str, dimension: str = "region", extra: str = "") -> None:
    text = BASE.replace("MARK", decorator.replace("\n", "\n    ")).replace("DIM", dimension)
    code.write("pipeline.py", text + extra)


@pytest.mark.parametrize(
    "arguments",
    [
        "batch=20",
        'batch="all"',
        "retries=3, retry_backoff=2.0",
        "weight=2",
        "timeout_seconds=10",
        'description="words"',
        'tags=["nightly"]',
        "freshness=Always()",
        "cutoff=True",
        "deterministic=False",
        'name="another"',
    ],
)
def test_f5_arguments_that_do_not_count(code, arguments):
    write(code, DECORATOR)
    before = code.hash()
    write(code, DECORATOR.replace("@asset(", f"@asset({arguments}, "))
    assert code.hash() == before


def test_f5_inputs_and_keys_do_not_count_here(code):
    write(code, DECORATOR)
    before = code.hash()
    write(code, DECORATOR.replace('["a", "b"]', '["a", "b", "c"]'))
    assert code.hash() == before
    write(code, '@asset(partitions={"DIM": partitions_from(one)}, inputs={"two": "pipeline.py:two"})')
    assert code.hash() == before


@pytest.mark.parametrize(
    "arguments",
    ['serializer="json"', 'env=["MODE"]', 'env=["MODE", "OTHER"]', 'engine="streaming"'],
)
def test_f5_arguments_that_count(code, arguments):
    write(code, DECORATOR)
    before = code.one()
    write(code, DECORATOR.replace("@asset(", f"@asset({arguments}, "))
    after = code.one()
    assert after.hash != before.hash
    assert {name for name in after.components if after.components[name] != before.components[name]} == {
        "arguments"
    }


def test_f5_the_order_of_environment_names_does_not_count(code):
    write(code, DECORATOR.replace("@asset(", '@asset(env=["A", "B"], '))
    before = code.hash()
    write(code, DECORATOR.replace("@asset(", '@asset(env=["B", "A"], '))
    assert code.hash() == before


def test_f5_the_name_of_a_dimension_counts(code):
    write(code, DECORATOR)
    before = code.one()
    write(code, DECORATOR, dimension="district")
    assert code.one().components["arguments"] != before.components["arguments"]


def test_f5_another_decorator_counts(code):
    write(code, DECORATOR)
    plain = code.hash()
    write(code, f"{DECORATOR}\n@deco")
    decorated = code.one()
    assert decorated.hash != plain
    assert decorated.warnings == ()
    assert "decorator pipeline.py:deco" in decorated.components
    code.edit("pipeline.py", "return f(*args, **kwargs)", "return [f(*args, **kwargs)]")
    assert code.hash() != decorated.hash


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"out.csv"', '"other.csv"'),
        ('"out/", serializer="csv"', '"out/", serializer="parquet"'),
        ('"out/", serializer="parquet"', '"out/", serializer="parquet", partition_by=["day"]'),
        ('"out/", serializer="parquet"', '"out/", serializer="parquet", rows_per_file=10'),
    ],
)
def test_f5_sinks_count(code, one, other):
    write(code, f"{DECORATOR}\n@sink({one})")
    before = code.hash()
    write(code, f"{DECORATOR}\n@sink({other})")
    assert code.hash() != before


READS = {
    "environ": ("import os", 'os.environ["REGION"]'),
    "get": ("import os", 'os.environ.get("REGION", "x")'),
    "getenv": ("import os as system", 'system.getenv("REGION")'),
    "from": ("from os import environ as e, getenv", 'e["REGION"]'),
    "from_getenv": ("from os import getenv as g", 'g("REGION")'),
    "contains": ("import os", '"REGION" in os.environ'),
    "by_constant": ('import os\nNAME = "REGION"', "os.environ[NAME]"),
    "in_body": ("", '__import__("os").environ["REGION"]'),
    "in_helper": ('import os\ndef helper():\n    return os.getenv("REGION")', "helper()"),
    "in_class": ('import os\nclass C:\n    def go(self):\n        return os.getenv("REGION")', "C().go()"),
    "in_constant": ('import os\nWHERE = os.environ.get("REGION", "x")', "WHERE"),
    "in_lazy_helper": ("", "__import__('lazy').helper()"),
}


@pytest.mark.parametrize("name", READS)
def test_f6_undeclared_reads_are_named_but_not_their_value(code, name, monkeypatch):
    monkeypatch.setenv("REGION", "north-7781")
    monkeypatch.setenv("MODE", "fast-7782")
    setup, expression = READS[name]
    code.write("lazy.py", 'import os\ndef helper():\n    return os.getenv("REGION")\n')
    code.write(
        "pipeline.py",
        f'import os\nfrom barca import asset\n{setup}\n\n@asset(env=["MODE"])\ndef node():\n'
        f'    return os.environ["MODE"], {expression}\n',
    )
    found = code.one()
    assert len(found.warnings) == 1
    assert "REGION" in found.warnings[0]
    assert "`pipeline.py:node`" in found.warnings[0]
    assert "7781" not in found.source + "".join(found.warnings)
    code.edit("pipeline.py", 'env=["MODE"]', 'env=["MODE", "REGION"]')
    assert code.one().warnings == ()


@pytest.mark.parametrize(
    "expression", ["os.environ[name]", "dict(os.environ)", "os.getenv(name)", "f(os.getenv)"]
)
def test_f6_reads_that_cannot_be_named_are_a_warning(code, expression):
    code.write(
        "pipeline.py",
        f"import os\nfrom barca import asset\n\n@asset\ndef node(name='x', f=len):\n    return {expression}\n",
    )
    (warning,) = code.one().warnings
    assert "names are not literals" in warning


@pytest.mark.parametrize(
    "statement", ['os.environ["X"] = "1"', 'os.environ.update({"X": "1"})', 'del os.environ["X"]']
)
def test_f6_writing_is_no_read(code, statement):
    code.write("pipeline.py", f"import os\nfrom barca import asset\n\n@asset\ndef node():\n    {statement}\n")
    assert code.one().warnings == ()


def test_f6_secrets_are_not_shown(code, monkeypatch):
    monkeypatch.setenv("SOME_VALUE", "hunter2-env")
    code.write("util.py", 'API_TOKEN = "hunter2-imported"\n')
    code.write(
        "pipeline.py",
        """
        import os
        from barca import asset
        from util import API_TOKEN

        PASSWORD = "hunter2-constant"
        CONFIG = {"user": "me", "password": "hunter2-entry"}
        URL = "postgres://me:hunter2@host/db"
        INDIRECT = "x" + PASSWORD
        READ = os.environ["SOME_VALUE"]
        FURTHER = READ.upper() + READ
        OPEN = "plain to see"

        def make(secret):
            @asset(env=["SOME_VALUE"])
            def node(api_key="hunter2-default", *, token="hunter2-keyword"):
                password = "hunter2-local"
                connect(password="hunter2-argument", options={"secret": "hunter2-option"})
                return PASSWORD, CONFIG, URL, INDIRECT, READ, FURTHER, OPEN, API_TOKEN, secret
            return node

        def connect(**options):
            return options

        node = make("hunter2-closure")
        """,
    )
    found = code.one()
    assert "hunter2" not in found.source.lower()
    assert "hunter2" not in "".join(found.warnings)
    assert "OPEN = 'plain to see'" in found.source
    assert "PASSWORD = <hidden>" in found.source
    code.edit("pipeline.py", "hunter2-constant", "hunter3-constant")
    assert code.hash() != found.hash


def test_source_and_components_name_every_part(code):
    code.write("util.py", "RATE = 2\n\ndef clean(x):\n    'doc'\n    return x * RATE  # comment\n")
    code.write(
        "pipeline.py",
        "from barca import asset\nfrom util import clean\n\n@asset\ndef node():\n    return clean(1)\n",
    )
    found = code.one()
    assert list(found.components) == [
        "arguments",
        "constant util.py:RATE",
        "function",
        "helper util.py:clean",
    ]
    assert found.source == (
        "# function\ndef node():\n    return clean(1)\n\n# constant util.py:RATE\nRATE = 2\n\n"
        "# helper util.py:clean\ndef clean(x):\n    return x * RATE"
    )

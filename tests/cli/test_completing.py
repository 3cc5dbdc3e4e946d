"""Shell completion: what each shell is offered, without running the project's code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barca.cli.completing import join_words

PIPELINE = """
    import pathlib
    from barca import asset, partitions, sensor

    pathlib.Path("imported").write_text("")

    @asset(partitions={"shop": partitions(["r1", "r2", "north, west"]), "week": partitions(["7"])})
    def sales(shop: str, week: str) -> int:
        return 1

    @asset()
    def stock() -> int:
        return 1

    @asset(name="totals")
    def t() -> int:
        return 1
"""


@pytest.fixture
def offered(commands):
    """What bash is offered for the last word of a command line; words are cut as bash cuts them."""
    commands.write("pipeline.py", PIPELINE)
    commands.write("barca.toml", '[execution]\nexecutor = "inline"\n\n[env.prod]\nX = "1"\n')

    def offer(line):
        words = line.replace("=", " = ").split() + ([""] if line.endswith(" ") else [])
        env = {
            "_BARCA_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1),
        }  # fmt: skip
        done = commands.cli(env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n") if done.stdout.strip() else []

    offer.commands = commands
    return offer


def clean(words):
    return [word for word in words if word]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("barca he", ["head"]),
        ("barca get s", ["sales", "stock"]),
        ("barca run s", ["sales", "stock"]),
        ("barca get sales,s", ["sales,stock"]),
        ("barca get sales,stock,", ["sales,stock,totals"]),
        ("barca head tot", ["totals"]),
        ("barca export sa", ["sales"]),
        ("barca stats st", ["stock"]),
        ("barca get p", ["pipeline.py"]),
        ("barca get sales p", ["pipeline.py"]),
        ("barca get sales s", []),
        ("barca get sales --refresh st", ["stock"]),
        ("barca history --target st", ["stock"]),
        ("barca get --env ", ["prod"]),
        ("barca get --exec", ["--executor"]),
        ("barca get --executor in", ["inline"]),
        ("barca docs part", ["partitions"]),
        ("barca sql -o par", ["parquet"]),
        ("barca graph --format s", ["svg"]),
        ("barca status --state st", ["stale"]),
        ("barca history --status f", ["failed"]),
        ("barca logs --step st", ["stock"]),
        ("barca history ", []),
    ],
)
def test_names_and_choices(offered, line, wanted):
    assert clean(offered(line)) == wanted
    assert not (offered.commands.root / "imported").exists(), "user code was run"
    assert not (offered.commands.root / ".barca").exists()


def test_keys_are_those_of_the_ledger(offered):
    assert clean(offered("barca get sales --partition ")) == []
    assert offered.commands.cli("get").returncode == 0
    (offered.commands.root / "imported").unlink()
    assert clean(offered("barca get sales --partition ")) == ["shop=", "week="]
    assert clean(offered("barca get sales --partition shop=r")) == ["r1", "r2"]
    assert clean(offered("barca get sales --partition shop=")) == ["north, west", "r1", "r2"]
    assert clean(offered("barca get sales --partition shop=r1,r")) == ["r1,r2"]
    assert clean(offered("barca head sales --partition week=")) == ["7"]
    assert not (offered.commands.root / "imported").exists(), "user code was run"


def test_runs_are_those_of_the_ledger_newest_first(offered):
    made = [offered.commands.cli_json("get", "stock")["run_id"] for _ in range(2)]
    for command in ("history", "logs"):
        assert clean(offered(f"barca {command} ")) == made[::-1]


def test_zsh_keeps_a_word_whole(offered):
    offered.commands.cli("get")
    env = {"_BARCA_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "barca get sales --partition shop=r"}
    assert '"shop=r1"\n"shop=r2"' in offered.commands.cli(env=env).stdout


def test_names_that_files_share_are_ids_and_what_does_not_parse_is_read_too(offered):
    offered.commands.write(
        "other.py", "from barca import asset\n\n@asset\ndef stock() -> int:\n    return (\n"
    )
    assert clean(offered("barca get ")) == [
        "other.py:stock", "sales", "pipeline.py:stock", "totals", "other.py", "pipeline.py",
    ]  # fmt: skip


def test_where_nothing_can_be_read_nothing_is_offered(offered):
    offered.commands.write("barca.toml", "= nonsense")
    (offered.commands.root / ".barca").write_text("no directory")
    assert clean(offered("barca get --env ")) == []
    assert clean(offered("barca get sales --partition sh")) == []
    assert clean(offered("barca get nowhere/x")) == []


def test_names_are_offered_without_what_is_heavy(project):
    project.write("pipeline.py", PIPELINE)
    code = (
        "import sys, contextlib, io\nfrom barca.__main__ import main\nout = io.StringIO()\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(out): main([])\n"
        "assert 'stock' in out.getvalue()\n"
        "print({'polars', 'deltalake', 'rich'} & set(sys.modules))"
    )
    env = {**os.environ, "_BARCA_COMPLETE": "complete_bash", "COMP_WORDS": "barca get s", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project.root, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_an_equals_sign_is_no_word():
    env = {"COMP_WORDS": "barca get --partition shop =", "COMP_CWORD": "4"}
    join_words(env)
    assert env["COMP_CWORD"] == "5"
    other = {"COMP_WORDS": "barca get", "COMP_CWORD": "x"}
    join_words(other)
    assert other["COMP_CWORD"] == "x"

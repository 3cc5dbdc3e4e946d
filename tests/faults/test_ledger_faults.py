"""The ledger under kills, several writers and damage, with real processes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import polars as pl
import pytest

from barca.errors import LedgerError
from barca.io.ledger import DeltaLedger

pytestmark = pytest.mark.slow

PRELUDE = """
import sys
from pathlib import Path
import polars as pl
from barca.io.ledger import DeltaLedger, upkeep
from barca.schemas import MATERIALIZATIONS

def rows(node, keys, run):
    named = {"node": pl.lit(node), "run_hash": pl.lit("h"), "status": pl.lit("success"), "run_id": pl.lit(run)}
    empty = [pl.lit(None, dtype).alias(name) for name, dtype in MATERIALIZATIONS.items() if name not in (*named, "key")]
    return pl.DataFrame({"key": keys}).with_columns(**named).with_columns(empty)

ledger = DeltaLedger(Path(sys.argv[1]))
"""

APPEND_FOR_EVER = """
upkeep.MANY_FILES = 6
writer = ledger.writer(sys.argv[2])
number = 0
print("ready", flush=True)
while True:
    keys = [f"{sys.argv[2]}-{number}-{part}" for part in range(3)]
    writer.append("materializations", pl.concat([rows("a", keys, sys.argv[2]), rows("b", keys, sys.argv[2])]))
    writer.flush()
    print(number, flush=True)
    number += 1
    if number % 4 == 0:
        ledger.maintain(5)
"""

APPEND_SOME = """
upkeep.MANY_FILES = 8
writer = ledger.writer(sys.argv[2])
for number in range(int(sys.argv[3])):
    writer.append("materializations", rows("a", [f"{sys.argv[2]}-{number}"], sys.argv[2]))
    writer.flush()
    if number % 10 == 9:
        ledger.maintain(5)
"""


def start(script: str, root: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PRELUDE + script), str(root), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def keys(root: Path, node: str) -> list[str]:
    frame = DeltaLedger(root).reader().scan("materializations").filter(pl.col("node") == node)
    return frame.collect(engine="in-memory")["key"].to_list()


def test_a_writer_killed_at_any_point_loses_nothing_it_had_flushed(tmp_path: Path):
    chance = random.Random(7)
    flushed: list[str] = []
    for round_ in range(10):
        run = f"r{round_}"
        process = start(APPEND_FOR_EVER, tmp_path, run)
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        output = "".join(process.stdout.readline() for _ in range(chance.randrange(6)))
        time.sleep(chance.uniform(0, 0.1))  # commits take 0.03 s: anywhere in one, or in a compaction
        process.send_signal(signal.SIGKILL)
        rest, errors = process.communicate()
        output += rest
        assert process.returncode == -signal.SIGKILL, errors
        done = [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
        flushed += [f"{run}-{int(line)}-{part}" for line in done for part in range(3)]
        for node in ("a", "b"):
            found = keys(tmp_path, node)
            assert len(found) == len(set(found))
            assert set(flushed) <= set(found)
            beyond = {key.rpartition("-")[0] for key in set(found) - set(flushed)}
            assert len(beyond) <= round_ + 1  # at most the one batch that was on its way, per kill
        assert keys(tmp_path, "a") == keys(tmp_path, "b")  # a batch is there for every node or for none
    assert len(flushed) > 30
    last = start(APPEND_SOME, tmp_path, "last", "2")
    assert last.communicate()[1] == "" and last.returncode == 0
    assert keys(tmp_path, "a")[-2:] == ["last-0", "last-1"]


def test_four_processes_that_append_and_compact_at_once_lose_and_double_nothing(tmp_path: Path):
    processes = [start(APPEND_SOME, tmp_path, f"r{number}", "25") for number in range(4)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    found = keys(tmp_path, "a")
    assert sorted(found) == sorted(f"r{run}-{number}" for run in range(4) for number in range(25))
    for run in range(4):
        own = [key for key in found if key.startswith(f"r{run}-")]
        assert own == [f"r{run}-{number}" for number in range(25)]
    delta = pl.scan_delta(str(tmp_path / "materializations"))
    assert delta.select(pl.len()).collect(engine="in-memory").item() == 100


def test_a_reader_beside_a_writer_sees_whole_batches_only(tmp_path: Path):
    process = start(APPEND_FOR_EVER, tmp_path, "r")
    assert process.stdout is not None
    process.stdout.readline()
    try:
        seen = 0
        while seen < 60:
            reader = DeltaLedger(tmp_path).reader()
            many = reader.materialized_many(["a", "b"])
            assert many["a"]["key"].equals(many["b"]["key"])
            assert many["a"].height % 3 == 0 and many["a"].height >= seen
            seen = many["a"].height
            assert reader.materialized("a").height == seen
    finally:
        process.kill()
        process.communicate()


def test_every_cut_of_the_last_commit_is_noticed(tmp_path: Path):
    writing = start(APPEND_SOME, tmp_path, "r", "3")
    assert writing.wait() == 0
    writing.communicate()
    last = max((tmp_path / "materializations" / "_delta_log").glob("*.json"))
    content = last.read_bytes()
    lengths = {*range(0, len(content) - 1, 23), len(content.splitlines(keepends=True)[0])}
    for length in sorted(lengths):
        last.write_bytes(content[:length])
        with pytest.raises(LedgerError, match="damaged") as caught:
            DeltaLedger(tmp_path).reader()
        assert (caught.value.code, caught.value.file) == ("ledger_damaged", str(last)), length
    last.write_bytes(content)
    assert len(keys(tmp_path, "a")) == 3

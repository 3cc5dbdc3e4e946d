"""What steps print is recorded with their call, and shown on stderr."""

from __future__ import annotations

import gc
import io
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barca.exec.capture import StepStream
from barca.io.logs import read_logs
from tests.exec.works import make_work, run_function, write_steps


def recorded(tmp_path: Path, step: Any, work: Any = None, **options: Any) -> list[tuple[Any, ...]]:
    """`(key, stream, line)` of what a step printed."""
    run_function(step, work or make_work(["a"]), log_dir=tmp_path / "logs", **options)
    lines = read_logs(tmp_path / "logs", "run1")
    return lines.select("key", "stream", "line").rows()


def test_f15_lines_carry_node_call_key_and_stream(tmp_path: Path) -> None:
    def step(r: str) -> None:
        print("hello", r)
        print("trouble", file=sys.stderr)

    run_function(step, make_work(["a", "b"], id="w7"), log_dir=tmp_path)
    lines = read_logs(tmp_path, "run1")
    assert lines.drop("ts").rows() == [
        ("steps.py:step", "w7", "r=a", "stdout", "hello a"),
        ("steps.py:step", "w7", "r=a", "stderr", "trouble"),
        ("steps.py:step", "w7", "r=b", "stdout", "hello b"),
        ("steps.py:step", "w7", "r=b", "stderr", "trouble"),
    ]


def test_lines_of_a_batched_call_have_no_key(tmp_path: Path) -> None:
    work = make_work(["a", "b"], batched=True)
    assert recorded(tmp_path, lambda r: print("all"), work) == [(None, "stdout", "all")]


def test_a_progress_bar_is_the_line_that_it_shows_last(tmp_path: Path) -> None:
    def step(r: str) -> None:
        for number in range(1_000):
            print(f"\r{number:<200}", end="")

    assert recorded(tmp_path, step) == [("r=a", "stdout", f"{999:<200}")]


def test_f15_a_hundred_thousand_lines(tmp_path: Path) -> None:
    def step(r: str) -> None:
        for number in range(100_000):
            print("line", number)

    lines = recorded(tmp_path, step)
    assert len(lines) == 100_000
    assert lines[-1] == ("r=a", "stdout", "line 99999")


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (["no end"], ["no end"]),
        (["two\nlines\n"], ["two", "lines"]),
        (["a", "b", "\n", "c"], ["ab", "c"]),
        (["10%", "\r50%", "\r100%", "\n"], ["100%"]),
        (["dos\r\n"], ["dos"]),
        (["\n"], [""]),
        (["grüße \udc80\x00\n"], ["grüße \\udc80\x00"]),
    ],
)
def test_text_becomes_lines(tmp_path: Path, written: list[str], lines: list[str]) -> None:
    def step(r: str) -> None:
        for text in written:
            sys.stdout.write(text)

    assert [line for _, _, line in recorded(tmp_path, step)] == lines


def test_a_line_without_an_end_belongs_to_its_key(tmp_path: Path) -> None:
    rows = recorded(tmp_path, lambda r: sys.stdout.write(r), make_work(["a", "b"]))
    assert [(key, line) for key, _, line in rows] == [("r=a", "a"), ("r=b", "b")]


def test_bytes_written_to_the_buffer_are_recorded(tmp_path: Path) -> None:
    def step(r: str) -> None:
        sys.stdout.buffer.write("früh\n".encode())
        sys.stdout.flush()
        assert not sys.stdout.isatty()
        assert sys.stdout.writable()

    assert [line for _, _, line in recorded(tmp_path, step)] == ["früh"]


def test_f15_logging_is_recorded_once_however_it_is_set_up(tmp_path: Path) -> None:
    def plain(r: str) -> None:
        logging.getLogger("shop").warning("low stock")

    def own_handler(r: str) -> None:
        handler = logging.StreamHandler(sys.stderr)
        logging.getLogger().addHandler(handler)
        logging.getLogger("shop").warning("low stock")
        logging.getLogger().removeHandler(handler)

    assert recorded(tmp_path / "1", plain) == [("r=a", "stderr", "WARNING shop: low stock")]
    assert recorded(tmp_path / "2", own_handler) == [("r=a", "stderr", "low stock")]


def test_lines_are_shown_on_stderr_unless_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path, lambda r: print("seen"), quiet=False)
    recorded(tmp_path, lambda r: print("unseen"))
    assert capsys.readouterr() == ("", "seen\n")


def test_streams_are_restored_and_one_kept_by_a_step_still_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[Any] = []
    before = sys.stdout, sys.stderr
    recorded(tmp_path, lambda r: kept.append(sys.stdout))
    assert (sys.stdout, sys.stderr) == before
    kept[0].write("later\n")
    kept[0].flush()
    assert capsys.readouterr().out == "later\n"


def test_nothing_is_recorded_without_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_function(lambda r: print("x"), make_work(["a"]))
    assert list(tmp_path.iterdir()) == []


def test_lines_are_on_disk_before_the_process_ends(tmp_path: Path) -> None:
    write_steps(tmp_path, "")
    script = tmp_path / "script.py"
    script.write_text(
        "import os\n"
        "from pathlib import Path\n"
        "from tests.exec.works import make_work, run_function\n"
        "def step(r):\n"
        "    print('last words')\n"
        "    os._exit(3)\n"
        f"run_function(step, make_work(['a']), log_dir=Path({str(tmp_path)!r}))\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 3
    assert read_logs(tmp_path, "run1").get_column("line").to_list() == ["last words"]


def test_a_stream_that_is_collected_leaves_what_it_replaced_alone():
    class Closed(io.StringIO):
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1
            raise ValueError("I/O operation on closed file")

    replaced = Closed()
    stream = StepStream("stdout", replaced)
    del stream
    gc.collect()
    assert replaced.flushed == 0, "from Python 3.13 an error here is told on stderr"

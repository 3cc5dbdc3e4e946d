"""`breakpoint()` in a step, in a real terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

STEP = """
from barca import asset

@asset
def one() -> int:
    number = 40
    breakpoint({options})
    return number
"""


def until(screen: int, text: str) -> str:
    """What the terminal shows up to a text, or its end."""
    shown = ""
    with suppress(OSError):  # what the end is to Linux
        while text not in shown and (more := os.read(screen, 1 << 16)):
            shown += more.decode()
    return shown


def test_the_prompt_is_shown_and_nothing_is_drawn_over_it(tmp_path: Path):
    (tmp_path / "pipeline.py").write_text(STEP.format(options="header='look'"))
    screen, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "PYTHONBREAKPOINT": ""}
    command = [sys.executable, "-m", "barca", "get", "one", "--executor", "inline"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    ) as running:
        os.close(terminal)
        assert "look" in until(screen, "(Pdb) ")
        os.write(screen, b"number + 2\n")
        assert until(screen, "(Pdb) ").split() == ["number", "+", "2", "42", "(Pdb)"]
        os.write(screen, b"number = 7\n")
        until(screen, "(Pdb) ")
        os.write(screen, b"continue\n")
        assert until(screen, "never shown").splitlines()[-1] == "7"
    os.close(screen)
    assert running.returncode == 0

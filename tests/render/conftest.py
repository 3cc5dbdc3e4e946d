"""Samples of the JSON contract, and drawing at a width."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def sample() -> Callable[[str], Any]:
    """A document of the JSON contract by name, freshly read."""
    return lambda name: json.loads((SAMPLES / f"{name}.json").read_text())


@pytest.fixture
def draw() -> Callable[..., str]:
    """What a console of a width prints, lines stripped on the right."""

    def drawn(view: list[Any], width: int, *, colour: bool = False) -> str:
        console = Console(
            file=io.StringIO(),
            width=width,
            force_terminal=colour,
            color_system="truecolor" if colour else None,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )
        for part in view:
            console.print(part)
        return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())

    return drawn

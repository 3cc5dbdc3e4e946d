"""Follows the tutorial word for word, with only what the README installs: python .ci/newcomer.py VENV."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.house import test_snippets as snippets  # noqa: E402


def main(venv: Path) -> None:
    snippets.BIN = venv / "bin"
    with tempfile.TemporaryDirectory() as directory:
        snippets.run_page(ROOT / "docs" / "tutorial.md", Path(directory), snippets.shell)
    print("the tutorial is true")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

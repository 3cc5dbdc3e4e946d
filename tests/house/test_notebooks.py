"""The notebooks of the checkout hold what was written, and nothing of a run or a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def test_they_are_there():
    assert [path.stem[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_are_committed_without_output(path: Path):
    notebook = json.loads(path.read_text())
    assert notebook["metadata"] == METADATA
    for number, cell in enumerate(notebook["cells"]):
        assert cell["id"] == f"cell-{number:02}"
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert (cell["execution_count"], cell["outputs"]) == (None, [])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_leave_nothing_in_the_checkout(path: Path):
    code = [
        "".join(cell["source"])
        for cell in json.loads(path.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    assert "os.chdir(tempfile.mkdtemp())" in code[0]

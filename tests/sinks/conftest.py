from __future__ import annotations

from pathlib import Path

import pytest

from tests.quick import QuickProject


@pytest.fixture
def project(tmp_path: Path) -> QuickProject:
    """An empty project in a temporary directory; its commands run in this process."""
    return QuickProject(tmp_path / "project")

"""The facade: `Project`, and the module-level verbs that `import barca` offers."""

from __future__ import annotations

from barca.project.facade import Project
from barca.project.verbs import get, plan, run, scan, sql, stats, status

__all__ = ["Project", "get", "plan", "run", "scan", "sql", "stats", "status"]

"""The executors: `ports.Executor` over `call.execute`, in this process or in a pool of processes.

A work that was cancelled never comes back from `wait`.
"""

from __future__ import annotations

from barca.exec.inline import InlineExecutor
from barca.exec.processes import ProcessExecutor

__all__ = ["InlineExecutor", "ProcessExecutor"]

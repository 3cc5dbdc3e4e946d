"""Deciding, purely: frames in, frames out. `build_plan` is the table of contents.

Dry run, status, explanations and runs all read the plan made here. Nothing in this package reads the clock,
the file system or user code; what it cannot decide yet it says it awaits, and the same function decides
again when that is known.

The package is also the verb `barca.plan(target)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from barca.plan.build import build_plan
from barca.plan.inputs import BatchOverride, NodePlan, Plan, PlanInputs

__all__ = ["BatchOverride", "NodePlan", "Plan", "PlanInputs", "build_plan"]


class _Verb(ModuleType):
    """A module that can be called: importing a submodule rebinds `barca.plan` to the package."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # the facade lies above this layer, so it is reached through the root package, not imported
        return sys.modules["barca"].plan_target(*args, **kwargs)


sys.modules[__name__].__class__ = _Verb

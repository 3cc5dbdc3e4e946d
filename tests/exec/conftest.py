"""Fixtures of the runner's tests."""

from tests.plan.conftest import chain  # noqa: F401

"""What `import barca` offers."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

import barca


def test_everything_that_is_promised_is_there():
    for name in barca.__all__:
        assert getattr(barca, name) is not None
        assert name in dir(barca)
    assert barca.__version__ == version("barca")
    assert barca.Project.__name__ == "Project"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute `asett`"):
        barca.asett  # noqa: B018
    assert not hasattr(barca, "asett")


@pytest.mark.parametrize("verb", ["get", "scan", "run", "plan", "status"])
def test_verbs_pass_everything_on(verb: str, monkeypatch: pytest.MonkeyPatch):
    from barca import project

    def called(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    monkeypatch.setattr(project, verb, called)
    given = getattr(barca, verb)("target", "p.py", partition={"k": "a"})
    assert given == (("target", "p.py"), {"partition": {"k": "a"}})


def test_plan_is_package_and_verb_whatever_was_imported_first():
    for first in ("import barca.plan.build", "from barca import plan", "import barca"):
        code = (
            f"{first}\nimport barca, barca.plan.keys\nassert callable(barca.plan) and barca.plan.build_plan"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


def test_helpers_are_functions_whatever_was_imported_first():
    code = "import barca.partitions, barca.decorators\nfrom barca import partitions\nassert partitions(['a'])"
    subprocess.run([sys.executable, "-c", code], check=True)

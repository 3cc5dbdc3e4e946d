"""What every test may use: Hypothesis profiles, and a project in a temporary directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings

# the same examples in every run: a failure that nobody can repeat helps nobody
settings.register_profile(
    "dev", max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("dev"), max_examples=60)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


WIDTH = {"COLUMNS": "100"}
"""How wide tables are, whatever terminal the tests are started in."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes seconds comes first: at the end no worker waits long for another."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


class TemporaryProject:
    """A project directory of its own, with an empty `barca.toml`, and ways to run it."""

    roots: ClassVar[set[str]] = set()
    """Where projects were made, which need not be below the directory of pytest."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.roots.add(str(root.resolve()))
        self.write("barca.toml", "")

    def write(self, name: str, text: str) -> Path:
        """Write a file, its common indentation removed; directories are made."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text that stands in a file exactly once."""
        path = self.root / name
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        path.write_text(text.replace(old, new))

    def open(self, *files: str, executor: str = "inline", **options: Any) -> Any:
        """A new `Project`, which reads the files as they are now."""
        from barca import Project

        return Project(self.root, [self.root / name for name in files], executor=executor, **options)

    def get(self, targets: Any = None, **options: Any) -> Any:
        """`get` of a new `Project`, inline; returns its `Result`."""
        return self.open().get(targets, **options)

    def ran(self, targets: Any = None, **options: Any) -> dict[str, int]:
        """`get`, which must succeed: how many keys ran, for each node where some did."""
        result = self.get(targets, **options).to_dict()
        assert result["status"] == "success", result
        steps = [step for step in result["steps"] if step["status"] in ("ran", "partial")]
        return {
            step["id"].rpartition(":")[2]: step["partitions"]["will_run"] if step.get("partitions") else 1
            for step in steps
        }

    def cli(
        self, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """`barca ARGUMENTS` as a process of its own in the project directory, tables 100 characters wide."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BARCA_")}
        return subprocess.run(
            [sys.executable, "-m", "barca", *arguments],
            cwd=self.root,
            env={**inherited, **WIDTH, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def cli_json(self, *arguments: str, **options: Any) -> Any:
        """`cli`, which must succeed: what it printed, as JSON."""
        done = self.cli(*arguments, "--json", **options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def hear_interrupts() -> None:
    """For `preexec_fn`: a process hears Ctrl-C, also where the tests run in the background of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def _a_quick_disk() -> Iterator[None]:
    """What tests write need not outlive a power cut: what is flushed, and when, is told by counting calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr("barca.io.sinks.durable._sync_function", lambda: lambda directory: None)
        yield


_permanent: dict[int, Any] = {}
"""Modules that come from no temporary file: there are thousands, after hundreds of tests."""


@pytest.fixture(autouse=True)
def _no_modules_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget modules that a test imported from temporary files: the next `pipeline.py` is another one."""
    path, finders = list(sys.path), list(sys.meta_path)
    yield
    sys.path[:] = path
    # a project's importer answers for its files as long as it stands here
    sys.meta_path[:] = [
        finder
        for finder in sys.meta_path
        if finder in finders or not type(finder).__module__.startswith("barca.")
    ]
    temporary = (tempfile.gettempdir(), str(tmp_path_factory.getbasetemp().parent), *TemporaryProject.roots)
    installed = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]))  # which may be temporary too
    for name, module in list(sys.modules.items()):
        if id(module) in _permanent:
            continue
        places = [getattr(module, "__file__", None), *list(getattr(module, "__path__", None) or ())]
        texts = [place for place in places if isinstance(place, str)]
        if any(text.startswith(temporary) and not text.startswith(installed) for text in texts):
            del sys.modules[name]
        else:
            _permanent[id(module)] = module


@pytest.fixture
def project(tmp_path: Path) -> TemporaryProject:
    """An empty project in a temporary directory."""
    return TemporaryProject(tmp_path / "project")


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[[str], TemporaryProject]:
    """Empty projects by name, for tests that need several."""
    return lambda name: TemporaryProject(tmp_path / name)

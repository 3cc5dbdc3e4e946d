"""The command line over a project of samples, in this process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from barca.__main__ import main
from tests.conftest import WIDTH

SAMPLES = Path(__file__).parents[1] / "render" / "samples"


def load(name: str) -> Any:
    return json.loads((SAMPLES / f"{name}.json").read_text())


@dataclass
class Document:
    """A result, plan or status that is nothing but its JSON form."""

    document: Any
    value: Any = None
    error: Exception | None = None
    as_value: Any = None

    @property
    def status(self) -> str:
        return self.document["status"]

    def to_dict(self, output: str = "pointer") -> Any:
        if output == "value" and self.as_value is not None:
            return {**self.document, "final_output": self.as_value}
        return self.document

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self.document.get("targets") or ("",))

    def value_of(self, node_id: str) -> Any:
        return self.value[node_id] if node_id else self.value

    def phases(self) -> Any:
        return self.document


@dataclass
class Fake:
    """Answers for `Project`, and what it was asked: `calls` holds (method, arguments, options)."""

    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    listener: Any = None
    root: Path = Path()

    def __call__(self, *args: Any, **kwargs: Any) -> Fake:
        self.listener = kwargs.pop("listener", None)
        return self.answer("Project", *args, **kwargs) or self

    def answer(self, method: str, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((method, args, kwargs))
        for event in self.events if method in ("get", "run") else ():
            self.listener(event)
        answer = self.answers.get(method)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *args, **kwargs: self.answer(method, *args, **kwargs)


@dataclass
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err.splitlines()[-1])


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    """Stands in for `Project`, in a directory with `pipeline.py` and `src/`."""
    project = Fake(
        answers={
            "get": Document(load("result")),
            "run": Document(load("whole"), value={"n": 1}),
            "plan": Document(load("dry_run")),
            "status": Document(load("status")),
            "list_nodes": load("list"),
            "history": load("history"),
            "logs": load("logs"),
        }
    )
    module = ModuleType("barca.project")
    module.Project = project  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "barca.project", module)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "pipeline.py").write_text("import barca\n")
    for name in ("BARCA_OUTPUT", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("BARCA_EXECUTOR", "inline")  # no worker starts for what is not run
    return project


@pytest.fixture
def sample() -> Callable[[str], Any]:
    """A document of the JSON contract by name, freshly read."""
    return load


@pytest.fixture
def document() -> type[Document]:
    """Makes a result, plan or status of its JSON form."""
    return Document


@pytest.fixture
def barca(fake: Fake, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs a command line in this process."""

    def run(*arguments: str) -> Ended:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


class Commands:
    """A project whose commands run in this process, steps too."""

    def __init__(self, project: Any, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.root = project.root
        self.write = project.write
        self._capture = capture
        self._patch = patch

    def cli(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        from barca.__main__ import main

        self._capture.readouterr()
        with self._patch.context() as patch:
            patch.chdir(self.root)
            patch.delenv("BARCA_OUTPUT", raising=False)
            for name, value in {**WIDTH, **(env or {})}.items():
                patch.setenv(name, value)
            code = main(arguments)
        captured = self._capture.readouterr()
        return subprocess.CompletedProcess(arguments, code, captured.out, captured.err)

    def cli_json(self, *arguments: str) -> Any:
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def commands(project: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    """An empty project and its command line."""
    project.write("barca.toml", '[execution]\nexecutor = "inline"\n')
    return Commands(project, capfd, monkeypatch)

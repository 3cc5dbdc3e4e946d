"""A directory of Python files whose definitions are fingerprinted as a new process would."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from barca.fingerprint import Fingerprinter
from barca.model import Fingerprint


class Code:
    """Files under `root`, imported anew for every fingerprint."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        self.write(name, text.replace(old, new))

    def all(self, *names: str, module: str = "pipeline", root: Path | None = None) -> list[Fingerprint]:
        """Fingerprints of definitions of a module, with one `Fingerprinter`."""
        importlib.invalidate_caches()
        sys.path.insert(0, str(self.root))
        try:
            loaded = importlib.import_module(module)
            fingerprinter = Fingerprinter(root or self.root)
            return [fingerprinter.fingerprint(getattr(loaded, name)) for name in names]
        finally:
            sys.path.remove(str(self.root))
            self.forget()

    def one(self, name: str = "node", **options) -> Fingerprint:
        return self.all(name, **options)[0]

    def hash(self, name: str = "node", **options) -> str:
        return self.one(name, **options).hash

    def forget(self) -> None:
        for name, module in list(sys.modules.items()):
            paths = [getattr(module, "__file__", None), *list(getattr(module, "__path__", ()))]
            if any(isinstance(path, str) and path.startswith(str(self.root)) for path in paths):
                del sys.modules[name]

    def in_process(self, text: str, *, cwd: Path | None = None, seed: str = "0") -> str:
        """Output of a program of its own, which finds the files on its path."""
        program = textwrap.dedent(text)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(self.root)}
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=cwd or self.root,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Code]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Code(tmp_path)

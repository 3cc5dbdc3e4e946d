"""Random edits of a batched chain, against a model in plain Python that knows what must be cached."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.conftest import TemporaryProject

PIPELINE = """
    import json, os, pathlib
    from barca import Failed, asset, batches, batches_by, partitions_from, sensor

    HERE = pathlib.Path(__file__).parent

    def state():
        return json.loads((HERE / "state.json").read_text())

    def note(name, keys):
        with open(HERE / "calls.txt", "a") as file:
            file.write(name + " " + ",".join(keys) + "\\n")

    def ends(name, keys):
        "What is wrong with a call: a key that raises, or that takes the worker along."
        trouble = state()["trouble"]
        for key in keys:
            kind = trouble.get(f"{name}:{key}")
            if kind == "raises":
                raise ValueError(f"{key} is bad")
            if kind == "kills":
                os._exit(3)
        return {key for key in keys if trouble.get(f"{name}:{key}") == "failed"}

    def groups():
        return [["k0", "k3"], ["k1", "k2", "k5"]]

    def label(key):
        return int(key[1:]) % 2

    @sensor
    def versions() -> dict:
        return state()["versions"]

    @asset(partitions={"k": partitions_from(versions)}, batch=FORM_A)
    def a(k: list[str], versions: dict) -> dict:
        note("a", k)
        failed = ends("a", k)
        return {key: Failed("no") if key in failed else [key, versions[key]] for key in k}

    @asset(partitions={"k": partitions_from(a)}, batch=FORM_B)
    def b(k: list[str], a: dict):
        note("b", k)
        failed = ends("b", k)
        for key in k:
            yield key, Failed("no") if key in failed else a[key]
"""
FORMS = [
    "1",
    "2",
    "5",
    '"all"',
    '"auto"',
    "batches(groups())",
    "batches_by(label)",
    "batches_by(label, max_size=2)",
]
KEYS = [f"k{number}" for number in range(8)]
keys = st.sampled_from(KEYS)
nodes = st.sampled_from(["a", "b"])


class Edits(RuleBasedStateMachine):
    """The project, and what must be true of it."""

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="barca-model-")
        self.project = TemporaryProject(Path(self.directory.name) / "project")
        self.project.write("barca.toml", "[execution]\npool_size = 2\n")
        self.versions = {"k0": 1, "k1": 1, "k2": 1}
        self.trouble: dict[str, str] = {}
        self.forms = ['"all"', "2"]
        self.stored: dict[str, set[tuple[str, int]]] = {"a": set(), "b": set()}

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.cleanup()

    # --- edits ---

    @rule(key=keys)
    def add_or_change(self, key: str) -> None:
        self.versions[key] = self.versions.get(key, 0) + 1

    @rule(key=keys)
    def go_back(self, key: str) -> None:
        if self.versions.get(key, 1) > 1:
            self.versions[key] -= 1

    @rule(key=keys)
    def remove(self, key: str) -> None:
        if len(self.versions) > 1:
            self.versions.pop(key, None)

    @rule()
    def reorder(self) -> None:
        self.versions = dict(reversed(self.versions.items()))

    @rule(first=st.sampled_from(FORMS), second=st.sampled_from(FORMS))
    def switch_forms(self, first: str, second: str) -> None:
        self.forms = [first, second]

    @rule(node=nodes, key=keys, kind=st.sampled_from(["raises", "failed", "kills"]))
    def break_key(self, node: str, key: str, kind: str) -> None:
        self.trouble[f"{node}:{key}"] = kind

    @rule()
    def mend(self) -> None:
        self.trouble.clear()

    # --- runs ---

    @rule(override=st.sampled_from([None, None, "all", "none", "auto", 3]), chosen=st.sets(keys))
    def run(self, override: str | int | None, chosen: set[str]) -> None:
        selected = sorted(chosen & set(self.versions))
        self.write()
        wanted = self.expected(selected or list(self.versions))
        kills = "kills" in self.trouble.values()
        options = {"batch": override, "partition": {"k": selected} if selected else None}
        result = self.project.open(executor="processes" if kills else "inline").get("b", **options)
        asked = self.asked()
        for node in ("a", "b"):
            runs, fails = wanted[node]
            assert set(asked[node]) == runs, (node, asked[node], runs)
            self.stored[node] |= {(key, self.versions[key]) for key in runs - fails}
            failed = {
                step["partition_key"].removeprefix("k=")
                for step in self.project.open().history(result.run_id)["steps"]
                if step["status"] == "failed" and step["node_id"].startswith(f"pipeline.py:{node}[")
            }
            assert failed == fails, (node, failed, fails)
        assert result.status == ("failed" if wanted["a"][1] or wanted["b"][1] else "success")
        values = {key: self.versions[key] for key in (selected or self.versions)}
        here = {f"k={key}": [key, v] for key, v in values.items() if (key, v) in self.stored["b"]}
        if result.status == "success":
            assert result.value == here

    @invariant()
    def the_forecast_is_what_the_model_says(self) -> None:
        if not hasattr(self, "versions") or not self.stored["a"]:
            return
        self.write()
        steps = self.project.open().plan("b").to_dict()["steps"]
        if any(step["action"] == "unknown" for step in steps):
            return
        foretold = {step["id"].rpartition(":")[2]: step["partitions"] for step in steps[1:]}
        last = self.last_versions
        for node in ("a", "b"):
            stale = {f"k={key}" for key, version in last.items() if (key, version) not in self.stored[node]}
            assert set(foretold[node]["will_run_keys"]) == stale

    # --- inside ---

    def write(self) -> None:
        text = PIPELINE.replace("FORM_A", self.forms[0]).replace("FORM_B", self.forms[1])
        self.project.write("pipeline.py", text)
        state = {"versions": self.versions, "trouble": self.trouble}
        (self.project.root / "state.json").write_text(json.dumps(state))

    def expected(self, selected: list[str]) -> dict[str, tuple[set[str], set[str]]]:
        """Per node: the keys that run, and those of them that fail."""
        self.last_versions = dict(self.versions)
        answer = {}
        usable = set(selected)
        for node in ("a", "b"):
            runs = {key for key in usable if (key, self.versions[key]) not in self.stored[node]}
            fails = {key for key in runs if f"{node}:{key}" in self.trouble}
            usable -= fails
            answer[node] = (runs, fails)
        return answer

    def asked(self) -> dict[str, list[str]]:
        """Keys that the functions were called with since the last time."""
        path = self.project.root / "calls.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        asked: dict[str, list[str]] = {"a": [], "b": []}
        for line in lines:
            node, _, keys = line.partition(" ")
            asked[node] += keys.split(",")
        return asked


Edits.TestCase.settings = settings(
    settings.get_profile("dev"), max_examples=8, stateful_step_count=12, deadline=None
)
TestEdits = pytest.mark.slow(Edits.TestCase)

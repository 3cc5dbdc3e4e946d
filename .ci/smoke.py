"""Checks a wheel that was installed into an environment of its own: python .ci/smoke.py VENV DIRECTORY.

Works outside the checkout, so that nothing but the wheel can be what answers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PIPELINE = """
from barca import asset, collect, partitions

@asset(partitions={"region": partitions(["emea", "apac"])})
def sales(region: str) -> dict:
    return {"region": region, "revenue": len(region) * 100}

@asset(inputs={"all_sales": collect(sales)})
def total(all_sales: list[dict]) -> int:
    return sum(sale["revenue"] for sale in all_sales)
"""

IMPORT = """
import sys, barca
assert "site-packages" in barca.__file__, barca.__file__
assert "polars" not in sys.modules
print(barca.__version__)
"""


def run(command: list[str], directory: Path) -> str:
    """What a command prints; it must succeed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main(venv: Path, directory: Path) -> None:
    directory.mkdir()
    (directory / "pipeline.py").write_text(PIPELINE)
    version = run([str(venv / "bin/python"), "-c", IMPORT], directory).strip()
    barca = str(venv / "bin/barca")
    assert version in run([barca, "version"], directory)
    assert "get" in run([barca, "--help"], directory)
    for ran in (3, 0):
        result = json.loads(run([barca, "get", "total", "pipeline.py", "--json", "-o", "value"], directory))
        assert result["status"] == "success", result
        assert result["steps_executed"] == ran, result
        assert result["final_output"] == 800, result
    status = json.loads(run([barca, "status", "--json"], directory))
    assert status["summary"]["cached"] == 2, status["summary"]
    run([barca, "docs", "cache"], directory)
    run([barca, "new", "weather"], directory)
    made = json.loads(run([barca, "get", "summary", "-o", "value"], directory / "weather"))
    assert [row["station"] for row in made["final_output"]] == ["bergen", "oslo", "tromso"], made
    print(f"the wheel of barca {version} works")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())

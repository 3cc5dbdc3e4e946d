"""Measures what grouping keys into calls costs: against the keys that run, and against those declared.

    python benchmarks/planning.py                            # prints the section of RESULTS.md

Each figure is the median of several plans in one process, in milliseconds: of the whole plan, and of grouping
alone. Grouping is given only the keys that run, so it must not grow with those declared.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl

from barca import asset, batches, batches_by, partitions
from barca.discovery import evaluate_partitions, graph_of
from barca.model import Fingerprint
from barca.plan.batching import calls
from barca.plan.build import build_plan
from barca.plan.inputs import PlanInputs
from barca.schemas import DEFINITIONS, KEY, NEEDED, STATE, empty

INTRODUCTION = """\
What deciding about one node and grouping its keys into calls costs, in milliseconds, in one process that is
warm. Grouping sees the keys that run: declaring more does not make it dearer, except that `batches([...])`
reads the groups it was given.
"""
SIZES = [(10_000, 10_000), (10_000, 100), (200_000, 200_000), (200_000, 10_000), (200_000, 100)]
"""Keys declared, and keys that run."""


def label(key: str) -> int:
    return int(key) % 100


def forms(keys: int) -> dict[str, object]:
    groups = [[str(key) for key in range(first, min(first + 100, keys))] for first in range(0, keys, 100)]
    return {
        "unbatched": None,
        "1000": 1_000,
        "all": "all",
        "batches": batches(groups),
        "batches_by": batches_by(label),
    }


def median_ms(action: Callable[[], object], repeat: int) -> float:
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1_000


def measure(declared: int, running: int, repeat: int) -> list[tuple[str, float, float]]:
    """Form, milliseconds of the whole plan, milliseconds of grouping."""
    rows = []
    for form, batch in forms(declared).items():

        @asset(partitions={"k": partitions(range(declared))}, batch=batch)
        def node(k) -> dict: ...

        graph = graph_of([node], Path.cwd())
        (node_id,) = graph.nodes
        explicit, _ = evaluate_partitions(graph)
        groups = {node_id: batch.groups} if form == "batches" else {}
        keys = explicit[node_id, "k"]
        labels = pl.DataFrame({KEY: [f"k={key}" for key in keys], "label": [str(label(key)) for key in keys]})
        inputs = PlanInputs(
            graph=graph,
            targets=(node_id,),
            fingerprints={node_id: Fingerprint("0" * 32, {}, "")},
            explicit={node_id: {"k": keys}},
            definitions=empty(DEFINITIONS),
            selection={} if running == declared else {"k": tuple(keys[:running])},
            labels={node_id: labels.head(running)},
            groups=groups,
        )
        plan = build_plan(inputs)
        decision = plan.nodes[node_id].decision
        stale = decision.filter((pl.col(STATE) == "stale") & pl.col(NEEDED))
        assert stale.height == running
        assert plan.nodes[node_id].calls.height == running
        whole = median_ms(partial(build_plan, inputs), repeat)
        given = labels.head(running)
        grouping = median_ms(partial(calls, stale, graph.nodes[node_id], batch, given), repeat)
        rows.append((form, whole, grouping))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--keys", type=int, default=200_000, help="leave out sizes with more declared keys")
    options = parser.parse_args()
    print(f"## Planning\n\n{INTRODUCTION}")
    print("| declared | run | form | plan | grouping |")
    print("|---:|---:|---|---:|---:|")
    sizes = [size for size in SIZES if size[0] <= options.keys] or [(options.keys, options.keys)]
    for declared, running in sizes:
        for form, whole, grouping in measure(declared, running, options.repeat):
            print(f"| {declared:,} | {running:,} | {form} | {whole:.1f} | {grouping:.1f} |")


if __name__ == "__main__":
    main()

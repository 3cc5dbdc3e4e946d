"""The planner never walks over rows: no loop over a frame, no method that leaves the engine row by row.

What it may walk over is the graph: nodes, edges, dimensions, groups somebody declared by hand. The few places that
do take values out of a frame are listed here, each with the reason why they are few.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PLAN = Path(__file__).parents[2] / "barca" / "plan"

LEAVES_THE_ENGINE = frozenset(
    "iter_rows rows rows_by_key to_list to_dicts to_dict to_numpy iter_slices iter_columns partition_by "
    "map_elements map_batches map_groups map_rows".split()
)
GIVES_A_FRAME = frozenset(
    "get_column get_columns to_series select filter with_columns sort unique join group_by agg collect head tail "
    "drop_nulls bottom_k top_k explode".split()
)
CONSUMES = frozenset(
    "list tuple set frozenset dict sorted zip enumerate map filter sum any all min max".split()
)

ALLOWED = {
    ("needs.py", "packs_read", "to_list"): "distinct packs, a few for each call that wrote them",
    ("changed.py", "_named", "loop"): "distinct old hashes, one for each edit of code or environment",
    ("explain.py", "summarise", "tuple()"): "a preview, cut to PREVIEW keys before it is taken out",
}


FRAMES = {"DataFrame", "LazyFrame", "Series"}
HOLDS_A_FRAME = {"decision", "calls", "known_keys"}
"""Attributes of a `NodePlan` that are frames."""


def gives_a_frame(expression: ast.AST) -> bool:
    """Whether an expression is a chain of method calls with one in it that gives a frame or a column."""
    while isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        if expression.func.attr in GIVES_A_FRAME:
            return True
        expression = expression.func.value
    return False


def frames_of(function: ast.AST) -> set[str]:
    """Names in a function that are frames or columns: assigned from a chain that gives one, or so annotated."""
    named = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and gives_a_frame(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        annotated = node.annotation if isinstance(node, ast.arg | ast.AnnAssign) else None
        if isinstance(annotated, ast.Attribute) and annotated.attr in FRAMES:
            named |= {node.arg} if isinstance(node, ast.arg) else {ast.unparse(node.target)}
    return named


def walks_rows(function: ast.AST) -> Iterator[tuple[str, int]]:
    """What in a function walks over rows, and its line."""
    frames = frames_of(function)

    def is_frame(expression: ast.AST) -> bool:
        if isinstance(expression, ast.Subscript):
            return is_frame(expression.value)
        if isinstance(expression, ast.Attribute) and expression.attr in HOLDS_A_FRAME:
            return True
        named = isinstance(expression, ast.Name) and expression.id in frames
        return named or gives_a_frame(expression)

    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.comprehension) and is_frame(node.iter):
            yield "loop", node.iter.lineno
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in LEAVES_THE_ENGINE:
                yield node.func.attr, node.lineno
            if isinstance(node.func, ast.Name) and node.func.id in CONSUMES and any(map(is_frame, node.args)):
                yield f"{node.func.id}()", node.lineno


def found_in(source: str, name: str = "module.py") -> set[tuple[str, str, str]]:
    """(file, function, what) of everything that walks over rows."""
    found = set()
    for node in ast.parse(source).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        for member in members:
            label = getattr(member, "name", "")
            found.update((name, label, what) for what, _ in walks_rows(member))
    return found


def test_nothing_in_the_planner_walks_over_rows():
    found = set().union(*(found_in(path.read_text(), path.name) for path in sorted(PLAN.rglob("*.py"))))
    assert found == set(ALLOWED)


def test_the_rule_sees_what_it_should():
    seen = {
        "for key in frame.get_column('key'): pass": "loop",
        "keys = frame.select('key')\n    x = [key for key in keys]": "loop",
        "x = [row for row in frame['key']]": "loop",
        "for key in plan.decision['key']: pass": "loop",
        "x = list(plan.nodes['a'].calls['key'])": "list()",
        "x = frame.to_dicts()": "to_dicts",
        "x = pl.col('key').map_elements(str)": "map_elements",
        "x = sorted(frame.get_column('key').unique())": "sorted()",
    }
    for line, what in seen.items():
        assert found_in(f"def f(frame: pl.DataFrame, plan):\n    {line}\n") == {("module.py", "f", what)}, (
            line
        )
    fine = "for edge in node.edges: frame = frame.join(edge, on='key')"
    assert found_in(f"def f(frame, node):\n    {fine}\n") == set()

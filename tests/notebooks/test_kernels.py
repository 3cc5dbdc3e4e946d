"""What somebody meets who works in a notebook, in real kernels: one that is restarted, and one beside it."""

from __future__ import annotations

import re

import nbclient
import nbformat
import pytest

FIRST = [
    """
import os, time
import polars as pl
import barca
from barca import asset, collect, partitions

def helper(x):
    return x / 0

@asset(partitions={"shop": partitions(["north", "south"])}, batch="all")
def sales(shop: list[str]) -> pl.DataFrame:
    print("selling")
    with open("calls", "a") as file:
        file.write("sales\\n")
    return pl.DataFrame({"shop": shop, "units": [3, 40]})

@asset(inputs={"every": collect(sales)})
def total(every: pl.LazyFrame) -> int:
    return every.select(pl.col("units").sum()).collect().item()
""",
    "barca.get(total)",
    "barca.plan(total)",
    "barca.status()",
    "barca.Project()",
    "barca.Project.of([total]).get(total)",
    'barca.sql("SELECT SUM(units) AS units FROM sales").collect().item()',
    'barca.get("total")',
]
ERRORS = [
    """
@asset
def broken() -> float:
    return helper(1)
""",
    "barca.get(broken)",
    'barca.get(broken, executor="processes")',
    'barca.get("totl")',
    "@asset(retrys=2)\ndef wrong(): return 1",
]
PROGRESS = [
    """
@asset(partitions={"k": partitions(range(30))})
def slow(k: str) -> int:
    time.sleep(0.05)
    return 1
""",
    'barca.get(slow, partition={"k": [0, 1]})',
    "barca.get(slow);",
]
OTHER = [
    FIRST[0].replace("[3, 40]", "[1, 2]"),
    "barca.get(total)",
]


def texts(cell):
    """What a cell shows, as text and as HTML."""
    data = [output["data"] for output in cell.outputs if "data" in output]
    return [each["text/plain"] for each in data], [each["text/html"] for each in data if "text/html" in each]


def raised(cell):
    [error] = [output for output in cell.outputs if output.output_type == "error"]
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))


def run_sessions(folder):
    """Cells of three kernels in one directory: a notebook, another one, and the first again, with a change."""
    (folder / "barca.toml").write_text("")

    def run(cells):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
        client = nbclient.NotebookClient(
            notebook, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(folder)}}
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("JPY_SESSION_NAME", raising=False)
            client.execute()
        return notebook.cells, (folder / "calls").read_text().count("sales")

    return {
        "first": run([*FIRST, *ERRORS, *PROGRESS]),
        "other": run(OTHER),
        "restarted": run([*FIRST[:2], FIRST[0].replace("[3, 40]", "[4, 40]"), FIRST[1]]),
    }


def check_functions_of_cells_work_at_once_by_object_and_by_name(sessions):
    cells, _ = sessions["first"]
    assert texts(cells[1])[0][-1] == "43"
    assert texts(cells[6])[0][-1] == "43", "SQL sees them"
    assert texts(cells[7])[0][-1] == "43"


def check_what_steps_print_is_shown_as_print_shows_it(sessions):
    cells, _ = sessions["first"]
    [printed] = [output for output in cells[1].outputs if output.output_type == "stream"]
    assert (printed.name, printed.text) == ("stdout", "selling\n")


def check_objects_show_themselves_with_their_graph(sessions):
    cells, _ = sessions["first"]
    for cell in cells[2:5]:
        [html] = texts(cell)[1]
        assert "<svg" in html and "sales" in html and "total" in html
    assert texts(cells[4])[0][0].endswith(": 2 nodes>")
    assert "2 keys cached" in texts(cells[5])[1][-1] and "<svg" in texts(cells[5])[1][-1]


def check_errors_of_steps_show_the_users_frames_only(sessions):
    cells, _ = sessions["first"]
    for number in (len(FIRST) + 1, len(FIRST) + 2):  # inline, and in processes
        check_error(raised(cells[number]), number)


def check_error(shown, number):
    assert f"Cell In[{number + 1}], line 1" in shown
    assert "In notebook:broken:" in shown
    assert f"Cell In[{len(FIRST) + 1}], line 3, in broken\n    return helper(1)" in shown
    assert "Cell In[1], line 7, in helper\n    return x / 0" in shown
    assert "StepFailed: ZeroDivisionError: division by zero\nhint: " in shown
    assert "/" not in re.sub(r"return x / 0", "", shown), "no file, neither ours nor the kernel's"


def check_other_errors_show_the_cell_and_what_to_do(sessions):
    cells, _ = sessions["first"]
    unknown, wrong = (raised(cells[len(FIRST) + number]) for number in (3, 4))
    assert 'barca.get("totl")' in unknown and "total" in unknown.partition("hint:")[2]
    assert "@asset(retrys=2)" in wrong and "did you mean `retries`?" in wrong
    assert "barca/" not in unknown + wrong


def check_progress_of_a_long_run_leaves_one_line(sessions):
    cells, _ = sessions["first"]
    [text], [html] = texts(cells[-1])
    assert re.fullmatch(r"success in [\d.]+ s: 28 ran, 2 cached", text) and text in html


def check_a_cell_is_a_hit_again_after_a_restart_and_runs_when_its_text_changed(sessions):
    (_, first), (_, other), (cells, restarted) = (sessions[name] for name in ("first", "other", "restarted"))
    assert first == 1, "however often it was asked for"
    assert texts(cells[1])[0][-1] == "43" and texts(cells[3])[0][-1] == "44"
    assert restarted - other == 1, "the changed cell"


def check_notebooks_with_functions_of_one_name_do_not_mix(sessions):
    assert texts(sessions["other"][0][1])[0][-1] == "3"
    assert texts(sessions["restarted"][0][1])[0][-1] == "43", "the other notebook left its results alone"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_notebooks(tmp_path):
    sessions = run_sessions(tmp_path)  # once for all, since kernels take seconds to start
    check_functions_of_cells_work_at_once_by_object_and_by_name(sessions)
    check_what_steps_print_is_shown_as_print_shows_it(sessions)
    check_objects_show_themselves_with_their_graph(sessions)
    check_errors_of_steps_show_the_users_frames_only(sessions)
    check_other_errors_show_the_cell_and_what_to_do(sessions)
    check_progress_of_a_long_run_leaves_one_line(sessions)
    check_a_cell_is_a_hit_again_after_a_restart_and_runs_when_its_text_changed(sessions)
    check_notebooks_with_functions_of_one_name_do_not_mix(sessions)

"""Function objects from scripts and notebooks, and how workers find them again."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from barca import asset, collect, partitions, partitions_from
from barca.discovery import discover, function_ref, graph_of, load_function
from barca.errors import LoadError, UsageError
from barca.model import FunctionRef

HERE = "tests/discovery/test_functions.py"
ROOT = Path(__file__).parents[2]


@asset(partitions={"k": partitions(["a"])})
def keyed(k: str) -> str:
    return k


@asset(inputs={"xs": collect(keyed)})
def gathered(xs: list) -> list:
    return xs


def run(code: str, *, cwd: Path, file: str | None = None, env: dict[str, str] | None = None) -> str:
    """What a fresh interpreter prints: the code as a script, or given with `-c`."""
    text = textwrap.dedent(code).lstrip("\n")
    command = [sys.executable, "-c", text]
    if file:
        (cwd / file).parent.mkdir(parents=True, exist_ok=True)
        (cwd / file).write_text(text)
        command = [sys.executable, file]
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


SHOW = """
    import json
    from pathlib import Path
    from barca.discovery import discover, function_ref, graph_of, load_function
    def show(*targets, root="."):
        graph = graph_of(targets, Path(root))
        print(json.dumps(list(graph.nodes)))
        return graph
"""


def test_function_objects_bring_their_cone():
    graph = graph_of([gathered], ROOT)
    assert list(graph.nodes) == [f"{HERE}:keyed", f"{HERE}:gathered"]
    assert graph.nodes[f"{HERE}:gathered"].edges[0].mode == "collect"
    assert list(graph_of([gathered, keyed, gathered], ROOT).nodes) == list(graph.nodes)


def test_functions_inside_functions_work():
    @asset
    def versions():
        return {"a": 1}

    @asset(partitions={"k": partitions_from(versions)})
    def fed(k, versions):
        return versions

    graph = graph_of([fed], ROOT)
    assert [node.rpartition(".")[2] for node in graph.nodes] == ["versions", "fed"]
    assert graph.find("fed").startswith(f"{HERE}:test_functions_inside")


def test_ids_as_text_reach_variables_and_files(project):
    project.write("other.py", "from barca import asset\n@asset\ndef source():\n    return 1\n")

    @asset(inputs={"x": "other.py:source", "y": f"{HERE}:gathered"})
    def reader(x, y):
        return x

    with pytest.raises(UsageError, match="reads `tests/"):  # the id is one of another root
        graph_of([reader], project.root)
    by_file = asset(inputs={"x": "other.py:source"})(lambda x: x)
    assert "other.py:source" in graph_of([by_file], project.root).nodes
    by_variable = asset(inputs={"x": f"{HERE}:gathered"})(lambda x: x)
    assert f"{HERE}:keyed" in graph_of([by_variable], ROOT).nodes


def test_scripts_have_their_path_and_refs_skip_the_guarded_block(tmp_path):
    output = run(
        SHOW
        + """
    from barca import asset
    def make(n):
        @asset
        def inner():
            return n
        return inner
    a = make(1)
    b = make(2)
    @asset(inputs={"a": a, "b": b})
    def both(a, b):
        return a + b
    if __name__ == "__main__":
        graph = show(both)
        for node in graph.nodes.values():
            print(json.dumps(dict(zip(("node", "root", "file", "name"), [
                getattr(function_ref(node.definition, node.id, Path(".").resolve()), field)
                for field in ("node", "root", "file", "name")
            ]))))
    """,
        cwd=tmp_path,
        file="deep/script.py",
    ).splitlines()
    assert sorted(json.loads(output[0])) == ["deep/script.py:a", "deep/script.py:b", "deep/script.py:both"]
    refs = {ref["name"]: ref for ref in map(json.loads, output[1:])}
    assert set(refs) == {"a", "b", "both"}
    loaded = {name: load_function(FunctionRef(**ref)) for name, ref in refs.items()}
    assert (loaded["a"](), loaded["b"](), loaded["both"](1, 2)) == (1, 2, 3)


def test_a_script_whose_run_is_not_guarded_loads_up_to_it(tmp_path):
    output = run(
        SHOW
        + """
    from barca import asset
    @asset
    def a():
        return 1
    graph = show(a)
    ref = function_ref(graph.nodes["script.py:a"].definition, "script.py:a", Path(".").resolve())
    print(json.dumps([ref.node, ref.root, ref.file, ref.name]))
    """,
        cwd=tmp_path,
        file="script.py",
    ).splitlines()
    node, root, file, name = json.loads(output[1])
    assert load_function(FunctionRef(node=node, root=root, file=file, name=name))() == 1


def test_the_running_script_is_not_imported_again(tmp_path):
    output = run(
        SHOW
        + """
    from barca import asset
    print("once")
    @asset
    def a():
        return 1
    graph = discover(Path("."))
    print(list(graph.nodes), graph.nodes["script.py:a"].definition is a, graph.load_errors)
    """,
        cwd=tmp_path,
        file="script.py",
    )
    assert output == "once\n['script.py:a'] True ()\n"


def test_scripts_read_modules_they_imported_the_usual_way(tmp_path):
    (tmp_path / "lib.py").write_text("from barca import asset\n@asset\ndef a():\n    return 1\n")
    output = run(SHOW + "    import lib\n    show(lib.a)\n", cwd=tmp_path, file="script.py")
    assert json.loads(output) == ["lib.py:a"]


CELLS = """
import json, sys
count = iter(range(100))
def cell(text):
    # a kernel compiles each cell as a file of its own that does not exist
    exec(compile(text, f"/tmp/ipykernel_1/{next(count)}.py", "exec"), vars(sys.modules["__main__"]))
cell('''
from pathlib import Path
from barca import asset
from barca.discovery import function_ref, graph_of, load_function
import json
RATE = 2
def helper(x):
    return x * RATE
''')
cell('''
@asset
def a():
    return helper(1)
''')
cell('''
@asset(inputs={"a": a})
def b(a):
    return helper(a)
''')
SHOW = '''
graph = graph_of([b], Path("."))
print(json.dumps([[node.id, node.definition(*[5] * len(node.edges))] for node in graph.nodes.values()]))
'''
"""


@pytest.mark.parametrize(
    ("setup", "env", "name"),
    [
        ("", {}, "notebook"),
        ("", {"JPY_SESSION_NAME": "{root}/deep/analysis.ipynb"}, "deep/analysis.ipynb"),
        ("", {"JPY_SESSION_NAME": "/elsewhere/analysis.ipynb"}, "analysis.ipynb"),
        ("__vsc_ipynb_file__ = '{root}/code.ipynb'", {}, "code.ipynb"),
        ("__session__ = 'session.ipynb'", {}, "session.ipynb"),
    ],
)
def test_notebook_cells_have_the_notebooks_name(tmp_path, setup, env, name):
    root = str(tmp_path.resolve())
    code = CELLS + setup.replace("{root}", root) + "\ncell(SHOW)\n"
    named = {key: value.replace("{root}", root) for key, value in env.items()}
    output = run(code, cwd=tmp_path, env=named)
    assert json.loads(output) == [[f"{name}:a", 2], [f"{name}:b", 10]]


def test_a_cell_that_ran_again_counts_also_for_what_read_it_before(tmp_path):
    code = CELLS + "cell('@asset\\ndef a():\\n    return 7')\ncell(SHOW)\n"
    output = run(code, cwd=tmp_path)
    assert json.loads(output) == [["notebook:a", 7], ["notebook:b", 10]]


def test_what_cells_define_is_part_of_the_project_beside_its_files(tmp_path):
    (tmp_path / "lib.py").write_text("from barca import asset\n@asset\ndef a():\n    return 1\n")
    (tmp_path / "other.py").write_text("from barca import asset\n@asset\ndef c():\n    return 1\n")
    code = CELLS.replace("from barca import asset\n", "from barca import asset\nimport lib\n").replace(
        'inputs={"a": a}', 'inputs={"a": lib.a}'
    )
    code += """
cell('''
from barca.discovery import discover
graph = discover(Path("."))
print(json.dumps([[node.id, [edge.source for edge in node.edges]] for node in graph.nodes.values()]))
print(graph.load_errors, list(discover(Path("."), ["other.py"]).nodes))
''')
"""
    nodes, rest = run(code, cwd=tmp_path).splitlines()
    assert json.loads(nodes) == [
        ["lib.py:a", []],
        ["other.py:c", []],
        ["notebook:a", []],
        ["notebook:b", ["lib.py:a"]],
    ]
    assert rest == "() ['other.py:c']", "files that are named are all there is"


def test_notebook_functions_travel_with_what_they_use(tmp_path):
    code = (
        CELLS
        + """
cell(SHOW)
cell('''
for node in graph.nodes.values():
    ref = function_ref(node.definition, node.id, Path(".").resolve())
    assert ref.file is None
    assert load_function(ref) is node.definition
    Path(node.id.replace(":", "_")).write_bytes(__import__("pickle").dumps(ref))
''')
"""
    )
    run(code, cwd=tmp_path)
    refs = [pickle.loads((tmp_path / name).read_bytes()) for name in ("notebook_a", "notebook_b")]
    assert [load_function(refs[0])(), load_function(refs[1])(5)] == [2, 10]


def test_notebook_functions_find_project_modules_in_a_worker(tmp_path):
    (tmp_path / "shop_util.py").write_text("def clean():\n    return 3\n")
    code = (
        CELLS
        + """
cell('''
@asset
def late():
    import shop_util
    return shop_util.clean()
graph = graph_of([late], Path("."))
ref = function_ref(late, "notebook:late", Path(".").resolve())
Path("ref").write_bytes(__import__("pickle").dumps(ref))
''')
"""
    )
    run(code, cwd=tmp_path)
    worker = "import pickle\nfrom barca.discovery import load_function\n"
    worker += f"print(load_function(pickle.load(open({str(tmp_path / 'ref')!r}, 'rb')))())\n"
    assert run(worker, cwd=Path("/")) == "3\n"


def test_project_functions_are_found_by_file_and_name(project):
    project.write(
        "p.py",
        """
        from barca import asset, partitions
        from lib import make
        @asset(partitions={"k": partitions(1 / 0)})
        def never(k): return k
        @asset(name="my.name")
        def renamed(): return 2
        a = make(1)
        b = make(2)
        listed = [make(3, "three"), make(4, "four")]
        """,
    )
    project.write(
        "lib.py",
        """
        from barca import asset
        def make(n, name=None):
            @asset(name=name)
            def inner(): return n
            return inner
        """,
    )
    graph = discover(project.root)
    refs = {node.id: function_ref(node.definition, node.id, project.root) for node in graph.nodes.values()}
    assert {ref.file for ref in refs.values()} == {str(project.root / "p.py")}
    assert all(pickle.loads(pickle.dumps(ref)) == ref for ref in refs.values())
    (project.root / "refs").write_bytes(pickle.dumps(refs))
    worker = """
        import json, pickle
        from barca.discovery import load_function
        found = {node: load_function(ref) for node, ref in pickle.load(open("refs", "rb")).items()}
        assert found.pop("p.py:never")("a") == "a"
        print(json.dumps({node: definition() for node, definition in found.items()}))
    """
    values = json.loads(run(worker, cwd=project.root))
    assert values == {"my.name": 2, "p.py:a": 1, "p.py:b": 2, "three": 3, "four": 4}


def test_a_worker_is_a_process_of_its_own(project):
    project.write("deep/util.py", "X = 5\n")
    project.write("deep/p.py", "from barca import asset\nimport util\n@asset\ndef a():\n    return util.X\n")
    node = discover(project.root).nodes["deep/p.py:a"]
    (project.root / "ref").write_bytes(pickle.dumps(function_ref(node.definition, node.id, project.root)))
    worker = "import pickle\nfrom barca.discovery import load_function\n"
    worker += f"print(load_function(pickle.load(open({str(project.root / 'ref')!r}, 'rb')))())\n"
    assert run(worker, cwd=Path("/")) == "5\n"


WORKER = """
import pickle, sys
from pathlib import Path
from barca.discovery import load_function
ref = pickle.loads(Path("ref").read_bytes())
file = Path(ref.file)
first = load_function(ref)
assert load_function(ref) is first
print(first())
file.write_text(file.read_text().replace("return 1", "return 2"))
print(load_function(ref)())
for text in ("def a", "1 / 0"):
    file.write_text("1 / 0" if text == "1 / 0" else file.read_text().replace(text, "def c"))
    try:
        load_function(ref)
    except Exception as error:
        print(type(error).__name__, error.node, error.message)
"""


def test_workers_import_a_file_once_and_again_when_it_changed(project):
    project.write("p.py", "from barca import asset\n@asset\ndef a():\n    return 1\n")
    node = discover(project.root).nodes["p.py:a"]
    ref = function_ref(node.definition, node.id, project.root)
    (project.root / "ref").write_bytes(pickle.dumps(ref))
    assert run(WORKER, cwd=project.root).splitlines() == [
        "1",
        "2",
        "LoadError p.py:a `a` is no longer in the file",
        "LoadError p.py:a it can't be imported: ZeroDivisionError: division by zero",
    ]


def test_the_process_that_describes_a_function_runs_that_very_function():
    calls = []
    lock = threading.Lock()  # cannot be pickled

    @asset
    def counted():
        with lock:
            calls.append(1)

    ref = function_ref(counted, "n", ROOT)
    assert ref.file is ref.pickled is None
    load_function(ref)()
    assert calls == [1]


def test_functions_that_cannot_travel_say_so():
    for pickled, message in [(None, "cannot be pickled"), (b"?", "cannot be unpickled")]:
        with pytest.raises(LoadError, match=message) as caught:
            load_function(FunctionRef(node="never described here", root=str(ROOT), pickled=pickled))
        assert caught.value.node == "never described here"

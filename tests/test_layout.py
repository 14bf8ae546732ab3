"""The rooms of the package: imports point one way, a subject is in one place, files are short, and words are plain."""

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "poise"

ROOMS = [
    "errors",
    "system",
    "data",
    "styles",
    "config",
    "domains",
    "data.importers",
    "models",
    "rollouts",
    "losses",
    "algorithms",
    "training",
    "evaluation",
    "runs",
    "figures",
    "reproduce",
    "cli",
]
"""Packages and modules; each imports only from those before it."""

CYCLES = {("data.trajectories", "data.writer"), ("runs.evaluating", "runs.run")}
"""Imports inside a function, or for types alone, that close a circle: `Trajectories.save` writes with `Writer`, which
takes trajectories, and `Run.evaluate` is `evaluate_all` of one run."""


def name_of(path: Path) -> str:
    """The module of a file, without the name of the package; the package itself is ""."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {name: path for name, path in FILES.items() if name}


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports_of(name: str) -> set[str]:
    """The modules of the package that a module imports, also inside functions; "" is the package itself."""
    path, found = MODULES[name], set()
    base = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        above = base[: len(base) - node.level + 1]
        module = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{module}.{alias.name}".lstrip(".")
            found.add(inner if inner in FILES else module)
    return found


def packages_of(path: Path) -> set[str]:
    """The packages from elsewhere that a file imports."""
    found = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


def room_of(name: str) -> str:
    """The room of a module: the longest name in `ROOMS` that it begins with."""
    return max((room for room in ROOMS if f"{name}.".startswith(f"{room}.")), key=len)


def users_of(package: str) -> set[str]:
    return {name for name, path in MODULES.items() if package in packages_of(path)}


def test_every_module_is_in_a_room():
    assert {room_of(name) for name in MODULES} == set(ROOMS)


def test_imports_between_rooms_point_one_way():
    for name in MODULES:
        for other in imports_of(name):
            assert other, f"{name} imports the whole package"
            assert ROOMS.index(room_of(other)) <= ROOMS.index(room_of(name)), f"{name} imports {other}"


def test_imports_inside_a_room_are_not_circular():
    graph = {name: {other for other in imports_of(name) if (name, other) not in CYCLES} - {name} for name in MODULES}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(reversed(error.args[1]))}")


def test_the_package_imports_itself_by_relative_names():
    assert not users_of("poise")


def test_only_figures_draw():
    for package in ("matplotlib", "PIL"):
        assert {room_of(name) for name in users_of(package)} == {"figures"}


def test_nothing_is_pickled():
    assert not users_of("pickle") | users_of("dill") | users_of("cloudpickle") | users_of("joblib")


def test_only_workers_start_processes_and_only_provenance_calls_git():
    assert users_of("subprocess") == {"system.workers", "system.provenance"}
    assert not users_of("multiprocessing")
    for name, path in MODULES.items():
        text = path.read_text()
        assert ("sys.executable" in text) <= (name == "system.workers"), name
        assert not re.search(r"\bos\.(system|fork|popen|spawn\w+|exec\w+)\(|ProcessPoolExecutor", text), name
    started = re.findall(r"subprocess\.\w+\([^,]*", FILES["system.provenance"].read_text())
    assert started == ['subprocess.run(["git"']


def writes(path: Path) -> Iterator[str]:
    """The calls in a file that would write another file without the help of `system.storage`."""
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        method = called.rpartition(".")[2]
        position = 1 if called == "open" else 0  # of the mode: open(path, mode), path.open(mode)
        modes = [*node.args[position : position + 1], *(word.value for word in node.keywords if word.arg == "mode")]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        opens = method == "open" and any(re.fullmatch(r"[rwaxbt+]*[wax+][rwaxbt+]*", text) for text in texts)
        saves = called.startswith("np.save") or method in ("write_text", "tofile")
        if opens or saves or (method == "write_bytes" and called not in ("write_bytes", "storage.write_bytes")):
            yield f"line {node.lineno}: {called}"


def test_every_file_is_written_by_storage_or_the_writer_of_folders():
    allowed = {"system.storage", "data.writer"}
    in_memory = {"system.workers": ["np.savez"]}  # a message for a pipe
    for name, path in MODULES.items():
        found = [write for write in writes(path) if write.rpartition(" ")[2] not in in_memory.get(name, [])]
        assert not found or name in allowed, f"{name}: {found}; write with system.storage"


@pytest.mark.parametrize(
    "line",
    [
        'open(path, "w")',
        'open(path, mode="ab")',
        'path.open("w")',
        'path.open(mode="x")',
        "np.save(path, x)",
        'Path("x").write_text("y")',
        'path.write_bytes(b"")',
    ],
)
def test_a_file_that_is_written_in_another_way_is_found(line, tmp_path):
    file = tmp_path / "mine.py"
    others = ["open(path)", "open(path, 'rb')", "storage.write_bytes(path, b'')", "archive.open('name', 'w')"]
    file.write_text("\n".join([line, *others]))
    assert [write.partition(":")[0] for write in writes(file)] == ["line 1"]


def test_no_file_has_more_than_400_lines():
    long = {str(path): len(path.read_text().splitlines()) for path in [*FILES.values(), *TESTS.rglob("*.py")]}
    assert not {path: count for path, count in long.items() if count > 400}


def test_no_function_has_more_than_60_lines_beside_its_docstring():
    for name, path in FILES.items():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                documented = len((ast.get_docstring(node, clean=False) or "").splitlines())
                lines = (node.end_lineno or node.lineno) - node.lineno + 1 - documented
                assert lines <= 60, f"{name}.{node.name} has {lines} lines"


@pytest.mark.parametrize(
    ("question", "module", "names"),
    [
        ("where is the style loss?", "poise.losses", "style"),
        ("where is training resumed?", "poise.training.checkpoints", "TrainingLog.load"),
        ("where does a score become a class?", "poise.styles.labeling_functions", "LabelingFunction.classify"),
    ],
)
def test_a_newcomer_finds_it_by_its_name(question, module, names):
    found = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    assert callable(found), question
    assert found.__module__ == module

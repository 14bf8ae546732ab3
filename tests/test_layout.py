"""Imports only point up this list: what is above never knows of what is below."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "poise"
ORDER = [
    "errors",
    "memory",
    "program_cache",
    "cores",
    "config",
    "checks",
    "files",
    "storage",
    "origin",
    "trajectories",
    "parallel",
    "labeling",
    "joining",
    "inspection",
    "physics",
    "rendering",
    "pacing",
    "ppo",
    "demonstrators",
    "domains.possessions",
    "domains.base",
    "domains.basketball",
    "domains.cheetah",
    "domains",
    "gym",
    "play",
    "models.layers",
    "models.loops",
    "models.kernels",
    "models.recurrent",
    "models.policies",
    "models.rollout_kernel",
    "models.auxiliaries",
    "models",
    "widening",
    "rollout",
    "acting",
    "losses",
    "algorithms",
    "axis",
    "training",
    "bar",
    "collecting",
    "streaming",
    "evaluation",
    "sportvu",
    "tasks",
    "records",
    "runs",
    "jobs",
    "plots",
    "report",
    "demo",
    "reproduce.paper",
    "reproduce.grid",
    "reproduce.study",
    "reproduce.tables",
    "reproduce.figures",
    "reproduce",
    "cli",
]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported(path: Path, known: set[str]) -> set[str]:
    """The modules of the package that a file imports."""
    base = list(path.relative_to(PACKAGE).parent.parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = base[: len(base) - node.level + 1]
            module = ".".join([*above, *(node.module.split(".") if node.module else [])])
            for alias in node.names:
                inner = f"{module}.{alias.name}" if module else alias.name
                found.add(inner if inner in known else module)
    return found - {""}


def test_imports_only_point_up_the_list():
    files = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    assert set(files) - {""} == set(ORDER)
    for name, path in files.items():
        for other in imported(path, set(files)) if name else set():
            assert ORDER.index(other) < ORDER.index(name), f"{name} imports {other}"


def test_only_plots_imports_matplotlib():
    users = [
        p.name
        for p in PACKAGE.rglob("*.py")
        if "import matplotlib" in p.read_text() or "from matplotlib" in p.read_text()
    ]
    assert users == ["plots.py"]


def test_nothing_imports_pickle():
    assert not [p.name for p in PACKAGE.rglob("*.py") if "import pickle" in p.read_text()]

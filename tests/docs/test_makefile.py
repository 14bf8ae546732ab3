"""`make` uses the Python that is named, or says that it is not there."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_python_that_is_not_there_is_refused_whatever_was_installed_before(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    (tmp_path / ".venv").mkdir()
    for name in ("ready-3.11", "ready-3.12", "ready-3.13"):
        (tmp_path / ".venv" / name).touch()
    done = subprocess.run(
        ["make", "demo", "PYTHON=/nowhere/python3.11"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "PYTHON='/nowhere/python3.11' is none of them here" in done.stderr

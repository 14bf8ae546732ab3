"""What results say of where they come from."""

import platform
import subprocess
import sys
from importlib import metadata

from poise import origin


def test_versions_are_those_of_what_is_needed_and_of_the_extras_that_are_there(monkeypatch):
    there = {"jax": "1.2", "mujoco": "3.4"}

    def version(name: str) -> str:
        if name not in there:
            raise metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(metadata, "version", version)
    missing = dict.fromkeys(origin.NEEDED, "source")
    assert origin.versions() == {"python": platform.python_version(), **missing, **there}
    assert origin.origin(1.0)["versions"] == origin.versions()


def test_versions_are_told_without_importing_the_physics():
    program = "from poise import origin; import sys; origin.versions(); print('mujoco' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

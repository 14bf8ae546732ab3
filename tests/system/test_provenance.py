import platform
import subprocess
import sys
from importlib import metadata

from poise.system import provenance


def test_versions_name_what_is_needed_and_the_extras_that_are_installed(monkeypatch):
    installed = {"jax": "1.2", "mujoco": "3.4"}

    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    missing = dict.fromkeys(provenance.NEEDED, "source")
    assert provenance.versions() == {"python": platform.python_version(), **missing, **installed}
    assert provenance.provenance(1.0)["versions"] == provenance.versions()


def test_versions_are_read_without_importing_the_physics():
    program = "from poise.system import provenance; import sys; provenance.versions(); print('mujoco' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

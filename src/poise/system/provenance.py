"""The provenance of a result: versions, hardware, command and commit, as every results file records them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

NEEDED = ("poise", "jax", "jaxlib", "equinox", "optax", "numpy")
EXTRA = ("mujoco", "mujoco-mjx", "dm-control")  # the physics of bodies


def provenance(seconds: float) -> dict[str, Any]:
    """The provenance of a result that took this many seconds."""
    return {
        "command": command(),
        "commit": commit(),
        "hardware": hardware(),
        "versions": versions(),
        "seconds": round(seconds, 1),
    }


def versions() -> dict[str, str]:
    """The versions of Python, of the packages that a result depends on, and of the extras that are installed."""
    needed = {name: _version(name) or "source" for name in NEEDED}  # "source": a source tree that is not installed
    extra = {name: version for name in EXTRA if (version := _version(name))}
    return {"python": platform.python_version(), **needed, **extra}


def hardware() -> str:
    """The number and kind of the devices that compute."""
    devices = jax.devices()
    if devices[0].platform == "cpu":
        return f"{os.cpu_count()} CPU cores ({platform.machine()})"
    return f"{len(devices)} x {devices[0].device_kind}"


def commit() -> str | None:
    """The commit of the source tree, with a + if files have changed since; None outside of a repository.

    The environment variable POISE_COMMIT overrides it, for a copy of the tree on another machine.
    """
    given = os.environ.get("POISE_COMMIT")
    if given:
        return given
    try:
        return _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def command() -> str:
    """The command line of this process; absolute paths are shortened to their last part."""
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    return " ".join(Path(word).name if os.path.isabs(word) else word for word in words)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git(*words: str) -> str:
    folder = Path(__file__).parent
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

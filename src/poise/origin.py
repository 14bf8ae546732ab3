"""Where a figure comes from: versions, hardware, command and commit, as every results file keeps them."""

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
EXTRA = ("mujoco", "mujoco-mjx", "dm-control")  # the physics of the Cheetah


def versions() -> dict[str, str]:
    """The versions that a result depends on; of the extras, those that are installed."""
    needed = {name: _version(name) or "source" for name in NEEDED}  # a source tree that was never installed
    extra = {name: version for name in EXTRA if (version := _version(name))}
    return {"python": platform.python_version(), **needed, **extra}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def hardware() -> str:
    """The device that computed, in words."""
    devices = jax.devices()
    if devices[0].platform == "cpu":
        return f"{os.cpu_count()} CPU cores ({platform.machine()})"
    return f"{len(devices)} x {devices[0].device_kind}"


def commit() -> str | None:
    """The commit of the source tree, with a + if it was changed since; None outside of one.

    POISE_COMMIT says otherwise, for a copy of the tree on another machine.
    """
    told = os.environ.get("POISE_COMMIT")
    if told:
        return told
    try:
        return _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    folder = Path(__file__).parent
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def command() -> str:
    """The command that is running, without the folder of the program or of its data."""
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    return " ".join(Path(word).name if os.path.isabs(word) else word for word in words)


def origin(seconds: float) -> dict[str, Any]:
    """The origin of a result that took this long."""
    return {
        "command": command(),
        "commit": commit(),
        "hardware": hardware(),
        "versions": versions(),
        "seconds": round(seconds, 1),
    }

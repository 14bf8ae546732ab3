"""A cache of compiled programs on disk, so that a second start does not compile them again."""

from __future__ import annotations

import os
from pathlib import Path

import jax

VARIABLE = "POISE_PROGRAM_CACHE"


def use_compile_cache() -> Path | None:
    """Lets JAX keep compiled programs in the user's cache folder; returns the folder, or None if there is none.

    The environment variable POISE_PROGRAM_CACHE names another folder, or is empty for no cache. A cache that the user
    has already configured in JAX is left as it is.
    """
    configured = jax.config.values["jax_compilation_cache_dir"]
    if configured is not None:
        return Path(configured)
    folder = cache_folder("programs", VARIABLE)
    if folder is None:
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return folder


def cache_folder(name: str, variable: str) -> Path | None:
    """The folder `name` in the user's cache, or the folder that an environment variable names.

    None if the variable is empty, or if the folder cannot be written.
    """
    given = os.environ.get(variable)
    if given == "":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(given) if given else base / "poise" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # for example a read-only home: run without a cache
        return None
    return folder if os.access(folder, os.W_OK) else None

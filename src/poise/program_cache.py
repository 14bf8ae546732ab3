"""Compiled programs kept on disk, so that a second start need not compile them again."""

from __future__ import annotations

import os
from pathlib import Path

import jax

VARIABLE = "POISE_PROGRAM_CACHE"


def use_program_cache() -> Path | None:
    """Lets JAX keep compiled programs in the user's cache folder; returns it, or None if there is none.

    POISE_PROGRAM_CACHE names another folder, or is empty for none. A cache that the user gave JAX is left as it is.
    """
    given = jax.config.values["jax_compilation_cache_dir"]
    if given is not None:
        return Path(given)
    folder = cache_folder("programs", VARIABLE)
    if folder is None:
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return folder


def cache_folder(name: str, variable: str) -> Path | None:
    """A folder in the user's cache, or the one that a variable of the environment names; None if there is none."""
    named = os.environ.get(variable)
    if named == "":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(named) if named else base / "poise" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written: do without
        return None
    return folder if os.access(folder, os.W_OK) else None

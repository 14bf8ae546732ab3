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
    named = os.environ.get(VARIABLE)
    if named == "":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(named) if named else base / "poise" / "programs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written: compile as ever
        return None
    if not os.access(folder, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return folder

"""The cores of a CPU as devices, so that runs, or the batch of one run, are spread over them."""

from __future__ import annotations

import os

import jax

from .errors import PoiseError

VARIABLE = "POISE_CORES"


def use_cores() -> None:
    """Lets JAX take each core of a CPU for a device, unless JAX has begun already or was told otherwise.

    A program on one device uses all cores too, but only within its larger operations. POISE_CORES says how many.
    """
    told = os.environ.get(VARIABLE)
    if told is not None and (not told.isdigit() or told == "0"):
        raise PoiseError(f"{VARIABLE} is a number of cores, for example 2; got {told!r}")
    chosen = jax.config.values["jax_num_cpu_devices"] > 0
    if chosen or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", int(told) if told else count_cores())
    except RuntimeError:  # JAX has begun
        return


def count_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""The cores of a CPU as JAX devices, so that runs, or the batch of one run, are spread over them."""

from __future__ import annotations

import os

import jax

from ..errors import PoiseError

VARIABLE = "POISE_CORES"


def use_cpu_devices() -> None:
    """Makes each CPU core a JAX device, unless JAX has been initialised or the user has chosen a number of devices.

    A program on one device also uses all cores, but only within its larger operations. The environment variable
    POISE_CORES sets the number of devices.
    """
    given = os.environ.get(VARIABLE)
    if given is not None and (not given.isdigit() or given == "0"):
        raise PoiseError(f"{VARIABLE} is a number of cores, for example 2; got {given!r}")
    chosen = jax.config.values["jax_num_cpu_devices"] > 0
    if chosen or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", int(given) if given else count_cores())
    except RuntimeError:  # JAX has been initialised
        return


def count_cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

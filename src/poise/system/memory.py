"""The memory of the device, which decides whether data is copied there as a whole or streamed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import jax

from ..errors import PoiseError

VARIABLE = "POISE_MEMORY"
SHARE = 4  # data may take a quarter of the memory: training needs the rest
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def device_memory() -> int:
    """The free bytes of the device that trains; the environment variable POISE_MEMORY, such as 2G, overrides it."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _bytes(given)
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return _host_memory() // len(jax.local_devices())


def total_memory() -> int:
    """All bytes of the device that trains, used or free, so that decisions by it are the same in every process.

    The environment variable POISE_MEMORY overrides it.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _bytes(given)
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"]
    return _host_memory(available=False) // len(jax.local_devices())


def fits_on_device(size: int) -> bool:
    """Whether data of this many bytes is copied to the device as a whole."""
    return size * SHARE <= total_memory()


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text.strip().upper())
    if not found:
        raise PoiseError(f"{VARIABLE} is a number of bytes, for example 2000000000 or 2G; got {text!r}")
    return int(float(found[1]) * UNITS[found[2]])


def _host_memory(available: bool = True) -> int:
    """The bytes that Linux reports as available (or as total) or that a container allows; elsewhere, all memory."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path, pattern, unit in (
        ("/proc/meminfo", r"^MemAvailable:\s+(\d+) kB" if available else r"^MemTotal:\s+(\d+) kB", 1024),
        ("/sys/fs/cgroup/memory.max", r"^(\d+)$", 1),
    ):
        text = Path(path).read_text() if Path(path).exists() else ""
        found += [unit * int(number) for number in re.findall(pattern, text, re.MULTILINE)]
    return min(found)

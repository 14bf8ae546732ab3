"""Memory: how much of it the device has left, and so which data go there whole and which are streamed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import jax

from .errors import PoiseError

SHARE = 4  # data may take one part in so many of the free memory: training needs the rest
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def device_memory() -> int:
    """Free bytes of the device that trains; POISE_MEMORY, as in 2G, says otherwise."""
    told = os.environ.get("POISE_MEMORY")
    if told is not None:
        return _bytes(told)
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return _host_memory() // len(jax.local_devices())


def total_memory() -> int:
    """Bytes of the device that trains, free or not, so that what depends on it is the same the next time."""
    told = os.environ.get("POISE_MEMORY")
    if told is not None:
        return _bytes(told)
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"]
    return _host_memory(available=False) // len(jax.local_devices())


def fits_on_device(size: int) -> bool:
    """Whether data of so many bytes go to the device as a whole."""
    return size * SHARE <= total_memory()


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text.strip().upper())
    if not found:
        raise PoiseError(f"POISE_MEMORY is a number of bytes, for example 2000000000 or 2G; got {text!r}")
    return int(float(found[1]) * UNITS[found[2]])


def _host_memory(available: bool = True) -> int:
    """What Linux says is available, or a container is allowed; elsewhere, or if not asked for, all memory."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path, pattern, unit in (
        ("/proc/meminfo", r"^MemAvailable:\s+(\d+) kB" if available else r"^MemTotal:\s+(\d+) kB", 1024),
        ("/sys/fs/cgroup/memory.max", r"^(\d+)$", 1),
    ):
        text = Path(path).read_text() if Path(path).exists() else ""
        found += [unit * int(number) for number in re.findall(pattern, text, re.MULTILINE)]
    return min(found)

"""The memory of device and host: whether data is copied to the device as a whole, and what cannot fit at all."""

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


def training_memory() -> int:
    """All bytes of all devices that train."""
    return total_memory() * len(jax.local_devices())


def host_memory() -> int:
    """All bytes of this machine or of its container, used or free."""
    return _host_memory(available=False)


def refuse_beyond(memory: int, what: str, size: float, way_out: str) -> None:
    """Refuses what takes more bytes than there are, before anything is computed.

    Args:
        memory: The bytes that there are.
        what: What takes memory, such as "500 seeds".
        size: About how many bytes it takes.
        way_out: What would fit.
    """
    if size > memory:
        raise PoiseError(
            f"{what} would take about {in_units(size)} of memory, and there are {in_units(memory)}; {way_out}"
        )


def in_units(size: float) -> str:
    """A number of bytes for people.

    Examples:
        >>> in_units(3 * 2**29)
        '1.5 GiB'
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = min(max(0, (max(1, int(size)).bit_length() - 1) // 10), len(units) - 1)
    number = size / 2 ** (10 * power)
    return f"{number:{'.0f' if 100 <= number < 1024 else '.3g'}} {units[power]}"


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

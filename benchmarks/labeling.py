"""How fast a million trajectories are labelled: by traced styles, by a host function, and one by one as in other code.

    python benchmarks/labeling.py --count 1000000

`measure` returns the results. Times are the best of several, because other processes may use the machine.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np

from poise import DOMAINS, Trajectories, labeling_function
from poise.styles import host
from poise.styles.scoring import label_all
from poise.system.imports import import_file

BASKETBALL = DOMAINS["basketball"]
HZ, RIM = 3.0, np.asarray([5.25, 25.0], np.float32)
CORES = os.cpu_count() or 1


def players(count: int, made: int = 50_000) -> Trajectories:
    """Simulated players, repeated up to this count, each copy moved a little."""
    assert BASKETBALL.demonstrations is not None
    demonstrations = BASKETBALL.demonstrations(min(made, count), 0)
    states, actions = (np.resize(x, (count, *x.shape[1:])) for x in (demonstrations.states, demonstrations.actions))
    states += np.random.default_rng(0).normal(size=(count, 1, 2)).astype(np.float32)
    return Trajectories.unchecked(states, actions, np.resize(demonstrations.lengths, count))


def angles(vectors: np.ndarray) -> np.ndarray:
    """The directions of vectors."""
    return np.arctan2(vectors[:, 1], vectors[:, 0])


def turning(states: np.ndarray, actions: np.ndarray) -> float:
    """The mean absolute change of direction."""
    turns = np.diff(angles(actions))
    return float(np.abs(np.mod(turns + np.pi, 2 * np.pi) - np.pi).mean())


def roaming(states: np.ndarray, actions: np.ndarray) -> float:
    """A style in NumPy, about 50 µs per trajectory: the mean distance from a point of the path to the farthest one."""
    return float(np.mean([np.linalg.norm(states - state, axis=-1).max() for state in states[::2]]))


ONE_BY_ONE: dict[str, Callable] = {
    "speed": lambda states, actions: HZ * np.linalg.norm(actions, axis=-1).mean(),
    "displacement": lambda states, actions: np.linalg.norm(states[-1] - states[0]),
    "destination": lambda states, actions: np.linalg.norm(states[-1] - RIM),
    "direction": lambda states, actions: angles(actions.mean(axis=0, keepdims=True))[0],
    "curvature": turning,
}


def seconds(call: Callable[[], object], repeats: int = 1) -> float:
    """The time of a call, the best of several."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def peak_memory(call: Callable[[], object]) -> int | None:
    """The bytes of memory that a call takes beyond those of the process; None where they cannot be measured."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed must not be reused uncounted
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = _memory("VmRSS")
        call()
        return _memory("VmHWM") - before
    except (OSError, AttributeError):
        return None


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def read(data: Trajectories) -> None:
    """Reads all bytes of states and actions once, with all cores."""
    parts = [part for x in (data.states, data.actions) for part in np.array_split(np.asarray(x), 4 * CORES)]
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(np.add.reduce, [part.reshape(-1) for part in parts]))


def measure_traced(count: int) -> dict:
    """Labels by five traced styles, with and without compilation, and the time to read the data only."""
    data = players(count)
    styles = [style.fit(data[:10_000]) for style in BASKETBALL.styles.values()]
    size = np.asarray(data.states).nbytes + np.asarray(data.actions).nbytes
    jax.clear_caches()
    cold = seconds(lambda: label_all(styles, data))
    warm = seconds(lambda: label_all(styles, data), repeats=5)
    return {
        "trajectories": count,
        "styles": len(styles),
        "cold_seconds": cold,
        "warm_seconds": warm,
        "trajectories_per_second": count / warm,
        "gigabytes": size / 1e9,
        "gigabytes_per_second": size / warm / 1e9,
        "read_only_seconds": seconds(lambda: read(data), repeats=5),
        "peak_extra_bytes": peak_memory(lambda: label_all(styles, data)),
        "result_bytes": 2 * 4 * count * len(styles),
    }


def measure_host(count: int) -> dict:
    """A style in NumPy, in one process and in one per core, the start of the processes included."""
    data = players(count)
    module = import_file(Path(__file__))  # other processes could not find a function of __main__
    style = labeling_function(module.roaming)
    worth, times = host.WORTH_A_POOL, {}
    for name, limit in (("one_process_seconds", float("inf")), ("all_cores_seconds", -1.0)):
        host.WORTH_A_POOL = limit
        times[name] = seconds(lambda: style.scores(data), repeats=2)
    host.WORTH_A_POOL = worth
    return {"trajectories": count, **times, "speedup": times["one_process_seconds"] / times["all_cores_seconds"]}


def measure_one_by_one(count: int) -> dict:
    """The five styles in NumPy, one trajectory at a time, as in the published code."""
    data = players(count)
    rows = list(zip(np.asarray(data.states), np.asarray(data.actions), strict=True))
    taken = seconds(lambda: [[f(*row) for f in ONE_BY_ONE.values()] for row in rows], repeats=3)
    return {"trajectories": count, "seconds_per_trajectory": taken / count}


def measure(count: int = 1_000_000) -> dict:
    """All results."""
    traced, single = measure_traced(count), measure_one_by_one(min(count, 2_000))
    times_faster = single["seconds_per_trajectory"] * count / traced["warm_seconds"]
    in_numpy = measure_host(min(count, 100_000))
    return {
        "cores": CORES,
        "traced": traced,
        "host": in_numpy,
        "one_by_one": {**single, "traced_is_faster": times_faster},
    }


def main() -> None:
    """Prints the results."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="trajectories to label (default: %(default)s)")
    print(json.dumps(measure(parser.parse_args().count), indent=2))


if __name__ == "__main__":
    main()

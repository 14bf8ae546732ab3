"""Time and memory to write, open, label, stream and train on millions of trajectories on disk.

    python benchmarks/streaming.py --count 5000000

`measure` returns the results. Memory is that of the process (RssAnon), without the pages of files that the system keeps
while there is room.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from poise import DOMAINS, PRESETS, Experiment, Trajectories
from poise.data.batches import WINDOW, Stream
from poise.data.writer import Writer
from poise.models import Statistics
from poise.runs.prepare import Prepared, fingerprint, prepare
from poise.runs.train import train_prepared
from poise.styles.augmentation import augment_and_label, label_sets

BASKETBALL = DOMAINS["basketball"]
STYLES = tuple(BASKETBALL.styles)
MADE = 50_000
TRAINED = 300  # steps of each stage


def write_players(folder: Path, count: int, made: int = MADE) -> None:
    """Writes simulated players, repeated up to this count, each copy moved a little."""
    assert BASKETBALL.demonstrations is not None
    players, random = BASKETBALL.demonstrations(min(made, count), 0), np.random.default_rng(0)
    with Writer(folder) as out:
        for first in range(0, count, len(players)):
            piece = players[: count - first]
            moved = piece.states + random.normal(size=(len(piece), 1, 2))
            out.add(Trajectories(moved, piece.actions, piece.lengths))


def prepare_players(folder: Path, algorithm: str = "ctvae-style") -> Prepared:
    """The players opened, checked, split and labelled in five styles."""
    short = replace(PRESETS["small"].training, policy_steps=TRAINED, labeler_steps=TRAINED)
    settings = replace(PRESETS["small"], training=short)
    return prepare(Experiment(algorithm, folder, STYLES, "basketball", settings=settings))


def stream(prepared: Prepared, rows: int = WINDOW, augmented: bool = False) -> Stream:
    """The training demonstrations as windows for the device, with augmented copies if asked for."""
    augment = partial(_augment, prepared) if augmented else None
    return Stream(prepared.splits.train, prepared.labels[None], rows, augment=augment)


def _augment(
    prepared: Prepared, demonstrations: Trajectories, labels: np.ndarray, seed: int
) -> tuple[Trajectories, np.ndarray]:
    def label(copies: Trajectories) -> np.ndarray:
        return np.stack(label_sets([prepared.styles], copies))

    return augment_and_label(demonstrations, labels, prepared.domain.dynamics, label, 1.0, seed)


def consume(source: Stream, windows: int, seconds: float) -> dict:
    """Takes windows like a device that works on each for some seconds; how long it waits for them."""
    waits, rows, taken = [], 0, source.windows()
    next(taken)  # the first one is never ready
    time.sleep(seconds)
    started = time.perf_counter()
    for _ in range(windows):
        asked = time.perf_counter()
        window = next(taken)
        waits.append(time.perf_counter() - asked)
        rows += len(window.demonstrations)
        time.sleep(seconds)
    total = time.perf_counter() - started
    return {
        "work_milliseconds": 1e3 * seconds,
        "windows_per_second": windows / total,
        "rows_per_second": rows / total,
        "waiting_share": sum(waits) / total,
        "longest_wait_milliseconds": 1e3 * max(waits),
    }


class Meter:
    """Seconds and peak memory of named steps."""

    def __init__(self):
        self.steps: dict[str, dict] = {}
        self.peak = 0
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures what happens inside."""
        before = self.peak = own_memory()
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.steps[name] = {
            "seconds": seconds,
            "peak_megabytes": max(self.peak, own_memory()) / 1e6,
            "peak_extra_megabytes": (self.peak - before) / 1e6,
        }

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, own_memory())
            time.sleep(0.005)


def own_memory() -> int:
    """Bytes of memory of this process, without the pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


def measure(count: int = 5_000_000, rows: int = WINDOW, windows: int = 60, parent: str | None = None) -> dict:
    """All results; the folder is written under `parent` (default: the temporary folder) and deleted again."""
    meter = Meter()
    with tempfile.TemporaryDirectory(dir=parent) as temporary:
        folder = Path(temporary) / "players"
        with meter.step("write"):
            write_players(folder, count)
        size = sum(path.stat().st_size for path in folder.iterdir())
        with meter.step("open_and_check"):
            Trajectories.load(folder)
        with meter.step("open_split_and_label"):
            prepared = prepare_players(folder)
        with meter.step("statistics"):
            Statistics.of(prepared.splits.train)
        with meter.step("fingerprint"):
            fingerprint(prepared.splits.train)
        with meter.step("stream"):
            streams = {
                "stream": [consume(stream(prepared, rows), windows, work) for work in (0.0, 0.02, 0.1)],
                "augmented_stream": [
                    consume(stream(prepared, rows, augmented=True), windows // 4, work) for work in (0.0, 0.5)
                ],
            }
        with meter.step("train"):
            train_prepared([prepared], progress=False)
        return {
            "trajectories": count,
            "steps_trained": 2 * TRAINED,
            "gigabytes": size / 1e9,
            "window": rows,
            **meter.steps,
            "streams": streams,
        }


def main() -> None:
    """Prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5_000_000)
    parser.add_argument("--rows", type=int, default=WINDOW)
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--parent", help="where the folder is written")
    arguments = parser.parse_args()
    print(json.dumps(measure(**vars(arguments)), indent=1))


if __name__ == "__main__":
    main()

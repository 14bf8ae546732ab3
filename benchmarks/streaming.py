"""What millions of trajectories on disk cost: to write, open, label and stream to the device, in time and in memory.

    python benchmarks/streaming.py --count 5000000

`measure` returns the figures. `write_players`, `prepare_players` and `stream` are the steps, for whoever wants to train
on them. Memory is the process's own (RssAnon): pages of files, which the system keeps while there is
room, are not in it.
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
from poise.jobs import train_task
from poise.models import Statistics
from poise.streaming import WINDOW, Stream
from poise.tasks import Task, fingerprint, prepare
from poise.trajectories import Writer
from poise.widening import label_sets, widened

BASKETBALL = DOMAINS["basketball"]
STYLES = tuple(BASKETBALL.styles)
MADE = 50_000
TRAINED = 300  # steps of each stage


def write_players(folder: Path, count: int, made: int = MADE) -> None:
    """So many players on disk: simulated ones again and again, each time moved a little."""
    assert BASKETBALL.demonstrations is not None
    players, random = BASKETBALL.demonstrations(min(made, count), 0), np.random.default_rng(0)
    with Writer(folder) as out:
        for first in range(0, count, len(players)):
            piece = players[: count - first]
            moved = piece.states + random.normal(size=(len(piece), 1, 2))
            out.add(Trajectories(moved, piece.actions, piece.lengths))


def prepare_players(folder: Path, algorithm: str = "ctvae-style") -> Task:
    """The task to train on them: opened, checked, split and labelled in five styles."""
    short = replace(PRESETS["small"].training, policy_steps=TRAINED, labeler_steps=TRAINED)
    settings = replace(PRESETS["small"], training=short)
    return prepare(Experiment(algorithm, str(folder), "basketball", styles=STYLES, settings=settings))


def stream(task: Task, rows: int = WINDOW, wide: bool = False) -> Stream:
    """The task's training demonstrations for the device; wide: with perturbed copies, labelled on the way."""
    widen = partial(_widen, task) if wide else None
    return Stream(task.splits.train, task.labels[None], rows, widen=widen)


def _widen(task: Task, demonstrations: Trajectories, labels: np.ndarray, seed: int):
    return widened(
        demonstrations, labels, task.domain, lambda copies: np.stack(label_sets([task.styles], copies)), 1.0, seed
    )


def consume(source: Stream, windows: int, seconds: float) -> dict:
    """Takes windows as a device would that works so many seconds on each; how long it had to wait for them."""
    waits, taken = [], source.windows()
    next(taken)  # the first one is never there yet
    time.sleep(seconds)
    started = time.perf_counter()
    for _ in range(windows):
        asked = time.perf_counter()
        window = next(taken)
        waits.append(time.perf_counter() - asked)
        time.sleep(seconds)
    total = time.perf_counter() - started
    return {
        "work_milliseconds": 1e3 * seconds,
        "windows_per_second": windows / total,
        "rows_per_second": windows * len(window.demonstrations) / total,
        "waiting_share": sum(waits) / total,
        "longest_wait_milliseconds": 1e3 * max(waits),
    }


class Meter:
    """Seconds and peak memory of named steps."""

    def __init__(self):
        self.figures: dict[str, dict] = {}
        self.peak = 0
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures what is done inside."""
        before = self.peak = own_memory()
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.figures[name] = {
            "seconds": seconds,
            "peak_megabytes": max(self.peak, own_memory()) / 1e6,
            "peak_extra_megabytes": (self.peak - before) / 1e6,
        }

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, own_memory())
            time.sleep(0.005)


def own_memory() -> int:
    """Bytes of memory that are this process's own, and not pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


def measure(count: int = 5_000_000, rows: int = WINDOW, windows: int = 60, parent: str | None = None) -> dict:
    """All figures; the folder is written under `parent` (default: where temporary files go) and deleted again."""
    meter = Meter()
    with tempfile.TemporaryDirectory(dir=parent) as temporary:
        folder = Path(temporary) / "players"
        with meter.step("write"):
            write_players(folder, count)
        size = sum(path.stat().st_size for path in folder.iterdir())
        with meter.step("open_and_check"):
            Trajectories.load(folder)
        with meter.step("open_split_and_label"):
            task = prepare_players(folder)
        with meter.step("statistics"):
            Statistics.of(task.splits.train)
        with meter.step("fingerprint"):
            fingerprint(task.splits.train)
        with meter.step("stream"):
            streams = {
                "stream": [consume(stream(task, rows), windows, work) for work in (0.0, 0.02, 0.1)],
                "wide_stream": [consume(stream(task, rows, wide=True), windows // 4, work) for work in (0.0, 0.5)],
            }
        with meter.step("train"):
            train_task(task, progress=False)
        return {
            "trajectories": count,
            "steps_trained": 2 * TRAINED,
            "gigabytes": size / 1e9,
            "window": rows,
            **meter.figures,
            "streams": streams,
        }


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5_000_000)
    parser.add_argument("--rows", type=int, default=WINDOW)
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--parent", help="where the folder is written")
    arguments = parser.parse_args()
    print(json.dumps(measure(**vars(arguments)), indent=1))


if __name__ == "__main__":
    main()

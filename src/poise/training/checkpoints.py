"""The files of a run in training: metrics.jsonl, one line per chunk, and checkpoint.safetensors, to resume from."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..system import storage
from .fit import Progress
from .state import State

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.jsonl"


class Position(NamedTuple):
    """How far training has come: the number of a turn, and its step."""

    turn: int = 0
    step: int = 0


@dataclass
class TrainingLog:
    """What is kept of a run while it is trained, in its folder or, without one, in memory only."""

    folder: Path | None
    seeds: list[int]
    run: str | None = None
    """The digest of the run that checkpoints belong to."""
    stopped: list[str | None] = field(default_factory=list)
    """For each seed the stage and step at which it was stopped, if it was."""
    position: Position = field(default_factory=Position)
    began: float = field(default_factory=time.perf_counter)
    earlier: float = 0.0
    """Seconds of training before it was interrupted."""

    @staticmethod
    def open(folder: Path | None, seeds: list[int], run: str | None = None) -> TrainingLog:
        """The log of a new run, or of one that was interrupted: metrics after its checkpoint are dropped."""
        log = TrainingLog(folder, seeds, run, [None] * len(seeds))
        if folder is None:
            return log
        path, metrics = folder / CHECKPOINT, folder / METRICS
        if not path.exists():
            metrics.unlink(missing_ok=True)
            return log
        notes = storage.read_notes(path)
        log.position, log.stopped = Position(notes["turn"], notes["step"]), notes["stopped"]
        log.earlier = notes["seconds"]
        kept = [line for line in read_lines(metrics) if (line["turn"], line["step"]) <= log.position]
        storage.write_bytes(metrics, "".join(json.dumps(line) + "\n" for line in kept).encode())
        return log

    @property
    def seconds(self) -> float:
        """Seconds of training, those before an interruption included."""
        return self.earlier + time.perf_counter() - self.began

    def mark_stopped(self, progress: Progress, steps: np.ndarray) -> list[str]:
        """Notes which seeds were stopped (steps of -1 continue), and returns a message for each new one."""
        messages = []
        for run, step in enumerate(steps):
            if step >= 0 and self.stopped[run] is None:
                self.stopped[run] = f"{progress.stage} step {step}"
                messages.append(f"seed {self.seeds[run]} stopped at {self.stopped[run]}: its loss is not finite")
        return messages

    def write_metrics(self, progress: Progress, rows: slice) -> None:
        """Appends one chunk's losses of these runs."""
        if self.folder is None or not progress.losses:
            return
        line = {
            "stage": progress.stage,
            "turn": progress.turn,
            "step": progress.step,
            "seconds": round(self.seconds, 2),
            "losses": _plain(progress.losses, rows),
            "validation": _plain(progress.validation, rows),
        }
        storage.append_line(self.folder / METRICS, json.dumps(line))

    def save(self, progress: Progress, state: State) -> None:
        """Writes the checkpoint."""
        if self.folder is not None:
            notes = {"turn": progress.turn, "step": progress.step, "stopped": self.stopped, "seconds": self.seconds}
            notes |= {"run": self.run}
            storage.write_tree(self.folder / CHECKPOINT, state, notes)

    def load(self, like: State) -> State:
        """The state of the checkpoint; `like` has its structure and shapes."""
        assert self.folder is not None
        return storage.read_tree(self.folder / CHECKPOINT, like)

    def remove_checkpoint(self) -> None:
        """Removes the checkpoint of a run that is finished."""
        if self.folder is not None:
            (self.folder / CHECKPOINT).unlink(missing_ok=True)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a last line that was cut off is left out."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def _plain(named: dict[str, np.ndarray], rows: slice) -> dict[str, list[float | None]]:
    return {
        name: [
            float(np.format_float_positional(v, 7, fractional=False)) if np.isfinite(v) else None for v in values[rows]
        ]
        for name, values in named.items()
    }

"""Between two chunks of training: the bar moves, a checkpoint may be due, and the user may want to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

SECONDS_BETWEEN_CHECKPOINTS = 5.0
WRITING_SHARE = 20  # checkpoints of many runs may take one part in so many of the time


class Pace:
    """Decides when checkpoints are due, so that writing them takes a small part of the time."""

    def __init__(self):
        self.saved, self.spent = time.perf_counter(), 0.0

    @contextlib.contextmanager
    def writing(self, surely: bool) -> Iterator[bool]:
        """Whether they are due now; measures how long writing them takes."""
        began = time.perf_counter()
        due = surely or began - self.saved > max(SECONDS_BETWEEN_CHECKPOINTS, WRITING_SHARE * self.spent)
        yield due
        if due:
            self.saved = time.perf_counter()
            self.spent = self.saved - began


class Stop:
    """Lets a chunk be finished and saved before Ctrl-C takes effect; pressed twice, it takes effect at once.

    Where nothing is saved, or another part of the program listens to Ctrl-C, all stays as it is.
    """

    def __init__(self, saving: bool):
        self.asked, self.saving = False, saving

    def __enter__(self) -> Stop:
        here = threading.current_thread() is threading.main_thread()
        self.listening = self.saving and here and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self.listening:
            signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: Any) -> None:
        if self.listening:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        os.write(2, b"\nstopping after this chunk, to save it; Ctrl-C again stops at once\n")  # safe within a signal

    def check(self) -> None:
        """Stops, if that was asked for."""
        if self.asked:
            raise KeyboardInterrupt


class Bar:
    """Progress on the screen."""

    def __init__(self, title: str, shown: bool):
        self.bars: dict[str, tqdm] = {}
        self.title, self.shown = title, shown

    def show(self, now: Any) -> None:
        """One chunk, told as a `training.Progress`."""
        if not now.losses:
            if now.stage in self.bars:  # another turn of it
                return
            title, axis = f"{self.title} {now.stage} (compiling)", now.axis
            self.bars[now.stage] = tqdm(
                total=now.steps, initial=now.step, desc=title, unit="step", disable=not self.shown
            )
            if axis.pieces > 1 and self.shown:
                tqdm.write(
                    f"memory is short: the {axis.runs} runs of this stage are trained {axis.piece} at a time",
                    file=sys.stderr,
                )
            return
        bar = self.bars[now.stage]
        bar.set_description(f"{self.title} {now.stage}", refresh=False)
        figures = {name: f"{_mean(values):.3g}" for name, values in now.validation.items()}
        bar.set_postfix(figures, refresh=False)
        bar.update(now.step - bar.n)
        if now.step == now.steps:
            bar.close()

    def close(self) -> None:
        """Leaves the screen as it is."""
        for bar in self.bars.values():
            bar.close()


def _mean(values: np.ndarray) -> float:
    """The mean over the seeds that go on."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")

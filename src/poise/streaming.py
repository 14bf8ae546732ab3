"""Streaming: demonstrations too large for the device reach it window by window, each read while the last is used.

A window is a function of its number alone, so training that was interrupted goes on with the very same windows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

import jax
import numpy as np
from jaxtyping import Int

from .errors import PoiseError
from .training import Data
from .trajectories import NAMES, Trajectories

WINDOW = 65_536
NEIGHBOURS = 16  # rows on disk that are drawn together: about as much as a disk reads at once
AHEAD = 2  # windows on their way while one is used: one being read, one that is ready

Widen = Callable[[Trajectories, np.ndarray, int], tuple[Trajectories, np.ndarray]]
"""(demonstrations, labels, seed) -> twice as many of both."""


@dataclass(frozen=True)
class Stream:
    """Labelled demonstrations on the host or on disk, drawn at random into windows for the device.

    Labels are one set for all runs [N, M], or several [sets, N, M]. With `widen`, half of a window is made of the
    other half, as `widening.widened` does.
    """

    demonstrations: Trajectories
    labels: Int[np.ndarray, "*sets N M"]
    rows: int = WINDOW
    seed: int = 0
    widen: Widen | None = None
    lasts: int = 100
    """Steps that a window lasts; like the rows of a window, part of what the result depends on."""

    def __post_init__(self):
        if self.labels.shape[-2] != len(self.demonstrations):
            raise PoiseError(
                f"every trajectory has labels; got {len(self.demonstrations)} trajectories and labels of "
                f"{self.labels.shape[-2]}"
            )
        if self.rows < 2:
            raise PoiseError(f"a window has at least 2 rows; got {self.rows}")

    def windows(self, first: int = 0) -> Generator[Data, None, None]:
        """Window after window, from this number on, without end; the next ones are read in the background meanwhile.

        What goes wrong there is raised here. Closing the iterator, or forgetting it, ends the reading.
        """
        reader = ThreadPoolExecutor(1, "poise-stream")
        try:
            waiting = [reader.submit(self.window, first + i) for i in range(AHEAD)]
            for number in count(first + AHEAD):
                window = waiting.pop(0).result()
                waiting.append(reader.submit(self.window, number))
                yield window
        finally:
            reader.shutdown(cancel_futures=True)

    def window(self, number: int) -> Data:
        """The window of this number, on the device."""
        rows = self._draw(number)
        taken = (getattr(self.demonstrations, name)[rows] for name in NAMES)
        demonstrations, labels = Trajectories.trusted(*taken), self.labels[..., rows, :]  # they were checked at birth
        if self.widen is not None:
            demonstrations, labels = self.widen(demonstrations, labels, number)
        return jax.block_until_ready(Data.of(demonstrations, labels.astype(np.int32)))

    def _draw(self, number: int) -> Int[np.ndarray, " rows"]:
        """Rows at random, none twice, in the order in which they lie."""
        random, total = np.random.default_rng((self.seed, number)), len(self.demonstrations)
        wanted = min(self.rows if self.widen is None else self.rows // 2, total)
        size = NEIGHBOURS if self.demonstrations.on_disk() and total >= wanted + NEIGHBOURS else 1
        blocks = random.choice(total // size, -(-wanted // size), replace=False)
        rows = (size * blocks[:, None] + np.arange(size)).reshape(-1)[:wanted]
        return np.sort((rows + random.integers(total)) % total)  # moved, so that the last rows are in a block as well

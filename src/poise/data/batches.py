"""Batches: labelled demonstrations in memory of the device, or streamed there window by window.

A window is a function of its number alone, so training that was interrupted continues with the very same windows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Shaped

from ..errors import PoiseError
from .trajectories import NAMES, Array, Trajectories

WINDOW = 65_536  # rows
NEIGHBOURS = 16  # rows on disk that are drawn together: about as much as a disk reads at once
AHEAD = 2  # windows that are prepared while one is used: one being read, one that is ready

Augment = Callable[[Trajectories, np.ndarray, int], tuple[Trajectories, np.ndarray]]
"""(demonstrations, labels, seed) -> twice as many of both."""


class Batch(NamedTuple):
    """Labelled demonstrations."""

    demonstrations: Trajectories
    labels: Shaped[Array, "batch M"]


class Data(NamedTuple):
    """Labelled demonstrations on the device; one set of labels for all runs [N, M], or several [sets, N, M]."""

    demonstrations: Trajectories
    labels: Shaped[Array, "*sets N M"]

    @staticmethod
    def of(demonstrations: Trajectories, labels: Shaped[np.ndarray, "*sets N M"]) -> Data:
        """Demonstrations and labels, moved to the device."""
        return Data(demonstrations.arrays, jnp.asarray(labels))

    def rows(self, rows: Int[Array, " batch"]) -> Data:
        """The named rows."""
        states, actions, lengths = (x[rows] for x in jax.tree.leaves(self.demonstrations))
        return Data(Trajectories.unchecked(states, actions, lengths), self.labels[..., rows, :])

    def batch(self, rows: Int[Array, " batch"], label_set: Int[Array, ""]) -> Batch:
        """The named rows with one of the sets of labels."""
        several = self.labels if self.labels.ndim == 3 else self.labels[None]
        demonstrations, _ = Data(self.demonstrations, several[0]).rows(rows)
        return Batch(demonstrations, several[label_set, rows])

    @property
    def steps_per_window(self) -> int | None:
        """Steps of training that use one window; None: all of them."""
        return None

    def windows(self, first: int = 0) -> Generator[Data, None, None]:
        """What steps draw their batches from: always all of it."""
        while True:
            yield self


@runtime_checkable
class Source(Protocol):
    """Where batches come from: `Data` that are on the device, or a `Stream` of windows that follow one another."""

    @property
    def steps_per_window(self) -> int | None: ...

    def windows(self, first: int = 0) -> Generator[Data, None, None]: ...


@dataclass(frozen=True)
class Stream:
    """Labelled demonstrations on the host or on disk, drawn at random into windows for the device.

    Labels are one set for all runs [N, M], or several [sets, N, M]. With `augment`, half of a window are perturbed
    copies of the other half (`styles.augmentation`).
    """

    demonstrations: Trajectories
    labels: Int[np.ndarray, "*sets N M"]
    rows: int = WINDOW
    seed: int = 0
    augment: Augment | None = None
    steps_per_window: int = 100
    """Like the rows of a window, part of what the result depends on."""

    def __post_init__(self):
        if self.labels.shape[-2] != len(self.demonstrations):
            raise PoiseError(
                f"every trajectory has labels; got {len(self.demonstrations)} trajectories and labels of "
                f"{self.labels.shape[-2]}"
            )
        if self.rows < 2:
            raise PoiseError(f"a window has at least 2 rows; got {self.rows}")

    def windows(self, first: int = 0) -> Generator[Data, None, None]:
        """Endless windows from this number on; the next ones are read in the background meanwhile.

        Errors of the reading thread are raised here. Closing the iterator, or dropping it, ends the reading.
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
        demonstrations, labels = Trajectories.unchecked(*taken), self.labels[..., rows, :]  # they were checked before
        if self.augment is not None:
            demonstrations, labels = self.augment(demonstrations, labels, number)
        return jax.block_until_ready(Data.of(demonstrations, labels.astype(np.int32)))

    def _draw(self, number: int) -> Int[np.ndarray, " rows"]:
        """Rows at random, none twice, in the order in which they lie."""
        random, total = np.random.default_rng((self.seed, number)), len(self.demonstrations)
        wanted = min(self.rows if self.augment is None else self.rows // 2, total)
        size = NEIGHBOURS if self.demonstrations.on_disk() and total >= wanted + NEIGHBOURS else 1
        blocks = random.choice(total // size, -(-wanted // size), replace=False)
        rows = (size * blocks[:, None] + np.arange(size)).reshape(-1)[:wanted]
        return np.sort((rows + random.integers(total)) % total)  # shifted, so that the last rows are in a block as well

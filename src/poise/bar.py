"""The progress of training on the screen: one bar a stage."""

from __future__ import annotations

import sys

import numpy as np
from tqdm import tqdm

from .training import Progress


class Bar:
    """Progress on the screen."""

    def __init__(self, title: str, shown: bool):
        self.bars: dict[str, tqdm] = {}
        self.title, self.shown = title, shown

    def show(self, now: Progress) -> None:
        """One chunk, or the beginning of a turn, where there are no losses yet."""
        if not now.losses:
            if now.stage in self.bars:  # another turn of it
                return
            title, axis = f"{self.title} {now.stage} (compiling)", now.axis
            place = None if sys.stderr.isatty() else 0  # stages that take turns move a cursor, which no log file has
            self.bars[now.stage] = tqdm(
                total=now.steps,
                initial=now.step,
                desc=title,
                unit="step",
                position=place,
                disable=not self.shown,
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

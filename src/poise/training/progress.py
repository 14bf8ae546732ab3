"""The progress of training on the screen: one bar per stage."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from .fit import Progress


class PerStep(NamedTuple):
    """Turns the losses of whole trajectories into the numbers of a report: per step, in the domain's units."""

    steps: float
    """Steps of a validation demonstration, on average."""
    log_units: float = 0.0
    """The sum of the logarithms of the domain's units of an action."""

    def __call__(self, name: str, value: float) -> tuple[str, float]:
        """The name and number to show for a loss."""
        if name == "nld":
            return "nld/step", value / self.steps - self.log_units
        return ("kl/step", value / self.steps) if name == "kl" else (name, value)


class ProgressBar:
    """Progress on the screen: validation losses, with NLD and KL in the units of a report."""

    def __init__(self, title: str, shown: bool, per_step: PerStep):
        self.bars: dict[str, tqdm] = {}
        self.title, self.shown, self.per_step = title, shown, per_step

    def show(self, progress: Progress) -> None:
        """One chunk, or the beginning of a turn, where there are no losses yet."""
        if not progress.losses:
            if progress.stage not in self.bars:  # else it is another turn of the stage
                self._add(progress)
            return
        bar = self.bars[progress.stage]
        bar.set_description(f"{self.title} {progress.stage}", refresh=False)
        shown = (self.per_step(name, _mean(values)) for name, values in progress.validation.items())
        bar.set_postfix({name: f"{value:.3g}" for name, value in shown}, refresh=False)
        bar.update(progress.step - bar.n)
        if progress.step == progress.steps:
            bar.close()

    def _add(self, progress: Progress) -> None:
        self.bars[progress.stage] = tqdm(
            total=progress.steps,
            initial=progress.step,
            desc=f"{self.title} {progress.stage} (compiling)",
            unit="step",
            position=None if sys.stderr.isatty() else 0,  # stages that alternate move the cursor; a log file has none
            disable=not self.shown,
        )
        axis = progress.axis
        if axis.pieces > 1 and self.shown:
            tqdm.write(
                f"memory is short: the {axis.runs} runs of this stage are trained {axis.piece} at a time",
                file=sys.stderr,
            )

    def close(self) -> None:
        """Leaves the bars on the screen as they are."""
        for bar in self.bars.values():
            bar.close()


def _mean(values: np.ndarray) -> float:
    """The mean over the seeds whose loss is finite."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")

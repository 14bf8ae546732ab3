"""What a domain measures at every step, such as being upside down: its mean over rollouts, and over demonstrations."""

from __future__ import annotations

import numpy as np

from ..data.trajectories import Trajectories
from ..domains import Domain
from .rows import finite_rows, select_rows

ROWS = 4_000  # the most trajectories that are read


def measure_steps(trajectories: Trajectories, domain: Domain) -> dict[str, float]:
    """The mean of each of the domain's measures over all steps of all trajectories that are finite."""
    if not domain.measures:
        return {}
    finite = np.flatnonzero(finite_rows(trajectories))
    read = select_rows(trajectories, np.random.default_rng(0).permutation(finite)[:ROWS])
    states, actions, real = np.asarray(read.states), np.asarray(read.actions), np.asarray(read.mask)
    values = {name: np.asarray(measure(states, actions), np.float64) for name, measure in domain.measures.items()}
    return {name: float(value[real].mean()) if real.any() else float("nan") for name, value in values.items()}

"""Rows of trajectories that may be NaN or infinite, which `Trajectories` itself refuses."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from ..data.trajectories import NAMES, Trajectories


def select_rows(trajectories: Trajectories, rows: Int[np.ndarray, " n"]) -> Trajectories:
    """The trajectories of these rows in memory, unchecked and without metadata."""
    return Trajectories.unchecked(*(np.asarray(getattr(trajectories, name)[rows]) for name in NAMES))


def finite_rows(trajectories: Trajectories) -> Bool[np.ndarray, " N"]:
    """True for trajectories whose states and actions are finite at all real steps."""
    numbers = np.concatenate([np.asarray(trajectories.states)[:, 1:], np.asarray(trajectories.actions)], axis=-1)
    return np.asarray((np.isfinite(numbers).all(axis=-1) | ~np.asarray(trajectories.mask)).all(axis=1))

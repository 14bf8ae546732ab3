"""The support of the demonstrations: which rollouts move, at some time, as no demonstration does there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ..data.trajectories import Trajectories
from ..models.layers import Standardizer
from .nearest import nearest_distances
from .rows import select_rows

WINDOW, STRIDE = 8, 4
LONG = 100  # steps from which windows no longer overlap, to bound how many there are
KNOWN_ROWS = 4_000  # training demonstrations that are read
HELD_OUT_ROWS = 2_000
KNOWN_WINDOWS = 20_000
ON_SUPPORT = 0.99  # the share of held-out demonstrations that is on support
LEAST_VARIANCE = 0.05  # of a direction, relative to the mean; directions with less are nearly noise
PLACE = 2.0  # the variance of the place of a window, relative to that of all its actions


class Windows(NamedTuple):
    """Windows of N trajectories: the state in the middle and all actions of each; the last one is repeated."""

    places: Float[np.ndarray, "N K S"]
    motions: Float[np.ndarray, "N K D"]
    repeated: Bool[np.ndarray, "N K"]


@dataclass(frozen=True)
class Whitening:
    """A map to uncorrelated numbers of unit variance. What demonstrations hardly do, such as jerks, counts as much."""

    standard: Standardizer
    directions: Float[np.ndarray, "D D"]

    @staticmethod
    def fit(values: Float[np.ndarray, "M D"]) -> Whitening:
        """The whitening of these values. Directions of little variance are scaled less, by `LEAST_VARIANCE`."""
        standard = Standardizer.fit(values)
        standardised = np.asarray(standard(values), np.float64)
        variances, directions = np.linalg.eigh(standardised.T @ standardised / len(values))
        least = LEAST_VARIANCE * variances.mean() or 1.0  # 1 if all values are the same
        return Whitening(standard, directions / np.sqrt(np.maximum(variances, least)))

    def __call__(self, values: Float[np.ndarray, "*batch D"]) -> Float[np.ndarray, "*batch D"]:
        return np.asarray(self.standard(values)) @ self.directions.astype(np.float32)


@dataclass(frozen=True)
class Support:
    """The support of demonstrations, as windows of some of them and a distance within which new windows belong.

    A window is the state in its middle and all its actions, both whitened. The statistic of a trajectory is the
    distance from its farthest window to the nearest training window.
    """

    window: int
    """Steps in a window."""
    place: Whitening
    motion: Whitening
    known: Float[np.ndarray, "M D"]
    """Windows of training demonstrations."""
    threshold: float
    """The statistic that 99 % of held-out demonstrations do not exceed."""
    held_out: int
    """How many held-out demonstrations were read. With fewer than 99, more than 1 % of others are expected beyond."""

    @staticmethod
    def fit(train: Trajectories, held_out: Trajectories, seed: int = 0) -> Support:
        """The support of training demonstrations, calibrated on demonstrations that were held out.

        Args:
            train: Training demonstrations; a random sample of them is read.
            held_out: Other demonstrations, from which nothing is reported later; a random sample of them is read.
            seed: Of the samples.
        """
        random = np.random.default_rng(seed)
        window = min(WINDOW, train.steps)
        rows = np.sort(random.permutation(len(train))[:KNOWN_ROWS])
        places, motions, repeated = cut_windows(select_rows(train, rows), window)
        chosen = random.permutation(np.flatnonzero(~repeated))[:KNOWN_WINDOWS]
        places, motions = (each.reshape(-1, each.shape[-1])[chosen] for each in (places, motions))
        place, motion = Whitening.fit(places), Whitening.fit(motions)
        known = _join(place, motion, places, motions)
        support = Support(window, place, motion, known, np.inf, min(len(held_out), HELD_OUT_ROWS))
        others = select_rows(held_out, np.sort(random.permutation(len(held_out))[:HELD_OUT_ROWS]))
        rank = min(len(others), int(np.ceil(ON_SUPPORT * (len(others) + 1))))
        return replace(support, threshold=float(np.sort(support.statistic(others))[rank - 1]))

    def statistic(self, trajectories: Trajectories) -> Float[np.ndarray, " N"]:
        """How far the farthest window of each trajectory is from any training window; NaN if one is not finite."""
        places, motions, _ = cut_windows(trajectories, self.window)
        features = _join(self.place, self.motion, places, motions)
        distances = nearest_distances(features.reshape(-1, features.shape[-1]), self.known)
        return distances.reshape(features.shape[:2]).max(axis=1)

    def off(self, rollouts: Trajectories) -> Bool[np.ndarray, " N"]:
        """True for rollouts that leave the support, or become NaN or infinite."""
        return ~(self.statistic(rollouts) <= self.threshold)


def cut_windows(trajectories: Trajectories, window: int) -> Windows:
    """The windows of all trajectories; the last window of a trajectory ends with it.

    In a trajectory that is shorter than a window, the last state and actions of zero fill it up.
    """
    states, actions = np.asarray(trajectories.states), np.asarray(trajectories.actions)
    lengths, steps = np.asarray(trajectories.lengths), trajectories.steps
    stride = min(window, STRIDE if steps <= LONG else WINDOW)
    wanted = stride * np.arange(1 + -(-max(0, steps - window) // stride))
    last = np.maximum(lengths - window, 0)[:, None]
    first = np.minimum(wanted, last)
    each, within = np.arange(len(states))[:, None], first[..., None] + np.arange(window)
    places = states[each, np.minimum(first + window // 2, lengths[:, None])]
    real = (within < lengths[:, None, None])[..., None]
    motions = np.where(real, actions[each[..., None], np.minimum(within, steps - 1)], 0)
    return Windows(places, motions.reshape(*first.shape, -1), wanted - stride >= last)


def _join(place: Whitening, motion: Whitening, places: np.ndarray, motions: np.ndarray) -> np.ndarray:
    """Places and motions in one space, where the place has `PLACE` times the variance of the motion."""
    weight = np.float32(np.sqrt(PLACE * motions.shape[-1] / places.shape[-1]))
    return np.concatenate([weight * place(places), motion(motions)], axis=-1)

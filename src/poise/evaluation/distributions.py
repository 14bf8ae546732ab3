"""How far the distributions of speed, turning, place and the like of rollouts are from those of demonstrations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ..data.trajectories import Trajectories
from ..domains import Domain, integrator
from .rows import select_rows

LEVELS = (np.arange(1_000) + 0.5) / 1_000
"""The quantiles that are compared."""

ROWS = 4_000  # the most trajectories that are compared


@dataclass(frozen=True)
class Distribution:
    """The distribution of one number of demonstrations: its quantiles and its deviation."""

    quantiles: Float[np.ndarray, " levels"]
    deviation: float

    @staticmethod
    def of(values: Float[np.ndarray, " count"]) -> Distribution:
        """The distribution of these values."""
        return Distribution(np.quantile(values, LEVELS), float(np.std(values)) or 1.0)

    def distance(self, values: Float[np.ndarray, " count"]) -> float:
        """The Wasserstein distance to the distribution of these values, in units of the deviation; NaN without any."""
        if not len(values):
            return float("nan")
        return float(np.abs(np.quantile(values, LEVELS) - self.quantiles).mean() / self.deviation)


@dataclass(frozen=True)
class Distributions:
    """The distributions of what demonstrations do, to compare rollouts with."""

    domain: Domain
    by_name: dict[str, Distribution]
    floor: dict[str, float]
    """The distances between two random halves of the demonstrations."""

    @staticmethod
    def fit(demonstrations: Trajectories, domain: Domain, seed: int = 0) -> Distributions:
        """The distributions of these demonstrations."""
        rows = np.random.default_rng(seed).permutation(len(demonstrations))[:ROWS]
        one, other = (_distributions(demonstrations, half, domain) for half in np.array_split(rows, 2))
        found = _distributions(demonstrations, rows, domain)
        floor = {
            name: float(np.abs(one[name].quantiles - other[name].quantiles).mean() / found[name].deviation)
            for name in found
            if name in one and name in other
        }
        return Distributions(domain, found, floor)

    def distances(self, rollouts: Trajectories) -> dict[str, float]:
        """The Wasserstein distance of each number, in units of its deviation over the demonstrations.

        Numbers that are NaN or infinite are left out.
        """
        rows = np.random.default_rng(0).permutation(len(rollouts))[:ROWS]
        values = describe(select_rows(rollouts, rows), self.domain)
        return {name: known.distance(_finite(values[name])) for name, known in self.by_name.items()}


def has_geometry(domain: Domain) -> bool:
    """Whether the two columns of the scene are a position in the plane: their speed, turning and place mean something.

    A scene with a body is drawn at a position, but the body is what moves: each number of its state is compared.
    """
    scene = domain.scene
    return (
        scene.columns[0] != scene.columns[1] and not scene.body and (domain.dynamics is integrator or bool(scene.unit))
    )


def describe(trajectories: Trajectories, domain: Domain) -> dict[str, Float[np.ndarray, " _"]]:
    """What all trajectories do at all their steps, by name.

    In the plane, these are speed, acceleration and jerk (lengths of the first three differences of the position, per
    step), turning (the signed change of direction, where there are two directions) and place. Elsewhere these are the
    numbers of the state, and the changes of the action.
    """
    states, actions = np.asarray(trajectories.states), np.asarray(trajectories.actions)
    real, lengths = np.asarray(trajectories.mask), np.asarray(trajectories.lengths)
    if not has_geometry(domain):
        numbers = {f"state {i}": states[:, 1:, i][real] for i in range(states.shape[2])}
        changes, both = np.diff(actions, axis=1), real[:, 1:]
        return numbers | {f"action change {i}": changes[..., i][both] for i in range(actions.shape[2])}
    position = states[..., list(domain.scene.columns)]
    lengths_of = {
        name: _lengths(np.diff(position, n=order, axis=1))[real[:, order - 1 :]]
        for order, name in enumerate(("speed", "acceleration", "jerk"), start=1)
        if order <= lengths.max()
    }
    place = {name: position[:, 1:, i][real] for i, name in enumerate("xy")}
    return {**lengths_of, "turning": _turns(np.diff(position, axis=1), real), **place}


def _distributions(trajectories: Trajectories, rows: Int[np.ndarray, " n"], domain: Domain) -> dict[str, Distribution]:
    described = describe(select_rows(trajectories, rows), domain)
    found = {name: _finite(values) for name, values in described.items()}
    return {name: Distribution.of(values) for name, values in found.items() if len(values)}


def _turns(moves: Float[np.ndarray, "N T 2"], real: Bool[np.ndarray, "N T"]) -> Float[np.ndarray, " _"]:
    """The changes of direction between successive moves, from -pi to pi; a pause has no direction."""
    first, second = moves[:, :-1], moves[:, 1:]
    cross = first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
    turns = np.arctan2(cross, (first * second).sum(axis=-1))
    return turns[real[:, 1:] & first.any(axis=-1) & second.any(axis=-1)]


def _lengths(vectors: Float[np.ndarray, "N T 2"]) -> Float[np.ndarray, "N T"]:
    return np.sqrt(np.square(vectors).sum(axis=-1))


def _finite(values: Float[np.ndarray, " _"]) -> Float[np.ndarray, " _"]:
    return values[np.isfinite(values)]

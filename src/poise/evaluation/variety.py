"""Variety: whether rollouts of one request differ as demonstrations do, and whether they copy demonstrations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

from ..data.trajectories import Trajectories
from ..models.layers import Standardizer, Statistics
from .nearest import nearest_distances
from .rows import finite_rows, select_rows

KNOWN_NUMBERS = 1 << 25  # of training demonstrations: 134 MB, 350,000 rows of basketball or 7,000 of the Cheetah
REQUESTS, REPEATS = 200, 8  # the most that diversity is measured on
SAMPLE = 500  # trajectories whose nearest training demonstration is looked for


@dataclass(frozen=True)
class Variety:
    """The training demonstrations that rollouts are compared with."""

    known: Trajectories
    """All training demonstrations, or a random sample of what fits into memory."""
    rows: Int[np.ndarray, " K"]
    """Their rows among the training demonstrations."""
    labels: Int[np.ndarray, "K M"] | None
    """Their labels."""
    statistics: Statistics
    start: Standardizer

    @staticmethod
    def fit(train: Trajectories, labels: Int[np.ndarray, "N M"] | None = None, seed: int = 0) -> Variety:
        """The variety of training demonstrations.

        Args:
            train: Training demonstrations, in memory or on disk.
            labels: Their labels, if rollouts are asked for labels.
            seed: Of the sample.
        """
        numbers = train.steps * (train.states.shape[-1] + train.actions.shape[-1])
        rows = np.random.default_rng(seed).permutation(len(train))[: max(1, KNOWN_NUMBERS // numbers)]
        rows = np.sort(rows)  # a disk reads faster in order
        known = select_rows(train, rows)
        fitted = Variety(known, rows, None, Statistics.of(known), Standardizer.fit(np.asarray(known.starts)))
        return fitted.with_labels(labels)

    def with_labels(self, labels: Int[np.ndarray, "N M"] | None) -> Variety:
        """The same, with other labels of all training demonstrations."""
        return replace(self, labels=None if labels is None else labels[self.rows])

    def diversity(
        self,
        rollouts: Trajectories,
        requests: Int[np.ndarray, " N"],
        labels: Int[np.ndarray, "N M"] | None = None,
    ) -> float | None:
        """How far rollouts of one request are from each other, relative to demonstrations that start nearby.

        1 is right, and 0 is one rollout that is repeated. The distance of two trajectories is the root mean square
        difference of how their standardised states move away from the start, over the steps that both have. The
        demonstrations of a request are as many as its rollouts, with the same labels where there are enough of those.

        Args:
            rollouts: Rollouts; those that are NaN or infinite are left out.
            requests: The number of the request of each rollout.
            labels: The labels that each rollout was asked for, -1 where a style was left free.

        Returns:
            The ratio of the mean distances, or None if no request has two rollouts.
        """
        finite = finite_rows(rollouts)
        numbers, counts = np.unique(requests[finite], return_counts=True)
        several = np.random.default_rng(0).permutation(numbers[counts > 1])[:REQUESTS]
        made, natural = 0.0, 0.0
        for number in several:
            rows = np.flatnonzero((requests == number) & finite)[:REPEATS]
            asked = None if labels is None else labels[rows[0]]
            near = self._nearest_starts(np.asarray(rollouts.states[rows[0], 0]), len(rows), asked)
            made += self._spread(rollouts, rows)
            natural += self._spread(self.known, near)
        return made / natural if natural > 0 else None

    def novelty(self, trajectories: Trajectories) -> float:
        """The median distance to the nearest training demonstration: about 0 where most trajectories are copies.

        It is the Euclidean distance of all actions, in units of their deviation. It is compared with that of other
        demonstrations. NaN or infinite trajectories are left out.
        """
        rows = np.random.default_rng(0).permutation(len(trajectories))[:SAMPLE]
        distances = nearest_distances(self._actions(trajectories, rows), self._actions(self.known, slice(None)))
        return float(np.median(distances[np.isfinite(distances)])) if np.isfinite(distances).any() else float("nan")

    def _nearest_starts(self, start: Float[np.ndarray, " S"], count: int, labels: np.ndarray | None) -> np.ndarray:
        """The rows of known demonstrations that start nearest, with these labels where there are enough."""
        among = np.arange(len(self.known))
        if labels is not None and self.labels is not None:
            same = np.flatnonzero(((self.labels == labels) | (labels < 0)).all(axis=1))
            among = same if len(same) >= count else among
        differences = (np.asarray(self.known.starts)[among] - start) / np.asarray(self.start.deviation)
        return among[np.argsort(np.square(differences).sum(axis=1))[:count]]

    def _spread(self, trajectories: Trajectories, rows: np.ndarray) -> float:
        """The mean distance of two of these trajectories."""
        states = np.asarray(trajectories.states[rows]) / np.asarray(self.statistics.state.deviation)
        away = states[:, 1:] - states[:, :1]  # demonstrations start near each other, not in one place
        lengths = np.asarray(trajectories.lengths[rows])
        distances = []
        for one, other in combinations(range(len(rows)), 2):
            both = min(lengths[one], lengths[other])
            distances.append(np.sqrt(np.square(away[one, :both] - away[other, :both]).mean()))
        return float(np.mean(distances)) if distances else 0.0

    def _actions(self, trajectories: Trajectories, rows: np.ndarray | slice) -> Float[np.ndarray, "n D"]:
        """The standardised actions of all steps in a row; zeros after the last step, and up to the known length."""
        actions, real = np.asarray(trajectories.actions[rows]), np.asarray(trajectories.mask[rows])[..., None]
        standard = np.where(real, np.asarray(self.statistics.action(actions)), np.float32(0))[:, : self.known.steps]
        filled = np.pad(standard, ((0, 0), (0, self.known.steps - standard.shape[1]), (0, 0)))
        return filled.reshape(len(filled), -1)

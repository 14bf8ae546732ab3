"""What a request does not say is drawn from demonstrations before a flow plans.

A style that is not asked for follows the data: it takes the label of a training demonstration that has the labels that
are asked for and starts nearby. A flow that is given all labels imitates better than one that is given few, and what it
is given here is what demonstrations do there. Where labels are graded, a style that is asked for takes that
demonstration's grade too: a whole rollout then has one aim, however often it is planned anew.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from ..styles.label_spaces import GRADES, LabelSpace
from .requests import FREE

NEARBY = 10
"""Demonstrations with the nearest starts, of which one gives its labels."""
READ = 2_000
"""Demonstrations with the asked labels whose starts are compared."""
BLOCK = 4_096
"""Requests whose distances are computed at a time."""


@dataclass(frozen=True)
class Examples:
    """Where demonstrations start, and which labels they have."""

    starts: Float[np.ndarray, "E S"]
    labels: Int[np.ndarray, "E M"]
    space: LabelSpace = field(default_factory=lambda: LabelSpace(()))
    """Of the first labels, which may be graded."""

    @functools.cached_property
    def _graded(self) -> Bool[np.ndarray, " M"]:
        """Whether each label may be graded."""
        later = self.labels.shape[1] - len(self.space.kinds)
        return np.asarray([kind.graded for kind in self.space.kinds] + [False] * later)

    @functools.cached_property
    def _classes(self) -> Int[np.ndarray, "E M"]:
        """The labels without grades."""
        count = len(self.space.kinds)
        return np.concatenate([self.space.classes_of(self.labels[:, :count]), self.labels[:, count:]], axis=1)

    def fill(
        self,
        starts: Float[np.ndarray, "N S"] | None,
        labels: Int[np.ndarray, "N M"],
        random: np.random.Generator,
        margin: float = 0.0,
    ) -> Int[np.ndarray, "N M"]:
        """The labels, with what they do not say drawn from demonstrations with these classes and a start nearby.

        Where no demonstration has all the classes that are asked for, the others stay free, and each grade is drawn
        from demonstrations with that class alone.

        Args:
            starts: Where rollouts start; without them, all demonstrations are nearby.
            labels: What is asked for.
            random: Draws among the nearest.
            margin: The share of all demonstrations, on each side of a threshold, whose grades are not taken.
        """
        rows = np.flatnonzero(((labels == FREE) | self._graded).any(axis=1))
        filled, scale = np.array(labels), np.maximum(self.starts.std(axis=0), 1e-12)
        asked, which = np.unique(labels[rows], axis=0, return_inverse=True)
        for number, wanted in enumerate(asked):
            mine = rows[which.ravel() == number]
            clear = self._clear(wanted, margin)
            for columns, match in self._drawn_from(wanted):
                match = random.permutation(match[clear[match]] if clear[match].any() else match)[:READ]
                known = self.starts[match] / scale
                for first in range(0, len(mine), BLOCK):
                    block = mine[first : first + BLOCK]
                    points = np.tile(known[:1], (len(block), 1)) if starts is None else starts[block] / scale
                    taken = match[_draw_nearby(points, known, random, NEARBY if starts is not None else len(known))]
                    filled[np.ix_(block, columns)] = self.labels[np.ix_(taken, columns)]
        return filled

    def _clear(self, wanted: Int[np.ndarray, " M"], margin: float) -> Bool[np.ndarray, " E"]:
        """Whether the grades of each demonstration are not beside a threshold of the classes that are asked for."""
        clear = np.ones(len(self.labels), bool)
        for i in np.flatnonzero(self._graded & (wanted != FREE)) if margin else ():
            kind, grades = self.space.kinds[i], self.labels[:, i] // self.space.kinds[i].size - 1
            shown = grades[(self._classes[:, i] == wanted[i]) & (grades >= 0)]
            if not len(shown):
                continue
            beside = min(round(margin * GRADES), (shown.max() - shown.min()) // 4)
            clear &= (wanted[i] == 0) | (grades >= shown.min() + beside)
            clear &= (wanted[i] == kind.size - 1) | (grades <= shown.max() - beside)
        return clear

    def _drawn_from(self, wanted: Int[np.ndarray, " M"]) -> list[tuple[np.ndarray, np.ndarray]]:
        """The columns that are drawn together, and the demonstrations that they are drawn from."""
        has, is_open = (self._classes == wanted) | (wanted == FREE), (wanted == FREE) | self._graded
        if has.all(axis=1).any():
            return [(np.flatnonzero(is_open), np.flatnonzero(has.all(axis=1)))]
        alone = np.flatnonzero(self._graded & (wanted != FREE) & has.any(axis=0))
        return [(np.asarray([i]), np.flatnonzero(has[:, i])) for i in alone]


def _draw_nearby(
    points: Float[np.ndarray, "N S"], known: Float[np.ndarray, "E S"], random: np.random.Generator, nearby: int
) -> Int[np.ndarray, " N"]:
    """For each point one of so many nearest known points, at random."""
    nearby = min(nearby, len(known))
    distances = np.square(known).sum(axis=1) - 2 * points @ known.T
    nearest = np.argpartition(distances, nearby - 1, axis=1)[:, :nearby]
    return nearest[np.arange(len(points)), random.integers(nearby, size=len(points))]

"""Free styles: the labels that a request leaves free are drawn from demonstrations before a flow plans.

A style that is not asked for follows the data: it takes the labels of a training demonstration that has the labels that
are asked for and starts nearby. A flow that is given all labels imitates better than one that is given few, and what it
is given here is what demonstrations do there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

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

    def fill(
        self, starts: Float[np.ndarray, "N S"], labels: Int[np.ndarray, "N M"], random: np.random.Generator
    ) -> Int[np.ndarray, "N M"]:
        """The labels, with those that are free drawn from demonstrations with the others and a start nearby.

        They stay free where no demonstration has the labels that are asked for.
        """
        rows = np.flatnonzero((labels == FREE).any(axis=1))
        filled, scale = np.array(labels), np.maximum(self.starts.std(axis=0), 1e-12)
        asked, which = np.unique(labels[rows], axis=0, return_inverse=True)
        for number, wanted in enumerate(asked):
            match = np.flatnonzero(((self.labels == wanted) | (wanted == FREE)).all(axis=1))
            if not len(match):
                continue
            match = random.permutation(match)[:READ]
            mine, known = rows[which.ravel() == number], self.starts[match] / scale
            for first in range(0, len(mine), BLOCK):
                block = mine[first : first + BLOCK]
                taken = match[_draw_nearby(starts[block] / scale, known, random)]
                filled[block] = np.where(wanted == FREE, self.labels[taken], wanted)
        return filled


def _draw_nearby(
    points: Float[np.ndarray, "N S"], known: Float[np.ndarray, "E S"], random: np.random.Generator
) -> Int[np.ndarray, " N"]:
    """For each point one of the nearest known points, at random."""
    nearby = min(NEARBY, len(known))
    distances = np.square(known).sum(axis=1) - 2 * points @ known.T
    nearest = np.argpartition(distances, nearby - 1, axis=1)[:, :nearby]
    return nearest[np.arange(len(points)), random.integers(nearby, size=len(points))]

"""What the tests of figures share: rollouts, scores and scenes made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from poise import Trajectories, labeling_function
from poise.domains.base import Scene
from poise.evaluation.scored import ScoredRollouts

SQUARE = Scene(outlines=(((0, 0), (9, 0), (9, 9), (0, 9), (0, 0)),), limits=(0, 9, 0, 9), unit="m")


@labeling_function(classes=("low", "middle", "high"), unit="m/s")
def pace(states, actions):
    return abs(actions).mean()


def scored_walks(count: int = 4, right: int = 2, size: int = 2, lengths: Any = None) -> ScoredRollouts:
    """Random walks, of which the first `right` show what they were asked for."""
    states = np.random.default_rng(0).normal(size=(count, 11, size)).cumsum(axis=1)
    is_right = (np.arange(count) < right)[:, None]
    finite, scored = np.ones(count, bool), np.ones((count, 1), bool)
    return ScoredRollouts(Trajectories(states, lengths=lengths), is_right, finite, scored)


def line_collections(axes: Axes) -> list[LineCollection]:
    return [one for one in axes.collections if isinstance(one, LineCollection)]


def titles(figure: Any) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def hopping(steps: int = 41) -> np.ndarray:
    """The states of a pole that hops to the right."""
    states = np.zeros((steps, 2), np.float32)
    states[:, 0], states[:, 1] = np.arange(steps) / 10, np.abs(np.sin(np.arange(steps)))
    return states


def pole(states):
    return np.stack([states, states + np.array([0.2, 1.0])], axis=-2)[..., None, :, :]


POLE = Scene(unit="m", hertz=10, body=pole)

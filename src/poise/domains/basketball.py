"""Basketball: one offensive player on the half court, 8 s at 3 Hz, in feet; next position = position + action.

The demonstrations are simulated (`basketball_simulator`), so that everything works without a download. Real tracking
data are given by path and use the same styles, units and presets: `poise train --data games.npz --domain basketball`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from ..data.trajectories import Array, Trajectories
from ..styles.labeling_functions import labeling_function
from .base import Domain, Scene, integrator
from .basketball_simulator import HZ, RIM, simulate_possessions

LENGTH, WIDTH = 94.0, 50.0  # of the whole court; the offense plays in x < 47


def length(vectors: Array) -> Array:
    """The Euclidean length of vectors, with gradient zero (not NaN) where a vector is zero."""
    squared = jnp.sum(jnp.square(vectors), axis=-1)
    still = squared == 0
    return jnp.where(still, 0.0, jnp.sqrt(jnp.where(still, 1.0, squared)))


def angle(vectors: Array) -> Array:
    """The direction of vectors in radians, with value and gradient zero where a vector is zero."""
    x, y = vectors[..., 0], vectors[..., 1]
    still = (x == 0) & (y == 0)
    return jnp.where(still, 0.0, jnp.arctan2(jnp.where(still, 0.0, y), jnp.where(still, 1.0, x)))


@labeling_function(classes=("slow", "medium", "fast"), unit="ft/s")
def speed(states, actions):
    """Mean speed."""
    return HZ * length(actions).mean()


@labeling_function(classes=("short", "medium", "long"), unit="ft")
def displacement(states, actions):
    """Distance from the first to the last position."""
    return length(states[-1] - states[0])


@labeling_function(classes=("near", "middle", "far"), unit="ft")
def destination(states, actions):
    """Distance of the last position from the rim."""
    return length(states[-1] - jnp.asarray(RIM))


@labeling_function(classes=("left", "back", "right"), unit="rad", wraps=(-np.pi, np.pi))
def direction(states, actions):
    """Mean direction of travel: 0 away from the baseline, positive to the right of a player who faces the rim.

    A player who ends where they began has direction 0.
    """
    return angle(actions.mean(axis=0))


@labeling_function(classes=("straight", "medium", "winding"), unit="rad")
def curvature(states, actions):
    """Mean absolute change of direction from one step to the next; a pause is not a turn."""
    heading, moving = angle(actions), jnp.any(actions != 0, axis=-1)
    turn = jnp.abs(jnp.mod(heading[1:] - heading[:-1] + jnp.pi, 2 * jnp.pi) - jnp.pi)
    turn = jnp.where(moving[1:] & moving[:-1], turn, 0.0)
    return turn.sum() / max(len(turn), 1)


def demonstrations(count: int, seed: int) -> Trajectories:
    """Simulated possessions, each of one player."""
    return Trajectories(simulate_possessions(count, seed))


def _arc(
    centre: Sequence[float] | np.ndarray, radius: float, start: float, stop: float
) -> tuple[tuple[float, float], ...]:
    turns = np.linspace(start, stop, 60)
    return tuple((float(centre[0] + radius * np.cos(t)), float(centre[1] + radius * np.sin(t))) for t in turns)


_CORNER = float(np.arcsin(22.0 / 23.75))  # where the three-point arc meets the corner lines

HALF_COURT = Scene(
    outlines=(
        ((0, 0), (47, 0), (47, 50), (0, 50), (0, 0)),
        ((0, 17), (19, 17), (19, 33), (0, 33)),
        ((0, 3), (14, 3)),
        ((0, 47), (14, 47)),
        ((4, 22), (4, 28)),
        _arc((19, 25), 6, -np.pi / 2, np.pi / 2),
        _arc(RIM, 0.75, 0, 2 * np.pi),
        _arc(RIM, 23.75, -_CORNER, _CORNER),
        _arc((47, 25), 6, np.pi / 2, 3 * np.pi / 2),
    ),
    limits=(-1, 48, -1, 51),
    unit="ft",
    hertz=HZ,
)

BASKETBALL = Domain(
    name="basketball",
    demonstrations=demonstrations,
    count=20_000,
    dynamics=integrator,
    sizes=(2, 2),
    styles={
        style.name: replace(style, source=style.name)
        for style in (speed, displacement, destination, direction, curvature)
    },
    default_styles=("speed", "destination"),
    presets=("basketball", "small"),
    units=(LENGTH, WIDTH),
    units_text="x over 94 ft, y over 50 ft",
    scene=HALF_COURT,
)

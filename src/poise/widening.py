"""Widening: perturbed copies of demonstrations for the labeler to learn from, labelled by the true functions.

A labeler that knows demonstrations alone guesses wherever a policy leaves them, and the policy learns to go where it
guesses wrong (a player far off the court "near the basket"). But a labeling function is a program: it labels
anything. So the labeler also sees every demonstration once more with its actions stretched, tilted and shaken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .domains import Domain
from .labeling import LabelingFunction, classify_all, score_all
from .trajectories import NAMES, Array, Trajectories, Transition

# In units of the actions' deviation (stretch: of the logarithm of their size). Chosen on simulated basketball.
STRETCH, TILT, SHAKE = 0.4, 0.6, 0.5
INERTIA = 0.7  # how much of a shake is left one step later


def widen(demonstrations: Trajectories, domain: Domain, amount: float = 1.0, seed: int = 0) -> Trajectories:
    """Each demonstration once more, perturbed: from the same start, through the domain's dynamics where known.

    Where they are not known, the changes of state are perturbed as well: no longer quite possible, but labelled.
    """
    random = np.random.default_rng(seed)
    states, actions = np.asarray(demonstrations.states), np.asarray(demonstrations.actions)
    real = np.asarray(demonstrations.mask)
    actions = _perturb(actions, actions[real].std(axis=0), amount, random)
    dynamics = domain.dynamics
    if dynamics is None:
        changes = np.diff(states, axis=1)
        changes = _perturb(changes, changes[real].std(axis=0), amount, random)
        states = np.concatenate([states[:, :1], states[:, :1] + changes.cumsum(axis=1)], axis=1)
        return Trajectories(states, actions, demonstrations.lengths)

    made = _follow(dynamics, jnp.asarray(states[:, 0]), jnp.asarray(actions))
    return Trajectories(np.concatenate([states[:, :1], made], axis=1), actions, demonstrations.lengths)


def widened(
    demonstrations: Trajectories,
    labels: Int[np.ndarray, "sets N M"],
    domain: Domain,
    label: Callable[[Trajectories], Int[np.ndarray, "sets N M"]],
    amount: float,
    seed: int = 0,
) -> tuple[Trajectories, Int[np.ndarray, "sets two_N M"]]:
    """The demonstrations and then their perturbed copies, all labelled, once for each set of styles.

    A copy that a labeling function cannot cope with has the label -1 there, from which nothing is learned.
    """
    copies = widen(demonstrations, domain, amount, seed)
    both = (np.concatenate([getattr(demonstrations, k), getattr(copies, k)]) for k in NAMES)
    return Trajectories.trusted(*both), np.concatenate([labels, label(copies)], axis=1)


def label_sets(
    sets: Sequence[Sequence[LabelingFunction]], copies: Trajectories, noise: Sequence[Sequence[float]] | None = None
) -> list[Int[np.ndarray, "N M"]]:
    """The labels of copies for each set of styles; a function that several sets share scores them once."""
    once = {style.score: style for styles in sets for style in styles}
    scores = dict(zip(once, score_all(list(once.values()), copies, strict=False), strict=True))
    return [
        classify_all(styles, np.stack([scores[style.score] for style in styles]), own)
        for styles, own in zip(sets, noise or [()] * len(sets), strict=True)
    ]


@eqx.filter_jit
def _follow(dynamics: Transition, starts: Float[Array, "N S"], actions: Float[Array, "N T A"]) -> Float[Array, "N T S"]:
    """The states that actions lead to."""

    def step(state, action):
        following = dynamics(state, action)
        return following, following

    return jax.lax.scan(step, starts, actions.swapaxes(0, 1))[1].swapaxes(0, 1)


def _perturb(
    values: Float[np.ndarray, "N T size"],
    deviation: Float[np.ndarray, " size"],
    amount: float,
    random: np.random.Generator,
) -> Float[np.ndarray, "N T size"]:
    count, steps, size = values.shape

    def draw(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    shake, shakes = draw(count, size), []
    for _ in range(steps):
        shakes.append(shake)
        shake = INERTIA * shake + np.sqrt(1 - INERTIA**2) * draw(count, size)
    stretched = values * np.exp(amount * STRETCH * draw(count, 1, 1))
    tilted = stretched + amount * TILT * deviation * draw(count, 1, size)
    shaken = tilted + amount * SHAKE * deviation * np.stack(shakes, axis=1) * random.random((count, 1, 1))
    return shaken.astype(np.float32)

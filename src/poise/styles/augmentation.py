"""Augmentation: perturbed copies of demonstrations for the labeler, labelled by the true labeling functions.

A labeler that is trained on demonstrations alone is arbitrary everywhere else, and a policy learns to go where the
labeler errs (a player far off the court is classified as near the basket). A labeling function can label any
trajectory, so the labeler is also trained on a copy of every demonstration whose actions are scaled, shifted and
perturbed by noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ..data.trajectories import NAMES, Array, Trajectories, Transition
from .labeling_functions import LabelingFunction
from .scoring import classify_all, score_all

# In units of the actions' deviation; SCALING is the deviation of a factor's logarithm. Chosen on simulated basketball.
SCALING, SHIFT, NOISE = 0.4, 0.6, 0.5
CORRELATION = 0.7  # between the noise of one step and of the next


def augment(
    demonstrations: Trajectories, dynamics: Transition | None, amount: float = 1.0, seed: int = 0
) -> Trajectories:
    """A perturbed copy of each demonstration, from the same start.

    Args:
        demonstrations: What is copied.
        dynamics: Known dynamics, which lead from the perturbed actions to states. Where there are none, the changes of
            state are perturbed as well; such copies are only roughly possible.
        amount: The size of all perturbations; 0 copies the demonstrations as they are.
        seed: Seed of the perturbations.
    """
    random = np.random.default_rng(seed)
    states, actions = np.asarray(demonstrations.states), np.asarray(demonstrations.actions)
    real = np.asarray(demonstrations.mask)
    actions = _perturb(actions, actions[real].std(axis=0), amount, random)
    if dynamics is None:
        changes = np.diff(states, axis=1)
        changes = _perturb(changes, changes[real].std(axis=0), amount, random)
        states = np.concatenate([states[:, :1], states[:, :1] + changes.cumsum(axis=1)], axis=1)
        return Trajectories(states, actions, demonstrations.lengths)
    following = _follow(dynamics, jnp.asarray(states[:, 0]), jnp.asarray(actions))
    return Trajectories(np.concatenate([states[:, :1], following], axis=1), actions, demonstrations.lengths)


def augment_and_label(
    demonstrations: Trajectories,
    labels: Int[np.ndarray, "sets N M"],
    dynamics: Transition | None,
    label: Callable[[Trajectories], Int[np.ndarray, "sets N M"]],
    amount: float,
    seed: int = 0,
) -> tuple[Trajectories, Int[np.ndarray, "sets two_N M"]]:
    """The demonstrations followed by their perturbed copies, and the labels of both for each set of styles.

    A copy that a labeling function cannot score has the label -1, which has no loss.

    Args:
        demonstrations: What is copied.
        labels: Their labels.
        dynamics: Known dynamics, if any.
        label: Returns the labels of the copies.
        amount: The size of all perturbations.
        seed: Seed of the perturbations.
    """
    copies = augment(demonstrations, dynamics, amount, seed)
    both = (np.concatenate([getattr(demonstrations, k), getattr(copies, k)]) for k in NAMES)
    return Trajectories.unchecked(*both), np.concatenate([labels, label(copies)], axis=1)


def label_sets(
    sets: Sequence[Sequence[LabelingFunction]], copies: Trajectories, noise: Sequence[Sequence[float]] | None = None
) -> list[Int[np.ndarray, "N M"]]:
    """The labels of copies for each set of styles, with noise on the scores; shared functions score the copies once."""
    once = {id(style.score): style for styles in sets for style in styles}  # some functions cannot be hashed
    scores = dict(zip(once, score_all(list(once.values()), copies, strict=False), strict=True))
    return [
        classify_all(styles, np.stack([scores[id(style.score)] for style in styles]), own)
        for styles, own in zip(sets, noise or [()] * len(sets), strict=True)
    ]


@eqx.filter_jit
def _follow(dynamics: Transition, starts: Float[Array, "N S"], actions: Float[Array, "N T A"]) -> Float[Array, "N T S"]:
    """The states that actions lead to, without the starts."""

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
    """The values of each trajectory times a random factor, plus a random shift and noise that is correlated in time."""
    count, steps, size = values.shape

    def draw(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    noise, noises = draw(count, size), []
    for _ in range(steps):
        noises.append(noise)
        noise = CORRELATION * noise + np.sqrt(1 - CORRELATION**2) * draw(count, size)
    scaled = values * np.exp(amount * SCALING * draw(count, 1, 1))
    shifted = scaled + amount * SHIFT * deviation * draw(count, 1, size)
    perturbed = shifted + amount * NOISE * deviation * np.stack(noises, axis=1) * random.random((count, 1, 1))
    return perturbed.astype(np.float32)

"""Widening: perturbed copies of demonstrations for the labeler to learn from, labelled by the true functions.

A labeler that knows demonstrations alone guesses wherever a policy leaves them, and the policy learns to go where it
guesses wrong (a player far off the court "near the basket"). But a labeling function is a program: it labels
anything. So the labeler also sees every demonstration once more with its actions stretched, tilted and shaken.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .domains import Domain
from .labeling import LabelingFunction, label_all
from .trajectories import Trajectories

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

    def step(state, action):
        following = dynamics(state, action)
        return following, following

    _, made = jax.lax.scan(step, jnp.asarray(states[:, 0]), jnp.asarray(actions).swapaxes(0, 1))
    states = np.concatenate([states[:, :1], np.asarray(made).swapaxes(0, 1)], axis=1)
    return Trajectories(states, actions, demonstrations.lengths)


def widened(
    demonstrations: Trajectories,
    labels: Int[np.ndarray, "N M"],
    domain: Domain,
    styles: Sequence[LabelingFunction],
    amount: float,
) -> tuple[Trajectories, Int[np.ndarray, "K M"]]:
    """The demonstrations and their perturbed copies, all labelled; without copies if `amount` is 0.

    A copy that a labeling function cannot cope with is left out.
    """
    if not amount:
        return demonstrations, labels
    copies = widen(demonstrations, domain, amount)
    copied = label_all(styles, copies, strict=False)
    good = np.flatnonzero((copied >= 0).all(axis=1))
    pairs = [(getattr(demonstrations, k), getattr(copies, k)[good]) for k in ("states", "actions", "lengths")]
    both = Trajectories(*(np.concatenate([np.asarray(x) for x in pair]) for pair in pairs))
    return both, np.concatenate([labels, copied[good]])


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

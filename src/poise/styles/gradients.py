"""Gradients of labeling functions: which scores can be followed, and which jump or cannot be traced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ..data.trajectories import Array, Trajectories
from . import traced
from .labeling_functions import LabelingFunction
from .traced import Score

ROWS = 256  # demonstrations that a gradient is tried on
STEP = 0.25  # the change that is tried, in deviations of the score
CLOSE = 0.5  # how near to that the score must come
MOST = 0.7  # share of demonstrations on which it must


def try_gradients(styles: Sequence[LabelingFunction], demonstrations: Trajectories) -> tuple[LabelingFunction, ...]:
    """The styles, each knowing whether the gradient of its score is useful; known answers are kept."""
    unknown = [style for style in styles if style.gradient is None]
    if not unknown:
        return tuple(styles)
    found = iter(useful_gradients([style.score for style in unknown], demonstrations))
    return tuple(style if style.gradient is not None else replace(style, gradient=next(found)) for style in styles)


def can_follow(score: Score, *shapes: tuple[int, int]) -> bool:
    """Whether JAX can trace a score for states and actions of these shapes: a trajectory may be too short for it."""
    return traced.outline(score, *shapes) is not NotImplemented


def useful_gradients(scores: Sequence[Score], demonstrations: Trajectories) -> list[bool]:
    """Whether a step along the gradient of each score changes the score as the gradient says.

    It does not for a function that JAX cannot trace, for counts, whose gradient is zero, or for a score that jumps. The
    actions are changed, and with them the states as if next state = state + action.
    """
    lengths = np.asarray(demonstrations.lengths)
    length = int(np.bincount(lengths).argmax())
    chosen = demonstrations[np.flatnonzero(lengths == length)[:ROWS]]
    states, actions = np.asarray(chosen.states)[:, : length + 1], np.asarray(chosen.actions)[:, :length]
    can_trace = [traced.is_traced(score, states, actions) for score in scores]
    found = tuple(score for score, can in zip(scores, can_trace, strict=True) if can)
    useful = iter(_follow(found, states, actions) if found else ())
    return [can and bool(next(useful)) for can in can_trace]


def _follow(scores: tuple[Score, ...], states: np.ndarray, actions: np.ndarray) -> Bool[np.ndarray, " K"]:
    """For each score, whether enough demonstrations agree with its gradient."""
    before, gains = (np.asarray(x) for x in _try_steps(scores)(jnp.asarray(states), jnp.asarray(actions)))
    deviation = np.maximum(before.std(axis=1, keepdims=True), 1e-12)
    agrees = np.abs(gains / (STEP * deviation) - 1) < CLOSE
    return agrees.mean(axis=1) > MOST


@traced.remember
def _try_steps(scores: tuple[Score, ...]):
    """A program (states, actions) -> the scores [K, N], and by how much each grows along its gradient."""

    def leads_to(states: Array, actions: Array, change: Array) -> Array:
        if states.shape[-1] != actions.shape[-1]:
            return states
        return states + jnp.concatenate([jnp.zeros((1, actions.shape[-1])), jnp.cumsum(change, axis=0)])

    def one(score: Score, states: Float[Array, "N T1 S"], actions: Float[Array, "N T A"]):
        def value(change, states, actions):
            return jnp.asarray(score(leads_to(states, actions, change), actions + change), jnp.float32)

        zero = jnp.zeros(actions.shape[1:])
        found, slope = jax.vmap(jax.value_and_grad(value), (None, 0, 0))(zero, states, actions)
        wanted = STEP * jnp.std(found)
        length = wanted / jnp.maximum(jnp.sum(slope**2, axis=(1, 2), keepdims=True), 1e-20)
        return found, jax.vmap(value)(length * slope, states, actions) - found

    def all_scores(states, actions):
        found, gains = zip(*(one(score, states, actions) for score in scores), strict=True)
        return jnp.stack(found), jnp.stack(gains)

    return jax.jit(all_scores)

"""Rollouts of policies in training, made in the real environment: what their dynamics are refined on."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Key, Shaped

from .trajectories import Array, Trajectories, Transition


def collect(
    policies: Any,
    environment: Transition,
    demonstrations: Trajectories,
    labels: Shaped[np.ndarray, "sets N M"],
    sets: Int[np.ndarray, " runs"],
    count: int,
    keys: Key[Array, " runs"],
) -> tuple[Trajectories, np.ndarray]:
    """So many rollouts of the policy of each run, and the labels that were asked for, with the runs as first axis.

    They start where demonstrations start, with their labels in the run's set of labels. A rollout that leaves the
    finite numbers is replaced by its demonstration.
    """
    rows = np.asarray(jax.vmap(lambda key: jax.random.randint(key, (count,), 0, len(demonstrations)))(keys))
    shown, wanted, steps = demonstrations[rows.ravel()], labels[sets[:, None], rows], demonstrations.steps
    states, actions = (np.asarray(x).reshape(*rows.shape, *x.shape[1:]) for x in (shown.states, shown.actions))
    prepare = eqx.filter_vmap(lambda policy, labels, key: _prepare(policy, labels, key, steps))
    contexts, memory, noise = prepare(policies, jnp.asarray(wanted), keys)
    now: np.ndarray = states[:, :, 0]
    made: list[tuple[np.ndarray, np.ndarray]] = []
    for step in range(steps):
        action, memory = _act(policies, contexts, memory, jnp.asarray(now), noise[:, step])
        action, flat = np.asarray(action), now.reshape(-1, now.shape[-1])
        now = np.asarray(environment(flat, action.reshape(len(flat), -1)), np.float32).reshape(now.shape)
        made.append((now, action))
    new_states = np.stack([states[:, :, 0], *(state for state, _ in made)], axis=2)
    new_actions = np.stack([action for _, action in made], axis=2)
    fine = np.asarray(np.isfinite(new_states).all(axis=(2, 3)) & np.isfinite(new_actions).all(axis=(2, 3)))
    states = np.where(fine[..., None, None], new_states, states)
    actions = np.where(fine[..., None, None], new_actions, actions)
    lengths = np.where(fine, steps, np.asarray(shown.lengths).reshape(rows.shape)).astype(np.int32)
    return Trajectories.trusted(states, actions, lengths), wanted


def _prepare(policy: Any, labels: Array, key: Array, steps: int) -> tuple[Any, Any, Array]:
    """The context, the first memory and all noise of a run's rollouts."""
    key_context, key_noise = jax.random.split(key)
    noise = jax.random.normal(key_noise, (steps, len(labels), policy.noise))
    return policy.context(labels, key_context), policy.memory(len(labels)), noise


@eqx.filter_jit
@eqx.filter_vmap
def _act(policy: Any, context: Any, memory: Any, state: Array, noise: Array) -> tuple[Array, Any]:
    return policy.step(context, memory, state, noise)

"""Rollouts: `imagine` through a dynamics part, with gradients; `simulate` in the real environment. Both call `step`."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray, Shaped

from .domains import base
from .errors import PoiseError
from .models import Dynamics, KnownDynamics, Policy
from .trajectories import Array, Trajectories


def imagine(
    policy: Policy,
    dynamics: Dynamics,
    starts: Float[Array, "batch S"],
    labels: Shaped[Array, "batch M"],
    lengths: Int[Array, " batch"],
    steps: int,
    *,
    key: PRNGKeyArray,
) -> Trajectories:
    """Rollouts of the policy through a dynamics part, as one traced scan through which gradients flow."""
    context, memory = policy.context(labels, jax.random.fold_in(key, steps)), policy.memory(len(starts))

    def step(now, t):
        state, memory = now
        key_action, key_state = jax.random.split(jax.random.fold_in(key, t))
        action, memory = policy.step(context, memory, state, key_action)
        following = dynamics.step(state, action, key_state)
        return (following, memory), (following, action)

    _, (states, actions) = jax.lax.scan(step, (starts, memory), jnp.arange(steps))
    states = jnp.concatenate([starts[None], states])
    return Trajectories.trusted(jnp.swapaxes(states, 0, 1), jnp.swapaxes(actions, 0, 1), jnp.asarray(lengths))


_imagine = eqx.filter_jit(imagine)
_context = eqx.filter_jit(lambda policy, labels, key: policy.context(labels, key))


@eqx.filter_jit
def _act(policy: Policy, context, memory, state, key):
    return policy.step(context, memory, state, jax.random.split(key)[0])


def simulate(
    policy: Policy,
    environment: Dynamics | base.Transition,
    starts: Float[Array, "batch S"],
    labels: Shaped[Array, "batch M"],
    lengths: Int[Array, " batch"],
    steps: int,
    *,
    key: PRNGKeyArray,
) -> Trajectories:
    """Rollouts of the policy in an environment: one program where JAX can trace it, else step by step on the host."""
    labels, lengths, starts = jnp.asarray(labels), jnp.asarray(lengths), jnp.asarray(starts)
    if not callable(environment):
        return _imagine(policy, environment, starts, labels, lengths, steps, key=key)
    actions = _act(policy, _context(policy, labels, key), policy.memory(len(starts)), starts, key)[0]
    if base.is_traced(environment, starts.shape[-1], actions.shape[-1]):
        return _imagine(policy, KnownDynamics(environment), starts, labels, lengths, steps, key=key)
    return _step_by_step(policy, environment, starts, labels, lengths, steps, key)


def _step_by_step(policy, environment, starts, labels, lengths, steps, key) -> Trajectories:
    context, memory = _context(policy, labels, jax.random.fold_in(key, steps)), policy.memory(len(starts))
    states, actions = [np.asarray(starts)], []
    for t in range(steps):
        action, memory = _act(policy, context, memory, states[-1], jax.random.fold_in(key, t))
        actions.append(np.asarray(action))
        following = np.asarray(environment(states[-1], actions[-1]), np.float32)
        if following.shape != starts.shape:
            raise PoiseError(
                f"the environment must return states of shape {list(starts.shape)}; got {list(following.shape)}"
            )
        states.append(following)
    return Trajectories.trusted(jnp.stack(states, axis=1), jnp.stack(actions, axis=1), lengths)

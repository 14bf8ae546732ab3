"""Rollouts: `imagine` through a dynamics part, with gradients; `simulate` in the real environment. Both call `step`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray, Shaped

from .domains import base
from .errors import PoiseError
from .models import RNN, TVAE, Dynamics, KnownDynamics, Policy, rollout_kernel
from .models.loops import loop
from .trajectories import Array, Trajectories, Transition


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
    """Rollouts of the policy through a dynamics part, as one traced loop through which gradients flow."""
    key_context, key_noise = jax.random.split(key)
    noise = jax.random.normal(key_noise, (steps, len(starts), policy.noise + dynamics.noise))
    context = policy.context(labels, key_context)
    if _has_kernel(policy, dynamics):
        states, actions = rollout_kernel.roll(policy.decoder, context, starts, noise)
    else:
        carry = starts, policy.memory(len(starts))
        (states, _), actions = loop(_imagine_step, (policy, context, dynamics), carry, noise)
    states = jnp.concatenate([starts[None], states])
    return Trajectories.trusted(jnp.swapaxes(states, 0, 1), jnp.swapaxes(actions, 0, 1), jnp.asarray(lengths))


def _has_kernel(policy: Policy, dynamics: Dynamics) -> TypeGuard[TVAE | RNN]:
    """Whether these rollouts are one kernel of a GPU."""
    adds = isinstance(dynamics, KnownDynamics) and dynamics.transition is base.integrator
    return adds and isinstance(policy, TVAE | RNN) and rollout_kernel.fits(policy.decoder)


def _imagine_step(given: tuple[Policy, Any, Dynamics], now: tuple[Array, Any], noise: Array):
    (policy, context, dynamics), (state, memory) = given, now
    if dynamics.fading < 1:
        state = dynamics.fading * state + jax.lax.stop_gradient((1 - dynamics.fading) * state)
    action, memory = policy.step(context, memory, state, noise[:, : policy.noise])
    following = dynamics.step(state, action, noise[:, policy.noise :])
    return (following, memory), action


_imagine = eqx.filter_jit(imagine)
context_of = eqx.filter_jit(lambda policy, labels, key: policy.context(labels, key))

PIECE = 4_096
"""Rollouts that one program makes at a time: enough to fill a GPU, and a bound on memory."""


def environment_of(domain: base.Domain, parts: Mapping[str, Any]) -> Dynamics | Transition:
    """Where trained parts are rolled out: in what is known of their domain, in the dynamics part if nothing is."""
    return domain.environment or domain.dynamics or parts["dynamics"]


def simulate(
    policy: Policy,
    environment: Dynamics | Transition,
    starts: Float[Array, "batch S"],
    labels: Shaped[Array, "batch M"],
    lengths: Int[Array, " batch"],
    steps: int,
    *,
    key: PRNGKeyArray,
) -> Trajectories:
    """Rollouts of the policy in an environment, on the host: one program where JAX can trace it, else step by step.

    A program makes a power of two of rollouts, at most `PIECE`, and what is too many is dropped, so that few programs
    serve every count. The noise belongs to the program: other counts give other rollouts.
    """
    starts, labels, lengths = np.asarray(starts), np.asarray(labels), np.asarray(lengths)
    if callable(environment):
        if not isinstance(environment, Hashable) or not _is_traced(
            policy, environment, jnp.asarray(starts[:1]), jnp.asarray(labels[:1])
        ):
            return _step_by_step(policy, environment, starts, labels, lengths, steps, key)
        environment = KnownDynamics(environment)
    firsts, made = range(0, len(starts), PIECE), []
    keys = jax.random.split(key, len(firsts)) if len(firsts) > 1 else [key]
    for first, own in zip(firsts, keys, strict=True):
        count = min(PIECE, len(starts) - first)
        rows = first + np.minimum(np.arange(1 << (count - 1).bit_length()), count - 1)
        given = [jnp.asarray(x[rows]) for x in (starts, labels, lengths)]
        piece = _imagine(policy, environment, given[0], given[1], given[2], steps, key=own)
        made.append([np.asarray(x)[:count] for x in (piece.states, piece.actions)])
    states, actions = (each[0] if len(each) == 1 else np.concatenate(each) for each in zip(*made, strict=True))
    return Trajectories.trusted(states, actions, lengths)


@eqx.filter_jit
def _is_traced(policy: Policy, environment: Transition, start: Array, label: Array) -> bool:
    """Whether JAX can trace an environment; a program without numbers, so that JAX remembers the answer."""
    context, noise = policy.context(label, jax.random.key(0)), jnp.zeros((1, policy.noise))
    action, _ = policy.step(context, policy.memory(1), start, noise)
    return base.is_traced(environment, start.shape[-1], action.shape[-1])


def _step_by_step(policy, environment, starts, labels, lengths, steps, key) -> Trajectories:
    key_context, key_noise = jax.random.split(key)
    noise = np.asarray(jax.random.normal(key_noise, (steps, len(starts), policy.noise)))
    act = compile_step(policy, context_of(policy, jnp.asarray(labels), key_context))
    states, actions, memory = [starts], [], policy.memory(len(starts))
    for now in noise:
        action, memory = act(memory, states[-1], now)
        actions.append(np.asarray(action))
        following = np.asarray(environment(states[-1], actions[-1]), np.float32)
        if following.shape != starts.shape:
            raise PoiseError(
                f"the environment must return states of shape {list(starts.shape)}; got {list(following.shape)}"
            )
        states.append(following)
    return Trajectories.trusted(np.stack(states, axis=1), np.stack(actions, axis=1), lengths)


def compile_step(policy: Policy, context: Any) -> Callable[[Any, Array, Array], tuple[Array, Any]]:
    """`policy.step` in one context, as a compiled function (memory, state, noise) -> (action, memory).

    Policy and context are taken apart once: at every call that would take longer than the step.
    """
    leaves, tree = jax.tree.flatten((policy, context))
    arrays = [leaf for leaf in leaves if eqx.is_array(leaf)]
    others = tuple((i, leaf) for i, leaf in enumerate(leaves) if not eqx.is_array(leaf))
    return functools.partial(_step_program(tree, others), arrays)


@functools.lru_cache(maxsize=64)
def _step_program(tree: Any, others: tuple[tuple[int, Any], ...]) -> Callable[..., tuple[Array, Any]]:
    """The program of all policies and contexts that differ in their arrays alone."""

    def step(arrays, memory, state, noise):
        fixed, rest = dict(others), iter(arrays)
        policy, context = tree.unflatten(fixed[i] if i in fixed else next(rest) for i in range(tree.num_leaves))
        return policy.step(context, memory, state, noise)

    return jax.jit(step)

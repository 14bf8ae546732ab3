"""Rollouts: a policy in closed loop with an environment, known dynamics or learned dynamics.

- `imagine` is one traced loop through which gradients flow, for losses.
- `simulate` rolls a trained policy out where its domain says: the same traced loop where JAX can trace the
  environment, a loop on the host where it cannot.
- `collect` rolls out the policies of all runs in training on the host, to refine learned dynamics.

All of them draw their randomness before the first step, so a step is a function of what it is given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Key, PRNGKeyArray, Shaped

from ..data.trajectories import Array, Trajectories, Transition
from ..domains.base import Domain, integrator, is_traced
from ..domains.loop import closed_loop
from ..errors import PoiseError
from ..models import RNN, TVAE, Dynamics, KnownDynamics, Policy
from ..models.kernels import rollout as rollout_kernel
from ..models.scan import scan
from .requests import Request

PIECE = 4_096
"""Rollouts that one program makes at a time: enough to fill a GPU, and a bound on memory."""


def find_environment(domain: Domain, parts: Mapping[str, Any]) -> Dynamics | Transition:
    """Where trained parts are rolled out: the domain's environment or known dynamics, else the learned dynamics."""
    return domain.transition or parts["dynamics"]


def imagine(policy: Policy, dynamics: Dynamics, request: Request, *, key: PRNGKeyArray) -> Trajectories:
    """Rollouts of the policy through a dynamics part, as one traced loop through which gradients flow."""
    starts, steps = request.starts, request.steps
    key_context, key_noise = jax.random.split(key)
    noise = jax.random.normal(key_noise, (steps, len(starts), policy.noise + dynamics.noise))
    context = policy.context(request.labels, key_context)
    if _has_kernel(policy, dynamics):
        states, actions = rollout_kernel.rollout(policy.decoder, context, starts, noise)
    else:
        carry = starts, policy.memory(len(starts))
        (states, _), actions = scan(_imagine_step, (policy, context, dynamics), carry, noise)
    states = jnp.concatenate([starts[None], states])
    return Trajectories.unchecked(jnp.swapaxes(states, 0, 1), jnp.swapaxes(actions, 0, 1), jnp.asarray(request.lengths))


def _has_kernel(policy: Policy, dynamics: Dynamics) -> TypeGuard[TVAE | RNN]:
    """Whether these rollouts run as one GPU kernel."""
    adds = isinstance(dynamics, KnownDynamics) and dynamics.transition is integrator
    return adds and isinstance(policy, TVAE | RNN) and rollout_kernel.supports(policy.decoder)


def _imagine_step(parts: tuple[Policy, Any, Dynamics], carry: tuple[Array, Any], noise: Array):
    (policy, context, dynamics), (state, memory) = parts, carry
    if dynamics.gradient_decay < 1:
        decay = dynamics.gradient_decay
        state = decay * state + jax.lax.stop_gradient((1 - decay) * state)
    action, memory = policy.step(context, memory, state, noise[:, : policy.noise])
    following = dynamics.step(state, action, noise[:, policy.noise :]).astype(state.dtype)  # a grid may return integers
    return (following, memory), action


_imagine = eqx.filter_jit(imagine)
context_of = eqx.filter_jit(lambda policy, labels, key: policy.context(labels, key))


def simulate(
    policy: Policy, environment: Dynamics | Transition, request: Request, *, key: PRNGKeyArray
) -> Trajectories:
    """Rollouts of the policy in an environment: one program where JAX can trace it, else step by step on the host.

    A program makes a power of two of rollouts, at most `PIECE`, and drops what is too many, so that few programs serve
    every count. The noise belongs to the program: another count gives other rollouts.
    """
    if not callable(environment):
        made = _simulate_traced(policy, environment, request, key)
    elif isinstance(environment, Hashable) and _is_traced(policy, environment, request.rows(np.zeros(1, int))):
        made = _simulate_traced(policy, KnownDynamics(environment), request, key)
    else:
        made = _simulate_on_host(policy, environment, request, key)
    if len(request) > 1 and not np.isfinite(np.asarray(made.states)[:, 1]).all(axis=1).any():
        raise PoiseError(
            f"all {len(request)} rollouts are NaN or infinite after their first step; "
            "does the environment return finite next states?"
        )
    return made


def _simulate_traced(policy: Policy, dynamics: Dynamics, request: Request, key: PRNGKeyArray) -> Trajectories:
    firsts, made = range(0, len(request), PIECE), []
    keys = jax.random.split(key, len(firsts)) if len(firsts) > 1 else [key]
    for first, own in zip(firsts, keys, strict=True):
        count = min(PIECE, len(request) - first)
        rows = first + np.minimum(np.arange(1 << (count - 1).bit_length()), count - 1)
        piece = _imagine(policy, dynamics, request.rows(rows), key=own)
        made.append([np.asarray(x)[:count] for x in (piece.states, piece.actions)])
    states, actions = (each[0] if len(each) == 1 else np.concatenate(each) for each in zip(*made, strict=True))
    return Trajectories.unchecked(states, actions, np.asarray(request.lengths))


@eqx.filter_jit
def _is_traced(policy: Policy, environment: Transition, request: Request) -> bool:
    """Whether JAX can trace an environment; a program without numbers, so that JAX remembers the answer."""
    context, noise = policy.context(request.labels, jax.random.key(0)), jnp.zeros((1, policy.noise))
    action, _ = policy.step(context, policy.memory(1), request.starts, noise)
    return is_traced(environment, request.starts.shape[-1], action.shape[-1])


def _simulate_on_host(policy: Policy, environment: Transition, request: Request, key: PRNGKeyArray) -> Trajectories:
    key_context, key_noise = jax.random.split(key)
    noise = np.asarray(jax.random.normal(key_noise, (request.steps, len(request), policy.noise)))
    step = compile_step(policy, context_of(policy, jnp.asarray(request.labels), key_context))
    memory = policy.memory(len(request))

    def act(number: int, states: np.ndarray) -> np.ndarray:
        nonlocal memory
        action, memory = step(memory, states, noise[number])
        return np.asarray(action)

    states, actions = closed_loop(act, _in_single_precision(environment), np.asarray(request.starts), request.steps)
    return Trajectories.unchecked(states, actions, np.asarray(request.lengths))


def collect(
    policies: Any,
    environment: Transition,
    demonstrations: Trajectories,
    labels: Shaped[np.ndarray, "sets N M"],
    sets: Int[np.ndarray, " runs"],
    count: int,
    keys: Key[Array, " runs"],
) -> tuple[Trajectories, np.ndarray]:
    """Rollouts of the policy of each run, and the labels that were asked for, with the runs as first axis.

    They start where `count` demonstrations start, with their labels in the run's set of labels. A rollout that becomes
    NaN or infinite is replaced by its demonstration.
    """
    rows = np.asarray(jax.vmap(lambda key: jax.random.randint(key, (count,), 0, len(demonstrations)))(keys))
    shown, wanted, steps = demonstrations[rows.ravel()], labels[sets[:, None], rows], demonstrations.steps
    begin = eqx.filter_vmap(lambda policy, labels, key: _begin(policy, labels, key, steps))
    contexts, memory, noise = begin(policies, jnp.asarray(wanted), keys)

    def act(number: int, states: np.ndarray) -> np.ndarray:
        nonlocal memory
        action, memory = _act(
            policies, contexts, memory, jnp.asarray(states.reshape(*rows.shape, -1)), noise[:, number]
        )
        return np.asarray(action).reshape(len(states), -1)

    made = closed_loop(act, _in_single_precision(environment), np.asarray(shown.starts), steps)
    finite = np.asarray(np.isfinite(made[0]).all(axis=(1, 2)) & np.isfinite(made[1]).all(axis=(1, 2)))
    pairs = zip(made, (np.asarray(shown.states), np.asarray(shown.actions)), strict=True)
    states, actions = (np.where(finite[:, None, None], new, old) for new, old in pairs)
    lengths = np.where(finite, steps, np.asarray(shown.lengths)).astype(np.int32)
    by_run = (x.reshape(*rows.shape, *x.shape[1:]) for x in (states, actions, lengths))
    return Trajectories.unchecked(*by_run), wanted


def _begin(policy: Any, labels: Array, key: Array, steps: int) -> tuple[Any, Any, Array]:
    """The context, the first memory and all noise of a run's rollouts."""
    key_context, key_noise = jax.random.split(key)
    noise = jax.random.normal(key_noise, (steps, len(labels), policy.noise))
    return policy.context(labels, key_context), policy.memory(len(labels)), noise


@eqx.filter_jit
@eqx.filter_vmap
def _act(policy: Any, context: Any, memory: Any, state: Array, noise: Array) -> tuple[Array, Any]:
    return policy.step(context, memory, state, noise)


def _in_single_precision(environment: Transition) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The environment with float32 next states; what is not an array of numbers, such as a tuple, is refused."""

    def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        following = environment(states, actions)
        try:
            return np.asarray(following, np.float32)
        except (TypeError, ValueError) as error:
            shape, kind = list(states.shape), type(following).__name__
            raise PoiseError(f"the environment must return states of shape {shape}; got a {kind}") from error

    return step


def compile_step(policy: Policy, context: Any) -> Callable[[Any, Array, Array], tuple[Array, Any]]:
    """`policy.step` in one context, as a compiled function (memory, state, noise) -> (action, memory).

    Policy and context are flattened once: at every call that would take longer than the step.
    """
    leaves, tree = jax.tree.flatten((policy, context))
    arrays = [leaf for leaf in leaves if eqx.is_array(leaf)]
    others = tuple((i, leaf) for i, leaf in enumerate(leaves) if not eqx.is_array(leaf))
    return functools.partial(_step_program(tree, others), arrays)


@functools.lru_cache(maxsize=64)
def _step_program(tree: Any, others: tuple[tuple[int, Any], ...]) -> Callable[..., tuple[Array, Any]]:
    """The program of all policies and contexts that differ in their arrays alone."""

    def step(arrays, memory, state, noise):
        static, rest = dict(others), iter(arrays)
        policy, context = tree.unflatten(static[i] if i in static else next(rest) for i in range(tree.num_leaves))
        return policy.step(context, memory, state, noise)

    return jax.jit(step)

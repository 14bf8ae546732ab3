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
from typing import Any, NamedTuple, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Key, PRNGKeyArray, Shaped

from ..data.trajectories import Array, Trajectories, Transition
from ..domains.base import Domain, integrator, is_traced
from ..domains.loop import closed_loop
from ..errors import PoiseError
from ..models import RNN, TVAE, Dynamics, Flow, KnownDynamics, Policy
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
    key_begin, key_noise = jax.random.split(key)
    plans = -(-steps // policy.replan)
    noise = jax.random.normal(key_noise, (plans, len(starts), policy.noise))
    pushes = jax.random.normal(jax.random.fold_in(key_noise, 1), (plans, policy.replan, len(starts), dynamics.noise))
    context, memory = policy.begin(request.labels, request.lengths, key_begin)
    if _has_kernel(policy, dynamics):
        states, actions = rollout_kernel.rollout(policy.decoder, context, starts, noise)
    else:
        first = _decay(starts, dynamics.gradient_decay)
        given = (policy, context, dynamics), (first, memory), (noise, pushes)
        made = _scan_plain(*given) if isinstance(policy, Flow) else scan(_follow, *given)[1]
        states, actions = (x.reshape(-1, *x.shape[2:])[:steps] for x in made)
    states = jnp.concatenate([starts[None], states])
    return Trajectories.unchecked(jnp.swapaxes(states, 0, 1), jnp.swapaxes(actions, 0, 1), jnp.asarray(request.lengths))


def _scan_plain(parts: tuple[Policy, Any, Dynamics], carry: tuple[Array, Any], noise: tuple[Array, Array]):
    """What `_follow` returns of each proposal; a flow has a loop inside, which uses its weights many times."""
    return jax.lax.scan(lambda carry, noise: _follow(parts, carry, noise), carry, noise)[1]


def _has_kernel(policy: Policy, dynamics: Dynamics) -> TypeGuard[TVAE | RNN]:
    """Whether these rollouts run as one GPU kernel."""
    adds = isinstance(dynamics, KnownDynamics) and dynamics.transition is integrator
    return adds and isinstance(policy, TVAE | RNN) and rollout_kernel.supports(policy.decoder)


def _follow(parts: tuple[Policy, Any, Dynamics], carry: tuple[Array, Any], noise: tuple[Array, Array]):
    """Takes the steps of one proposal; returns the last state and memory, and the states and actions of each step."""
    (policy, context, dynamics), (proposal_noise, pushes) = parts, noise

    def step(carry, given):
        (state, memory), (action, push) = carry, given
        following = dynamics.step(state, action, push).astype(state.dtype)  # a grid may return integers
        memory = policy.remember(context, memory, state, action)
        return (_decay(following, dynamics.gradient_decay), memory), (following, action)

    plan = jnp.swapaxes(policy.propose(context, carry[1], carry[0], proposal_noise), 0, 1)[: policy.replan]
    if policy.replan > 1:
        return jax.lax.scan(step, carry, (plan, pushes))
    carry, (following, action) = step(carry, (plan[0], pushes[0]))
    return carry, (following[None], action[None])


def _decay(state: Array, decay: float) -> Array:
    """The state, with its gradient times `decay`."""
    return state if decay == 1 else decay * state + jax.lax.stop_gradient((1 - decay) * state)


_imagine = eqx.filter_jit(imagine)
begin_of = eqx.filter_jit(lambda policy, labels, lengths, key: policy.begin(labels, lengths, key))


def simulate(
    policy: Policy, environment: Dynamics | Transition, request: Request, *, key: PRNGKeyArray
) -> Trajectories:
    """Rollouts of the policy in an environment: one program where JAX can trace it, else step by step on the host.

    A program makes a power of two of rollouts and drops what is too many, so that few programs serve every count; more
    than `PIECE` are made by one program, piece by piece. The noise belongs to the program: another count gives other
    rollouts.
    """
    if not callable(environment):
        return _simulate_traced(policy, environment, request, key)
    if isinstance(environment, Hashable) and _is_traced(policy, environment, request.rows(np.zeros(1, int))):
        return _simulate_traced(policy, KnownDynamics(environment), request, key)
    return _simulate_on_host(policy, environment, request, key)


def check_environment(states: Float[Array, "N T1 S"], actions: Float[Array, "N T A"]) -> None:
    """Refuses rollouts that are all NaN or infinite after their first step, by the policy or by the environment."""
    if len(states) < 2 or np.isfinite(np.asarray(states)[:, 1]).all(axis=1).any():
        return
    if not np.isfinite(np.asarray(actions)[:, 0]).all(axis=1).any():
        raise PoiseError(
            f"the first actions of all {len(states)} rollouts are NaN or infinite: the policy diverges; lower the "
            "guidance, strength and limit of sampling if they are high, or train again with a lower learning rate"
        )
    raise PoiseError(
        f"all {len(states)} rollouts are NaN or infinite after their first step; check that the environment "
        "expects states and actions in the units and the order of the demonstrations, and returns finite states"
    )


def _simulate_traced(policy: Policy, dynamics: Dynamics, request: Request, key: PRNGKeyArray) -> Trajectories:
    firsts, made = range(0, len(request), PIECE), []
    keys = jax.random.split(key, len(firsts)) if len(firsts) > 1 else [key]
    size = min(PIECE, 1 << (len(request) - 1).bit_length())
    for first, own in zip(firsts, keys, strict=True):
        count = min(PIECE, len(request) - first)
        rows = first + np.minimum(np.arange(size), count - 1)
        piece = _imagine(policy, dynamics, request.rows(rows), key=own)
        made.append([np.asarray(x)[:count] for x in (piece.states, piece.actions)])
    states, actions = (each[0] if len(each) == 1 else np.concatenate(each) for each in zip(*made, strict=True))
    return Trajectories.unchecked(states, actions, np.asarray(request.lengths))


@eqx.filter_jit
def _is_traced(policy: Policy, environment: Transition, request: Request) -> bool:
    """Whether JAX can trace an environment; a program without numbers, so that JAX remembers the answer."""
    context, memory = policy.begin(request.labels, request.lengths, jax.random.key(0))
    actions = policy.propose(context, memory, request.starts, jnp.zeros((1, policy.noise)))
    return is_traced(environment, request.starts.shape[-1], actions.shape[-1])


def _simulate_on_host(policy: Policy, environment: Transition, request: Request, key: PRNGKeyArray) -> Trajectories:
    """The environment steps these rollouts; the policy acts for a power of two, as in a traced environment."""
    key_begin, key_noise = jax.random.split(key)
    plans, count = -(-request.steps // policy.replan), len(request)
    filled = request.rows(np.minimum(np.arange(1 << (count - 1).bit_length()), count - 1))
    noise = np.asarray(jax.random.normal(key_noise, (plans, len(filled), policy.noise)))
    context, memory = begin_of(policy, jnp.asarray(filled.labels), jnp.asarray(filled.lengths), key_begin)
    player = Player(policy, context, memory)

    def act(number: int, states: np.ndarray) -> np.ndarray:
        all_states = np.concatenate([states, np.repeat(states[-1:], len(filled) - count, axis=0)])
        return player.act(all_states, lambda: noise[number // policy.replan])[:count]

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
    lengths = jnp.asarray(np.asarray(shown.lengths).reshape(rows.shape))
    begin = eqx.filter_vmap(lambda policy, labels, lengths, key: _begin(policy, labels, lengths, key, steps))
    contexts, memory, noise = begin(policies, jnp.asarray(wanted), lengths, keys)
    plan, replan = None, policies.replan

    def act(number: int, states: np.ndarray) -> np.ndarray:
        nonlocal memory, plan
        given = policies, contexts, memory, jnp.asarray(states.reshape(*rows.shape, -1))
        if number % replan == 0:
            plan = _propose(*given, noise[:, number // replan])
        assert plan is not None
        action = plan[:, :, number % replan]
        memory = _remember(*given, action)
        return np.asarray(action).reshape(len(states), -1)

    made = closed_loop(act, _in_single_precision(environment), np.asarray(shown.starts), steps)
    check_environment(*made)
    finite = np.asarray(np.isfinite(made[0]).all(axis=(1, 2)) & np.isfinite(made[1]).all(axis=(1, 2)))
    pairs = zip(made, (np.asarray(shown.states), np.asarray(shown.actions)), strict=True)
    states, actions = (np.where(finite[:, None, None], new, old) for new, old in pairs)
    lengths = np.where(finite, steps, np.asarray(shown.lengths)).astype(np.int32)
    by_run = (x.reshape(*rows.shape, *x.shape[1:]) for x in (states, actions, lengths))
    return Trajectories.unchecked(*by_run), wanted


def _begin(policy: Any, labels: Array, lengths: Array, key: Array, steps: int) -> tuple[Any, Any, Array]:
    """The context, the first memory and all noise of a run's rollouts."""
    key_begin, key_noise = jax.random.split(key)
    noise = jax.random.normal(key_noise, (-(-steps // policy.replan), len(labels), policy.noise))
    return *policy.begin(labels, lengths, key_begin), noise


_propose = eqx.filter_jit(eqx.filter_vmap(lambda policy, *given: policy.propose(*given)))
_remember = eqx.filter_jit(eqx.filter_vmap(lambda policy, *given: policy.remember(*given)))


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


class Following(NamedTuple):
    """How far a policy is followed: its memory, its last proposal, and how much of that is used up."""

    memory: Any
    plan: Float[Array, "N H A"] | None = None
    taken: int = 0


class Player:
    """A policy that is followed step by step on the host: it proposes when its last proposal is used up.

    Policy and context are flattened once: at every call that would take longer than the step.
    """

    def __init__(self, policy: Policy, context: Any, memory: Any):
        self.at, self.replan = Following(memory), policy.replan
        self.turn(policy, context)

    def turn(self, policy: Policy, context: Any) -> None:
        """Continues in another context, with a new proposal at the next step."""
        leaves, tree = jax.tree.flatten((policy, context))
        self._arrays = [leaf for leaf in leaves if eqx.is_array(leaf)]
        others = tuple((i, leaf) for i, leaf in enumerate(leaves) if not eqx.is_array(leaf))
        self._programs = _programs(tree, others)
        self.propose_anew()

    def propose_anew(self) -> None:
        """Drops what is left of the proposal."""
        self.at = Following(self.at.memory)

    @property
    def proposes(self) -> bool:
        """Whether the next step needs a new proposal."""
        return self.at.plan is None or self.at.taken == self.replan

    def act(self, states: Array, noise: Callable[[], Array]) -> np.ndarray:
        """The next actions; `noise` is called where a new proposal is made."""
        if self.proposes:
            action, plan, memory = self._programs.begin(self._arrays, self.at.memory, states, noise())
            self.at = Following(memory, plan, 1)
        else:
            action, memory = self._programs.follow(self._arrays, self.at.memory, states, self.at.plan, self.at.taken)
            self.at = Following(memory, self.at.plan, self.at.taken + 1)
        return np.asarray(action)

    def propose(self, states: Array, noise: Array) -> Float[Array, "N H A"]:
        """A proposal that is not followed yet."""
        return self._programs.begin(self._arrays, self.at.memory, states, noise)[1]

    def follow(self, plan: Float[Array, "N H A"]) -> None:
        """Follows this proposal from the next step on."""
        self.at = Following(self.at.memory, plan, 0)


class _Programs(NamedTuple):
    begin: Callable[..., Any]
    follow: Callable[..., Any]


@functools.lru_cache(maxsize=64)
def _programs(tree: Any, others: tuple[tuple[int, Any], ...]) -> _Programs:
    """The programs that begin and follow a proposal, for policies and contexts that differ in their arrays alone."""

    def restore(arrays):
        static, rest = dict(others), iter(arrays)
        return tree.unflatten(static[i] if i in static else next(rest) for i in range(tree.num_leaves))

    def begin(arrays, memory, state, noise):
        policy, context = restore(arrays)
        plan = policy.propose(context, memory, state, noise)
        return plan[:, 0], plan, policy.remember(context, memory, state, plan[:, 0])

    def follow(arrays, memory, state, plan, taken):
        policy, context = restore(arrays)
        return plan[:, taken], policy.remember(context, memory, state, plan[:, taken])

    return _Programs(jax.jit(begin), jax.jit(follow))

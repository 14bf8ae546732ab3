"""The parts beside the policy: dynamics (known or learned), the labeler and the adversary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray

from ..config import Network
from ..labeling import LabelSpace
from ..trajectories import Array, Trajectories
from .layers import MLP, Linear, Statistics, gaussian
from .recurrent import Reader, in_time


@runtime_checkable
class Dynamics(Protocol):
    """A next state for a state, an action and as many numbers of standard normal noise as it asks for."""

    @property
    def noise(self) -> int: ...

    @property
    def fading(self) -> float: ...

    def step(self, state: Array, action: Array, noise: Array) -> Array: ...

    def loss(self, demonstrations: Trajectories) -> Float[Array, "batch time"]: ...


class KnownDynamics(eqx.Module):
    """Dynamics that need no learning: a function of state and action that JAX can trace."""

    transition: Callable[[Array, Array], Array] = eqx.field(static=True)
    noise: int = eqx.field(static=True, default=0)
    fading: float = eqx.field(static=True, default=1.0)

    def step(self, state: Array, action: Array, noise: Array) -> Array:
        """The next state."""
        return self.transition(state, action)

    def loss(self, demonstrations: Trajectories) -> Float[Array, "batch time"]:
        """Squared error of the next state, in its own units."""
        predicted = self.transition(demonstrations.states[:, :-1], demonstrations.actions)
        return jnp.sum((predicted - demonstrations.states[:, 1:]) ** 2, axis=-1)


class LearnedDynamics(eqx.Module):
    """A network that predicts the change of state: one value (Eq. 9) or a Gaussian over it (appendix B)."""

    statistics: Statistics
    body: MLP
    noise: int = eqx.field(static=True)
    """Numbers of noise in a step: as many as there are states if the dynamics are stochastic, else none."""
    fading: float = eqx.field(static=True)
    """The share of a gradient that goes one step further back."""

    def __init__(self, statistics: Statistics, network: Network, *, key: PRNGKeyArray):
        states, actions = statistics.state.mean.size, statistics.action.mean.size
        self.statistics, self.noise = statistics, states if network.dynamics == "gaussian" else 0
        self.fading = network.fading
        self.body = MLP((states + actions, *network.dynamics_layers, states + self.noise), key=key)

    def step(self, state: Array, action: Array, noise: Array) -> Array:
        """The next state; if the dynamics are stochastic, a draw through which gradients flow."""
        outputs = self._predict(state, action)
        change = gaussian(outputs).draw(noise) if self.noise else outputs
        return state + self.statistics.change.undo(change)

    def loss(self, demonstrations: Trajectories) -> Float[Array, "batch time"]:
        """Squared error of the change of state (Eq. 9) or its negative log-density (Eq. 14), standardised."""
        states = demonstrations.states
        change = self.statistics.change(states[:, 1:] - states[:, :-1])
        outputs = self._predict(states[:, :-1], demonstrations.actions)
        return gaussian(outputs).nld(change) if self.noise else jnp.sum((outputs - change) ** 2, axis=-1)

    def _predict(self, state: Array, action: Array) -> Array:
        return self.body(jnp.concatenate([self.statistics.state(state), self.statistics.action(action)], axis=-1))


class Adversary(eqx.Module):
    """A(z), which tells labels from embeddings (Eq. 11)."""

    body: MLP
    space: LabelSpace = eqx.field(static=True)

    def __init__(self, space: LabelSpace, network: Network, *, key: PRNGKeyArray):
        self.space = space
        self.body = MLP((network.latent, network.hidden, space.width), key=key)

    def __call__(self, z: Float[Array, "batch latent"]) -> Float[Array, "batch width"]:
        """What the labels of each embedding are believed to be."""
        return self.body(z)


class Labeler(eqx.Module):
    """C(τ), the differentiable approximation of the labeling functions (Eq. 7): one reader, one output a style."""

    statistics: Statistics
    reader: Reader
    head: Linear
    space: LabelSpace = eqx.field(static=True)

    def __init__(self, statistics: Statistics, space: LabelSpace, network: Network, *, key: PRNGKeyArray):
        states, actions = statistics.state.mean.size, statistics.action.mean.size
        key_reader, key_head = jax.random.split(key)
        self.statistics, self.space = statistics, space
        self.reader = Reader(2 * states + actions, network.hidden, key=key_reader)
        self.head = Linear(self.reader.width, space.width, key=key_head)

    def __call__(self, trajectories: Trajectories) -> Float[Array, "batch width"]:
        """What the labels of each trajectory are believed to be; it sees the last state as well."""
        states, actions, mask = in_time(trajectories)
        states, actions = self.statistics.state(states), self.statistics.action(actions)
        steps = jnp.concatenate([states[:-1], actions, states[1:]], axis=-1)
        return self.head(self.reader(steps, mask))

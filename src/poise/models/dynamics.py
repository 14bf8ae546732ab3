"""Dynamics: the next state of a state and an action, known or learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray

from ..config import Network
from ..data.trajectories import Array, Trajectories
from .layers import MLP, Statistics, gaussian


@runtime_checkable
class Dynamics(Protocol):
    """The interface of dynamics: a next state for a state, an action and `noise` standard normal numbers per step."""

    @property
    def noise(self) -> int: ...

    @property
    def gradient_decay(self) -> float: ...

    def step(self, state: Array, action: Array, noise: Array) -> Array: ...

    def loss(self, demonstrations: Trajectories) -> Float[Array, "batch time"]: ...


class KnownDynamics(eqx.Module):
    """Dynamics that are not learned: a function of state and action that JAX can trace."""

    transition: Callable[[Array, Array], Array] = eqx.field(static=True)
    noise: int = eqx.field(static=True, default=0)
    gradient_decay: float = eqx.field(static=True, default=1.0)

    def step(self, state: Array, action: Array, noise: Array) -> Array:
        """The next state."""
        return self.transition(state, action)

    def loss(self, demonstrations: Trajectories) -> Float[Array, "batch time"]:
        """Squared error of the next state, in its original units."""
        predicted = self.transition(demonstrations.states[:, :-1], demonstrations.actions)
        return jnp.sum((predicted - demonstrations.states[:, 1:]) ** 2, axis=-1)


class LearnedDynamics(eqx.Module):
    """A network that predicts the change of state: one value (Eq. 9) or a Gaussian over it (appendix B)."""

    statistics: Statistics
    body: MLP
    noise: int = eqx.field(static=True)
    """Noise numbers per step: the size of the state if the dynamics are Gaussian, otherwise zero."""
    gradient_decay: float = eqx.field(static=True)
    """The factor by which the gradient of a state is multiplied at each step back in time."""

    def __init__(self, statistics: Statistics, network: Network, *, key: PRNGKeyArray):
        states, actions = statistics.state.mean.size, statistics.action.mean.size
        self.statistics, self.noise = statistics, states if network.dynamics == "gaussian" else 0
        self.gradient_decay = network.gradient_decay
        self.body = MLP((states + actions, *network.dynamics_layers, states + self.noise), key=key)

    def step(self, state: Array, action: Array, noise: Array) -> Array:
        """The next state; if the dynamics are Gaussian, a reparameterised sample of it."""
        outputs = self._predict(state, action)
        change = gaussian(outputs).draw(noise) if self.noise else outputs
        return state + self.statistics.change.undo(change)

    def loss(self, demonstrations: Trajectories) -> Float[Array, "batch time"]:
        """Squared error of the standardised change of state (Eq. 9) or its negative log-density (Eq. 14)."""
        states = demonstrations.states
        change = self.statistics.change(states[:, 1:] - states[:, :-1])
        outputs = self._predict(states[:, :-1], demonstrations.actions)
        return gaussian(outputs).nld(change) if self.noise else jnp.sum((outputs - change) ** 2, axis=-1)

    def _predict(self, state: Array, action: Array) -> Array:
        return self.body(jnp.concatenate([self.statistics.state(state), self.statistics.action(action)], axis=-1))

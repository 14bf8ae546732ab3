"""Policies: the trajectory VAE and the RNN. Both share one decoder; the RNN has no embedding.

A policy offers three functions. `imitate` says how well it explains demonstrations, `context` draws what stays fixed
during a rollout, and `step` draws an action and hands on its memory. Nothing is remembered on the module.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray, Shaped

from ..config import Network
from ..labeling import LabelSpace
from ..trajectories import Array, Trajectories
from .layers import GRU, LOG_SIGMA, MLP, Gaussian, Linear, Reader, Statistics, gaussian


class Imitation(NamedTuple):
    """How well a policy explains demonstrations: sums over time, one a trajectory; kl one a dimension of z as well."""

    nld: Float[Array, " batch"]
    kl: Float[Array, "batch latent"]


@runtime_checkable
class Policy(Protocol):
    """What training, rollouts and evaluation ask of a policy."""

    def imitate(self, demonstrations: Trajectories, labels: Array, key: PRNGKeyArray) -> Imitation: ...

    def context(self, labels: Array, key: PRNGKeyArray) -> Array: ...

    def memory(self, batch: int) -> Any: ...

    def step(self, context: Array, memory: Any, state: Array, key: PRNGKeyArray) -> tuple[Array, Any]: ...


class Decoder(eqx.Module):
    """π(a | s, context, memory): a Gaussian over actions, with a memory of earlier steps or without."""

    statistics: Statistics
    body: MLP
    recurrence: GRU | None
    log_sigma: Float[Array, " actions"] | None

    def __init__(self, statistics: Statistics, context: int, network: Network, *, key: PRNGKeyArray):
        key_body, key_memory = jax.random.split(key)
        states, actions = statistics.state.mean.size, statistics.action.mean.size
        recurrent, shared = network.decoder == "recurrent", network.variance == "global"
        self.statistics = statistics
        self.recurrence = GRU(states + actions, network.hidden, key=key_memory) if recurrent else None
        inputs = states + context + (network.hidden if recurrent else 0)
        self.body = MLP((inputs, *network.layers, actions if shared else 2 * actions), key=key_body)
        self.log_sigma = jnp.zeros(actions) if shared else None

    def memory(self, batch: int) -> Array:
        """The memory before the first step."""
        return jnp.zeros((batch, self.recurrence.size if self.recurrence else 0))

    def remember(self, memory: Array, state: Array, action: Array) -> Array:
        """The memory after a step."""
        if self.recurrence is None:
            return memory
        return self.recurrence.step(memory, self.observe(state, action))

    def act(self, context: Array, memory: Array, state: Array) -> Gaussian:
        """The distribution of the next action, in units of the actions' deviation."""
        outputs = self.body(jnp.concatenate([self.statistics.state(state), context, memory], axis=-1))
        if self.log_sigma is None:
            return gaussian(outputs)
        return Gaussian(outputs, jnp.broadcast_to(jnp.clip(self.log_sigma, *LOG_SIGMA), outputs.shape))

    def nld(self, demonstrations: Trajectories, context: Float[Array, "batch context"]) -> Float[Array, " batch"]:
        """Negative log-density of the demonstrated actions in their own units, summed over time."""
        states, actions, mask = demonstrations.states[:, :-1], demonstrations.actions, demonstrations.mask
        memories = jnp.zeros((*mask.shape, 0))
        if self.recurrence is not None:
            after = self.recurrence.scan(self.observe(states, actions), mask)
            memories = jnp.pad(after[:, :-1], ((0, 0), (1, 0), (0, 0)))
        context = jnp.broadcast_to(context[:, None], (*mask.shape, context.shape[-1]))
        standard = self.act(context, memories, states).nld(self.statistics.action(actions))
        per_step = standard + jnp.log(self.statistics.action.deviation).sum()
        return jnp.sum(jnp.where(mask, per_step, 0.0), axis=1)

    def draw(self, context: Array, memory: Array, state: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        """An action in its own units, and the memory after it."""
        action = self.statistics.action.undo(self.act(context, memory, state).sample(key))
        return action, self.remember(memory, state, action)

    def observe(self, state: Array, action: Array) -> Array:
        """A step as the networks see it: state and action, standardised, side by side."""
        return jnp.concatenate([self.statistics.state(state), self.statistics.action(action)], axis=-1)


class TVAE(eqx.Module):
    """The trajectory variational autoencoder (Eq. 2); with labels, the conditional one (Eq. 10)."""

    reader: Reader
    posterior: Linear
    decoder: Decoder
    space: LabelSpace = eqx.field(static=True)
    latent: int = eqx.field(static=True)
    free_bits: float = eqx.field(static=True)
    blind_encoder: bool = eqx.field(static=True)

    def __init__(
        self,
        statistics: Statistics,
        space: LabelSpace,
        network: Network,
        *,
        key: PRNGKeyArray,
        blind_encoder: bool = False,
    ):
        key_reader, key_posterior, key_decoder = jax.random.split(key, 3)
        inputs = statistics.state.mean.size + statistics.action.mean.size
        self.reader = Reader(inputs, network.hidden, key=key_reader)
        seen = self.reader.width + (0 if blind_encoder else space.width)
        self.posterior = Linear(seen, 2 * network.latent, key=key_posterior)
        self.decoder = Decoder(statistics, network.latent + space.width, network, key=key_decoder)
        self.space, self.blind_encoder = space, blind_encoder
        self.latent, self.free_bits = network.latent, network.free_bits

    def encode(self, demonstrations: Trajectories, labels: Shaped[Array, "batch M"]) -> Gaussian:
        """q(z | τ, y), the embedding of each demonstration."""
        read = self.reader(
            self.decoder.observe(demonstrations.states[:, :-1], demonstrations.actions), demonstrations.mask
        )
        seen = read if self.blind_encoder else jnp.concatenate([read, self.space.encode(labels)], axis=-1)
        return gaussian(self.posterior(seen))

    def imitate(self, demonstrations: Trajectories, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Imitation:
        """Negative log-density given an embedding drawn from q, and the KL of q from its prior."""
        embedding = self.encode(demonstrations, labels)
        context = jnp.concatenate([embedding.sample(key), self.space.encode(labels)], axis=-1)
        return Imitation(self.decoder.nld(demonstrations, context), embedding.kl())

    def context(self, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Float[Array, "batch context"]:
        """An embedding from the prior, and the labels."""
        z = jax.random.normal(key, (len(labels), self.latent))
        return jnp.concatenate([z, self.space.encode(labels)], axis=-1)

    def memory(self, batch: int) -> Array:
        """The memory before the first step."""
        return self.decoder.memory(batch)

    def step(self, context: Array, memory: Array, state: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        """An action, and the memory after it."""
        return self.decoder.draw(context, memory, state, key)


class RNN(eqx.Module):
    """The recurrent policy: a decoder whose context is the labels alone."""

    decoder: Decoder
    space: LabelSpace = eqx.field(static=True)

    def __init__(self, statistics: Statistics, space: LabelSpace, network: Network, *, key: PRNGKeyArray):
        self.decoder = Decoder(statistics, space.width, network, key=key)
        self.space = space

    def imitate(self, demonstrations: Trajectories, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Imitation:
        """Negative log-density; there is no embedding, so its KL has no dimensions."""
        return Imitation(self.decoder.nld(demonstrations, self.space.encode(labels)), jnp.zeros((len(labels), 0)))

    def context(self, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Float[Array, "batch context"]:
        """The labels."""
        return self.space.encode(labels)

    def memory(self, batch: int) -> Array:
        """The memory before the first step."""
        return self.decoder.memory(batch)

    def step(self, context: Array, memory: Array, state: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        """An action, and the memory after it."""
        return self.decoder.draw(context, memory, state, key)

"""Policies: the trajectory VAE and the RNN. Both share one decoder; the RNN has no embedding.

A policy offers three functions. `imitate` says how well it explains demonstrations, `context` draws what stays fixed
during a rollout, and `step` turns `noise` many numbers of standard normal noise into an action and hands on its memory.
Nothing is remembered on the module.
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
from .layers import LOG_SIGMA, MLP, Gaussian, Linear, Statistics, apart, beside, gaussian
from .recurrent import ALWAYS, GRU, Reader, gates, in_time, read


class Imitation(NamedTuple):
    """How well a policy explains demonstrations: sums over time, one a trajectory; kl one a dimension of z as well."""

    nld: Float[Array, " batch"]
    kl: Float[Array, "batch latent"]


@runtime_checkable
class Policy(Protocol):
    """What training, rollouts and evaluation ask of a policy."""

    def imitate(self, demonstrations: Trajectories, labels: Array, key: PRNGKeyArray) -> Imitation: ...

    def context(self, labels: Array, key: PRNGKeyArray) -> Any: ...

    def memory(self, batch: int) -> Any: ...

    @property
    def noise(self) -> int: ...

    def step(self, context: Any, memory: Any, state: Array, noise: Array) -> tuple[Array, Any]: ...


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
        inputs = states + (network.hidden if recurrent else 0) + context  # labels come last, as `joining` wants it
        self.body = MLP((inputs, *network.layers, actions if shared else 2 * actions), key=key_body)
        self.log_sigma = jnp.zeros(actions) if shared else None

    @property
    def noise(self) -> int:
        """Numbers of standard normal noise that a step takes."""
        return self.statistics.action.mean.size

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
        of_state, of_memory, of_context = self._first(context.shape[-1])
        return self._act(
            self.body.after_first(of_state(self.statistics.state(state)) + of_memory(memory) + of_context(context))
        )

    def nld(
        self,
        demonstrations: Trajectories,
        context: Float[Array, "batch context"],
        memories: Float[Array, "time batch size"] | None = None,
    ) -> Float[Array, " batch"]:
        """Negative log-density of the demonstrated actions in their own units, summed over time.

        The memories after each step can be given if they are known already.
        """
        states, actions, mask = in_time(demonstrations)
        if memories is None and self.recurrence is not None:
            (memories,) = read([self.recurrence], [self.observe(states[:-1], actions)], [mask])
        before = jnp.zeros((*mask.shape, 0)) if memories is None else jnp.pad(memories[:-1], ((1, 0), (0, 0), (0, 0)))
        standard = self.act(context, before, states[:-1]).nld(self.statistics.action(actions))
        per_step = standard + jnp.log(self.statistics.action.deviation).sum()
        return jnp.sum(jnp.where(mask, per_step, 0.0), axis=0)

    def ready(self, context: Float[Array, "batch context"]) -> Ready:
        """The decoder fitted together for many steps in one context."""
        of_state, of_memory, of_context = self._first(context.shape[-1])
        memory = inputs = None
        if self.recurrence is not None:
            inputs, memory = self.recurrence.inputs, beside(of_memory, self.recurrence.recurrent)
        return Ready(of_context(context), of_state, memory, inputs)

    def draw(self, ready: Ready, memory: Array, state: Array, noise: Array) -> tuple[Array, Array]:
        """An action in its own units, and the memory after it."""
        hidden = ready.context + ready.state(self.statistics.state(state))
        from_memory = memory
        if ready.memory is not None:
            first, from_memory = apart(ready.memory(memory), hidden.shape[-1])
            hidden = hidden + first
        action = self.statistics.action_of(self._act(self.body.after_first(hidden)).draw(noise))
        if ready.inputs is None:
            return action, memory
        return action, gates(memory, ready.inputs(self.observe(state, action)), from_memory, ALWAYS)

    def observe(self, state: Array, action: Array) -> Array:
        """A step as the networks see it: state and action, standardised, side by side."""
        return jnp.concatenate([self.statistics.state(state), self.statistics.action(action)], axis=-1)

    def _first(self, context: int) -> tuple[Linear, Linear, Linear]:
        """The body's first layer by what it reads: state, memory, context (and its bias)."""
        first = self.body.layers[0]
        return first.cut(self.statistics.state.mean.size, len(first.weight) - context)

    def _act(self, outputs: Array) -> Gaussian:
        if self.log_sigma is None:
            return gaussian(outputs)
        return Gaussian(outputs, jnp.broadcast_to(jnp.clip(self.log_sigma, *LOG_SIGMA), outputs.shape))


class Ready(eqx.Module):
    """A decoder fitted together for many steps in one context.

    The context's share of the first layer is known once and for all, and one product of the memory serves both the
    first layer and the gates.
    """

    context: Float[Array, "batch first"]
    state: Linear
    memory: Linear | None
    inputs: Linear | None


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
        return self._read(demonstrations, labels, None)[0]

    def _read(self, demonstrations: Trajectories, labels: Array, other: GRU | None) -> tuple[Gaussian, Array | None]:
        """The embedding, and the memories of another GRU that reads the same steps in the same loop."""
        states, actions, mask = in_time(demonstrations)
        vector, memories = self.reader.beside(other, self.decoder.observe(states[:-1], actions), mask)
        seen = vector if self.blind_encoder else jnp.concatenate([vector, self.space.encode(labels)], axis=-1)
        return gaussian(self.posterior(seen)), memories

    def imitate(self, demonstrations: Trajectories, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Imitation:
        """Negative log-density given an embedding drawn from q, and the KL of q from its prior."""
        embedding, memories = self._read(demonstrations, labels, self.decoder.recurrence)
        z = embedding.draw(jax.random.normal(key, embedding.mean.shape))
        context = jnp.concatenate([z, self.space.encode(labels)], axis=-1)
        return Imitation(self.decoder.nld(demonstrations, context, memories), embedding.kl())

    def context(self, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Ready:
        """An embedding from the prior, and the labels."""
        z = jax.random.normal(key, (len(labels), self.latent))
        return self.decoder.ready(jnp.concatenate([z, self.space.encode(labels)], axis=-1))

    def memory(self, batch: int) -> Array:
        """The memory before the first step."""
        return self.decoder.memory(batch)

    @property
    def noise(self) -> int:
        """Numbers of standard normal noise that a step takes."""
        return self.decoder.noise

    def step(self, context: Ready, memory: Array, state: Array, noise: Array) -> tuple[Array, Array]:
        """An action, and the memory after it."""
        return self.decoder.draw(context, memory, state, noise)


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

    def context(self, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Ready:
        """The labels."""
        return self.decoder.ready(self.space.encode(labels))

    def memory(self, batch: int) -> Array:
        """The memory before the first step."""
        return self.decoder.memory(batch)

    @property
    def noise(self) -> int:
        """Numbers of standard normal noise that a step takes."""
        return self.decoder.noise

    def step(self, context: Ready, memory: Array, state: Array, noise: Array) -> tuple[Array, Array]:
        """An action, and the memory after it."""
        return self.decoder.draw(context, memory, state, noise)

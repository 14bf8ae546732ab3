"""Policies: their interface, and the paper's two: the trajectory VAE and the RNN.

A policy proposes the next H actions. `begin` draws what is fixed during a rollout and returns it with an empty memory,
`propose` maps memory, state and `noise` standard normal numbers to actions, and `remember` adds a step that was taken
to the memory. `imitate` returns its losses on demonstrations. The module itself never changes. The paper's policies
propose one action at a time (H = 1); they share a decoder, and the RNN has no embedding.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray, Shaped

from ..config import Network
from ..data.trajectories import Array, Trajectories
from ..styles.label_spaces import LabelSpace
from .layers import LOG_SIGMA, MLP, Gaussian, Linear, Statistics, concatenate_outputs, gaussian, split_columns
from .recurrent import GRU, UNMASKED, Reader, gru_cell, scan_grus, time_major


class Imitation(NamedTuple):
    """The imitation losses of a policy, per demonstration."""

    nld: Float[Array, " batch"]
    """Negative log-density of the actions, summed over time."""
    kl: Float[Array, "batch latent"]
    """KL divergence of the embedding from its prior, per dimension; it has no columns if there is no embedding."""


@runtime_checkable
class Policy(Protocol):
    """The interface of a policy: what training, rollouts and evaluation call."""

    @property
    def replan(self) -> int:
        """Actions of a proposal that are taken before the next is made; at most the H that it holds."""
        ...

    @property
    def noise(self) -> int:
        """Standard normal numbers per proposal."""
        ...

    @property
    def open_labels(self) -> bool:
        """Whether a style may be left free, with the label -1."""
        ...

    def imitate(self, demonstrations: Trajectories, labels: Array, key: PRNGKeyArray) -> Imitation: ...

    def begin(self, labels: Array, lengths: Array, key: PRNGKeyArray) -> tuple[Any, Any]:
        """What is fixed during a rollout, and the memory before its first step."""
        ...

    def propose(self, context: Any, memory: Any, state: Array, noise: Array) -> Float[Array, "N H A"]: ...

    def remember(self, context: Any, memory: Any, state: Array, action: Array) -> Any: ...


class Memory(NamedTuple):
    """The memory of a recurrent decoder, and what the next step reads of it: one product gives both."""

    hidden: Float[Array, "batch hidden"]
    first: Float[Array, "batch first"]
    """Its share of the first layer."""
    gates: Float[Array, "batch gates"]
    """Its share of the gates of the GRU."""


class Decoder(eqx.Module):
    """π(a | s, context, memory): a Gaussian over actions; the memory of earlier steps is empty if it is Markov."""

    statistics: Statistics
    body: MLP
    recurrence: GRU | None
    log_sigma: Float[Array, " actions"] | None
    """The logarithm of the deviation of each action; None if it is an output of the body."""

    def __init__(self, statistics: Statistics, context: int, network: Network, *, key: PRNGKeyArray):
        key_body, key_memory = jax.random.split(key)
        states, actions = statistics.state.mean.size, statistics.action.mean.size
        recurrent, shared = network.decoder == "recurrent", network.variance == "global"
        self.statistics = statistics
        self.recurrence = GRU(states + actions, network.hidden, key=key_memory) if recurrent else None
        inputs = states + (network.hidden if recurrent else 0) + context  # labels come last: see `label_axes`
        self.body = MLP((inputs, *network.layers, actions if shared else 2 * actions), key=key_body)
        self.log_sigma = jnp.zeros(actions) if shared else None

    @property
    def noise(self) -> int:
        """Standard normal numbers per step."""
        return self.statistics.action.mean.size

    def memory(self, batch: int) -> Array:
        """The memory before the first step."""
        return jnp.zeros((batch, self.recurrence.size if self.recurrence else 0))

    def act(self, context: Array, memory: Array, state: Array) -> Gaussian:
        """The distribution of the next standardised action."""
        from_state, from_memory, from_context = self._split_first_layer(context.shape[-1])
        hidden = from_state(self.statistics.state(state)) + from_memory(memory) + from_context(context)
        return self._distribution(self.body.after_first(hidden))

    def nld(
        self,
        demonstrations: Trajectories,
        context: Float[Array, "batch context"],
        memories: Float[Array, "time batch size"] | None = None,
    ) -> Float[Array, " batch"]:
        """Negative log-density of the demonstrated actions in their original units, summed over time.

        The memories after each step are computed if they are not passed.
        """
        states, actions, mask = time_major(demonstrations)
        if memories is None and self.recurrence is not None:
            (memories,) = scan_grus([self.recurrence], [self.step_features(states[:-1], actions)], [mask])
        before = jnp.zeros((*mask.shape, 0)) if memories is None else jnp.pad(memories[:-1], ((1, 0), (0, 0), (0, 0)))
        standardised = self.act(context, before, states[:-1]).nld(self.statistics.action(actions))
        per_step = standardised + jnp.log(self.statistics.action.deviation).sum()
        return jnp.sum(jnp.where(mask, per_step, 0.0), axis=0)

    def prepare(self, context: Float[Array, "batch context"]) -> PreparedDecoder:
        """The decoder with its weights arranged for many steps in one context."""
        from_state, from_memory, from_context = self._split_first_layer(context.shape[-1])
        memory = inputs = None
        if self.recurrence is not None:
            inputs, memory = self.recurrence.inputs, concatenate_outputs(from_memory, self.recurrence.recurrent)
        return PreparedDecoder(from_context(context), from_state, memory, inputs)

    def begin(self, context: Float[Array, "batch context"]) -> tuple[PreparedDecoder, Memory | None]:
        """The decoder prepared for this context, and the memory before the first step."""
        prepared, memory = self.prepare(context), self.memory(len(context))
        return prepared, None if prepared.memory is None else self._memory_of(prepared, memory)

    def propose(
        self, prepared: PreparedDecoder, memory: Memory | None, state: Array, noise: Array
    ) -> Float[Array, "N 1 A"]:
        """The next action in its original units."""
        hidden = prepared.context + prepared.state(self.statistics.state(state))
        hidden = hidden if memory is None else hidden + memory.first
        return self.statistics.action_of(self._distribution(self.body.after_first(hidden)).draw(noise))[:, None]

    def remember(self, prepared: PreparedDecoder, memory: Memory | None, state: Array, action: Array) -> Memory | None:
        """The memory after a step."""
        if memory is None or prepared.inputs is None:
            return None
        inputs = prepared.inputs(self.step_features(state, action))
        return self._memory_of(prepared, gru_cell(memory.hidden, inputs, memory.gates, UNMASKED))

    def _memory_of(self, prepared: PreparedDecoder, hidden: Array) -> Memory:
        assert prepared.memory is not None
        return Memory(hidden, *split_columns(prepared.memory(hidden), prepared.context.shape[-1]))

    def step_features(self, state: Array, action: Array) -> Array:
        """The standardised state and action of a step, concatenated: the input of the GRUs."""
        return jnp.concatenate([self.statistics.state(state), self.statistics.action(action)], axis=-1)

    def _split_first_layer(self, context: int) -> tuple[Linear, Linear, Linear]:
        """The body's first layer, split into layers of the state, the memory and the context; the last has the bias."""
        first = self.body.layers[0]
        return first.split_inputs(self.statistics.state.mean.size, len(first.weight) - context)

    def _distribution(self, outputs: Array) -> Gaussian:
        if self.log_sigma is None:
            return gaussian(outputs)
        return Gaussian(outputs, jnp.broadcast_to(jnp.clip(self.log_sigma, *LOG_SIGMA), outputs.shape))


class PreparedDecoder(eqx.Module):
    """The weights of a decoder arranged for many steps in one context.

    The context's share of the first layer is computed once, and one product of the memory serves both the first layer
    and the gates of the GRU.
    """

    context: Float[Array, "batch first"]
    """The context's share of the first layer, with the bias."""
    state: Linear
    """From the state to the first layer."""
    memory: Linear | None
    """From the memory to the first layer and to the gates; None if the decoder is Markov."""
    inputs: Linear | None
    """From state and action to the gates; None if the decoder is Markov."""


class OneAction(eqx.Module):
    """A policy that proposes one action at a time, by a decoder."""

    decoder: eqx.AbstractVar[Decoder]

    @property
    def replan(self) -> int:
        """Every proposal is one action."""
        return 1

    @property
    def noise(self) -> int:
        """Standard normal numbers per step."""
        return self.decoder.noise

    @property
    def open_labels(self) -> bool:
        """No: it was trained with all labels."""
        return False

    def propose(
        self, context: PreparedDecoder, memory: Memory | None, state: Array, noise: Array
    ) -> Float[Array, "N 1 A"]:
        """The next action."""
        return self.decoder.propose(context, memory, state, noise)

    def remember(self, context: PreparedDecoder, memory: Memory | None, state: Array, action: Array) -> Memory | None:
        """The memory after a step."""
        return self.decoder.remember(context, memory, state, action)


class TVAE(OneAction):
    """The trajectory variational autoencoder (Eq. 2); if its label space has labels, the conditional one (Eq. 10)."""

    reader: Reader
    posterior: Linear
    decoder: Decoder
    space: LabelSpace = eqx.field(static=True)
    latent: int = eqx.field(static=True)
    free_bits: float = eqx.field(static=True)
    encode_labels: bool = eqx.field(static=True)
    """Whether the encoder reads the labels: q(z | τ, y) if it does, q(z | τ) if not."""

    def __init__(
        self,
        statistics: Statistics,
        space: LabelSpace,
        network: Network,
        *,
        key: PRNGKeyArray,
        encode_labels: bool = True,
    ):
        key_reader, key_posterior, key_decoder = jax.random.split(key, 3)
        inputs = statistics.state.mean.size + statistics.action.mean.size
        self.reader = Reader(inputs, network.hidden, key=key_reader)
        encoded = self.reader.width + (space.width if encode_labels else 0)
        self.posterior = Linear(encoded, 2 * network.latent, key=key_posterior)
        self.decoder = Decoder(statistics, network.latent + space.width, network, key=key_decoder)
        self.space, self.encode_labels = space, encode_labels
        self.latent, self.free_bits = network.latent, network.free_bits

    def encode(self, demonstrations: Trajectories, labels: Shaped[Array, "batch M"]) -> Gaussian:
        """q(z | τ, y), the distribution of the embedding of each demonstration."""
        return self._encode_with(None, demonstrations, labels)[0]

    def _encode_with(
        self, other: GRU | None, demonstrations: Trajectories, labels: Array
    ) -> tuple[Gaussian, Array | None]:
        """The embedding, and the memories of another GRU that reads the same steps in the same scan."""
        states, actions, mask = time_major(demonstrations)
        vector, memories = self.reader.read_with(other, self.decoder.step_features(states[:-1], actions), mask)
        encoded = jnp.concatenate([vector, self.space.encode(labels)], axis=-1) if self.encode_labels else vector
        return gaussian(self.posterior(encoded)), memories

    def imitate(self, demonstrations: Trajectories, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Imitation:
        """Negative log-density with an embedding drawn from q, and the KL divergence of q from its prior."""
        embedding, memories = self._encode_with(self.decoder.recurrence, demonstrations, labels)
        z = embedding.draw(jax.random.normal(key, embedding.mean.shape))
        context = jnp.concatenate([z, self.space.encode(labels)], axis=-1)
        return Imitation(self.decoder.nld(demonstrations, context, memories), embedding.kl())

    def begin(
        self, labels: Shaped[Array, "batch M"], lengths: Array, key: PRNGKeyArray
    ) -> tuple[PreparedDecoder, Memory | None]:
        """An embedding drawn from the prior, and the labels; an empty memory."""
        z = jax.random.normal(key, (len(labels), self.latent))
        return self.decoder.begin(jnp.concatenate([z, self.space.encode(labels)], axis=-1))

    def label_axes(self) -> dict[str, int]:
        """The axis that ends in the label columns, for each array that has them, by dotted path."""
        if not self.space.kinds:
            return {}
        encoder = {"posterior.weight": -2} if self.encode_labels else {}
        return {**encoder, "decoder.body.layers.0.weight": -2}


class RNN(OneAction):
    """The recurrent policy: a decoder whose context is the labels."""

    decoder: Decoder
    space: LabelSpace = eqx.field(static=True)

    def __init__(self, statistics: Statistics, space: LabelSpace, network: Network, *, key: PRNGKeyArray):
        self.decoder = Decoder(statistics, space.width, network, key=key)
        self.space = space

    def imitate(self, demonstrations: Trajectories, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Imitation:
        """Negative log-density; there is no embedding, so the KL divergence has no dimensions."""
        return Imitation(self.decoder.nld(demonstrations, self.space.encode(labels)), jnp.zeros((len(labels), 0)))

    def begin(
        self, labels: Shaped[Array, "batch M"], lengths: Array, key: PRNGKeyArray
    ) -> tuple[PreparedDecoder, Memory | None]:
        """The labels, of which nothing is drawn; an empty memory."""
        return self.decoder.begin(self.space.encode(labels))

    def label_axes(self) -> dict[str, int]:
        """The axis that ends in the label columns, for each array that has them, by dotted path."""
        return {"decoder.body.layers.0.weight": -2} if self.space.kinds else {}

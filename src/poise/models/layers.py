"""Layers: linear, MLP, GRU by scan, Gaussian, and the standardisation that every model carries inside.

Everything takes leading batch axes; sequences are [batch, time, features]. No layer keeps a hidden memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from ..trajectories import Array, Trajectories


class Standardizer(eqx.Module):
    """Values in units of their deviation from their mean; saved with the model, never trained."""

    mean: Array
    deviation: Array

    @staticmethod
    def fit(values: Float[np.ndarray, "count size"]) -> Standardizer:
        """The statistics of these values; a value that never changes keeps its units."""
        mean, deviation = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
        deviation = np.where(deviation > 1e-6 * np.abs(values).max(axis=0), deviation, 1.0)
        return Standardizer(jnp.asarray(mean, jnp.float32), jnp.asarray(deviation, jnp.float32))

    def __call__(self, values: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        return (values - self.mean) / self.deviation

    def undo(self, values: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """Standardised values in their own units again."""
        return values * self.deviation + self.mean


class Statistics(eqx.Module):
    """Standardisation of states, actions and changes of state, from the training demonstrations."""

    state: Standardizer
    action: Standardizer
    change: Standardizer

    @staticmethod
    def of(demonstrations: Trajectories) -> Statistics:
        """The statistics of the real steps of these demonstrations."""
        states, actions, real = (
            np.asarray(x) for x in (demonstrations.states, demonstrations.actions, demonstrations.mask)
        )
        change = states[:, 1:] - states[:, :-1]
        return Statistics(*(Standardizer.fit(x[real]) for x in (states[:, 1:], actions, change)))


class Linear(eqx.Module):
    """x @ weight + bias."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray, scale: float = 1.0):
        bound = scale / np.sqrt(max(inputs, 1))
        self.weight = jax.random.uniform(key, (inputs, outputs), minval=-bound, maxval=bound)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """Linear layers with ReLU between them."""

    layers: tuple[Linear, ...]

    def __init__(self, sizes: Sequence[int], *, key: PRNGKeyArray):
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes, sizes[1:], keys, strict=False)
        self.layers = tuple(Linear(a, b, key=k, scale=np.sqrt(3)) for a, b, k in pairs)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


class GRU(eqx.Module):
    """A gated recurrent unit; its three gates are one matrix, and inputs are projected for all times at once."""

    inputs: Linear
    recurrent: Linear
    size: int = eqx.field(static=True)

    def __init__(self, inputs: int, size: int, *, key: PRNGKeyArray):
        key_in, key_out = jax.random.split(key)
        self.inputs = Linear(inputs, 3 * size, key=key_in)
        self.recurrent = Linear(size, 3 * size, key=key_out)
        self.size = size

    def step(
        self, memory: Float[Array, "*batch size"], x: Float[Array, "*batch inputs"]
    ) -> Float[Array, "*batch size"]:
        """The memory after one input."""
        return self._gates(memory, self.inputs(x))

    def scan(
        self, x: Float[Array, "batch time inputs"], mask: Bool[Array, "batch time"]
    ) -> Float[Array, "batch time size"]:
        """The memory after each input, from an empty one; a masked input leaves it unchanged."""

        def step(memory, now):
            projected, real = now
            memory = jnp.where(real[:, None], self._gates(memory, projected), memory)
            return memory, memory

        empty = jnp.zeros((len(x), self.size))
        _, memories = jax.lax.scan(step, empty, (jnp.swapaxes(self.inputs(x), 0, 1), mask.T))
        return jnp.swapaxes(memories, 0, 1)

    def _gates(self, memory: Array, projected: Array) -> Array:
        x_reset, x_update, x_new = jnp.split(projected, 3, axis=-1)
        h_reset, h_update, h_new = jnp.split(self.recurrent(memory), 3, axis=-1)
        reset, update = jax.nn.sigmoid(x_reset + h_reset), jax.nn.sigmoid(x_update + h_update)
        return (1 - update) * jnp.tanh(x_new + reset * h_new) + update * memory


class Reader(eqx.Module):
    """A bidirectional GRU that reads a whole sequence into one vector: its memories, averaged over real time."""

    forward: GRU
    backward: GRU

    def __init__(self, inputs: int, size: int, *, key: PRNGKeyArray):
        key_forward, key_backward = jax.random.split(key)
        self.forward = GRU(inputs, size, key=key_forward)
        self.backward = GRU(inputs, size, key=key_backward)

    @property
    def width(self) -> int:
        """Size of the vector."""
        return 2 * self.forward.size

    def __call__(
        self, x: Float[Array, "batch time inputs"], mask: Bool[Array, "batch time"]
    ) -> Float[Array, "batch width"]:
        ahead = self.forward.scan(x, mask)
        back = self.backward.scan(x[:, ::-1], mask[:, ::-1])[:, ::-1]
        memories = jnp.concatenate([ahead, back], axis=-1) * mask[..., None]
        return memories.sum(axis=1) / mask.sum(axis=1)[:, None]


class Gaussian(eqx.Module):
    """A diagonal Gaussian."""

    mean: Float[Array, "*batch size"]
    log_sigma: Float[Array, "*batch size"]

    def sample(self, key: PRNGKeyArray) -> Float[Array, "*batch size"]:
        """A draw through which gradients flow."""
        return self.mean + jnp.exp(self.log_sigma) * jax.random.normal(key, self.mean.shape)

    def nld(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch"]:
        """Negative log-density of x."""
        z = (x - self.mean) * jnp.exp(-self.log_sigma)
        return jnp.sum(0.5 * z**2 + self.log_sigma + 0.5 * np.log(2 * np.pi), axis=-1)

    def kl(self) -> Float[Array, "*batch size"]:
        """KL divergence from the standard normal, one number a dimension."""
        return 0.5 * (self.mean**2 + jnp.exp(2 * self.log_sigma) - 1) - self.log_sigma


LOG_SIGMA = (-6.0, 3.0)  # in units of the data's deviation: keeps the density of repeated values bounded


def gaussian(outputs: Float[Array, "*batch two_sizes"]) -> Gaussian:
    """The Gaussian whose mean and log sigma a network returns side by side."""
    mean, log_sigma = jnp.split(outputs, 2, axis=-1)
    return Gaussian(mean, jnp.clip(log_sigma, *LOG_SIGMA))

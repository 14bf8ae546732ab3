"""Layers: linear, MLP and Gaussian, and the standardisation that is part of every model.

All layers accept leading batch axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..data.trajectories import Array, Trajectories


@dataclass(frozen=True)
class Moments:
    """Number, mean, summed squared deviation and largest absolute value of each column, for a `Standardizer`."""

    count: int
    mean: Float[np.ndarray, " size"]
    squares: Float[np.ndarray, " size"]
    largest: Float[np.ndarray, " size"]

    @staticmethod
    def of(values: Float[np.ndarray, "count size"]) -> Moments:
        """The moments of these values."""
        columns = values.T.astype(np.float64, order="C")  # contiguous columns: NumPy reduces them faster
        mean = columns.mean(axis=1)
        largest = np.maximum(columns.max(axis=1), -columns.min(axis=1))
        columns -= mean[:, None]
        return Moments(len(values), mean, np.einsum("ij,ij->i", columns, columns), largest)

    def merge(self, other: Moments) -> Moments:
        """The moments of the values of both."""
        count, difference = self.count + other.count, other.mean - self.mean
        mean = self.mean + difference * other.count / count
        squares = self.squares + other.squares + difference**2 * self.count * other.count / count
        return Moments(count, mean, squares, np.maximum(self.largest, other.largest))


class Standardizer(eqx.Module):
    """Maps values to zero mean and unit deviation; it is saved with the model and never trained."""

    mean: Array
    deviation: Array

    @staticmethod
    def fit(values: Float[np.ndarray, "count size"]) -> Standardizer:
        """The standardisation of these values; a column that is constant keeps its units."""
        return Standardizer.of(Moments.of(values))

    @staticmethod
    def of(moments: Moments) -> Standardizer:
        """The standardisation of values with these moments."""
        deviation = np.sqrt(moments.squares / moments.count)
        deviation = np.where(deviation > 1e-6 * moments.largest, deviation, 1.0)
        return Standardizer(jnp.asarray(moments.mean, jnp.float32), jnp.asarray(deviation, jnp.float32))

    def __call__(self, values: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        return (values - self.mean) / self.deviation

    def undo(self, values: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """Standardised values in their original units."""
        return values * self.deviation + self.mean


class Statistics(eqx.Module):
    """Standardisation of states, actions and changes of state, fitted to the training demonstrations."""

    state: Standardizer
    action: Standardizer
    change: Standardizer
    limits: tuple[float, float] | None = eqx.field(static=True, default=None)
    """The range that actions are clipped to, in their original units."""
    steps: int = eqx.field(static=True, default=0)
    """Steps of the longest demonstration."""

    @staticmethod
    def of(demonstrations: Trajectories, limits: tuple[float, float] | None = None) -> Statistics:
        """The statistics of all steps of these demonstrations without padding.

        They are computed piece by piece, because the demonstrations may be stored on disk.
        """
        merged: list[Moments] = []
        for piece in demonstrations.pieces():
            states, actions, mask = (np.asarray(x) for x in (piece.states, piece.actions, piece.mask))
            values = (states[:, 1:], actions, states[:, 1:] - states[:, :-1])
            moments = [Moments.of(x.reshape(-1, x.shape[-1]) if mask.all() else x[mask]) for x in values]
            merged = [a.merge(b) for a, b in zip(merged, moments, strict=True)] if merged else moments
        return Statistics(*map(Standardizer.of, merged), limits=limits, steps=demonstrations.steps)

    def action_of(self, standardised: Float[Array, "*batch A"]) -> Float[Array, "*batch A"]:
        """The action in its original units, clipped to its range."""
        action = self.action.undo(standardised)
        return action if self.limits is None else jnp.clip(action, *self.limits)


MAX_NARROW_INPUTS = 8
"""Up to this number of inputs a matrix product is written as a sum, which XLA fuses with the operations after it."""


def on_cpu() -> bool:
    """Whether JAX compiles for a CPU."""
    return jax.default_backend() == "cpu"


@jax.custom_vjp
def _narrow_matmul(x: Array, weight: Array) -> Array:
    """x @ weight as a sum with one term per input."""
    return sum((x[..., i : i + 1] * weight[i] for i in range(1, len(weight))), start=x[..., :1] * weight[0])


def _narrow_matmul_backward(residuals: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    x, weight = residuals
    return cotangent @ weight.T, jnp.einsum("...i,...o->io", x, cotangent)


_narrow_matmul.defvjp(lambda x, weight: (_narrow_matmul(x, weight), (x, weight)), _narrow_matmul_backward)


class Linear(eqx.Module):
    """x @ weight + bias. Weight and bias may have a leading axis of several layers, if x has it too."""

    weight: Float[Array, "*several inputs outputs"]
    bias: Float[Array, "*several outputs"]

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray, scale: float = 1.0):
        bound = scale / np.sqrt(max(inputs, 1))
        self.weight = jax.random.uniform(key, (inputs, outputs), minval=-bound, maxval=bound)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        narrow = self.weight.ndim == 2 and 0 < len(self.weight) <= MAX_NARROW_INPUTS
        narrow = narrow and (x.ndim > 2 or not on_cpu())  # inside of a scan, a CPU is slow at it
        y = _narrow_matmul(x, self.weight) if narrow else x @ self.weight
        return y + (self.bias if self.bias.ndim == 1 else self.bias[..., None, :])

    @classmethod
    def of(cls, weight: Array, bias: Array) -> Linear:
        """The layer with this weight and bias."""
        layer = object.__new__(cls)
        object.__setattr__(layer, "weight", weight)
        object.__setattr__(layer, "bias", bias)
        return layer

    def split_inputs(self, first: int, second: int) -> tuple[Linear, Linear, Linear]:
        """Three layers that add up to this one.

        They read the inputs before `first`, those from `first` to `second` and those from `second` on. The last of
        them has the bias.
        """
        a, b, c = jnp.split(self.weight, [first, second])
        zeros = jnp.zeros_like(self.bias)
        return Linear.of(a, zeros), Linear.of(b, zeros), Linear.of(c, self.bias)


def concatenate_outputs(*layers: Linear) -> Linear:
    """One layer whose outputs are the concatenated outputs of layers that have the same inputs."""
    return Linear.of(
        jnp.concatenate([layer.weight for layer in layers], axis=-1),
        jnp.concatenate([layer.bias for layer in layers], axis=-1),
    )


def split_columns(x: Float[Array, "*batch both"], first: int) -> tuple[Array, Array]:
    """The first `first` columns and the other columns.

    The gradient concatenates the two cotangents. JAX's own would pad both with zeros and add them.
    """
    return cast(tuple[Array, Array], _split_columns(x, first))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _split_columns(x, first):
    return x[..., :first], x[..., first:]


_split_columns.defvjp(
    lambda x, first: (_split_columns(x, first), None),
    lambda first, _, cotangents: (jnp.concatenate(cotangents, axis=-1),),
)


class MLP(eqx.Module):
    """Linear layers with ReLU between them."""

    layers: tuple[Linear, ...]

    def __init__(self, sizes: Sequence[int], *, key: PRNGKeyArray):
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes, sizes[1:], keys, strict=False)
        self.layers = tuple(Linear(a, b, key=k, scale=np.sqrt(3)) for a, b, k in pairs)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return self.after_first(self.layers[0](x))

    def after_first(self, x: Float[Array, "*batch first"]) -> Float[Array, "*batch outputs"]:
        """The outputs of the MLP, computed from those of its first layer."""
        for layer in self.layers[1:]:
            x = layer(jax.nn.relu(x))
        return x


class Gaussian(eqx.Module):
    """A diagonal Gaussian distribution."""

    mean: Float[Array, "*batch size"]
    log_sigma: Float[Array, "*batch size"]

    def draw(self, noise: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """The reparameterised sample for this standard normal noise."""
        return self.mean + jnp.exp(self.log_sigma) * noise

    def nld(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch"]:
        """Negative log-density of x."""
        z = (x - self.mean) * jnp.exp(-self.log_sigma)
        return jnp.sum(0.5 * z**2 + self.log_sigma + 0.5 * np.log(2 * np.pi), axis=-1)

    def kl(self) -> Float[Array, "*batch size"]:
        """KL divergence from the standard normal distribution, per dimension."""
        return 0.5 * (self.mean**2 + jnp.exp(2 * self.log_sigma) - 1) - self.log_sigma


LOG_SIGMA = (-6.0, 3.0)
"""The range of log sigma for standardised data; it bounds the density where values repeat."""


def gaussian(outputs: Float[Array, "*batch two_sizes"]) -> Gaussian:
    """The Gaussian of a network's outputs, which are the mean and then log sigma."""
    mean, log_sigma = jnp.split(outputs, 2, axis=-1)
    return Gaussian(mean, jnp.clip(log_sigma, *LOG_SIGMA))
